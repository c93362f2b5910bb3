"""The contents of a topic: the youngest in memory, the others on the disk."""

from triack.base.delivery import Delivery
from triack.queues.mailboxes.line import PACKET_BYTES, Cache
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.topics.contents import DEAD_MAX, Contents

BODY = b"x" * 100


class Kept:
    """Contents with room for ten of them in memory."""

    def __init__(self) -> None:
        self.expiries: list[int | None] = []
        self.contents = Contents(
            Cache(10 * (PACKET_BYTES + len(BODY))), lambda _packet, at_ms: self.expiries.append(at_ms)
        )

    def add(self, number: int, delivery: Delivery = Delivery.TRANSACTIONAL, receive_by_ms: int = 0) -> QueuedPacket:
        keys = () if delivery is Delivery.EXPRESS else range(number, number + 1)
        packet = QueuedPacket(keys, b"o" * 16, 1, 1, number, delivery, 2, len(BODY), [BODY], topic="Games")
        packet.first_place, packet.receive_by_ms = 2 * number + 1, receive_by_ms
        self.contents.append(packet, 1)
        return packet

    def places(self, place: int = 0) -> list[int]:
        return [packet.first_place for packet in self.contents.walk(place)]


def test_the_youngest_are_in_memory_and_all_are_found_in_order() -> None:
    kept = Kept()
    packets = [kept.add(number) for number in range(1_000)]
    contents = kept.contents
    assert contents.cached_bytes <= 10 * (PACKET_BYTES + len(BODY))
    assert [contents.is_ready(packet) for packet in packets].count(True) == 10
    assert kept.places() == [packet.first_place for packet in packets]
    assert kept.places(1_002) == [packet.first_place for packet in packets if packet.last_place >= 1_002]
    assert not next(contents.walk(0)).pieces
    assert packets[0].pieces  # a reader that has it in hand goes on with it


def test_express_contents_stay_in_memory_whole() -> None:
    kept = Kept()
    for number in range(50):
        kept.add(number, Delivery.EXPRESS)
    assert all(packet.pieces == [BODY] for packet in kept.contents.walk(0))


def test_what_is_removed_anywhere_is_found_no_more_and_leaves_nothing() -> None:
    kept = Kept()
    packets = [kept.add(number) for number in range(2_000)]
    for packet in packets[::2]:
        assert kept.contents.remove(packet)
        assert not kept.contents.remove(packet)
    assert kept.places() == [packet.first_place for packet in packets[1::2]]
    for packet in packets[1::2]:
        assert kept.contents.remove(packet)
    assert kept.places() == []
    assert kept.contents.cached_bytes == 0
    assert len(kept.contents.wanted) == 0
    # Of the blocks on the shelf only the one that grows is left.
    assert len(kept.contents._shelf._blocks) <= 1  # noqa: SLF001 - the promise is about memory
    assert len(kept.contents._places) <= DEAD_MAX + 1  # noqa: SLF001 - as above


def test_contents_on_the_disk_expire() -> None:
    kept = Kept()
    for number in range(100):
        kept.add(number, receive_by_ms=1_000 if number < 5 else 0)
    assert kept.expiries[-1] == 1_000
    assert [packet.number for packet in kept.contents.poll_expired(1_000, 100)] == [0, 1, 2, 3, 4]


def test_what_only_subscriptions_behind_want_is_kept_on_the_disk_alone() -> None:
    kept = Kept()
    packets = [kept.add(number) for number in range(8)]
    kept.contents.wanted[packets[5].first_place] = 3
    kept.contents.trim(1, packets[3].last_place)
    assert [kept.contents.is_ready(packet) for packet in packets] == 4 * [False] + 4 * [True]
    kept.contents.trim(1, packets[7].last_place)
    assert [kept.contents.is_ready(packet) for packet in packets] == 5 * [False] + 3 * [True]
    assert kept.places() == [packet.first_place for packet in packets]
