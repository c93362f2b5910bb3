"""Positions of streams: the one that moved last comes first, and that one was told is logged once."""

from typing import Any

from triack.base.commit import PositionRow
from triack.base.delivery import Delivery
from triack.ordering.order_settings import OrderSettings
from triack.queues.peers.introduction import StreamPosition
from triack.queues.streams.incoming_stream import IncomingStream
from triack.queues.streams.positions import Positions

ORIGIN = b"o" * 16


class Scene:
    """Positions, and what they wrote down."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int, int]] = []
        self.positions = Positions(self._record)

    def _record(self, event: str, _now_ns: int, **fields: Any) -> None:
        self.records.append((event, fields["stream"], fields["number"]))

    def commit(self, stream: IncomingStream, number: int) -> None:
        stream.sequence.position = (1, number)
        stream.handle_committed(stream.row())
        self.positions.handle_committed(stream)

    def told(self, limit: int = 9) -> list[StreamPosition]:
        return list(self.positions.tell(ORIGIN, limit, 0))


def new_stream(number: int) -> IncomingStream:
    return IncomingStream(ORIGIN, number, "q", Delivery.TRANSACTIONAL, OrderSettings())


def test_the_stream_that_moved_last_comes_first() -> None:
    scene, streams = Scene(), [new_stream(number) for number in range(3)]
    for number in (0, 1, 2, 0):
        scene.commit(streams[number], number + 5)
    assert scene.told() == [StreamPosition(0, 1, 5), StreamPosition(2, 1, 7), StreamPosition(1, 1, 6)]
    assert [position.stream for position in scene.told(2)] == [0, 2]
    assert scene.positions.tell(b"x" * 16, 9, 0) == ()


def test_that_a_position_was_told_is_logged_once() -> None:
    """A repeated request is not logged, nor one after an order ack that has said the same."""
    scene, stream = Scene(), new_stream(3)
    scene.commit(stream, 1)
    for _ in range(3):
        scene.told()
    scene.commit(stream, 2)
    stream.acked = stream.claimable
    scene.told()
    scene.commit(stream, 4)
    scene.told()
    assert scene.records == [("order_ack_sent", 3, 1), ("order_ack_sent", 3, 4)]


def test_no_position_goes_beyond_what_an_order_ack_could_say() -> None:
    """Neither packets that are accepted and not committed, nor refused ones, nor a stream of which nothing is there."""
    scene, stream = Scene(), new_stream(3)
    scene.positions.handle_committed(stream)
    assert scene.told() == []
    row = PositionRow(ORIGIN, 3, Delivery.TRANSACTIONAL, "q", 1, 7, b"")
    restored = IncomingStream.restore(row, OrderSettings())
    restored.sequence.position = (1, 9)
    scene.positions.handle_committed(restored)
    assert scene.told() == [StreamPosition(3, 1, 7)]
    restored.refused_from = 4
    assert scene.told() == [StreamPosition(3, 1, 3)]
