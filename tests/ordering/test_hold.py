"""A stream that was told to wait: words count by their turn, and a probe leaves now and then."""

import pytest

from triack.base.units import SECOND
from triack.ordering.hold import PROBE_NS, TRANSITIONS, Hold, HoldEvent, HoldState


def held(turn: int = 1) -> Hold:
    """A hold that was told to stop at second 1."""
    hold = Hold()
    hold.handle_word(turn, SECOND, stop=True)
    return hold


def test_stop_and_go() -> None:
    """As told."""
    hold = held()
    assert hold.stops
    hold.handle_word(2, SECOND, stop=False)
    assert not hold.stops
    assert hold.deadline_ns is None


def test_an_older_word_that_comes_later_changes_nothing() -> None:
    """Turns only grow."""
    hold = held(3)
    hold.handle_word(2, SECOND, stop=False)
    assert hold.stops
    hold.handle_word(4, SECOND, stop=False)
    hold.handle_word(3, SECOND, stop=True)
    assert not hold.stops


def test_one_packet_may_leave_when_the_wait_is_over() -> None:
    """And then no more until the next wait is."""
    hold = held()
    hold.handle_timer(SECOND + PROBE_NS - 1)
    assert hold.stops
    hold.handle_timer(SECOND + PROBE_NS)
    assert not hold.stops
    hold.handle_sent(7 * SECOND)
    assert hold.stops
    assert hold.deadline_ns == 7 * SECOND + PROBE_NS


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
    hold.handle_word(1, SECOND, stop=True)
    assert hold.stops


@pytest.mark.parametrize("state", HoldState)
def test_go_leads_back_from_everywhere(state: HoldState) -> None:
    """No state is for ever."""
    assert TRANSITIONS[state].get(HoldEvent.GO, state) is HoldState.GOING


def test_a_probe_need_not_wait_for_a_session_that_would_end_before() -> None:
    """A stream that goes has none, and one that may leave stays so."""
    hold = held()
    assert hold.hasten()
    assert not hold.stops
    assert hold.hasten()
    hold.handle_sent(2 * SECOND)
    assert hold.stops
    assert hold.deadline_ns == 2 * SECOND + PROBE_NS
    assert not Hold().hasten()
