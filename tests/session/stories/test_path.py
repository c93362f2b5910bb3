"""Two sessions on a path that limits the size of datagrams, and later changes that limit."""

import pytest

from tests.session.pair import KIND_AND_COUNTER_BYTES, OVERHEAD_BYTES, Pair
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import ProbeArrived, SizeChanged, Transmit
from triack.session.protocol.frames import Ask, PieceFrame, ProbeFrame
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

WANTED = 9_000
ENOUGH = 8
"""Full packets of the base after which a probe of that size is worth its bytes."""
PROBE, PIECE = (
    BINARY.encode(ProbeFrame(1, 8))[:1],
    BINARY.encode(PieceFrame(1, Delivery.EXPRESS, Ask.NO, 1, 0, b"x"))[:1],
)
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
    weather = path(mtu_bytes, loss)
    pair = Pair(
        settings, peer_settings=SessionSettings(max_datagram_bytes=peer), weather=weather, seed=seed, by_run=True
    )
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
    assert probes(pair) == []
    assert pair.a.path_size.size_bytes == 1_200
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
    for sent in probes(pair):
        (frame,) = BINARY.decode(sent.payload)
        assert isinstance(frame, ProbeFrame)
    assert pair.a.path_size.probes == 3


@pytest.mark.parametrize("congestion", ["newreno", "bbr"])
def test_probes_that_are_lost_are_no_congestion_and_no_resends(
    congestion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a path that loses nothing but what is too long for it: the controller hears of no loss."""
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
    """Within some tries; what gets through is never more than it carries."""
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
    assert {len(content) for content in pair.fresh("b")[ENOUGH:]} == {
        WANTED - OVERHEAD_BYTES - BINARY.packet_header_bytes
    }
    pieces = [sent for _, sent in pair.sent["a"] if sent.payload[:1] == PIECE]
    assert pieces
    assert all(len(sent.payload) <= 1_200 - OVERHEAD_BYTES for sent in pieces)
    pair.run(60 * SECOND)
    assert 1_200 < pair.a.path_size.size_bytes <= 1_300
    assert not pair.a.is_closed


def test_large_ones_that_vanish_among_small_ones_are_noticed() -> None:
    """Small packets are acknowledged all the time, so that the peer is never silent."""
    pair = on_path(0)
    settle(pair)
    pair.network.faults = path(1_300)
    full(pair, 10)
    before = len(pair.fresh("b"))

    def trickle() -> bool:
        if pair.a.room > 20:
            pair.send("a", 1, ack_requested=True)
        pair.run(5 * MS)
        return sum(len(content) > 8_000 for content in pair.fresh("b")[before:]) == 10

    pair.run_until(trickle)
    assert SizeChanged(1_200) in pair.events["a"]


def test_a_peer_that_moved_is_probed_anew() -> None:
    pair = on_path(0)
    assert settle(pair) == WANTED
    pair.network.faults = path(1_472)
    pair.a.path_size.handle_moved()
    assert pair.a.path_size.size_bytes == 1_200
    pair.drain()
    assert 1_456 <= settle(pair) <= 1_472


def test_pieces_that_are_lost_are_repaired_without_those_that_came() -> None:
    """Of a packet of 51 pieces a third is lost with each sending; all of it again would never come through."""
    pair = Pair(SessionSettings(max_datagram_bytes=1_200), by_run=True, weather=Faults(delay_ns=10 * MS, loss=0.3))
    pair.run_until(lambda: "b" in pair.ends)
    pair.confirm()
    content = bytes(range(250)) * 240
    pair.a.send_packet(Delivery.TRANSACTIONAL, content, None)
    pair.drain()
    pair.run_until(lambda: pair.fresh("b") == [content])
    pair.run_until(lambda: pair.a.window.unacked == 0)
    assert pair.a.window.resends < 30


@pytest.mark.slow
def test_a_larger_window_of_larger_datagrams_is_not_filled() -> None:
    """In flight are at most MSMQ's 64 of the largest, or the window's number of those of the base."""
    settings = SessionSettings(max_datagram_bytes=WANTED, max_unacked_packet=1_024)
    pair = Pair(settings, by_run=True, weather=Faults(delay_ns=500 * MS))
    pair.run_until(lambda: "b" in pair.ends)
    pair.confirm()
    assert pair.a.window.most_bytes == 1_024 * 1_200
    assert settle(pair) == WANTED
    assert pair.a.window.most_bytes == 1_024 * 1_200
    most = 0
    full(pair, 4_000)
    while pair.a.window.unacked:
        pair.step(pair.now_ns + 60 * SECOND)
        most = max(most, pair.a.window.in_flight_bytes)
    assert 1_000 * 1_200 < most <= 1_024 * 1_200
