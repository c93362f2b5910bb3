"""Datagrams that ask for more work than they are worth: none does, whatever frames stand in it.

Work is counted in lines of Python that are run, and not in seconds.
"""

import sys
from collections.abc import Callable
from statistics import median
from types import FrameType
from typing import Any

import pytest

from proof.search.stillness import session_of
from tests.queues.hostile import Hostile, still_works, victim
from triack.base.datagram import Kind
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import (
    AckFrame,
    Ask,
    CloseFrame,
    PacketFrame,
    PieceFrame,
    PingFrame,
    ProbedFrame,
    ProbeFrame,
    StoreAckFrame,
)
from triack.session.protocol.states import CloseReason

LARGE = 60_000
"""Bytes of a datagram that is full of one kind of frame."""

Make = Callable[[Hostile], bytes]
FRAMES: dict[str, Make] = {
    "nothing": lambda evil: b"",
    "ping": lambda evil: BINARY.encode(PingFrame()),
    "probe": lambda evil: BINARY.encode(ProbeFrame(1, 1_000)),
    "probed": lambda evil: BINARY.encode(ProbedFrame(1)),
    "ack": lambda evil: BINARY.encode(AckFrame.of(NumberSet(), 64, 0, 0)),
    "store ack": lambda evil: BINARY.encode(StoreAckFrame.of(NumberSet())),
    "ack of the refused": lambda evil: BINARY.encode(
        AckFrame.of(NumberSet(), 64, 0, 0, [(n, n) for n in range(1, 33, 2)])
    ),
    "empty packet": lambda evil: evil.packet(b""),
    "packet": lambda evil: evil.message(evil.packets + 1, delivery=Delivery.EXPRESS),
    "packet that came": lambda evil: BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b"")),
    "piece": lambda evil: BINARY.encode(PieceFrame(evil.packets + 3, Delivery.EXPRESS, Ask.NO, LARGE, 7, b"x")),
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


def work_of_each(frames: dict[str, Make]) -> dict[str, int]:
    work = {}
    for name, make in frames.items():
        _, _, evil = victim()
        evil.each(BINARY.encode(PingFrame()), evil.packet(b""), make(evil))
        work[name] = work_of(evil, make(evil))
    return work


def test_no_frame_is_ten_times_the_work_of_another() -> None:
    """A datagram with one of any kind costs at most ten times what the median does."""
    work = work_of_each(FRAMES)
    assert max(work.values()) <= 10 * median(work.values()), work


@pytest.mark.parametrize("name", sorted(set(FRAMES) - {"nothing", "probe", "noise"}))
def test_a_datagram_full_of_frames_is_no_work_and_ends_the_session(name: str) -> None:
    """However long it is, and whatever it is full of: it costs what one frame does, and is counted by its name."""
    world, node, evil = victim()
    frame = FRAMES[name](evil)
    least = median(work_of_each(FRAMES).values())
    assert work_of(evil, frame * (LARGE // len(frame))) <= 10 * least
    assert node.live.drops == {"repeated-frame": 1}
    assert node.live.closes == {"protocol-error": 1}
    assert evil.heard()[-1] == (Kind.DATA, BINARY.encode(CloseFrame(CloseReason.PROTOCOL_ERROR))), "the peer is told"
    still_works(world, node)


def test_frames_of_all_kinds_fit_one_datagram_once() -> None:
    """Two that tell different things are fine: our own datagrams have an ack and a store ack."""
    _, node, evil = victim()
    once = (
        BINARY.encode(AckFrame.of(NumberSet(), 64, 0, 0))
        + BINARY.encode(StoreAckFrame.of(NumberSet()))
        + BINARY.encode(PingFrame())
        + BINARY.encode(ProbedFrame(1))
    )
    evil.frames(once + evil.packet(b""))
    assert DropReason.REPEATED_FRAME not in node.live.drops
    evil.frames(once + once)
    assert node.live.drops[DropReason.REPEATED_FRAME] == 1


def test_the_same_ack_again_is_no_work() -> None:
    """Of numbers that were acknowledged before, however many a peer names, and in whatever ranges."""
    world, node, evil = victim()
    session = session_of(next(iter(node.live.handshakes.conversations.values())))
    session.window.highest_sent = 200_000
    ack = BINARY.encode(
        AckFrame.of(NumberSet(0, [(3 * n, 3 * n + 1) for n in range(1, 60)] + [(1_000, 150_000)]), 64, 0, 0)
    )
    store_ack = BINARY.encode(
        StoreAckFrame.of(NumberSet(0, [(3 * n, 3 * n + 1) for n in range(1, 60)] + [(1_000, 150_000)]))
    )
    evil.each(ack, store_ack)
    plain = work_of(evil, BINARY.encode(PingFrame()))
    assert work_of(evil, ack) <= 10 * plain
    assert work_of(evil, store_ack) <= 10 * plain
    world.run(SECOND)
