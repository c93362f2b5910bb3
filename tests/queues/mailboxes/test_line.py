"""Packets that wait for their first readers: in memory as far as there is room, and in order all the same."""

import pytest

from triack.base.delivery import Delivery
from triack.queues.mailboxes.line import PACKET_BYTES, Cache, Line, Share
from triack.queues.mailboxes.queued_packet import QueuedPacket

BODY = b"x" * 100


class Waiting:
    """A line, the disk behind it, and the expiries that it has told."""

    def __init__(self, limit_bytes: int) -> None:
        self.cache = Cache(limit_bytes)
        self.expiries: dict[int | None, int | None] = {}
        self.share = Share(self.cache)
        self.line = Line(self.share, self._note, 3)

    def _note(self, packet: QueuedPacket | None, at_ms: int | None) -> None:
        self.expiries[None if packet is None else packet.first_place] = at_ms

    def put(self, places: range, *, express: bool = False, receive_by_ms: int = 0, together: bool = False) -> None:
        packets: list[QueuedPacket] = []
        for place in places:
            delivery = Delivery.EXPRESS if express else Delivery.TRANSACTIONAL
            one = QueuedPacket([] if express else [place], b"o" * 16, 1, 1, place, delivery, 1, len(BODY), [BODY])
            one.first_place, one.receive_by_ms = place, receive_by_ms
            packets.append(one)
        if together:
            self.line.extend(packets)
        else:
            for one in packets:
                self.line.append(one)

    def read(self) -> list[int]:
        """The places of all that waits, as a reader comes to it."""
        read = []
        while (first := self.line.first()) is not None:
            if not first.pieces:
                self.line.load(dict.fromkeys(self.line.missing(), BODY))
            assert first.pieces == [BODY]
            read.append(first.first_place)
            self.line.drop_first()
        return read


def test_memory_has_a_limit_and_the_order_stays() -> None:
    """However many packets wait; everything is given back in the end."""
    waiting = Waiting(limit_bytes=10 * (PACKET_BYTES + 100))
    waiting.put(range(1, 5_000))
    assert waiting.share.used_bytes == waiting.cache.used_bytes <= 11 * (PACKET_BYTES + 100)
    assert waiting.read() == list(range(1, 5_000))
    assert (waiting.share.used_bytes, waiting.cache.used_bytes) == (0, 0)


def test_express_packets_do_not_overtake_what_is_on_the_disk() -> None:
    """They stay in memory, as nothing else has them."""
    waiting = Waiting(limit_bytes=0)
    for start in range(1, 1_000, 10):
        waiting.put(range(start, start + 9))
        waiting.put(range(start + 9, start + 10), express=True)
    assert waiting.read() == list(range(1, 1_001))


@pytest.mark.parametrize("room", [0, 5, 1_000])
@pytest.mark.parametrize("express", [False, True])
def test_what_comes_together_waits_as_if_it_came_one_by_one(room: int, express: bool) -> None:
    """In memory, on the disk or in part on both, and whether it expires or not."""
    one_by_one, together = (Waiting(limit_bytes=room * (PACKET_BYTES + 100)) for _ in range(2))
    for start, receive_by_ms in ((1, 0), (4, 70), (8, 0), (300, 0), (600, 9)):
        for waiting in (one_by_one, together):
            places = range(start, start + 3 if start < 300 else start + 280)
            waiting.put(places, express=express, receive_by_ms=receive_by_ms, together=waiting is together)
        assert together.share.used_bytes == one_by_one.share.used_bytes
    assert together.expiries == one_by_one.expiries
    assert together.read() == one_by_one.read()
    assert (together.share.used_bytes, together.cache.used_bytes) == (0, 0)


def test_one_queue_leaves_memory_to_others() -> None:
    """There is a limit for one, and one for all."""
    waiting = Waiting(limit_bytes=10 * (PACKET_BYTES + 100))
    others = [Share(waiting.cache) for _ in range(9)]
    for share in [waiting.share, *others]:
        waiting.line = Line(share, lambda packet, at_ms: None, 3)
        waiting.put(range(1, 50))
    assert waiting.cache.used_bytes <= 41 * (PACKET_BYTES + 100)
    assert others[0].used_bytes > others[-1].used_bytes == 0


def test_expiries_are_known_for_packets_in_memory_and_for_the_next_of_the_others() -> None:
    """Those that are taken down have their own again."""
    waiting = Waiting(limit_bytes=0)
    waiting.put(range(1, 4), receive_by_ms=30)
    waiting.put(range(4, 6), receive_by_ms=20)
    assert waiting.expiries == {1: 30, None: 20}
    assert [one.first_place for one in waiting.line.poll_expired(20, 9)] == [4, 5]
    for place in (4, 5):
        assert waiting.line.remove(next(one for one in waiting.line.walk(place) if one.first_place == place))
    assert waiting.expiries[None] == 30
    assert waiting.read() == [1, 2, 3]
    assert waiting.expiries == {1: 30, 2: 30, 3: 30, None: None}


def test_what_is_removed_is_read_by_nobody() -> None:
    """Whether it was in memory or not."""
    waiting = Waiting(limit_bytes=3 * (PACKET_BYTES + 100))
    waiting.put(range(1, 20))
    for one in list(waiting.line.walk(1)):
        assert one.first_place % 2 == 0 or waiting.line.remove(one)
    assert waiting.read() == list(range(2, 20, 2))


@pytest.mark.parametrize("room", [0, 1_000])
def test_a_walk_begins_with_the_packet_that_has_the_place(room: int) -> None:
    """Also when the place is that of its last message."""
    waiting = Waiting(limit_bytes=room * (PACKET_BYTES + 100))
    for place in (1, 4, 7):
        one = QueuedPacket([place], b"o" * 16, 1, 1, place, Delivery.TRANSACTIONAL, 3, 100, [BODY], first_place=place)
        waiting.line.append(one)
    assert [one.first_place for one in waiting.line.walk(6)] == [4, 7]
    assert [one.first_place for one in waiting.line.walk(7)] == [7]
