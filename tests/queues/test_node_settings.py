"""Settings of nodes that cannot be are refused where they are made, by name."""

import pytest

from tests.base.refusals import refuse_wrong_values
from triack.base.errors import UsageError
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import NodeSettings, Quota, Redelivery


def test_a_value_that_cannot_be_is_refused() -> None:
    refuse_wrong_values(NodeSettings)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"stream_datagram_bytes": 65_536}, "must be 576 to 65535, not 65536"),
        ({"close_timeout_s": -1}, "at least 0, not -1"),
        ({"max_sessions": 0}, "at least 1, not 0"),
    ],
)
def test_limits(values: dict[str, int], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        NodeSettings(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"session": OrderSettings()}, "session must be a SessionSettings, not OrderSettings"),
        ({"limits": Quota()}, "limits must be a Limits, not Quota"),
        ({"redelivery": 5}, "redelivery must be a Redelivery, not 5"),
        ({"queue_redelivery": Redelivery()}, "queue_redelivery must be a Mapping, not Redelivery"),
        ({"queue_redelivery": {"orders": 5}}, "queue_redelivery of orders must be a Redelivery, not 5"),
        ({"blocking": None}, "blocking must be a Blocking, not None"),
        ({"ack_events": 5}, "ack_events must be an AckTrigger, not 5"),
    ],
)
def test_settings_in_the_place_of_others_are_refused(values: dict[str, object], why: str) -> None:
    """They would fail a node that runs, or change nothing."""
    with pytest.raises(UsageError, match=f"^NodeSettings: {why}"):
        NodeSettings(**values)  # type: ignore[arg-type]


def test_zero_where_it_has_a_meaning() -> None:
    """No second chance, no body in memory, no time to close."""
    settings = NodeSettings(max_redeliveries=0, body_cache_bytes=0, close_timeout_s=0)
    assert (settings.max_redeliveries, settings.body_cache_bytes, settings.close_timeout_s) == (0, 0, 0)


def test_settings_that_say_the_same_are_the_same() -> None:
    assert NodeSettings(close_timeout_s=2) == NodeSettings(close_timeout_s=2.0)
