"""Time for one timer of a machine whose clock stands still, and a form to compare a session in."""

import pytest

from proof.search import stillness
from proof.search.identity import digest
from proof.search.inside import WAITS_NS
from tests.session.pair import Pair, cut, reasons
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.protocol.timers import Timer


def busy() -> Pair:
    """A pair whose initiator waits for acks that do not come."""
    pair = Pair.opened(udp=False, store_ns=None)
    pair.confirm()
    pair.send("a", 1, Delivery.RECOVERABLE)
    pair.run(100 * MS)
    cut(pair)
    pair.send("a", 2)
    return pair


def test_the_timers_that_run_are_known() -> None:
    """Each that waits for a moment, lowest first."""
    pair = busy()
    assert stillness.timers_of(pair.a) == [Timer.PROBE, Timer.ACK_LIMIT, Timer.STORE_ACK_LIMIT, Timer.CLEANUP]
    assert Timer.CLEANUP in stillness.timers_of(pair.b)
    pair.a.close(CloseReason.LOCAL_STOP)
    assert stillness.timers_of(pair.a) == []


@pytest.mark.parametrize(
    ("timer", "reason"),
    [(Timer.ACK_LIMIT, CloseReason.ACK_TIMEOUT), (Timer.STORE_ACK_LIMIT, CloseReason.STORE_ACK_TIMEOUT)],
)
def test_a_timer_runs_out_when_the_search_says_so(timer: Timer, reason: CloseReason) -> None:
    """Long before its time, and no other does."""
    pair = busy()
    stillness.expire_session(pair.a, timer, pair.now_ns)
    pair.a.handle_timer(pair.now_ns)
    pair.drain()
    assert reasons(pair) == [reason]


def test_what_a_timer_looks_back_to_was_long_ago() -> None:
    """The cleanup timer asks when the last packet was; after a refresh it was just now."""
    pair = Pair.opened()
    pair.a.handle_timer(pair.now_ns)
    stillness.expire_session(pair.a, Timer.CLEANUP, pair.now_ns)
    stillness.refresh_session(pair.a, pair.now_ns)
    pair.a.handle_timer(pair.now_ns)
    assert pair.a.state is SessionState.OPEN
    stillness.expire_session(pair.a, Timer.CLEANUP, pair.now_ns)
    pair.a.handle_timer(pair.now_ns)
    pair.drain()
    assert reasons(pair) == [CloseReason.IDLE]


def settled(probes: int) -> bytes:
    """A busy session that has probed so often, in the form in which a search compares it."""
    pair = busy()
    for _ in range(probes):
        stillness.expire_session(pair.a, Timer.PROBE, pair.now_ns)
        pair.a.handle_timer(pair.now_ns)
        pair.drain()
    stillness.refresh_session(pair.a, SECOND)
    stillness.normalize_session(pair.a, WAITS_NS, 3, SECOND)
    stillness.forget_order(pair.a)
    assert pair.a.next_deadline() == SECOND + WAITS_NS[Timer.PROBE]
    assert pair.a.room == 61
    return digest(pair.a)


@pytest.mark.plain
def test_sessions_that_would_do_the_same_are_the_same() -> None:
    """However often they have probed; but whether a packet was sent again is kept."""
    assert settled(2) == settled(5)
    assert settled(0) != settled(2)
