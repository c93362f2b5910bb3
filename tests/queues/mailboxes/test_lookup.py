"""The index of a queue by ids and correlation ids."""

import pytest

from triack.base.errors import UsageError
from triack.queues.mailboxes import lookup
from triack.queues.mailboxes.lookup import Lookup, Wanted
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.packing import Unpacked

A, B = b"a" * 16, b"b" * 16


def packet(origin: bytes, place: int, count: int) -> QueuedPacket:
    return QueuedPacket((), origin, 1, 1, place, 2, count, 9, [b""], first_place=place)


def content(first_ordinal: int, *correlation_ids: str) -> Unpacked:
    properties = [{"correlation_id": it} if it else {} for it in correlation_ids]
    return Unpacked(first_ordinal, 0, 0, [b""] * len(properties), properties)


def add(index: Lookup, origin: bytes, place: int, ordinal: int, *correlation_ids: str) -> None:
    index.add(packet(origin, place, len(correlation_ids)), content(ordinal, *correlation_ids))


def test_a_message_is_found_by_the_id_of_its_packet_whatever_the_order_of_arrival() -> None:
    index = Lookup()
    add(index, A, 1, 100, "", "", "")
    add(index, B, 4, 7, "", "")
    add(index, A, 6, 50, "")
    found = [index.find(Wanted(*it)) for it in ((A, 102), (A, 50), (B, 8), (B, 9), (A, 103), (A, 0), (b"c" * 16, 7))]
    assert found == [[3], [6], [5], [], [], [], []]
    assert index.indexed_to == 6


def test_messages_of_one_correlation_id_are_found_in_the_order_of_the_queue() -> None:
    index = Lookup()
    add(index, A, 1, 1, "x", "", "y")
    add(index, B, 4, 1, "x")
    assert index.find(Wanted.by_correlation_id("x")) == [1, 4]
    assert index.find(Wanted.by_correlation_id("z")) == []


def test_a_packet_that_cannot_be_read_is_passed_over() -> None:
    index = Lookup()
    index.add(packet(A, 1, 3), None)
    assert (index.indexed_to, index.find(Wanted(A, 1))) == (3, [])


def test_what_is_done_takes_no_memory_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "COMPACT_MIN", 4)
    index = Lookup()
    for place in range(1, 11):
        add(index, A, place, place, f"c{place}")
    index.compact(lambda place: place < 10)
    assert (index.find(Wanted(A, 10)), index.find(Wanted.by_correlation_id("c10"))) == ([10], [10])
    assert (index.find(Wanted(A, 9)), index.find(Wanted.by_correlation_id("c9"))) == ([], [])


@pytest.mark.parametrize("id", [None, 7, "", "x-1", "a" * 32, f"{'g' * 32}-1", f"{'a' * 32}--1", f"{'a' * 30}-1"])
def test_what_is_no_id_of_a_message_is_refused(id: object) -> None:  # noqa: A002 - as users name it
    with pytest.raises(UsageError, match="no id of a message"):
        Wanted.by_id(id)


@pytest.mark.parametrize("correlation_id", [None, 7, ""])
def test_a_correlation_id_is_text(correlation_id: object) -> None:
    with pytest.raises(UsageError, match="must be text"):
        Wanted.by_correlation_id(correlation_id)
