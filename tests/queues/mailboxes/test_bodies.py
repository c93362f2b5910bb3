"""Large bodies and parts of them, in memory and on the disk."""

import tracemalloc
from collections import Counter
from dataclasses import fields, replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.commit import HEAD_BYTES
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError, StoreDamaged
from triack.base.names import StreamId
from triack.queues.mailboxes import large_bodies
from triack.queues.mailboxes.disk_backlog import BLOCK_BYTES, RECORD_BYTES, DiskBacklog
from triack.queues.mailboxes.large_bodies import Bodies, Part, open_part
from triack.queues.mailboxes.local_commit import LocalCommit
from triack.queues.mailboxes.mailbox import Mailbox, Notices
from triack.queues.mailboxes.partials import Partial, Partials
from triack.queues.mailboxes.parts_queue import PartsQueue, announced_bytes
from triack.queues.mailboxes.progress import Progress, Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.quotas import NO_LIMIT, Account, Fill
from triack.queues.mailboxes.redelivery import Wait
from triack.queues.messages import LargeMessage
from triack.queues.node_settings import Quota
from triack.queues.packing import pack

# Bodies of large messages: which packets make one, what keeps it, and what is deleted when.

ORIGIN = b"o" * 16
ID = (ORIGIN, 7)


def packet(key: int, size_bytes: int, *, keys: int = 1, count: int = 1) -> QueuedPacket:
    return QueuedPacket(
        range(key, key + keys), ORIGIN, 1, 1, key, Delivery.TRANSACTIONAL, count, size_bytes, [], charged_bytes=1
    )


@pytest.fixture
def bodies() -> Bodies:
    return Bodies(Account(NO_LIMIT, NO_LIMIT))


@pytest.fixture
def fill() -> Fill:
    return Fill(Quota())


def announce(bodies: Bodies, fill: Fill, total_bytes: int, key: int = 1, ordinal: int = 7) -> bool:
    bodies.reserve(ORIGIN, fill, total_bytes)
    return bodies.announce(packet(key, 35), ordinal, total_bytes, fill)


def test_a_body_takes_its_room_until_a_message_stands_for_it(bodies: Bodies, fill: Fill) -> None:
    assert announce(bodies, fill, 1_030)
    assert (fill.bytes.value, fill.messages.value, bodies.held.of(ORIGIN)) == (1_030, 1, 1_030)
    assert bodies.claim(*ID) == 0
    assert bodies.add(packet(2, 2 * 35 + 1_000, keys=2))
    assert not bodies.is_whole(*ID)
    assert bodies.add(packet(4, 27 + 2 + 30, count=2))
    assert bodies.is_whole(*ID)
    assert bodies.claim(*ID) == 1_030
    assert (fill.bytes.value, fill.messages.value, bodies.held.of(ORIGIN)) == (0, 0, 0)
    assert [part.keys for part in bodies.by_id[ID].parts] == [[(2, 4)]]


def test_a_body_is_freed_when_the_last_message_that_stands_for_it_has_left(bodies: Bodies, fill: Fill) -> None:
    announce(bodies, fill, 10)
    bodies.add(packet(2, 27 + 10))
    assert bodies.claim(*ID) == bodies.claim(*ID) == 10  # as its dead letter takes the place of a message
    turn = LocalCommit()
    bodies.note_left(*ID)
    bodies.free_left(turn)
    bodies.give_up(ID)
    assert bodies.is_whole(*ID)
    bodies.note_left(*ID)
    bodies.free_left(turn)
    assert not bodies.is_whole(*ID)
    assert turn.commit.message_deletes == [(1, 1)]
    assert bodies.poll_deletes() == [(2, 2)]
    assert not bodies.deletes_any


def test_a_commit_deletes_some_parts(bodies: Bodies, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_bodies, "DELETED_BYTES", 400)
    monkeypatch.setattr(large_bodies, "MERGED_BYTES", 0)
    announce(bodies, fill, 1_200)
    for key in range(2, 6):
        bodies.add(packet(key, 27 + 300))
    bodies.give_up(ID)
    assert bodies.poll_deletes() == [(1, 1), (2, 2), (3, 3)]
    assert bodies.deletes_any
    assert bodies.poll_deletes() == [(4, 4), (5, 5)]
    assert fill.bytes.value == bodies.held.of(ORIGIN) == 0


@pytest.mark.parametrize("end", ["another", "stream"])
def test_an_unfinished_body_ends_with_what_comes_after_it(bodies: Bodies, fill: Fill, end: str) -> None:
    announce(bodies, fill, 100)
    bodies.add(packet(2, 27 + 10))
    if end == "another":
        assert announce(bodies, fill, 50, key=3, ordinal=8)
        assert list(bodies.by_id) == [(ORIGIN, 8)]
        assert fill.bytes.value == 50
    else:
        bodies.handle_end(StreamId(ORIGIN, 1))
        assert fill.bytes.value == len(bodies.by_id) == 0
        assert not bodies.add(packet(3, 27 + 10))
    assert bodies.poll_deletes() == [(1, 1), (2, 2)]


def test_what_belongs_to_no_body_is_not_kept(bodies: Bodies, fill: Fill) -> None:
    assert not bodies.add(packet(1, 27 + 10))
    announce(bodies, fill, 10)
    assert not bodies.add(packet(2, 27 + 11))
    assert not bodies.add(packet(2, 27))
    assert bodies.add(packet(2, 27 + 10))
    assert not bodies.add(packet(3, 27 + 1))
    assert not announce(bodies, fill, 10, key=4)
    assert fill.bytes.value == 10
    bodies.note_left(ORIGIN, 99)
    bodies.free_left(LocalCommit())
    bodies.give_up((ORIGIN, 99))
    assert bodies.is_whole(*ID)


@pytest.mark.gate
def test_small_parts_between_the_rows_of_others_cost_four_bytes_each() -> None:
    """Neighbours are kept as one. A part whose rows all have others between them has no object for each."""
    keys = [*range(10, 100_000, 2), 300_000, *range(300_001, 500_001)]
    tracemalloc.start()
    part = Part(300, [(10, 10)])
    for key in keys[1:50_000]:
        part.add(300, [(key, key)])
    part.add(300, [(key, key) for key in keys[50_000:]])
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [key for first, last in part.keys for key in range(first, last + 1)] == keys
    assert used < 8 * len(keys)


def test_parts_that_are_read_together_are_opened_one_by_one() -> None:
    sent = [b"1" * 300, b"2" * 300, b"3" * 5_000, b"4" * 300, b"5" * 2_000, b"6"]
    rows = [it.body for it in pack(list(sent), 1_000, 1, 1)[0]]
    assert len(rows) > len(sent)
    assert open_part(rows) == b"".join(sent)
    with pytest.raises(ProtocolError):
        open_part(rows[:3])


def test_what_is_to_come_is_counted_until_it_is_here(bodies: Bodies, fill: Fill) -> None:
    announce(bodies, fill, 1_000)
    bodies.add(packet(2, 27 + 300))
    assert (bodies.coming_bytes, bodies.unseen_bytes) == (700, 327)
    assert announce(bodies, fill, 500, key=3)  # it ends the first body
    assert bodies.coming_bytes == 500
    announce(bodies, fill, 300, key=4, ordinal=8)
    bodies.add(packet(5, 27 + 300))
    assert not announce(bodies, fill, 300, key=6, ordinal=8)
    assert (bodies.coming_bytes, fill.bytes.value, fill.messages.value) == (0, 300, 1)
    assert bodies.keeps_any(fill)
    assert (bodies.awaiting(ORIGIN, fill), bodies.awaiting(b"x" * 16, fill)) == (1, 0)
    bodies.claim(ORIGIN, 8)
    assert bodies.awaiting(ORIGIN, fill) == 0


# The queue in which parts of large messages arrive: what its packets mean, and the room that it keeps.


class Arriving:
    """A queue, and the shelf of its bodies."""

    def __init__(self) -> None:
        self.notices = Notices(Counter())
        self.queue = Mailbox(1, "q", self.notices, Quota(size_bytes=1_000))
        self.shelf = PartsQueue(2, "$large.q", self.notices, Quota(size_bytes=1_000), lambda: self.queue)
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
def shelf() -> Arriving:
    return Arriving()


def test_the_first_bytes_of_an_announcement_have_the_size() -> None:
    (packed,) = pack([LargeMessage((123_456).to_bytes(6), ordinal=9)], 2_000, 1, 1)[0]
    assert announced_bytes(packed.body[:HEAD_BYTES], len(packed.body)) == 123_456
    for message in (LargeMessage(b"", ordinal=9), LargeMessage(bytes(8), ordinal=9), b"123456"):
        (other,) = pack([message], 2_000, 1, 1)[0]
        assert announced_bytes(other.body[:HEAD_BYTES], len(other.body)) == 0


def test_parts_and_pieces_of_parts_make_a_body(shelf: Arriving) -> None:
    shelf.announce(9, 700)
    shelf.put(b"x" * 600, limit_bytes=400)
    shelf.put(b"y" * 100)
    assert shelf.notices.bodies.is_whole(ORIGIN, 9)
    assert shelf.shelf.length == shelf.queue.length == 0
    assert not shelf.shelf.has_room_for(ORIGIN, 301)
    assert shelf.shelf.has_room_for(ORIGIN, 300)
    shelf.put(LargeMessage((700).to_bytes(8), ordinal=9), to=shelf.queue)
    assert shelf.queue.length == 1
    assert shelf.queue.size_bytes == shelf.queue.fill.bytes.value == 700 + 35
    assert shelf.shelf.fill.bytes.value == 0
    assert not shelf.shelf.has_room_for(ORIGIN, 300)
    assert not shelf.shelf.is_idle


def test_the_word_that_no_more_comes_frees_a_body(shelf: Arriving) -> None:
    shelf.announce(9, 700)
    shelf.put(b"x" * 100)
    shelf.put(LargeMessage(b"", ordinal=9))
    assert shelf.shelf.fill.bytes.value == 0
    assert shelf.notices.bodies.poll_deletes() == [(1, 1), (2, 2)]
    assert shelf.shelf.take_changes() == ([], [3])
    assert shelf.shelf.is_idle


def test_a_stream_that_ends_takes_its_unfinished_body_along(shelf: Arriving) -> None:
    shelf.announce(9, 700)
    shelf.put(b"x" * 100)
    shelf.shelf.drop_stream(ORIGIN, 1)
    assert not shelf.notices.bodies.by_id
    shelf.put(b"late")
    assert shelf.shelf.take_changes() == ([], [3])


# Pieces of large messages: which are here, and which messages are dead.

PARTED, STREAM = b"o" * 16, 7
STREAM_ID = StreamId(PARTED, STREAM)


def piece(number: int) -> QueuedPacket:
    return QueuedPacket([number], PARTED, STREAM, 1, number, 2, 1, 100, [b"x"])


@pytest.mark.parametrize(("number", "offset", "length"), [(4, 0, 100), (5, 100, 100), (6, 200, 50)])
def test_each_piece_tells_which_packet_is_the_last(number: int, offset: int, length: int) -> None:
    """Two of 100 bytes follow the first of 100, when there are 250: the others may have gone with another process."""
    partial = Partial(250, number)
    partial.add(piece(number), offset, length)
    assert partial.last_number == 6


def test_what_was_begun_is_expected_until_it_is_taken() -> None:
    """And the streams of a node are found in which something was begun and is not whole."""
    partials = Partials()
    partials.begin(piece(9), 3, 250)
    partials.begin(QueuedPacket([1], PARTED, STREAM + 1, 1, 1, 0, 1, 100, [b"x"]), 4, 250)
    assert [partials.expects(PARTED, STREAM + at, 3) for at in (0, 1)] == [True, False]
    assert [partials.awaits_beyond(PARTED, STREAM, number) for number in (8, 9)] == [True, False]
    partials.pop(STREAM_ID, 3)
    assert not partials.expects(PARTED, STREAM, 3)
    assert partials.of(STREAM_ID) == {}
    assert (partials.of_origin(b"p" * 16), partials.of_origin(PARTED)) == ([], [(PARTED, STREAM + 1)])


# What is kept on the disk of a packet that is partly done.

WAIT = Wait(500, 50, keep_order=True)


def test_progress_survives_a_restart() -> None:
    progress = Progress(0b101, Setbacks({1: 3, 3: 1}, {3: 1}, {1: WAIT}))
    assert Progress.decode(progress.encode(), 1, 480) == progress
    assert Progress.decode(progress.encode(), 1, 10).setbacks.waits == {1: WAIT._replace(until_ms=60)}


@pytest.mark.parametrize("damaged", [b"", b"{}", b'["0x1", {}, {}]', b'["", {}, {}, {}]', b'["0x1", {}, {}, {"0": 5}]'])
def test_damaged_progress_is_refused(damaged: bytes) -> None:
    with pytest.raises(StoreDamaged, match="progress of packet 7 "):
        Progress.decode(damaged, 7, 0)


def test_a_part_has_the_indices_of_its_messages() -> None:
    setbacks = Setbacks({9: 1, 10: 2, 13: 1}, {13: 1}, {10: WAIT, 14: WAIT})
    part = setbacks.part(range(10, 14))
    assert part == Setbacks({0: 2, 3: 1}, {3: 1}, {0: WAIT})
    other = Setbacks({1: 1})
    other.add_part(20, part)
    assert other == Setbacks({1: 1, 20: 2, 23: 1}, {23: 1}, {20: WAIT})
    other.forget(range(20, 24))
    assert other == Setbacks({1: 1})


# Packets that only the disk has: what comes off the shelf is what was put on it.

PER_BLOCK = BLOCK_BYTES // RECORD_BYTES


def shelved_packet(place: int, *keys: int, receive_by_ms: int = 0) -> QueuedPacket:
    """A packet of three messages whose body only the disk has."""
    made = QueuedPacket(list(keys) or [place + (7 << 40)], ORIGIN, 1, 1, place, Delivery.TRANSACTIONAL, 3, 100, [])
    made.first_place, made.charged_bytes, made.sent_at_ms, made.receive_by_ms = place, 100, 5, receive_by_ms
    return made


def shelf_of(packets: list[QueuedPacket]) -> DiskBacklog:
    shelf = DiskBacklog()
    for one in packets:
        shelf.add(one)
    return shelf


def plain(packets: list[QueuedPacket]) -> list[dict[str, Any]]:
    """What packets say; keys are keys, however they are kept."""
    said = [{field.name: getattr(one, field.name) for field in fields(QueuedPacket)} for one in packets]
    return [{**one, "keys": list(one["keys"])} for one in said]


def take_all(shelf: DiskBacklog) -> list[QueuedPacket]:
    found: list[QueuedPacket] = []
    while shelf.blocks:
        found += shelf.take_block()
    return found


numbers = st.integers(0, 2**64 - 1)
packets = st.builds(
    QueuedPacket,
    keys=st.lists(st.integers(1, 2**62), max_size=3) | st.integers(1, 2**62).map(lambda key: [key, key + 1]),
    origin=st.binary(min_size=16, max_size=16),
    stream=st.integers(0, 2**32 - 1),
    sequence=numbers,
    number=numbers,
    delivery=st.sampled_from(list(Delivery)),
    count=st.integers(1, 2**16 - 1),
    size_bytes=st.integers(0, 2**32 - 1),
    pieces=st.just([]),
    restored=st.booleans(),
    sent_at_ms=numbers,
    receive_by_ms=numbers,
    charged_bytes=st.integers(0, 2**32 - 1),
    cares=st.booleans(),
)


@pytest.mark.gate
@given(st.lists(packets, max_size=10))
def test_every_packet_comes_off_as_it_was(put: list[QueuedPacket]) -> None:
    for place, one in enumerate(put, 1):
        one.first_place = place
    before = plain([replace(one) for one in put])
    shelf = shelf_of(put)
    assert plain(list(shelf.walk(0))) == before
    assert plain(take_all(shelf)) == before
    assert not shelf.blocks


def test_packets_come_off_by_the_block_and_a_walk_begins_near_its_place() -> None:
    """So that few objects are made at a time, and the first of a million is not looked at."""
    shelf = shelf_of([shelved_packet(place) for place in range(10, 10 + 20 * PER_BLOCK)])
    far = 10 + 15 * PER_BLOCK + 3
    assert far - PER_BLOCK < next(shelf.walk(far)).first_place <= far
    assert next(shelf.walk(0)).first_place == 10
    assert [len(shelf.take_block()) for _ in range(20)] == [PER_BLOCK] * 20


def test_what_no_disk_has_keeps_its_body() -> None:
    express, durable = shelved_packet(1), shelved_packet(2)
    express.keys, express.pieces, durable.pieces = [], [b"body"], [b"body"]
    assert [one.pieces for one in take_all(shelf_of([express, durable]))] == [[b"body"], []]


def test_expired_packets_are_found_wherever_they_are() -> None:
    shelf = shelf_of([shelved_packet(place, receive_by_ms=place % 3 * 100) for place in range(1, 2 * PER_BLOCK + 1)])
    for now_ms, left in ((100, 2), (200, 0)):
        assert shelf.earliest_ms == now_ms
        assert shelf.expired(now_ms - 1, 7) == []
        due = {place for place in range(1, 2 * PER_BLOCK + 1) if 0 < place % 3 * 100 <= now_ms}
        found: set[int] = set()
        for _ in count():
            some = shelf.expired(now_ms, 7)
            if not some:
                break
            assert len(some) <= 7
            found |= {one.first_place for one in some}
            assert all(shelf.remove(one.first_place) for one in some)
        assert found <= due
        assert shelf.earliest_ms == (200 if left else None)
    assert {one.number % 3 for one in take_all(shelf)} == {0}
    assert shelf.earliest_ms is None


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_changed_in_any_order(seed: int) -> None:
    random = Random(seed)
    places = [place for place in range(1, 6 * PER_BLOCK) if place % 11]
    shelf, left = shelf_of([shelved_packet(place) for place in places[: 4 * PER_BLOCK]]), places[: 4 * PER_BLOCK]
    for place in places[4 * PER_BLOCK :]:
        for gone in random.choices(left, k=2):
            assert shelf.remove(gone) is (gone in left)
            left = [one for one in left if one != gone]
        shelf.add(shelved_packet(place))
        left.append(place)
        if random.random() < 0.01 and len(left) > 2 * PER_BLOCK:
            off = [one.first_place for one in shelf.take_block()]
            assert off == left[: len(off)]
            left = left[len(off) :]
    assert [one.first_place for one in shelf.walk(0)] == left
    assert [one.first_place for one in take_all(shelf)] == left


@pytest.mark.gate
def test_packets_of_one_sender_take_a_few_bytes_each() -> None:
    packets = 40 * PER_BLOCK
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        shelf = DiskBacklog()
        for place in range(1, packets + 1):
            one = shelved_packet(place)
            one.sent_at_ms, one.size_bytes = 1_700_000_000_000 + place * 7 // 3, 1_000 + place * place % 97
            one.charged_bytes = one.size_bytes
            shelf.add(one)
        taken = tracemalloc.get_traced_memory()[0] - before
        assert taken < 2 * packets + BLOCK_BYTES
        for place in range(1, packets, PER_BLOCK // 2):
            shelf.remove(place)
        assert tracemalloc.get_traced_memory()[0] - before < 2 * packets + 2 * BLOCK_BYTES
    finally:
        tracemalloc.stop()


def test_blocks_whose_fields_fall_come_off_as_they_were() -> None:
    put = [shelved_packet(place) for place in range(1, 3 * PER_BLOCK + 1)]
    for at, one in enumerate(put):
        one.number, one.sent_at_ms = at % 2 * 10**9 + at, 10**12 - (at // 700) * 10**6 + at
    before = plain([replace(one) for one in put])
    assert plain(take_all(shelf_of(put))) == before
