"""Acknowledgements and windows that lie: they free nothing that was not sent, and cost no memory."""

import pytest

from tests.queues.hostile import Hostile, answers_waiting, still_works, victim
from tests.queues.world import PlainWorld, two
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering.wire import OrderAckPacket, RejectPacket, SequenceHeader
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame, PacketFrame, PingFrame, StoreAckFrame

# Acknowledgements that cannot be true: of packets, order and rejections that were never sent, or are not one's own.


@pytest.mark.parametrize(
    "ack",
    [
        AckFrame.of(NumberSet(1_000), 64, 0, 0),
        AckFrame.of(NumberSet(0, [(5, 2**32 - 2)]), 64, 2**64 - 1, 0),
        AckFrame.of(NumberSet(2**64 - 1), 64, 0, 0),
        StoreAckFrame.of(NumberSet(1_000)),
        StoreAckFrame.of(NumberSet(2**64 - 1, [])),
    ],
)
def test_acks_of_what_was_never_sent_close_the_session(ack: AckFrame | StoreAckFrame) -> None:
    """With the reason that blames the peer; ranges beyond reason, too."""
    world, node, evil = victim()
    evil.frames(BINARY.encode(ack))
    assert node.live.closes == {"protocol-error": 1}
    still_works(world, node)


def test_a_stranger_has_no_say_in_what_others_are_sent() -> None:
    """Order acks and rejections count only from the node that the stream leads to, whatever they are about."""
    world, a, b = two(make=PlainWorld)
    a.send(b, "q", b"1")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    stream, _ = a.send(b, "q", b"2")
    world.run(SECOND)
    evil = Hostile(world, a)
    header = SequenceHeader(a.live.node_id, stream.stream_number, 1, 2, 1, "q", False, b"")
    words = [(stream.stream_number, 1, number) for number in (2, 3, 2**63, 2**64 - 1)]
    words += [(stream.stream_number, sequence, 2) for sequence in (0, 2, 2**64 - 1)]
    for word in (*words, (999, 1, 2)):
        evil.frames(evil.packet(OrderAckPacket(a.live.node_id, *word).encode(), Delivery.EXPRESS))
    evil.frames(evil.packet(RejectPacket(*header.named, "nonsense").encode(), Delivery.EXPRESS))
    world.run(SECOND)
    assert a.live.drops[DropReason.NOT_OUR_PACKET] == len(words) + 2
    assert a.busy
    assert a.length("dead-letter") == 0
    world.heal()
    assert world.run(15 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"1", b"2"]


# Window games: numbers beyond any window, and answers that are never let out.


def test_packets_beyond_any_window_are_dropped_and_counted() -> None:
    """Each once, by its name; what came between them is taken."""
    world, node, evil = victim()
    far, farther = (BINARY.encode(PacketFrame(it, Delivery.EXPRESS, False, b"")) for it in (10_000, 2**64 - 1))
    evil.each(evil.message(1), far, BINARY.encode(PingFrame()))
    evil.frames(farther)
    world.run(SECOND)
    assert node.live.drops == {"beyond-window": 2}
    world.run(SECOND)
    evil.frames(BINARY.encode(PingFrame()))
    assert sum(record["count"] for record in node.log("dropped") if record["reason"] == "beyond-window") == 2
    assert node.read_all("q") == [b"hello"]


@pytest.mark.slow
def test_rejections_do_not_pile_up_for_a_peer_that_takes_none() -> None:
    """It sends for a queue that is not there, and acknowledges nothing."""
    world, node, evil = victim(queues=["orders"])
    for number in range(1, 12_000):
        evil.frames(evil.message(number, queue="nope"))
    assert answers_waiting(node) <= 10_000
    honest = world.node("honest")
    honest.send(node, "orders", b"hello")
    assert world.run(10 * SECOND, lambda: not honest.busy)
