"""Packets in transit: those that fit are in memory, the others come from the disk when they are needed."""

import tracemalloc
from collections import Counter
from typing import Any

import pytest

from tests.queues.transit.test_transit_room import room, stream
from triack.base.commit import key_of
from triack.base.delivery import Delivery
from triack.ordering.transit import ON_DISK, TransitPacket
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transit_bodies import PACKET_BYTES, TransitBodies
from triack.queues.transit.transit_letters import TransitLetters
from triack.queues.transit.transit_room import TransitRoom


def bodies(limit_bytes: int, found: TransitRoom | None = None, look_at: Any = id) -> TransitBodies:
    return TransitBodies(TransitLetters(lambda *_: None, Counter()), look_at, found or room(), limit_bytes)


def packets(first: int, last: int) -> list[TransitPacket]:
    return [TransitPacket(it, b"x" * 10, 10, 1, it - 1, 0, 0, "up", 5_000 * it) for it in range(first, last + 1)]


def take(some: TransitBodies, into: TransitStream, entries: list[TransitPacket]) -> None:
    into.sequence.add(entries)
    some.handle_stored(into, entries)


def test_what_does_not_fit_is_fetched_when_it_is_wanted() -> None:
    """Two packets are kept of three; the third comes from the disk, and the stream is looked at."""
    looked: list[TransitStream] = []
    some, passing = bodies(2 * PACKET_BYTES, look_at=looked.append), stream(3)
    take(some, passing, packets(1, 3))
    assert (list(passing.sequence.entries), len(passing.sequence)) == ([1, 2], 3)
    assert some.cached_bytes == 2 * (PACKET_BYTES + 10)
    assert some.poll_fetch() is None
    some.wanting[passing] = None
    read = some.poll_fetch()
    assert read is not None
    third = passing.sequence.entries[3]
    assert read.keys == [key_of(3, third.place)]
    read.bodies = {read.keys[0]: b"y" * 10}
    some.handle_fetched(read)
    assert (third.body, some.cached_bytes, looked) == (b"y" * 10, 3 * (PACKET_BYTES + 10), [passing])
    for entry in passing.sequence.entries.values():
        some.release(entry)
    assert some.cached_bytes == 0


def test_what_comes_behind_packets_on_the_disk_goes_there() -> None:
    """Though there is room again; and what comes before them does not."""
    some, passing = bodies(2 * PACKET_BYTES), stream(3, delivery=Delivery.TRANSACTIONAL)
    take(some, passing, packets(11, 14))
    for entry in list(passing.sequence.entries.values()):
        passing.sequence.remove([entry])
        some.release(entry)
    assert (some.cached_bytes, passing.sequence.peek()) == (0, ON_DISK)
    take(some, passing, packets(15, 15))
    take(some, passing, packets(9, 9))
    assert list(passing.sequence.entries) == [9]
    assert [entry.number for entry in passing.sequence.peek_run(5)] == [9]


def test_a_next_hop_that_is_away_leaves_room() -> None:
    """What had been fetched for it goes back to the disk."""
    some, passing = bodies(10 * PACKET_BYTES), stream(3)
    take(some, passing, packets(1, 3_000))
    some.bring_back(passing, 2_000)
    assert some.cached_bytes >= 2_000 * PACKET_BYTES
    passing.sequence.handle_session_closed()
    some.handle_waiting(passing)
    assert (some.cached_bytes, len(passing.sequence), len(passing.sequence.entries)) == (0, 3_000, 0)


def test_a_packet_that_is_away_when_its_body_comes_is_not_counted() -> None:
    """The next hop went away while the disk was being read."""
    some, passing = bodies(0), stream(3)
    take(some, passing, packets(1, 3))
    some.wanting[passing] = None
    read = some.poll_fetch()
    assert read is not None
    some.handle_waiting(passing)
    read.bodies = dict.fromkeys(read.keys, b"y" * 10)
    some.handle_fetched(read)
    assert (some.cached_bytes, len(passing.sequence.on_disk)) == (0, 3)


def test_time_runs_out_on_the_disk_too() -> None:
    """The deadline of a stream is that of whichever of its packets is first, wherever that is."""
    some, passing = bodies(PACKET_BYTES), stream(3)
    entries = packets(1, 4)
    for entry, left_by_ms in zip(entries, (0, 500, 300, 700), strict=True):
        entry.left_by_ms = left_by_ms
    passing.expect(entries)
    take(some, passing, entries)
    assert passing.next_expiry_ms == 300
    assert [entry.number for entry in some.bring_back_expired(passing, 500, 10)] == [2, 3]
    assert passing.next_expiry_ms == 700
    some.bring_back(passing, 10)
    assert (passing.next_expiry_ms, passing.expiries.earliest()) == (700, 700)


@pytest.mark.slow
def test_a_backlog_takes_a_few_bytes_a_packet_and_its_neighbour_pays_for_them() -> None:
    found, passing, count = room(), stream(3), 200_000
    some = bodies(1_000 * PACKET_BYTES, found)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for first in range(1, count, 64):
            take(some, passing, packets(first, min(count, first + 63)))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(passing.sequence) == count
    assert taken < 1_000 * 600 + 4 * count
    assert found.away.of(b"up") == passing.sequence.on_disk.size_bytes > 0
    while passing.sequence.on_disk:
        some.bring_back(passing, len(passing.sequence.entries) + 1)
    assert found.away.of(b"up") == 0
