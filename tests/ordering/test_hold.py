"""A held stream: the newest hold counts, and a probe leaves now and then."""

import pytest

from proof.search import stillness
from triack.base.units import MS, SECOND
from triack.ordering.hold import PROBE_NS, TRANSITIONS, Hold, HoldEvent, HoldState


def held(turn: int = 1) -> Hold:
    """A hold that got a stop at second 1."""
    hold = Hold()
    hold.handle_flow_control(turn, SECOND, stop=True)
    return hold


def test_stop_and_go() -> None:
    """As told."""
    hold = held()
    assert hold.stops
    hold.handle_flow_control(2, SECOND, stop=False)
    assert not hold.stops
    assert hold.deadline_ns is None


def test_an_older_word_that_comes_later_changes_nothing() -> None:
    """Turns only grow."""
    hold = held(3)
    hold.handle_flow_control(2, SECOND, stop=False)
    assert hold.stops
    hold.handle_flow_control(4, SECOND, stop=False)
    hold.handle_flow_control(3, SECOND, stop=True)
    assert not hold.stops


def test_a_stop_that_is_repeated_has_the_turn_of_the_last_one() -> None:
    """When a packet was refused, it has another one. In another session it is no repetition."""
    hold = held(3)
    assert [hold.is_repeated(turn) for turn in (2, 3, 4)] == [False, True, False]
    hold.handle_session_closed()
    assert not hold.is_repeated(3)


def test_one_packet_may_leave_when_the_wait_is_over() -> None:
    """And then no more until the next wait is."""
    hold = held()
    hold.handle_timer(SECOND + PROBE_NS - 1)
    assert hold.stops
    hold.handle_timer(SECOND + PROBE_NS)
    assert not hold.stops
    hold.handle_sent(7 * SECOND)
    assert hold.stops
    assert hold.deadline_ns == 7 * SECOND + 2 * PROBE_NS


def waits_s(hold: Hold, probes: int) -> list[int]:
    """The waits before each of several probes, all of which are answered with another stop."""
    waits, turn = list[int](), 10
    for _ in range(probes):
        now_ns = hold.deadline_ns
        assert now_ns is not None
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


def test_a_stop_that_is_said_again_does_not_put_the_probe_off() -> None:
    """A destination may say so more often than it is asked."""
    hold = held()
    due_ns = hold.deadline_ns
    for turn in range(11, 16):
        hold.handle_flow_control(turn, turn * MS, stop=True)
    assert hold.deadline_ns == due_ns


def test_how_often_it_has_asked_decides_nothing_but_the_wait() -> None:
    """For searches that keep the clock still."""
    hold = held()
    waits_s(hold, 3)
    stillness.normalize_hold(hold)
    assert waits_s(hold, 1) == [10]


def test_a_packet_that_was_taken_lets_the_next_one_go_at_once() -> None:
    """There is room, it seems."""
    hold = held()
    assert hold.handle_progress()
    assert not hold.stops
    assert not hold.handle_progress()


def test_a_session_takes_its_words_with_it() -> None:
    """The next one counts its turns anew."""
    hold = held(9)
    hold.handle_session_closed()
    assert not hold.stops
    hold.handle_flow_control(1, SECOND, stop=True)
    assert hold.stops


@pytest.mark.parametrize("state", HoldState)
def test_go_leads_back_from_everywhere(state: HoldState) -> None:
    """No state is permanent."""
    assert TRANSITIONS[state][HoldEvent.GO] is HoldState.GOING


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
