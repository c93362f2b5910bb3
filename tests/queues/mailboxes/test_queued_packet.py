"""A packet in a queue: what of it is done, and what survives a restart."""

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


def test_it_is_done_with_its_last_message() -> None:
    """In any order."""
    (packet,) = packets(b"a", b"b")
    packet.acked = 0b10
    assert not packet.done
    assert Lease(packet, 0, redelivered=False).body == b"a"
    packet.acked = 0b11
    assert packet.done


def test_the_pieces_of_a_large_message_are_one_packet() -> None:
    """With the keys of all of them, and whole only if every body is in memory."""
    rows = packets(bytes(2_500))
    whole = merge(rows, 2_504)
    assert (whole.keys, whole.count, whole.charged_bytes) == ([1, 2, 3], 1, 2_504)
    assert list(whole.open().bodies) == [bytes(2_500)]
    rows[1].pieces = []
    assert merge(rows, 2_504).pieces == []


def test_progress_survives() -> None:
    """What was acknowledged and how often something failed."""
    packet, again = packets(b"a", b"b")[0], packets(b"a", b"b")[0]
    packet.acked, packet.failures = 0b01, {1: 3}
    again.decode_progress(packet.encode_progress(), 0)
    assert (again.acked, again.failures) == (0b01, {1: 3})
