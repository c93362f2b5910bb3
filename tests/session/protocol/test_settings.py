"""Invalid settings of sessions are refused by name, when they are made."""

import pytest

from tests.base.refusals import refuse_wrong_values
from triack.base.ack_trigger import AckTrigger
from triack.base.errors import UsageError
from triack.session.protocol.settings import SessionSettings


@pytest.mark.parametrize("kind", [AckTrigger, SessionSettings])
def test_a_value_that_cannot_be_is_refused(kind: type) -> None:
    refuse_wrong_values(kind)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"max_unacked_packet": 0}, 'must be 1 to 65535 or "auto", not 0'),
        ({"max_unacked_packet": 65_536}, 'must be 1 to 65535 or "auto", not 65536'),
        ({"max_unacked_packet": True}, 'must be 1 to 65535 or "auto", not True'),
        ({"max_unacked_packet": "path"}, "must be 1 to 65535 or \"auto\", not 'path'"),
        ({"auto_window_max": 65_536}, "auto_window_max must be 1 to 65535, not 65536"),
        ({"max_datagram_bytes": 575}, "must be 576 to 65535, not 575"),
        ({"max_datagram_bytes": None}, "at least 1, not None"),
        ({"ack_timeout_min_s": 2, "ack_timeout_max_s": 1}, "is 2, more than ack_timeout_max_s, 1"),
        ({"idle_ack_delay_s": 1_000_001}, "idle_ack_delay_s must be between 0 and 1000000"),
        ({"ack_timeout_s": 0}, "ack_timeout_s must be a number of seconds above 0, not 0"),
    ],
)
def test_limits(values: dict[str, int], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        SessionSettings(**values)  # type: ignore[arg-type]


def test_none_and_zero_where_they_have_a_meaning() -> None:
    """No limit, an adaptive timeout, no delay."""
    assert AckTrigger(count=None, delay_s=0.0).count is None
    assert SessionSettings(ack_timeout_s=None, idle_ack_delay_s=0.0).trigger.delay_s == 0
