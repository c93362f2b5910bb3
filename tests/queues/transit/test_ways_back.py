"""To which neighbours words about a stream go back."""

import pytest

from triack.base.names import StreamId
from triack.ordering.wire import RelayedOrderAck
from triack.queues.transit import ways_back
from triack.queues.transit.ways_back import WaysBack

ID = StreamId(b"o" * 16, 1)


def test_the_way_with_the_fewest_hops_is_the_first() -> None:
    """In a circle the packet comes again, by another neighbour and with more hops."""
    ways = WaysBack()
    ways.note(ID, "circle", 3, "down")
    ways.note(ID, "origin", 0, "down")
    ways.note(ID, "circle", 6, "down-2")
    back = ways.of(ID)
    assert back is not None
    assert (back.by_hops(), list(back.downstreams)) == (["origin", "circle"], ["down", "down-2"])


def test_a_neighbour_that_is_back_hears_the_last_order_acks() -> None:
    """Of the streams that it has brought."""
    ways = WaysBack()
    ways.note(ID, "up", 0, "down")
    ways.note(StreamId(ID.origin, 2), "up", 0, "down")
    back = ways.of(ID)
    assert back is not None
    back.acked = RelayedOrderAck(*ID, 1, 9, 1, b"d" * 16)
    assert ways.acked_by("up") == [back.acked]
    assert ways.acked_by("down") == []


def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream that has not passed for the longest time is forgotten."""
    monkeypatch.setattr(ways_back, "STREAMS_MAX", 2)
    ways = WaysBack()
    for number in (1, 2, 1, 3):
        ways.note(StreamId(ID.origin, number), "up", 0, "")
    assert [ways.of(StreamId(ID.origin, number)) is None for number in (1, 2, 3)] == [False, True, False]
