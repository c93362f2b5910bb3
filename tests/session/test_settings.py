"""Settings that cannot be are refused where they are made, by name."""

from dataclasses import fields

import pytest

from triack.base.errors import UsageError
from triack.ordering.settings import OrderSettings
from triack.queues.settings import NodeSettings
from triack.session.settings import AckTrigger, SessionSettings

KINDS = [AckTrigger, SessionSettings, OrderSettings, NodeSettings]
NUMBERS = [
    (kind, field.name) for kind in KINDS for field in fields(kind) if field.init and field.type in (int, int | None)
]
DURATIONS = [(kind, field.name) for kind in KINDS for field in fields(kind) if field.name.endswith("_s")]


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
@pytest.mark.parametrize("value", [-1, 1.5, True, "9"])
def test_every_number_is_a_whole_number(kind: type, name: str, value: object) -> None:
    """Not negative, not a fraction, not a bool, not a text."""
    with pytest.raises(UsageError, match=f"{kind.__name__}: {name} must be a whole number of at least"):
        kind(**{name: value})


@pytest.mark.parametrize(("kind", "name"), DURATIONS)
@pytest.mark.parametrize("value", [-0.1, float("inf"), float("nan"), True, "9"])
def test_every_duration_is_seconds(kind: type, name: str, value: object) -> None:
    """Not negative, not for ever, not a bool, not a text; the machines get nanoseconds."""
    with pytest.raises(UsageError, match=f"{kind.__name__}: {name} must be a number of seconds"):
        kind(**{name: value})


def test_machines_get_nanoseconds() -> None:
    """Beside the seconds."""
    settings = SessionSettings(ack_timeout_s=0.3, cleanup_interval_s=7)
    assert (settings.ack_timeout_ns, settings.cleanup_interval_ns) == (300_000_000, 7_000_000_000)
    assert SessionSettings(idle_ack_delay_s=0.25).trigger.delay_ns == 250_000_000


@pytest.mark.parametrize(
    ("kind", "values", "why"),
    [
        (SessionSettings, {"max_unacked_packet": 0}, "at least 1, not 0"),
        (SessionSettings, {"max_unacked_packet": 65_536}, "must be 1 to 65535, not 65536"),
        (SessionSettings, {"max_datagram_bytes": 575}, "must be 576 to 65535, not 575"),
        (SessionSettings, {"max_datagram_bytes": None}, "at least 1, not None"),
        (SessionSettings, {"ack_timeout_min_s": 2, "ack_timeout_max_s": 1}, "is 2, more than ack_timeout_max_s, 1"),
        (SessionSettings, {"ack_timeout_s": 0}, "ack_timeout_s must be a number of seconds above 0, not 0"),
        (NodeSettings, {"stream_datagram_bytes": 65_536}, "must be 576 to 65535, not 65536"),
        (NodeSettings, {"reconnect_max_s": 0}, "above 0, not 0"),
    ],
)
def test_limits(kind: type, values: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        kind(**values)


def test_none_and_zero_where_they_have_a_meaning() -> None:
    """No limit, an adaptive timeout, no delay, no second chance."""
    assert AckTrigger(count=None, delay_s=0.0).count is None
    assert SessionSettings(ack_timeout_s=None, idle_ack_delay_s=0.0).ack_timeout_ns is None
    assert NodeSettings(max_redeliveries=0, body_cache_bytes=0).max_redeliveries == 0
