"""Sessions that close, are quiet, or change their path."""

from itertools import pairwise

import pytest

from proof.search import stillness
from tests.session.pair import KIND_AND_COUNTER_BYTES, OVERHEAD_BYTES, Pair, cut, reasons
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PeerQuiet, ProbeArrived, SizeChanged, Transmit
from triack.session.protocol.frames import Ask, PieceFrame, PingFrame, ProbeFrame
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.session.protocol.timers import Timer
from triack.tools.sim.faults import Faults

# A silent peer: when the owner is notified, what the answer to a ping changes, and when the session gives up.

TIMEOUT_NS = 2 * SECOND
"""The least of the adaptive ack timeout, which is in force on so short a path."""


def told(pair: Pair) -> int:
    return pair.events["a"].count(PeerQuiet())


def pings(pair: Pair) -> int:
    return sum(sent.ping for _, sent in pair.sent["a"])


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
    pair, times = acknowledged(), []
    for wait_ns in (TIMEOUT_NS // 2 - 30 * MS, 30 * MS, 100 * SECOND):
        pair.run(wait_ns)
        times.append(told(pair))
    assert times == [0, 1, 6]  # after 1, 3, 7, 15, 31 and 63 s
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
    pair = asked()
    begun_ns = pair.now_ns
    pair.run_until(lambda: bool(reasons(pair)))
    assert (reasons(pair), pair.now_ns - begun_ns) == ([CloseReason.ACK_TIMEOUT], TIMEOUT_NS)
    assert pings(pair) >= 4


def test_the_loss_of_a_few_pings_does_no_harm() -> None:
    """One that is answered is as good as the first; nothing is repeated afterwards."""
    pair = asked()
    pair.run(TIMEOUT_NS - 300 * MS)
    pair.lose = None
    pair.run(SECOND)
    sent = pings(pair)
    pair.run(4 * SECOND)
    assert (reasons(pair), pings(pair)) == ([], sent)
    assert not {Timer.ACK_LIMIT, Timer.PROBE} & set(stillness.timers_of(pair.a))


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
    assert (pings(pair) > 0, reasons(pair)) == (True, [])
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


# Two sessions on a path that limits the size of datagrams, and later changes that limit.

WANTED = 9_000
ENOUGH = 8
"""Full packets of the base after which a probe of that size is worth its bytes."""
PROBE = BINARY.encode(ProbeFrame(1, 8))[:1]
PIECE = BINARY.encode(PieceFrame(1, Delivery.EXPRESS, Ask.NO, 1, 0, b"x"))[:1]
"""How these datagrams begin."""


def path(mtu_bytes: int, loss: float = 0.0) -> Faults:
    """A path of that MTU, 0 for any; what a pair puts on the wire is shorter than what its sessions believe."""
    carried = max(0, mtu_bytes - OVERHEAD_BYTES + KIND_AND_COUNTER_BYTES) if mtu_bytes else 0
    return Faults(delay_ns=10 * MS, mtu_bytes=carried, loss=loss)


def on_path(
    mtu_bytes: int, *, loss: float = 0.0, peer: int = WANTED, congestion: str = "newreno", seed: int = 0
) -> Pair:
    """Open at both ends; nothing was sent yet, so that nothing was probed."""
    settings = SessionSettings(max_datagram_bytes=WANTED, congestion=congestion)
    peers = SessionSettings(max_datagram_bytes=peer)
    return confirmed(Pair(settings, peer_settings=peers, weather=path(mtu_bytes, loss), seed=seed, by_run=True))


def confirmed(pair: Pair) -> Pair:
    pair.run_until(lambda: "b" in pair.ends)
    pair.confirm()
    return pair


def full(pair: Pair, count: int) -> None:
    """Hand over packets that fill the datagrams in force."""
    path_size = pair.a.path_size
    content = bytes(path_size.size_bytes - path_size.overhead_bytes - BINARY.packet_header_bytes)
    pair.backlog["a"].extend([(Delivery.TRANSACTIONAL, content)] * count)
    pair.drain()


def settle(pair: Pair) -> int:
    """Send enough, and let the search end. Returns the size in force."""
    full(pair, ENOUGH)
    pair.run(60 * SECOND)
    return pair.a.path_size.size_bytes


def probes(pair: Pair) -> list[Transmit]:
    return [sent for _, sent in pair.sent["a"] if sent.payload[:1] == PROBE]


@pytest.mark.parametrize(
    ("mtu", "least"), [(0, WANTED), (9_000, 9_000), (8_972, 8_956), (1_472, 1_456), (1_200, 1_200)]
)
def test_datagrams_grow_to_what_the_path_carries(mtu: int, least: int) -> None:
    """And both owners get events: the sender's of each size, the receiver's of each probe."""
    pair = on_path(mtu)
    assert (probes(pair), pair.a.path_size.size_bytes) == ([], 1_200)
    found = settle(pair)
    assert least <= found <= (mtu or WANTED)
    told = [event.size_bytes for event in pair.events["a"] if isinstance(event, SizeChanged)]
    assert told == sorted(told)
    assert told[-1:] == ([found] if found > 1_200 else [])
    assert set(told) <= {event.size_bytes for event in pair.events["b"] if isinstance(event, ProbeArrived)}
    assert pair.b.path_size.size_bytes == 1_200, "it has nothing to send"


@pytest.mark.parametrize("peer", [1_200, 576, 4_000, 65_535])
def test_no_datagram_is_longer_than_either_end_wants(peer: int) -> None:
    pair = on_path(0, peer=peer)
    assert settle(pair) == min(peer, WANTED)
    assert all(len(sent.payload) <= min(peer, WANTED) for _, sent in pair.sent["a"])


def test_a_probe_is_alone_in_its_datagram_and_of_the_size_that_it_proves() -> None:
    pair = on_path(0)
    settle(pair)
    assert [len(sent.payload) + pair.a.path_size.overhead_bytes for sent in probes(pair)] == [1_200, 1_452, WANTED]
    assert [[type(frame) for frame in BINARY.decode(sent.payload)] for sent in probes(pair)] == [[ProbeFrame]] * 3
    assert pair.a.path_size.probes == 3


@pytest.mark.parametrize("congestion", ["newreno", "bbr"])
def test_probes_that_are_lost_are_no_congestion_and_no_resends(
    congestion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = on_path(1_300, congestion=congestion)
    controller, losses = pair.a.window.congestion, []
    monkeypatch.setattr(type(controller), "handle_lost", lambda *arguments: losses.append(arguments))
    full(pair, 200)
    pair.run(60 * SECOND)
    assert len(pair.fresh("b")) == 200
    assert (losses, pair.a.window.resends) == ([], 0)
    assert len(probes(pair)) > 10


@pytest.mark.parametrize("seed", range(4))
def test_a_path_that_loses_by_chance_is_found_all_the_same(seed: int) -> None:
    pair = on_path(5_000, loss=0.2, seed=seed)
    assert 1_200 <= settle(pair) <= 5_000
    full(pair, 40)
    pair.run_until(lambda: len(pair.fresh("b")) == ENOUGH + 40)


def test_a_path_that_carries_less_all_at_once_still_brings_everything() -> None:
    """Larger packets handed over before arrive, under their numbers, in pieces of the base's size."""
    pair = on_path(0)
    assert settle(pair) == WANTED
    pair.network.faults = path(1_300)
    full(pair, 30)
    pair.run_until(lambda: len(pair.fresh("b")) == ENOUGH + 30)
    filled = WANTED - OVERHEAD_BYTES - BINARY.packet_header_bytes
    assert {len(content) for content in pair.fresh("b")[ENOUGH:]} == {filled}
    pieces = [len(sent.payload) for _, sent in pair.sent["a"] if sent.payload[:1] == PIECE]
    assert max(pieces) <= 1_200 - OVERHEAD_BYTES
    pair.run(60 * SECOND)
    assert 1_200 < pair.a.path_size.size_bytes <= 1_300
    assert not pair.a.is_closed


def test_pieces_that_are_lost_are_repaired_without_those_that_came() -> None:
    """Of a packet of 51 pieces a third is lost with each sending; all of it again would never come through."""
    settings, weather = SessionSettings(max_datagram_bytes=1_200), Faults(delay_ns=10 * MS, loss=0.3)
    pair = confirmed(Pair(settings, by_run=True, weather=weather))
    content = bytes(range(250)) * 240
    pair.a.send_packet(Delivery.TRANSACTIONAL, content, None)
    pair.drain()
    pair.run_until(lambda: pair.fresh("b") == [content] and pair.a.window.unacked == 0)
    assert pair.a.window.resends < 30
