"""Bodies of large messages: which packets make one, what keeps it, and what is deleted when."""

import tracemalloc
from typing import Any

import pytest

from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.names import StreamId
from triack.queues.mailboxes import large_bodies
from triack.queues.mailboxes.large_bodies import TRANSITIONS, Bodies, BodyEvent, BodyState, Part, open_part
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.quotas import NO_LIMIT, Account, Fill
from triack.queues.node_settings import Quota
from triack.queues.packing import pack

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
    """Fragments and batches of parts add up; then its message counts for it."""
    assert announce(bodies, fill, 1_030)
    assert (fill.bytes.value, fill.messages.value, bodies.held.of(ORIGIN)) == (1_030, 1, 1_030)
    assert bodies.claim(*ID) == 0
    assert bodies.add(packet(2, 2 * 35 + 4 + 1_000, keys=2))
    assert not bodies.is_whole(*ID)
    assert bodies.add(packet(4, 27 + 2 * 2 + 30, count=2))
    assert bodies.is_whole(*ID)
    assert bodies.claim(*ID) == 1_030
    assert (fill.bytes.value, fill.messages.value, bodies.held.of(ORIGIN)) == (0, 0, 0)
    assert [part.keys for part in bodies.by_id[ID].parts] == [[(2, 4)]]


def test_a_body_is_freed_when_the_last_message_that_stands_for_it_has_left(bodies: Bodies, fill: Fill) -> None:
    """Its announcement goes with that commit, its parts with later ones."""
    announce(bodies, fill, 10)
    bodies.add(packet(2, 29 + 10))
    assert bodies.claim(*ID) == bodies.claim(*ID) == 10  # as its dead letter takes the place of a message
    bodies.note_left(*ID)
    bodies.free_left()
    bodies.give_up(ID)
    assert bodies.is_whole(*ID)
    bodies.note_left(*ID)
    bodies.free_left()
    assert not bodies.is_whole(*ID)
    assert bodies.poll_announcements() == [(1, 1)]
    assert bodies.poll_deletes() == [(2, 2)]
    assert not bodies.deletes_any


def test_a_commit_deletes_some_parts(bodies: Bodies, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_bodies, "DELETED_BYTES", 400)
    monkeypatch.setattr(large_bodies, "MERGED_BYTES", 0)
    announce(bodies, fill, 1_200)
    for key in range(2, 6):
        bodies.add(packet(key, 29 + 300))
    bodies.give_up(ID)
    assert bodies.poll_deletes() == [(1, 1), (2, 2), (3, 3)]
    assert bodies.deletes_any
    assert bodies.poll_deletes() == [(4, 4), (5, 5)]
    assert fill.bytes.value == bodies.held.of(ORIGIN) == 0


@pytest.mark.parametrize("end", ["another", "stream"])
def test_an_unfinished_body_ends_with_what_comes_after_it(bodies: Bodies, fill: Fill, end: str) -> None:
    announce(bodies, fill, 100)
    bodies.add(packet(2, 29 + 10))
    if end == "another":
        assert announce(bodies, fill, 50, key=3, ordinal=8)
        assert list(bodies.by_id) == [(ORIGIN, 8)]
        assert fill.bytes.value == 50
    else:
        bodies.handle_end(StreamId(ORIGIN, 1))
        assert fill.bytes.value == len(bodies.by_id) == 0
        assert not bodies.add(packet(3, 29 + 10))
    assert bodies.poll_deletes() == [(1, 1), (2, 2)]


def test_what_belongs_to_no_body_is_not_kept(bodies: Bodies, fill: Fill) -> None:
    """A part without an announcement, one too many, an empty one; and a second announcement."""
    assert not bodies.add(packet(1, 29 + 10))
    announce(bodies, fill, 10)
    assert not bodies.add(packet(2, 29 + 11))
    assert not bodies.add(packet(2, 29))
    assert bodies.add(packet(2, 29 + 10))
    assert not bodies.add(packet(3, 29 + 1))
    assert not announce(bodies, fill, 10, key=4)
    assert fill.bytes.value == 10
    bodies.note_left(ORIGIN, 99)
    bodies.free_left()
    bodies.give_up((ORIGIN, 99))
    assert bodies.is_whole(*ID)


def test_the_table_has_each_state_and_event_that_can_meet() -> None:
    table: dict[BodyState, Any] = {**TRANSITIONS}
    assert table.keys() == set(BodyState)
    assert {event for moves in table.values() for event in moves} == set(BodyEvent)
    assert table[BodyState.CLAIMED][BodyEvent.GIVEN_UP] is BodyState.CLAIMED


@pytest.mark.slow
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
    """Batches of several parts, and parts in several packets."""
    sent = [b"1" * 300, b"2" * 300, b"3" * 5_000, b"4" * 300, b"5" * 2_000, b"6"]
    rows = [it.body for it in pack(list(sent), 1_000, 1, 1)[0]]
    assert len(rows) > len(sent)
    assert open_part(rows) == b"".join(sent)
    with pytest.raises(ProtocolError):
        open_part(rows[:3])


def test_what_is_to_come_is_counted_until_it_is_here(bodies: Bodies, fill: Fill) -> None:
    """A body that is given up, and a second announcement of one, leave nothing behind."""
    announce(bodies, fill, 1_000)
    bodies.add(packet(2, 29 + 300))
    assert (bodies.coming_bytes, bodies.unseen_bytes) == (700, 329)
    assert announce(bodies, fill, 500, key=3)  # it ends the first body
    assert bodies.coming_bytes == 500
    announce(bodies, fill, 300, key=4, ordinal=8)
    bodies.add(packet(5, 29 + 300))
    assert not announce(bodies, fill, 300, key=6, ordinal=8)
    assert (bodies.coming_bytes, fill.bytes.value, fill.messages.value) == (0, 300, 1)
    assert bodies.keeps_any(fill)
    assert (bodies.awaiting(ORIGIN, fill), bodies.awaiting(b"x" * 16, fill)) == (1, 0)
    bodies.claim(ORIGIN, 8)
    assert bodies.awaiting(ORIGIN, fill) == 0
