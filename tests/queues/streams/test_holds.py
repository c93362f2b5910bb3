"""Streams that wait for room are reported once for a peer and a reason."""

from triack.base.delivery import Delivery
from triack.base.news import StreamHeld
from triack.base.reasons import HoldReason
from triack.queues.streams.holds import HeldStream, Holds


def held(queue: str, reason: HoldReason) -> HeldStream:
    return HeldStream("b", queue, Delivery.TRANSACTIONAL, reason)


def test_a_quota_of_a_peer_is_reported_once_for_all_its_queues() -> None:
    """And once when the last of them goes on."""
    holds = Holds(here=True)
    holds.hold(1, held("x", HoldReason.PEER_QUOTA))
    holds.hold(2, held("y", HoldReason.PEER_QUOTA))
    assert holds.take_news() == [StreamHeld("b", "x", "peer-quota", here=True, is_held=True)]
    holds.free(1)
    assert holds.take_news() == []
    assert [it.queue for it in holds.streams] == ["y"]
    holds.free(2)
    holds.free(2)
    assert holds.take_news() == [StreamHeld("b", "y", "peer-quota", here=True, is_held=False)]


def test_each_full_queue_is_reported_by_itself() -> None:
    holds = Holds(here=False)
    holds.hold(1, held("x", HoldReason.QUEUE_FULL))
    holds.hold(2, held("y", HoldReason.QUEUE_FULL))
    assert [event.queue for event in holds.take_news()] == ["x", "y"]


def test_a_wait_that_has_another_reason_is_reported_again() -> None:
    holds = Holds(here=False)
    holds.hold(1, held("x", HoldReason.QUEUE_FULL))
    holds.hold(1, held("x", HoldReason.QUEUE_FULL))
    holds.hold(1, held("x", HoldReason.STORE_LOW))
    told = [(event.reason, event.is_held) for event in holds.take_news()]
    assert told == [("queue-full", True), ("queue-full", False), ("store-low", True)]
    assert holds.of(1) is HoldReason.STORE_LOW
    assert holds.of(2) is None


def test_what_other_events_tell_of_here_is_not_told_twice() -> None:
    """It is shown all the same."""
    holds = Holds(here=True)
    holds.hold(1, held("x", HoldReason.QUEUE_FULL))
    holds.hold(2, held("y", HoldReason.STORE_LOW))
    assert holds.take_news() == []
    assert len(holds.streams) == 2
