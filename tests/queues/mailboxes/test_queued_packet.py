"""A packet in a queue: its messages and their places."""

from triack.base.delivery import Delivery
from triack.queues.mailboxes.queued_packet import Lease, QueuedPacket, merge
from triack.queues.packing import Outgoing, pack


def packets(*bodies: bytes, limit_bytes: int = 1_000) -> list[QueuedPacket]:
    """Rows with these messages."""
    packed = pack([Outgoing(body) for body in bodies], limit_bytes, 1, 1)[0]
    return [
        QueuedPacket([key], b"o", 1, 1, key, Delivery.RECOVERABLE, item.tickets, len(item.body), [item.body])
        for key, item in enumerate(packed, 1)
    ]


def test_its_messages_have_places_that_follow_each_other() -> None:
    """Each lease says which is its own."""
    (packet,) = packets(b"a", b"b")
    packet.first_place = 7
    assert (list(packet.places), packet.last_place) == ([7, 8], 8)
    lease = Lease(packet, 1, redelivered=False)
    assert (lease.place, lease.body) == (8, b"b")


def test_the_pieces_of_a_large_message_are_one_packet() -> None:
    """With the keys of all of them, and whole only if every body is in memory."""
    rows = packets(bytes(2_500))
    whole = merge(rows, 2_504)
    assert (whole.keys, whole.count, whole.charged_bytes) == ([1, 2, 3], 1, 2_504)
    assert list(whole.open().bodies) == [bytes(2_500)]
    rows[1].pieces = []
    assert merge(rows, 2_504).pieces == []
