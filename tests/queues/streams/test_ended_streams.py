"""Which streams have ended: ranges, on the disk and back, and no more of them than there can be."""

import pytest

from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.ordering.wire import SequenceHeader
from triack.queues.streams import ended_streams
from triack.queues.streams.ended_streams import EndedStreams

A, B = b"a" * 16, b"b" * 16
DURABLE, EXPRESS = Delivery.RECOVERABLE, Delivery.EXPRESS


def header(sequence: int, origin: bytes = A) -> SequenceHeader:
    return SequenceHeader(origin, 3, sequence, 1, 0, "q", False, b"")


def ended(streams: EndedStreams, upto: int, origin: bytes = A, delivery: Delivery = DURABLE) -> list[int]:
    return [number for number in range(1, upto + 1) if streams.has(header(number, origin), delivery)]


def test_what_was_named_has_ended() -> None:
    """Of that origin, and of streams on the disk apart from those in memory."""
    streams = EndedStreams()
    assert streams.add(A, 3, 5, durable=True)
    assert streams.add(A, 1, 1, durable=False)
    assert (ended(streams, 9), ended(streams, 9, B), ended(streams, 9, delivery=EXPRESS)) == ([3, 4, 5], [], [1])
    assert (streams.knows(A), streams.knows(B)) == (True, False)
    streams.handle_parted(A)
    assert (ended(streams, 9), ended(streams, 9, delivery=EXPRESS)) == ([3, 4, 5], [])


def test_the_disk_has_it() -> None:
    streams, again = EndedStreams(), EndedStreams()
    for first, last in ((1, 2), (5, 6), (9, 9)):
        streams.add(A, first, last, durable=True)
    again.restore(streams.row(A))
    assert ended(again, 12) == ended(streams, 12) == [1, 2, 5, 6, 9]
    with pytest.raises(StoreDamaged, match="wrong length"):
        again.restore(streams.row(A)._replace(filter=b"x"))


def test_ranges_of_an_honest_origin_are_as_many_as_its_live_streams() -> None:
    """It names all from the live one before on: gaps that other peers, or starts, have left are in it."""
    streams = EndedStreams()
    for sequence in range(2, 100_000, 7):
        streams.add(A, 2, sequence, durable=True)
    assert len(streams.row(A).filter) == 16


def test_more_gaps_than_there_can_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_streams, "RANGES_MAX", 4)
    streams = EndedStreams()
    added = [streams.add(A, 10 * number, 10 * number, durable=True) for number in range(1, 7)]
    assert added == [True] * 4 + [False] * 2
    assert streams.add(A, 1, 100, durable=True)
    assert streams.add(A, 200, 200, durable=True)
