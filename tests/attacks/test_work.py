"""What a peer makes a node do: the work for each frame, and the turns of honest peers."""

import sys
from collections.abc import Callable
from statistics import median
from types import FrameType
from typing import Any

import pytest

from proof.search.stillness import session_of
from tests.queues.hostile import Hostile, batch, still_works, victim
from tests.queues.world import PlainWorld, SimNode, World, numbered
from triack.base.datagram import Kind
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Limits, NodeSettings
from triack.session.protocol import frames
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame, Ask, CloseFrame, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.states import CloseReason

# Datagrams that ask for more work than they are worth: none does, whatever frames stand in it. Work is counted in
# lines of Python that are run, and not in seconds.

LARGE = 60_000
"""Bytes of a datagram that is full of one kind of frame."""

Make = Callable[[Hostile], bytes]
FRAMES: dict[str, Make] = {
    "nothing": lambda evil: b"",
    "ping": lambda evil: BINARY.encode(PingFrame()),
    "probe": lambda evil: BINARY.encode(frames.ProbeFrame(1, 1_000)),
    "probed": lambda evil: BINARY.encode(frames.ProbedFrame(1)),
    "ack": lambda evil: BINARY.encode(AckFrame.of(NumberSet(), 64, 0, 0)),
    "store ack": lambda evil: BINARY.encode(StoreAckFrame.of(NumberSet())),
    "ack of the refused": lambda evil: BINARY.encode(
        AckFrame.of(NumberSet(), 64, 0, 0, [(n, n) for n in range(1, 33, 2)])
    ),
    "empty packet": lambda evil: evil.packet(b""),
    "packet": lambda evil: evil.message(evil.packets + 1, delivery=Delivery.EXPRESS),
    "packet that came": lambda evil: BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b"")),
    "piece": lambda evil: BINARY.encode(frames.PieceFrame(evil.packets + 3, Delivery.EXPRESS, Ask.NO, LARGE, 7, b"x")),
    "noise": lambda evil: b"\xff" * 100,
}


def work_of(evil: Hostile, payload: bytes) -> int:
    """How many lines a datagram makes its receiver run, answer included."""
    lines = 0

    def count(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        evil.frames(payload)
    finally:
        sys.settrace(before)
    return lines


def work_of_each() -> dict[str, int]:
    work = {}
    for name, make in FRAMES.items():
        _, _, evil = victim()
        evil.each(BINARY.encode(PingFrame()), evil.packet(b""), make(evil))
        work[name] = work_of(evil, make(evil))
    return work


def test_no_frame_is_ten_times_the_work_of_another() -> None:
    work = work_of_each()
    assert max(work.values()) <= 10 * median(work.values()), work


@pytest.mark.parametrize("name", sorted(set(FRAMES) - {"nothing", "probe", "noise"}))
def test_a_datagram_full_of_frames_is_no_work_and_ends_the_session(name: str) -> None:
    """However long it is, and whatever it is full of: it costs what one frame does, and is counted by its name."""
    world, node, evil = victim()
    frame = FRAMES[name](evil)
    least = median(work_of_each().values())
    assert work_of(evil, frame * (LARGE // len(frame))) <= 10 * least
    assert node.live.drops == {"repeated-frame": 1}
    assert node.live.closes == {"protocol-error": 1}
    assert evil.heard()[-1] == (Kind.DATA, BINARY.encode(CloseFrame(CloseReason.PROTOCOL_ERROR))), "the peer is told"
    still_works(world, node)


def test_frames_of_all_kinds_fit_one_datagram_once() -> None:
    """Two that tell different things are fine: our own datagrams have an ack and a store ack."""
    _, node, evil = victim()
    once = b"".join(FRAMES[name](evil) for name in ("ack", "store ack", "ping", "probed"))
    evil.frames(once + evil.packet(b""))
    assert DropReason.REPEATED_FRAME not in node.live.drops
    evil.frames(once + once)
    assert node.live.drops[DropReason.REPEATED_FRAME] == 1


def test_the_same_ack_again_is_no_work() -> None:
    """Of numbers that were acknowledged before, however many a peer names, and in whatever ranges."""
    world, node, evil = victim()
    session = session_of(next(iter(node.live.handshakes.conversations.values())))
    session.window.highest_sent = 200_000
    named = NumberSet(0, [(3 * n, 3 * n + 1) for n in range(1, 60)] + [(1_000, 150_000)])
    acks = BINARY.encode(AckFrame.of(named, 64, 0, 0)), BINARY.encode(StoreAckFrame.of(named))
    evil.each(*acks)
    plain = work_of(evil, BINARY.encode(PingFrame()))
    assert [work_of(evil, ack) <= 10 * plain for ack in acks] == [True, True]
    world.run(SECOND)


# One bad peer of a hundred: the others keep nine tenths of their throughput, counted by the simulated clock.

PEERS = 99
PACKETS = 15
SETTINGS = NodeSettings(
    limits=Limits(peer_quota_bytes=256 * 1024, peer_memory_bytes=512 * 1024, memory_bytes=8 * 1024 * 1024)
)
"""One peer of this node fills its share in no time."""


def greedy(world: World, hub: SimNode) -> None:
    """It sends, in every class, as much as it can for a queue that nobody reads."""
    peer = world.node("greedy")
    for delivery in Delivery:
        for body in numbered(0, 1_000, 900):
            peer.send(hub, "unread", body, delivery=delivery)


def stalled(world: World, hub: SimNode) -> None:
    """It takes nothing that it is sent, and answers nothing."""
    peer = world.node("stalled")
    for body in numbered(0, 1_000, 900):
        hub.send(peer, "q", body)
    world.run(50 * MS)
    world.network.cut(peer.address, hub.address)


def hostile(world: World, hub: SimNode) -> None:
    """It leaves gaps in all its streams, begins large messages, asks for all acks, and acknowledges nothing."""
    evil = Hostile(world, hub)

    def turn() -> None:
        number = 2 * evil.packets + 2
        body = batch(bytes(400))
        said = [
            evil.message(number + at, stream=1 + at % 7, previous=number - 1, body=body, delivery=delivery)
            for at, delivery in enumerate(Delivery)
        ]
        evil.each(*said, *[BINARY.encode(PingFrame())] * 50)
        world.at(MS, turn)

    turn()


def taken(bad: Callable[[World, SimNode], None] | None) -> int:
    world = PlainWorld(1)
    world.faults.delay_ns = 5 * MS
    hub = world.node("hub", SETTINGS)
    hub.commit_ns = 10 * MS
    if bad is not None:
        bad(world, hub)
        world.run(500 * MS)
    peers = [world.node(f"peer{number}") for number in range(PEERS)]
    for peer in peers:
        for body in numbered(0, PACKETS, 900):
            peer.send(hub, "work", body)
    world.run(60 * MS)
    return hub.length("work")


@pytest.fixture(scope="module")
def alone() -> int:
    count = taken(None)
    assert PEERS * 5 < count < PEERS * PACKETS
    return count


@pytest.mark.slow
@pytest.mark.parametrize("bad", [greedy, stalled, hostile])
def test_the_others_keep_nine_tenths(bad: Callable[[World, SimNode], None], alone: int) -> None:
    assert taken(bad) >= 0.9 * alone
