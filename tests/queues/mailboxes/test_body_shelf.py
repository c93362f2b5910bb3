"""The queue in which parts of large messages arrive: what its packets mean, and the room that it keeps."""

from collections import Counter

import pytest

from triack.base.commit import HEAD_BYTES
from triack.base.delivery import Delivery
from triack.queues.mailboxes.body_shelf import BodyShelf, announced_bytes
from triack.queues.mailboxes.mailbox import Mailbox, Notices
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.node_settings import Quota
from triack.queues.packing import LargeMessage, pack

ORIGIN = b"o" * 16


class Shelf:
    """A queue, and the shelf of its bodies."""

    def __init__(self) -> None:
        self.notices = Notices(Counter())
        self.queue = Mailbox(1, "q", self.notices, Quota(size_bytes=1_000))
        self.shelf = BodyShelf(2, "$large.q", self.notices, Quota(size_bytes=1_000), lambda: self.queue)
        self._key = 0

    def put(self, *messages: bytes | LargeMessage, limit_bytes: int = 2_000, to: Mailbox | None = None) -> None:
        for body in [it.body for it in pack(messages, limit_bytes, 50, 1)[0]]:
            self._key += 1
            keys = range(self._key, self._key + 1)
            packet = QueuedPacket(
                keys, ORIGIN, 1, 1, self._key, Delivery.TRANSACTIONAL, 1, len(body), [body], restored=True
            )
            (to or self.shelf).put(packet, body[:HEAD_BYTES])

    def announce(self, ordinal: int, total_bytes: int) -> None:
        self.put(LargeMessage(total_bytes.to_bytes(6), ordinal=ordinal))


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_the_first_bytes_of_an_announcement_have_the_size() -> None:
    (packed,) = pack([LargeMessage((123_456).to_bytes(6), ordinal=9)], 2_000, 1, 1)[0]
    assert announced_bytes(packed.body[:HEAD_BYTES], len(packed.body)) == 123_456
    for message in (LargeMessage(b"", ordinal=9), LargeMessage(bytes(8), ordinal=9), b"123456"):
        (other,) = pack([message], 2_000, 1, 1)[0]
        assert announced_bytes(other.body[:HEAD_BYTES], len(other.body)) == 0


def test_parts_and_pieces_of_parts_make_a_body(shelf: Shelf) -> None:
    shelf.announce(9, 700)
    shelf.put(b"x" * 600, limit_bytes=400)
    shelf.put(b"y" * 100)
    assert shelf.notices.bodies.is_whole(ORIGIN, 9)
    assert shelf.shelf.length == shelf.queue.length == 0
    assert not shelf.shelf.has_room_for(ORIGIN, 301)
    assert shelf.shelf.has_room_for(ORIGIN, 300)
    shelf.put(LargeMessage((700).to_bytes(8), ordinal=9), to=shelf.queue)
    assert shelf.queue.length == 1
    assert shelf.queue.size_bytes == shelf.queue.fill.bytes.value == 700 + 37
    assert shelf.shelf.fill.bytes.value == 0
    assert not shelf.shelf.has_room_for(ORIGIN, 300)
    assert not shelf.shelf.is_idle


def test_the_word_that_no_more_comes_frees_a_body(shelf: Shelf) -> None:
    """The next commit deletes the word, the announcement and the parts."""
    shelf.announce(9, 700)
    shelf.put(b"x" * 100)
    shelf.put(LargeMessage(b"", ordinal=9))
    assert shelf.shelf.fill.bytes.value == 0
    assert shelf.notices.bodies.poll_deletes() == [(1, 1), (2, 2)]
    assert shelf.shelf.take_changes() == ([], [3])
    assert shelf.shelf.is_idle


def test_a_stream_that_ends_takes_its_unfinished_body_along(shelf: Shelf) -> None:
    shelf.announce(9, 700)
    shelf.put(b"x" * 100)
    shelf.shelf.drop_stream(ORIGIN, 1)
    assert not shelf.notices.bodies.by_id
    shelf.put(b"late")
    assert shelf.shelf.take_changes() == ([], [3])
