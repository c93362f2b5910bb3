"""Named timers over one clock."""

from proof.search import stillness
from triack.session.protocol.timers import Timer, Timers


def test_the_earliest_deadline_is_next() -> None:
    """One number says when to wake up, whichever timer it is."""
    timers = Timers()
    assert timers.next_deadline() is None
    timers.start(Timer.PROBE, 30)
    timers.start(Timer.CLEANUP, 20)
    assert timers.next_deadline() == 20


def test_a_timer_runs_out_once_at_its_moment() -> None:
    """Not one nanosecond early, and not twice."""
    timers = Timers()
    timers.start(Timer.PROBE, 30)
    assert timers.poll_expired(29) is None
    assert timers.poll_expired(30) is Timer.PROBE
    assert timers.poll_expired(31) is None
    assert not timers.runs(Timer.PROBE)


def test_of_two_that_ran_out_the_lower_goes_first() -> None:
    """An ack that is due leaves before its session closes, whatever the deadlines."""
    timers = Timers()
    timers.start(Timer.ACK_LIMIT, 10)
    timers.start(Timer.ACK_DELAY, 20)
    assert [timers.poll_expired(20), timers.poll_expired(20)] == [Timer.ACK_DELAY, Timer.ACK_LIMIT]


def test_start_moves_a_timer_and_start_if_stopped_does_not() -> None:
    """The first is for deadlines that follow the last event, the second for those that follow the first."""
    timers = Timers()
    timers.start_if_stopped(Timer.ACK_DELAY, 10)
    timers.start_if_stopped(Timer.ACK_DELAY, 20)
    assert timers.next_deadline() == 10
    timers.start(Timer.ACK_DELAY, 30)
    assert timers.next_deadline() == 30


def test_stopping_is_always_fine() -> None:
    """One or all, running or not."""
    timers = Timers()
    timers.stop(Timer.LOSS)
    timers.start(Timer.LOSS, 1)
    timers.start(Timer.PROBE, 2)
    timers.stop(Timer.LOSS)
    assert timers.next_deadline() == 2
    timers.stop_all()
    assert timers.next_deadline() is None


def test_for_a_search_what_runs_has_the_waits_that_it_is_given() -> None:
    """In the order of the timers, whenever they were started; what is stopped stays so."""
    timers = Timers()
    timers.start(Timer.PROBE, 5)
    timers.start(Timer.ACK_DELAY, 70)
    stillness.normalize_timers(timers, {Timer.PROBE: 20, Timer.ACK_DELAY: 10, Timer.CLEANUP: 1}, 100)
    assert stillness.running(timers) == [Timer.ACK_DELAY, Timer.PROBE]
    assert timers.next_deadline() == 110
    assert timers.poll_expired(120) is Timer.ACK_DELAY
    assert timers.poll_expired(120) is Timer.PROBE
