"""A silent peer: when the owner is notified, what the answer to a ping changes, and when the session gives up."""

from itertools import pairwise

import pytest

from proof.search import stillness
from tests.session.pair import Pair, cut, reasons
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PeerQuiet
from triack.session.protocol.frames import PingFrame
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.session.protocol.timers import Timer

TIMEOUT_NS = 2 * SECOND
"""The least of the adaptive ack timeout, which is in force on so short a path."""


def told(pair: Pair) -> int:
    return pair.events["a"].count(PeerQuiet())


def pings(pair: Pair) -> list[int]:
    """When ``a`` sent a ping."""
    return [at_ns for at_ns, sent in pair.sent["a"] if sent.ping]


def acknowledged(settings: SessionSettings | None = None) -> Pair:
    """A pair of which ``a`` has sent a packet that is acknowledged and stored; it stands at the moment of that."""
    pair = Pair.opened(settings or SessionSettings())
    pair.confirm()
    pair.send("a", 1, Delivery.TRANSACTIONAL, ack_requested=True)
    pair.run_until(lambda: not pair.a.window.unacked)
    pair.run(20 * MS)
    return pair


def test_an_acceptor_that_says_little_gives_a_dead_peer_up_as_soon() -> None:
    """Its few packets are acknowledged after half a second; the handshake has shown that the path takes far less."""
    pair = Pair.opened()
    pair.confirm()
    for _ in range(5):
        pair.send("b", 1)
        pair.run(2 * SECOND)
    cut(pair)
    pair.send("b", 1)
    pair.run(TIMEOUT_NS + SECOND)
    assert pair.b.is_closed


def asked() -> Pair:
    """The same when the owner was notified and has asked, and no answer can come."""
    pair = acknowledged()
    pair.run_until(lambda: told(pair) == 1)
    cut(pair)
    pair.a.ping()
    pair.drain()
    return pair


def test_an_owner_is_notified_after_half_of_the_ack_timeout_and_ever_more_rarely() -> None:
    """One that does not ask then may have a reason to ask later."""
    pair = acknowledged()
    pair.run(TIMEOUT_NS // 2 - 30 * MS)
    assert told(pair) == 0
    pair.run(30 * MS)
    assert told(pair) == 1
    pair.run(100 * SECOND)
    assert told(pair) == 6  # after 1, 3, 7, 15, 31 and 63 s
    pair.send("a", 1, ack_requested=True)
    pair.run(1_200 * MS)
    assert told(pair) == 7


def test_a_peer_that_is_heard_is_not_quiet() -> None:
    """Whatever it says: acks of a ping, or packets of its own."""
    pair = acknowledged()
    for _ in range(10):
        pair.run(900 * MS)
        pair.send("b", 1, ack_requested=True)
    assert told(pair) == 0


def test_each_answered_ping_doubles_the_wait_for_the_next() -> None:
    """The owner asks at each notification, and the peer has nothing to send."""
    pair = acknowledged()
    moments = []
    for turn in range(6):
        pair.run_until(lambda turn=turn: told(pair) > turn)  # type: ignore[misc]
        moments.append(pair.now_ns)
        pair.a.ping()
        pair.drain()
    waits = [round((later - earlier) / SECOND) for earlier, later in pairwise(moments)]
    assert waits == [2, 4, 8, 16, 32]
    assert reasons(pair) == []
    pair.send("a", 1, ack_requested=True)
    pair.run_until(lambda: told(pair) == 7)
    assert round((pair.now_ns - pair.packets("a")[-1][0]) / SECOND) == 1


def test_a_ping_that_nobody_answers_ends_the_session() -> None:
    """After the ack timeout, in which it is repeated; no packet is unacknowledged."""
    pair = asked()
    begun_ns = pair.now_ns
    pair.run_until(lambda: bool(reasons(pair)))
    assert reasons(pair) == [CloseReason.ACK_TIMEOUT]
    assert pair.now_ns - begun_ns == TIMEOUT_NS
    assert len(pings(pair)) >= 4


def test_the_loss_of_a_few_pings_does_no_harm() -> None:
    """One that is answered is as good as the first; nothing is repeated afterwards."""
    pair = asked()
    pair.run(TIMEOUT_NS - 300 * MS)
    pair.lose = None
    pair.run(SECOND)
    sent = len(pings(pair))
    pair.run(4 * SECOND)
    assert reasons(pair) == []
    assert len(pings(pair)) == sent
    assert Timer.ACK_LIMIT not in stillness.timers_of(pair.a)
    assert Timer.PROBE not in stillness.timers_of(pair.a)


def test_a_store_that_never_answers_is_waited_for_and_a_dead_peer_is_not() -> None:
    """The store ack timeout is for disks, and a peer whose disk is slow answers pings."""
    slow, dead = (Pair.opened(store_ns=None) for _ in range(2))
    for pair in (slow, dead):
        pair.confirm()
        pair.send("a", 1, Delivery.RECOVERABLE, ack_requested=True)
        pair.run_until(lambda pair=pair: not pair.a.window.unacked)  # type: ignore[misc]
    cut(dead)
    for pair in (slow, dead):
        pair.run(5 * SECOND)
    assert reasons(slow) == []
    assert reasons(dead) == [CloseReason.ACK_TIMEOUT]
    slow.run(10 * SECOND)
    assert reasons(slow) == [CloseReason.STORE_ACK_TIMEOUT]


def test_a_ping_before_the_peer_has_spoken_waits_for_as_long_as_a_connect() -> None:
    """The session is open at one end, and pings find out whether it is at the other."""
    pair = Pair.opened()
    cut(pair)
    pair.a.ping()
    pair.run(5 * SECOND)
    assert pings(pair)
    assert reasons(pair) == []
    pair.run(6 * SECOND)
    assert reasons(pair) == [CloseReason.ACK_TIMEOUT]


def test_a_session_that_drains_gives_up_a_silent_peer() -> None:
    """It asks when it begins to, and what it waits for is a store ack."""
    pair = Pair.opened(SessionSettings(drain_timeout_s=60), store_ns=None)
    pair.confirm()
    pair.send("a", 1, Delivery.RECOVERABLE, ack_requested=True)
    pair.run_until(lambda: not pair.a.window.unacked)
    cut(pair)
    pair.a.drain(pair.now_ns)
    pair.drain()
    pair.run(TIMEOUT_NS)
    assert reasons(pair) == [CloseReason.ACK_TIMEOUT]


@pytest.mark.parametrize("timeout_s", [0.4, 3.0])
def test_the_fixed_timeout_of_an_end_counts(timeout_s: float) -> None:
    """Its half until it tells, and all of it until it gives up."""
    pair = acknowledged(SessionSettings(ack_timeout_s=timeout_s))
    begun_ns = pair.now_ns
    pair.run_until(lambda: told(pair) == 1)
    assert abs(pair.now_ns - begun_ns - timeout_s * SECOND / 2) <= 20 * MS
    cut(pair)
    pair.a.ping()
    pair.drain()
    begun_ns = pair.now_ns
    pair.run_until(lambda: bool(reasons(pair)))
    assert pair.now_ns - begun_ns == timeout_s * SECOND
    assert PingFrame() in BINARY.decode(next(sent for _, sent in pair.sent["a"] if sent.ping).payload)
