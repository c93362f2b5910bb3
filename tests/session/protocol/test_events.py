"""The events that a session gives its owner, and the records of its datagrams."""

from typing import get_args

from tests.session.pair import Pair, cut
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import (
    AcksRequested,
    Event,
    PacketArrived,
    PacketDropped,
    PacketsAcked,
    PacketsStored,
    PieceArrived,
    RunArrived,
    SessionClosed,
    SessionIdle,
    SessionOpened,
    SizeChanged,
    WindowChanged,
)
from triack.session.protocol.frames import AckFrame, Ask, PacketFrame, PieceFrame, PingFrame, ProbeFrame
from triack.session.protocol.states import CloseReason


def piece(number: int, offset: int) -> bytes:
    """One byte of a packet of ten."""
    return BINARY.encode(PieceFrame(number, Delivery.EXPRESS, Ask.NO, 10, offset, b"x"))


def full_life() -> Pair:
    """A session in which everything happens once, seen from both ends."""
    pair = Pair.opened(udp=False)
    pair.send("a", 2, Delivery.RECOVERABLE, ack_requested=True)
    pair.run(SECOND)
    pair.inject("b", BINARY.encode(PacketFrame(2, Delivery.RECOVERABLE, False, b"2")))
    pair.inject("b", BINARY.encode(PacketFrame(10_000, Delivery.EXPRESS, False, b"far")))
    pair.drain()
    pair.inject("b", BINARY.encode(ProbeFrame(1, 100)))
    pair.inject("b", piece(5, 0))
    pair.a.ping()
    pair.drain()
    pair.run(3 * SECOND)
    cut(pair)
    pair.send("a", 3)
    pair.a.close(CloseReason.LOCAL_STOP)
    pair.drain()
    pair.b.handle_datagrams([BINARY.encode(PacketFrame(3, Delivery.EXPRESS, False, b"3"))], [100], pair.now_ns)
    pair.drain()
    return pair


def test_every_kind_of_event_happens() -> None:
    """In a life of two ends, and of nothing else."""
    pair = full_life()
    told = {type(event) for event in pair.events["a"] + pair.events["b"]}
    assert told == set(get_args(Event)) - {SizeChanged, WindowChanged, SessionIdle}, "nothing is idle for long enough"
    for end in ("a", "b"):
        assert pair.events[end][0] == SessionOpened()
        assert pair.events[end].count(SessionOpened()) == 1


def test_what_arrives_is_reported_as_it_came() -> None:
    """A copy is marked as a duplicate; a number that is too far ahead is dropped and reported with its reason."""
    told = [event for event in full_life().events["b"] if isinstance(event, PacketArrived | PacketDropped)]
    assert told == [
        PacketArrived(1, Delivery.RECOVERABLE, b"1", duplicate=False),
        PacketArrived(2, Delivery.RECOVERABLE, b"2", duplicate=False),
        PacketArrived(2, Delivery.RECOVERABLE, b"2", duplicate=True),
        PacketDropped(DropReason.BEYOND_WINDOW),
    ]


def test_acks_are_reported_with_what_they_newly_cover() -> None:
    """With what the owner gave along; an ack that says nothing new covers nothing."""
    pair = full_life()
    covered = [
        [sent.context for sent in event.packets] for event in pair.events["a"] if isinstance(event, PacketsAcked)
    ]
    assert covered[0] == [1, 2]
    assert [contexts for contexts in covered if contexts] == [[1, 2]]
    assert len(covered) > 1
    stored = [event.packets for event in pair.events["a"] if isinstance(event, PacketsStored)]
    assert [sent.number for packets in stored for sent in packets] == [1, 2]


def test_a_ping_and_the_end_are_reported() -> None:
    """The end with the number of unacknowledged packets."""
    pair = full_life()
    assert pair.events["b"].count(AcksRequested()) == 1
    assert pair.events["a"][-1] == SessionClosed(CloseReason.LOCAL_STOP, unacked=3)


def test_a_datagram_says_what_is_in_it() -> None:
    """For the session log: the packet and both acks, as they are in its frames, and nothing that is not."""
    pair = Pair.opened(udp=False)
    pair.send("a", 1, Delivery.RECOVERABLE)
    pair.run(5 * MS)
    pair.send("b", 1, Delivery.RECOVERABLE)
    pair.run(3 * SECOND)
    seen = set()
    for _, sent in pair.sent["a"] + pair.sent["b"]:
        if sent.kind.name != "DATA":
            continue
        frames = {type(frame).__name__: frame for frame in BINARY.decode(sent.payload)}
        said = {"PacketFrame": sent.packet, "AckFrame": sent.ack, "StoreAckFrame": sent.store_ack}
        assert {name for name in said if name in frames} == {name for name, what in said.items() if what is not None}
        for frame in frames.values():
            if isinstance(frame, AckFrame):
                assert sent.ack is not None
                assert (sent.ack.cumulative, sent.ack.ranges) == (frame.cumulative, frame.ranges)
        seen |= {name for name, what in said.items() if what is not None}
    assert len(seen) == 3


def test_nothing_is_reported_twice() -> None:
    """Every event is polled once."""
    pair = Pair.opened()
    assert pair.b.poll_event() is None
    pair.b.handle_datagram(BINARY.encode(PingFrame()), 99, pair.now_ns)
    assert pair.b.poll_event() == AcksRequested()
    assert pair.b.poll_event() is None


def test_packets_that_came_together_are_reported_together() -> None:
    """As far as they follow each other; an unreadable datagram is reported with its reason."""
    pair = Pair.opened()
    packets = [BINARY.encode(PacketFrame(number, Delivery.EXPRESS, False, b"%d" % number)) for number in (1, 2, 4)]
    pair.b.handle_datagrams([*packets[:2], b"?", packets[2]], [90, 91, 92, 93], pair.now_ns)
    assert [pair.b.poll_event() for _ in range(4)] == [
        RunArrived(1, Delivery.EXPRESS, [b"1", b"2"]),
        PacketDropped(DropReason.BAD_FRAME),
        PacketArrived(4, Delivery.EXPRESS, b"4", duplicate=False),
        None,
    ]


def test_pieces_in_a_row_are_reported_once() -> None:
    """Of unfinished packets, and of one that is here; events between them are reported in order."""
    pair = Pair.opened()
    burst = [
        piece(2, 0),
        piece(2, 1),
        BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b"1")),
        piece(1, 0),
        piece(2, 2),
    ]
    pair.b.handle_datagrams(burst, [90, 91, 92, 93, 94], pair.now_ns)
    told = [type(pair.b.poll_event()) for _ in range(4)]
    assert told == [PieceArrived, RunArrived, PieceArrived, type(None)]
