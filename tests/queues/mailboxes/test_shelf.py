"""Packets that only the disk has: what comes off the shelf is what was put on it."""

import tracemalloc
from dataclasses import fields, replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.delivery import Delivery
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.shelf import BLOCK_BYTES, RECORD_BYTES, Shelf

ORIGIN = b"o" * 16
PER_BLOCK = BLOCK_BYTES // RECORD_BYTES


def packet(place: int, *keys: int, receive_by_ms: int = 0) -> QueuedPacket:
    """A packet of three messages whose body only the disk has."""
    made = QueuedPacket(list(keys) or [place + (7 << 40)], ORIGIN, 1, 1, place, Delivery.TRANSACTIONAL, 3, 100, [])
    made.first_place, made.charged_bytes, made.sent_at_ms, made.receive_by_ms = place, 100, 5, receive_by_ms
    return made


def shelf_of(packets: list[QueuedPacket]) -> Shelf:
    shelf = Shelf()
    for one in packets:
        shelf.add(one)
    return shelf


def plain(packets: list[QueuedPacket]) -> list[dict[str, Any]]:
    """What packets say; keys are keys, however they are kept."""
    said = [{field.name: getattr(one, field.name) for field in fields(QueuedPacket)} for one in packets]
    return [{**one, "keys": list(one["keys"])} for one in said]


def take_all(shelf: Shelf) -> list[QueuedPacket]:
    found: list[QueuedPacket] = []
    while shelf:
        found += shelf.take()
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


@pytest.mark.slow
@pytest.mark.gate
@given(st.lists(packets, max_size=10))
def test_every_packet_comes_off_as_it_was(put: list[QueuedPacket]) -> None:
    """In order, also of what a record cannot say."""
    for place, one in enumerate(put, 1):
        one.first_place = place
    before = plain([replace(one) for one in put])
    shelf = shelf_of(put)
    assert plain(list(shelf.walk(0))) == before
    assert plain(take_all(shelf)) == before
    assert not shelf


def test_packets_come_off_by_the_block() -> None:
    """So that few objects are made at a time."""
    shelf = shelf_of([packet(place) for place in range(1, 2 * PER_BLOCK + 10)])
    assert [len(shelf.take()) for _ in range(3)] == [PER_BLOCK, PER_BLOCK, 9]


def test_what_no_disk_has_keeps_its_body() -> None:
    """And every other packet loses it."""
    express, durable = packet(1), packet(2)
    express.keys, express.pieces, durable.pieces = [], [b"body"], [b"body"]
    assert [one.pieces for one in take_all(shelf_of([express, durable]))] == [[b"body"], []]


def test_what_is_removed_does_not_come() -> None:
    """Of every block, at its ends and within; a second time there is nothing to remove."""
    shelf = shelf_of([packet(place) for place in range(1, 2 * PER_BLOCK + 1)])
    gone = {1, 2, PER_BLOCK, PER_BLOCK + 1, 2 * PER_BLOCK}
    assert all(shelf.remove(place) for place in gone)
    assert not any(shelf.remove(place) for place in (*gone, 0, 2 * PER_BLOCK + 1))
    assert (
        {one.first_place for one in shelf.walk(0)}
        == {one.first_place for one in take_all(shelf)}
        == (set(range(1, 2 * PER_BLOCK + 1)) - gone)
    )


def test_a_walk_begins_near_its_place() -> None:
    """Not at the first of a million."""
    shelf = shelf_of([packet(place) for place in range(10, 10 + 20 * PER_BLOCK)])
    far = 10 + 15 * PER_BLOCK + 3
    assert far - PER_BLOCK < next(shelf.walk(far)).first_place <= far
    assert next(shelf.walk(0)).first_place == 10


def test_expired_packets_are_found_wherever_they_are() -> None:
    """Whenever they expire, no more at a time than wanted, and those alone."""
    shelf = shelf_of([packet(place, receive_by_ms=place % 3 * 100) for place in range(1, 2 * PER_BLOCK + 1)])
    for now_ms, left in ((100, 2), (200, 0)):
        assert shelf.next_expiry_ms == now_ms
        assert shelf.poll_expired(now_ms - 1, 7) == []
        due = {place for place in range(1, 2 * PER_BLOCK + 1) if 0 < place % 3 * 100 <= now_ms}
        found: set[int] = set()
        for _ in count():
            some = shelf.poll_expired(now_ms, 7)
            if not some:
                break
            assert len(some) <= 7
            found |= {one.first_place for one in some}
            assert all(shelf.remove(one.first_place) for one in some)
        assert found <= due
        assert shelf.next_expiry_ms == (200 if left else None)
    assert {one.number % 3 for one in take_all(shelf)} == {0}
    assert shelf.next_expiry_ms is None


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_changed_in_any_order(seed: int) -> None:
    """Each change is there when the block is read again, however often others were changed in between."""
    random = Random(seed)
    places = [place for place in range(1, 6 * PER_BLOCK) if place % 11]
    shelf, left = shelf_of([packet(place) for place in places[: 4 * PER_BLOCK]]), places[: 4 * PER_BLOCK]
    for place in places[4 * PER_BLOCK :]:
        for gone in random.choices(left, k=2):
            assert shelf.remove(gone) is (gone in left)
            left = [one for one in left if one != gone]
        shelf.add(packet(place))
        left.append(place)
        if random.random() < 0.01 and len(left) > 2 * PER_BLOCK:
            off = [one.first_place for one in shelf.take()]
            assert off == left[: len(off)]
            left = left[len(off) :]
    assert [one.first_place for one in shelf.walk(0)] == left
    assert [one.first_place for one in take_all(shelf)] == left


@pytest.mark.slow
@pytest.mark.gate
def test_packets_of_one_sender_take_a_few_bytes_each() -> None:
    """However many nobody has read: a million are two megabytes."""
    packets = 40 * PER_BLOCK
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        shelf = Shelf()
        for place in range(1, packets + 1):
            one = packet(place)
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
    """The packets of two senders in turns, and a clock that is set back."""
    put = [packet(place) for place in range(1, 3 * PER_BLOCK + 1)]
    for at, one in enumerate(put):
        one.number, one.sent_at_ms = at % 2 * 10**9 + at, 10**12 - (at // 700) * 10**6 + at
    before = plain([replace(one) for one in put])
    assert plain(take_all(shelf_of(put))) == before


def test_a_packet_takes_little_more_than_its_record() -> None:
    """Also when no two neighbours are of one stream."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        shelf = Shelf()
        for place in range(1, 20_001):
            one = packet(place)
            one.stream = place % 7
            shelf.add(one)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 20_000 * 1.2 * RECORD_BYTES
