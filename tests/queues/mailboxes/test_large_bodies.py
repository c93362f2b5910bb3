"""Bodies of large messages: which packets make one, what keeps it, and what is deleted when."""

from typing import Any

import pytest

from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.queues.mailboxes import large_bodies
from triack.queues.mailboxes.large_bodies import TRANSITIONS, Bodies, BodyEvent, BodyState
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.quotas import NO_LIMIT, Account, Fill
from triack.queues.node_settings import Quota

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
    assert announce(bodies, fill, 130)
    assert (fill.bytes.value, bodies.held.of(ORIGIN)) == (130, 130)
    assert bodies.claim(*ID) == 0
    assert bodies.add(packet(2, 2 * 35 + 4 + 100, keys=2))
    assert not bodies.is_whole(*ID)
    assert bodies.add(packet(4, 27 + 2 * 2 + 30, count=2))
    assert bodies.is_whole(*ID)
    assert bodies.claim(*ID) == 130
    assert (fill.bytes.value, bodies.held.of(ORIGIN)) == (0, 0)
    assert [part.keys for part in bodies.by_id[ID].parts] == [[(2, 3)], [(4, 4)]]


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
    monkeypatch.setattr(large_bodies, "DELETED_BYTES", 15)
    announce(bodies, fill, 40)
    for key in range(2, 6):
        bodies.add(packet(key, 29 + 10))
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
