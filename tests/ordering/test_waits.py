"""Waits of a sender: tiers, holds, the slow start after them, and the settings of all that."""

import pytest

from tests.base.refusals import refuse_wrong_values
from tests.ordering.pair import DEFAULTS, StreamPair
from tests.sure import sure
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND
from triack.ordering.hold import PROBE_NS, Hold
from triack.ordering.order_ack import STEPS_NS, AckWait, OrderAck, wait_of
from triack.ordering.order_settings import OrderSettings
from triack.ordering.slow_start import FULL_SPEED, SlowStart
from triack.ordering.tiers import ResendTimer, tier_interval_ns, tier_label

# Resend tiers, to the nanosecond: 30 s, 5 min, 30 min, 6 h by default.

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
WAITS = [30 * SECOND] * 3 + [5 * MINUTE] * 3 + [30 * MINUTE] * 3 + [6 * HOUR] * 3


def test_the_wait_depends_on_the_attempt() -> None:
    attempts = range(1, 13)
    assert [tier_interval_ns(attempt, DEFAULTS) for attempt in attempts] == WAITS
    assert [ResendTimer(DEFAULTS).interval_of(attempt) for attempt in attempts] == WAITS
    labels = [tier_label(attempt) for attempt in attempts]
    assert labels == ["1-3"] * 3 + ["4-6"] * 3 + ["7-9"] * 3 + ["10-"] * 3


def test_progress_in_a_stream_starts_its_first_tier_again() -> None:
    pair = StreamPair(lose_order_acks=True)
    pair.append(2)
    pair.run(sum(WAITS[:5]) + SECOND)
    assert pair.out.tier.attempt == 5
    pair.out.handle_order_ack(1, 1, pair.now_ns)
    assert (pair.out.tier.attempt, pair.out.tier.deadline_ns) == (0, pair.now_ns + 30 * SECOND)


# A held stream: the newest hold counts, and a probe leaves now and then.


def held(turn: int = 1) -> Hold:
    """A hold that got a stop at second 1."""
    hold = Hold()
    hold.handle_flow_control(turn, SECOND, stop=True)
    return hold


def test_an_older_word_that_comes_later_changes_nothing() -> None:
    """Turns only grow, until the session ends: the next one counts anew."""
    hold = held(3)
    hold.handle_flow_control(2, SECOND, stop=False)
    assert hold.stops
    hold.handle_flow_control(4, SECOND, stop=False)
    hold.handle_flow_control(3, SECOND, stop=True)
    assert not hold.stops
    hold.handle_flow_control(5, SECOND, stop=True)
    hold.handle_session_closed()
    assert not hold.stops
    hold.handle_flow_control(1, SECOND, stop=True)
    assert hold.stops


def waits_s(hold: Hold, probes: int) -> list[int]:
    """The waits before each of several probes, all of which are answered with another stop."""
    waits, turn = list[int](), 10
    for _ in range(probes):
        now_ns = sure(hold.deadline_ns)
        hold.handle_timer(now_ns)
        hold.handle_sent(now_ns)
        hold.handle_flow_control(turn, now_ns, stop=True)
        assert hold.deadline_ns is not None
        waits.append((hold.deadline_ns - now_ns) // SECOND)
    return waits


def test_a_sender_that_has_to_wait_again_and_again_asks_ever_more_rarely() -> None:
    """As a zero window is probed, up to a minute; what was taken, or a go, begins anew."""
    hold = held()
    assert waits_s(hold, 6) == [10, 20, 40, 60, 60, 60]
    hold.handle_progress()
    hold.handle_sent(SECOND)
    assert waits_s(hold, 2) == [20, 40]
    hold.handle_flow_control(11, SECOND, stop=False)
    hold.handle_flow_control(12, SECOND, stop=True)
    assert hold.deadline_ns == SECOND + PROBE_NS


def test_a_packet_that_was_taken_lets_the_next_one_go_at_once() -> None:
    hold = held()
    assert hold.handle_progress()
    assert not hold.stops
    assert not hold.handle_progress()


def test_a_probe_need_not_wait_for_a_session_that_would_end_before() -> None:
    """A stream that goes has none, and one that may leave stays so."""
    hold = held()
    assert hold.hasten()
    assert not hold.stops
    assert hold.hasten()
    hold.handle_sent(2 * SECOND)
    assert hold.stops
    assert hold.deadline_ns == 2 * SECOND + 2 * PROBE_NS
    assert not Hold().hasten()


# How fast a stream resumes after its destination had no room.


def sent(start: SlowStart, most: int = 10_000) -> int:
    """Let go what may leave; how many that were."""
    packets = 0
    while packets < most and start.credit != 0:
        start.handle_sent()
        packets += 1
    return packets


def test_it_begins_with_what_was_taken_last_and_doubles() -> None:
    start = SlowStart()
    start.handle_taken(3)
    start.handle_refused()
    rounds = []
    while start.credit is not None:
        rounds.append(sent(start))
        start.handle_taken(rounds[-1])
    assert rounds == [3, 6, 12, 24, 48, 96, 192][: len(rounds)]
    assert 2 * rounds[-1] >= FULL_SPEED


def test_who_takes_nothing_is_sent_half_as_much_each_time_and_one_packet_at_least() -> None:
    """Also when its session ends as nothing was stored."""
    start = SlowStart()
    start.handle_taken(8)
    told = []
    for _ in range(5):
        start.handle_refused()
        told.append(sent(start))
    assert told == [8, 4, 2, 1, 1]
    start.handle_room()
    assert sent(start) == 1
    start.handle_session_closed(not_stored=True)
    assert sent(start) == 1


def test_a_value_that_cannot_be_is_refused() -> None:
    refuse_wrong_values(OrderSettings)


@pytest.mark.parametrize("name", ["order_ack_every", "max_held_packets", "seq_resend_13_s", "seq_resend_10_s"])
def test_nothing_would_ever_be_sent_again_or_asked_for_with_none(name: str) -> None:
    with pytest.raises(UsageError, match=f"OrderSettings: {name} must be .*, not 0"):
        OrderSettings(**{name: 0})


def test_an_order_ack_need_not_wait() -> None:
    terms = OrderAck(OrderSettings(order_ack_idle_s=0, seq_max_ack_delay_s=0)).terms
    assert (terms.idle_ns, terms.delay_ns) == (0, 0)


def test_how_long_an_order_ack_may_wait_fits_into_six_bits() -> None:
    waits = [wait_of(code) for code in range(64)]
    pairs = [wait for wait in waits if wait is not None]
    assert [waits[wait.code] for wait in pairs] == pairs
    assert {wait.delay_ns for wait in pairs} == {wait.idle_ns for wait in pairs} == set(STEPS_NS)
    assert waits[0] is None
    assert waits[56:] == [None] * 8
    assert wait_of(AckWait(300 * MS, 10**15).code) == AckWait(200 * MS, STEPS_NS[-1])


def test_an_origin_states_at_most_half_of_the_time_after_which_it_resends() -> None:
    assert AckWait.stated(OrderSettings()) == AckWait(SECOND // 2, 10 * SECOND)
    assert AckWait.stated(OrderSettings(seq_resend_13_s=0.4)) == AckWait(200 * MS, 200 * MS)
