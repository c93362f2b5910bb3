"""To which neighbours words about a stream go back."""

import pytest

from triack.base.names import StreamId
from triack.ordering.wire import RelayedOrderAck, RelayedReject
from triack.queues.transit import ways_back
from triack.queues.transit.ways_back import WaysBack

ID = StreamId(b"o" * 16, 1)


def test_words_go_back_by_the_way_with_the_fewest_hops() -> None:
    """In a circle the packet comes again, by another neighbour and with more hops."""
    ways = WaysBack()
    ways.note(ID, "circle", 3, "down")
    ways.note(ID, "origin", 0, "down")
    ways.note(ID, "circle", 6, "down-2")
    back = ways.of(ID)
    assert back is not None
    assert (back.nearest, list(back.downstreams)) == (["origin"], ["down", "down-2"])


def test_a_neighbour_that_is_back_hears_the_last_order_acks() -> None:
    """Of the streams that it has brought."""
    ways = WaysBack()
    ways.note(ID, "up", 0, "down")
    ways.note(StreamId(ID.origin, 2), "up", 0, "down")
    back = ways.of(ID)
    assert back is not None
    back.acked = RelayedOrderAck(*ID, 1, 9, 1, b"d" * 16)
    assert [it.acked for it in ways.brought_by("up")] == [back.acked, None]
    assert ways.brought_by("down") == []


def rejection(number: int, stream: StreamId = ID) -> RelayedReject:
    return RelayedReject(*stream, 1, number, "no-route", 0, b"d" * 16)


def test_rejections_wait_for_a_session() -> None:
    """Each number once, the last that was said of it."""
    ways = WaysBack()
    assert not ways.keep(rejection(5), "down")
    ways.note(ID, "up", 0, "down")
    for number in (5, 6, 5):
        assert ways.keep(rejection(number), "down")
    back = ways.of(ID)
    assert back is not None
    assert ways.take_rejections(back) == [(rejection(number), "down") for number in (6, 5)]
    assert ways.take_rejections(back) == []


def test_a_neighbour_that_is_back_is_looked_for_only_if_there_is_something_to_say() -> None:
    """It may have brought thousands of streams, and come back as often as it likes."""
    ways = WaysBack()
    ways.note(ID, "up", 0, "down")
    back = ways.of(ID)
    assert back is not None
    assert not back.has_words
    ways.keep(rejection(1), "down")
    assert back.has_words
    ways.take_rejections(back)
    assert not back.has_words


def test_a_neighbour_that_rejects_drives_out_its_own_rejections(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all streams together, and none that another neighbour has sent."""
    monkeypatch.setattr(ways_back, "REJECTIONS_MAX", 10)
    ways = WaysBack()
    streams = [StreamId(ID.origin, number) for number in range(1, 101)]
    for stream in streams:
        ways.note(stream, "up", 0, "down")
    ways.keep(rejection(1, streams[0]), "honest")
    for number in range(2, 300):
        ways.keep(rejection(number, streams[number % 100]), "evil")
    kept = [it for back in map(ways.of, streams) if back is not None for it in back.rejected.values()]
    assert [packet.number for packet, by in kept if by == "honest"] == [1]
    assert sorted(packet.number for packet, by in kept if by == "evil") == list(range(290, 300))


def test_a_forgotten_stream_takes_its_rejections_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then others have their places."""
    monkeypatch.setattr(ways_back, "STREAMS_MAX", 1)
    monkeypatch.setattr(ways_back, "REJECTIONS_MAX", 2)
    ways = WaysBack()
    for stream in (ID, StreamId(ID.origin, 2)):
        ways.note(stream, "up", 0, "down")
        for number in (1, 2):
            ways.keep(rejection(number, stream), "down")
    back = ways.of(StreamId(ID.origin, 2))
    assert back is not None
    assert list(back.rejected) == [1, 2]


def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream that has not passed for the longest time is forgotten."""
    monkeypatch.setattr(ways_back, "STREAMS_MAX", 2)
    ways = WaysBack()
    for number in (1, 2, 1, 3):
        ways.note(StreamId(ID.origin, number), "up", 0, "")
    assert [ways.of(StreamId(ID.origin, number)) is None for number in (1, 2, 3)] == [False, True, False]


def test_a_neighbour_drives_out_nothing_that_another_one_has_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many streams it invents, and also when it claims the other one's as well."""
    monkeypatch.setattr(ways_back, "STREAMS_MAX", 2)
    ways = WaysBack()
    ways.note(ID, "honest", 0, "down")
    for number in range(1, 100):
        ways.note(StreamId(b"e" * 16, number), "evil", 0, "down")
        ways.note(ID, "evil", 3, "down")
        ways.note(StreamId(b"f" * 16, number), "evil", 0, "down")
    back = ways.of(ID)
    assert back is not None
    assert back.nearest == ["honest"]
    assert len(ways.brought_by("evil")) == 2
    assert sum(ways.of(StreamId(b"e" * 16, number)) is not None for number in range(100)) <= 2
