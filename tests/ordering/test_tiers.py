"""Resend tiers, to the nanosecond: 30 s, 5 min, 30 min, 6 h by default."""

import pytest

from tests.ordering.pair import DEFAULTS, StreamPair
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.ordering.tiers import ResendTimer, tier_interval_ns, tier_label

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
WAITS = [30 * SECOND] * 3 + [5 * MINUTE] * 3 + [30 * MINUTE] * 3 + [6 * HOUR] * 3


def expire(timer: ResendTimer) -> int:
    """Let the wait run out, with something to resend; returns when that was."""
    at_ns = timer.deadline_ns
    assert at_ns is not None
    assert not timer.is_due(at_ns - 1)
    assert timer.is_due(at_ns)
    timer.handle_expired(at_ns, resends=True)
    return at_ns


@pytest.mark.parametrize(("attempt", "wait_ns"), list(enumerate(WAITS, start=1)))
def test_the_wait_depends_on_the_attempt(attempt: int, wait_ns: int) -> None:
    """Attempts 1-3, 4-6, 7-9, and 10 or later."""
    assert tier_interval_ns(attempt, DEFAULTS) == wait_ns
    assert ResendTimer(DEFAULTS).interval_of(attempt) == wait_ns


def test_twelve_attempts_at_their_exact_times() -> None:
    """Each wait begins when the one before ended; the last tier has no end."""
    timer = ResendTimer(DEFAULTS)
    timer.handle_sent(7)
    expected = 7
    for attempt, wait_ns in enumerate(WAITS, start=1):
        expected += wait_ns
        assert timer.interval_ns == wait_ns
        assert expire(timer) == expected
        assert timer.attempt == attempt
    assert tier_interval_ns(10_000, DEFAULTS) == 6 * HOUR


def test_a_stream_without_an_answer_is_resent_twelve_times() -> None:
    """The same from end to end: a packet that arrives, is stored, and whose order acks are all lost."""
    pair = StreamPair(lose_order_acks=True)
    pair.append(1)
    pair.run(sum(WAITS) + HOUR)
    times = [at_ns for at_ns, _, _ in pair.sent]
    assert times == [sum(WAITS[:resends]) for resends in range(13)]
    assert pair.delivered == [b"1"]


def test_the_first_send_starts_the_wait_and_later_ones_do_not_move_it() -> None:
    """A stream that keeps sending does not put off the resend of what is old."""
    timer = ResendTimer(DEFAULTS)
    assert timer.deadline_ns is None
    assert not timer.is_due(10**18)
    timer.handle_sent(10)
    timer.handle_sent(20 * SECOND)
    assert timer.deadline_ns == 10 + 30 * SECOND


@pytest.mark.parametrize("outstanding", [True, False])
def test_progress_starts_the_first_tier_again(outstanding: bool) -> None:
    """From any attempt; with nothing outstanding the timer stops."""
    timer = ResendTimer(DEFAULTS)
    timer.handle_sent(0)
    now_ns = 0
    while timer.attempt < 10:
        now_ns = expire(timer)
    timer.handle_progress(now_ns + 1, outstanding=outstanding)
    assert timer.attempt == 0
    assert timer.deadline_ns == (now_ns + 1 + 30 * SECOND if outstanding else None)
    timer.handle_sent(now_ns + 5)
    assert timer.deadline_ns == now_ns + (1 if outstanding else 5) + 30 * SECOND


def test_progress_in_a_stream_starts_its_first_tier_again() -> None:
    """Five attempts for two packets; then the first of them is acknowledged, and the other waits 30 s."""
    pair = StreamPair(lose_order_acks=True)
    pair.append(2)
    pair.run(sum(WAITS[:5]) + SECOND)
    assert pair.out.tier.attempt == 5
    pair.out.handle_order_ack(1, 1, pair.now_ns)
    assert (pair.out.tier.attempt, pair.out.tier.deadline_ns) == (0, pair.now_ns + 30 * SECOND)


def test_a_new_session_starts_the_first_tier_again() -> None:
    """And everything unacknowledged goes out at once, not in six hours."""
    pair = StreamPair(lose_order_acks=True)
    pair.append(3)
    pair.run(sum(WAITS[:10]) + SECOND)
    before = len(pair.sent)
    pair.new_session()
    assert [sent[:2] for sent in pair.sent[before:]] == [(pair.now_ns, number) for number in (1, 2, 3)]
    assert (pair.out.tier.attempt, pair.out.tier.deadline_ns) == (0, pair.now_ns + 30 * SECOND)


def test_a_wait_that_resends_nothing_is_no_attempt() -> None:
    """Packets that are still in their session are the session's business."""
    timer = ResendTimer(DEFAULTS)
    timer.handle_sent(0)
    timer.handle_expired(30 * SECOND, resends=False)
    assert (timer.attempt, timer.deadline_ns) == (0, 60 * SECOND)


def test_waits_go_down_to_milliseconds() -> None:
    """Every tier is a setting of its own."""
    quick = OrderSettings(seq_resend_13_s=0.001, seq_resend_46_s=0.002, seq_resend_79_s=0.003, seq_resend_10_s=0.004)
    waits = [tier_interval_ns(attempt, quick) // MS for attempt in range(1, 13)]
    assert waits == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3


def test_each_attempt_counts_for_its_tier() -> None:
    labels = [tier_label(attempt) for attempt in range(1, 13)]
    assert labels == ["1-3"] * 3 + ["4-6"] * 3 + ["7-9"] * 3 + ["10-"] * 3
