"""One subscription, record by record."""

from typing import Any

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.topics.subscription_check import Subscription

COMMON = {
    "node": "a" * 32,
    "incarnation": 1,
    "n": 1,
    "wall_ns": 0,
    "topic": "Games",
    "subscription": "audit",
    "at_ns": 0,
}


def begun(ack_wait_ns: int = 0) -> tuple[Subscription, Output]:
    """A durable subscription with ten messages."""
    out = Output()
    fields = {"pattern": "Games.#", "durable": True, "after": 4, "max_unacked": 3, "ack_wait_ns": ack_wait_ns}
    subscription = Subscription(COMMON | fields, out)
    subscription.take(5, 14)
    return subscription, out


def said(first: int, last: int, at_ns: int = 1, **more: Any) -> dict[str, Any]:
    return {**COMMON, "at_ns": at_ns, "ranges": [[first, last]], "redelivered": False, "overdue": False, **more}


def checks(out: Output) -> list[str]:
    return [found.violation.check for found in out.findings]


def test_what_is_not_its_own_is_told_apart() -> None:
    subscription, _ = begun()
    subscription.handle_settled(said(5, 5), 14)
    assert subscription.handle_handed(said(4, 6), 14) == [("topic_before_join", (4, 4)), ("", (5, 5))]
    assert subscription.handle_handed(said(15, 15), 14) == [("topic_order", (15, 15))]


def test_what_was_passed_over_is_lost_unless_it_comes_later() -> None:
    subscription, out = begun()
    subscription.handle_handed(said(7, 8), 14)
    assert checks(out) == []
    subscription.handle_handed(said(5, 5), 14)
    assert checks(out) == ["topic_order"]
    subscription.end()
    assert [(it.violation.check, it.violation.number) for it in out.findings[1:]] == [("topic_lost", 6)]


def test_what_comes_back_is_handed_out_marked() -> None:
    subscription, out = begun()
    subscription.handle_handed(said(5, 6), 14)
    subscription.handle_returned(said(5, 6))
    subscription.handle_handed(said(5, 6, redelivered=True), 14)
    assert checks(out) == []
    assert (subscription.delivered, subscription.pending) == (2, 10)


def test_a_crash_may_undo_only_what_no_later_commit_follows() -> None:
    subscription, out = begun()
    subscription.handle_handed(said(5, 6), 14)
    subscription.handle_settled(said(5, 5, at_ns=2), 14)
    subscription.handle_settled(said(6, 6, at_ns=3), 14)
    subscription.handle_commit(3)
    subscription.restart([])
    assert subscription.handle_handed(said(5, 6, redelivered=True), 14) == [("", (5, 5))]
    assert checks(out) == []
    assert (subscription.settled, subscription.pending) == (1, 9)


def test_a_message_in_hand_comes_back_in_time() -> None:
    subscription, out = begun(ack_wait_ns=1_000)
    subscription.handle_handed(said(5, 6), 14)
    subscription.handle_returned(said(5, 5, at_ns=1_001, overdue=True))
    assert subscription.handle_time(said(5, 6, at_ns=1_002))
    assert checks(out) == []
    assert not subscription.handle_time(said(5, 6, at_ns=1_000_000_000))
    assert [(it.violation.check, it.violation.number) for it in out.findings] == [("ack_wait", 6)]


def test_a_subscription_that_stalls_takes_the_memory_of_one_range() -> None:
    subscription, _ = begun()
    for place in range(15, 100_015):
        subscription.take(place, place)
    assert (subscription.pending, len(subscription.open.firsts)) == (100_010, 1)


def test_the_eldest_are_dropped() -> None:
    subscription, out = begun()
    subscription.handle_discarded(subscription.eldest(2), RangeSet([(5, 14)]))
    assert subscription.handle_handed(said(6, 7), 14) == [("discard_rule", (6, 6))]
    assert (checks(out), subscription.discarded, subscription.pending) == ([], 2, 8)


def test_a_late_acknowledgement_of_what_was_handed_out_again_accuses_nobody() -> None:
    """It is of the first time, or of another reader; without a first time it was in hand, and got lost."""
    subscription, out = begun()
    subscription.handle_handed(said(5, 6), 14)
    subscription.handle_returned(said(5, 5))
    subscription.handle_handed(said(5, 5, redelivered=True), 14)
    subscription.handle_late(said(5, 5))
    assert checks(out) == []
    subscription.handle_late(said(6, 6))
    assert checks(out) == ["topic_lost"]


def test_a_durable_subscription_is_done_with_what_expired_once_it_is_settled() -> None:
    subscription, out = begun()
    assert subscription.handle_expired(said(5, 6, receive_by_ms=0), 14) == []
    assert subscription.pending == 10
    assert subscription.handle_settled(said(5, 6), 14) == []
    assert (subscription.pending, checks(out)) == (8, [])


def test_what_expires_before_its_dispatch_is_never_its_own() -> None:
    out = Output()
    fields = {"pattern": "Games.#", "durable": False, "after": 4, "max_unacked": 3, "ack_wait_ns": 0}
    subscription = Subscription(COMMON | fields, out)
    subscription.take(5, 6)
    assert subscription.handle_expired(said(6, 9, receive_by_ms=0), 6) == []
    assert (subscription.pending, list(subscription.expired)) == (1, [(7, 9)])


def test_what_has_expired_for_a_durable_subscription_was_not_passed_over() -> None:
    """Although it ends before that is settled."""
    subscription, out = begun()
    subscription.handle_expired(said(5, 6, receive_by_ms=0), 14)
    subscription.handle_handed(said(7, 7), 14)
    subscription.end()
    assert checks(out) == []
