"""A stream in transit, as the store keeps it."""

from triack.base.commit import TransitIndex
from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.queues.streams.transit_stream import TransitContext, TransitStream

ID = StreamId(b"o" * 16, 7)


def stream(delivery: Delivery = Delivery.TRANSACTIONAL) -> TransitStream:
    return TransitStream(3, ID, delivery, 5, queue="q", final="b", from_name="a", via="up")


def test_it_survives_a_restart() -> None:
    """With its packets, their times, and how far its origin has heard of the destination."""
    before = stream()
    before.sequence.highest, before.ordered = 9, 8
    after = TransitStream.restore(before.row())
    assert after.row() == before.row()
    assert (after.id, after.destination, after.awaits_order_ack) == (ID, "b/q", True)
    entry = after.restore_packet(TransitIndex(0, 9, 4, 8, 2, 1_000, 50), 21, 77)
    assert (entry.number, entry.place, entry.body, entry.via, entry.came_ns) == (9, 21, None, "up", 77)
    assert after.expiries.earliest() == 1_000


def test_only_ordered_streams_await_order_acks() -> None:
    """Nobody acknowledges the others to their origin."""
    recoverable = stream(Delivery.RECOVERABLE)
    recoverable.sequence.highest = 5
    assert not recoverable.awaits_order_ack


def test_a_context_says_what_was_in_the_header() -> None:
    passing = stream()
    entry = passing.restore_packet(TransitIndex(0, 1, 1, 0, 2, 0, 50), 1, 0)
    context = TransitContext(passing, entry, 0, 3)
    assert (context.stream, context.entry, context.previous, context.hops) == (passing, entry, 0, 3)
