"""Ended streams of which something is missing: how long they are awaited, and which gives way to others."""

from types import SimpleNamespace
from typing import Any

from triack.base.names import StreamId
from triack.ordering.wire import RelayedEnd
from triack.queues.streams.awaited_ends import ENDS_MAX, REST_NS, AwaitedEnds

BY: Any = SimpleNamespace(link_name="r")
OTHER: Any = SimpleNamespace(link_name="s")


def end(stream: int, sequence: int = 1) -> RelayedEnd:
    return RelayedEnd(b"a" * 16, stream, sequence, 1, False, 9, 1, b"a" * 16)


def due(ends: AwaitedEnds, now_ns: int) -> list[tuple[int, bool]]:
    return [(packet.stream, is_over) for _, packet, is_over in ends.poll_due(now_ns)]


def test_the_rest_is_awaited_for_a_week_from_the_first_word() -> None:
    ends = AwaitedEnds()
    ends.wait(BY, end(1), 5)
    ends.wait(BY, end(1), REST_NS // 2)
    assert ends.next_deadline() == REST_NS + 5
    assert due(ends, REST_NS + 4) == []
    assert due(ends, REST_NS + 5) == [(1, True)]


def test_a_newer_stream_of_the_same_number_has_a_week_of_its_own() -> None:
    ends = AwaitedEnds()
    ends.wait(BY, end(1), 5)
    ends.wait(BY, end(1, 2), 50)
    assert ends.next_deadline() == REST_NS + 50


def test_what_is_stored_is_looked_at_at_once() -> None:
    ends = AwaitedEnds()
    ends.wait(BY, end(1), 5)
    ends.handle_stored(StreamId(b"a" * 16, 2), 7)
    assert due(ends, 7) == []
    ends.handle_stored(StreamId(b"a" * 16, 1), 7)
    assert due(ends, 7) == [(1, False)]
    ends.wait(BY, end(1), 7)
    assert ends.next_deadline() == REST_NS + 5


def test_the_oldest_of_a_relay_gives_way() -> None:
    ends = AwaitedEnds()
    ends.wait(OTHER, end(1), 1)
    ends.wait(BY, end(2), 2)
    ends.wait(BY, end(3), 3)
    ends.hasten("r")
    ends.hasten("nobody")
    assert due(ends, 4) == [(2, True)]


def test_a_forgotten_one_is_not_looked_at() -> None:
    ends = AwaitedEnds()
    ends.wait(BY, end(1), 1)
    ends.forget(StreamId(b"a" * 16, 1))
    assert (due(ends, 2 * REST_NS), ends.next_deadline()) == ([], None)


def test_invented_ends_fill_no_memory_and_no_place_of_others() -> None:
    """A neighbour has its places alone, and has them again when one is forgotten."""
    ends = AwaitedEnds()
    for stream in range(1, ENDS_MAX + 100):
        ends.wait(BY, end(stream), 1)
    assert len(ends.ends) == ENDS_MAX
    ends.wait(OTHER, end(10_000), 1)
    ends.forget(StreamId(b"a" * 16, 1))
    ends.wait(BY, end(10_001), 1)
    assert {10_000, 10_001} <= {stream.number for stream in ends.ends}


def test_an_end_that_another_neighbour_repeats_is_that_ones() -> None:
    ends = AwaitedEnds()
    for stream in range(1, ENDS_MAX + 1):
        ends.wait(BY, end(stream), 5)
    ends.wait(OTHER, end(1), 50)
    ends.wait(BY, end(10_000), 50)
    assert ends.ends[StreamId(b"a" * 16, 1)] == (OTHER, end(1), REST_NS + 5)
    assert len(ends.ends) == ENDS_MAX + 1
