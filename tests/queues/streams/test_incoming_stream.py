"""What a node knows of one incoming stream: what is owed for it, and what the store keeps of it."""

import pytest

from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.units import SECOND
from triack.ordering.incoming import Position
from triack.ordering.order_settings import OrderSettings
from triack.ordering.wire import SequenceHeader
from triack.queues.streams.incoming_stream import IncomingStream

ORIGIN = b"o" * 16
SETTINGS = OrderSettings()


def new_stream(delivery: Delivery = Delivery.TRANSACTIONAL) -> IncomingStream:
    return IncomingStream(ORIGIN, 3, "q", delivery, SETTINGS)


def packet(number: int, *, ack_requested: bool = False) -> SequenceHeader:
    return SequenceHeader(ORIGIN, 3, 1, number, number - 1, "q", ack_requested, b"")


def take(stream: IncomingStream, *numbers: int, ack_requested: bool = False) -> None:
    """Accept packets of an ordered stream."""
    for number in numbers:
        stream.sequence.handle_packet(packet(number, ack_requested=ack_requested), (None, number), 0)  # type: ignore[arg-type]


def test_nothing_is_owed_before_anything_is_durable() -> None:
    """However urgently it is asked for."""
    stream = new_stream()
    take(stream, 1, 2, ack_requested=True)
    assert stream.sequence.ack.due
    assert not stream.owes_ack
    stream.sequence.handle_committed((1, 2))
    assert stream.owes_ack


def test_nothing_is_owed_for_what_only_waits() -> None:
    """The first packet is still on its way: there is no position to speak of."""
    stream = new_stream()
    take(stream, 2, ack_requested=True)
    assert stream.sequence.ack.due
    assert not stream.owes_ack


def test_nothing_is_owed_before_it_is_due() -> None:
    """The burst may go on."""
    stream = new_stream()
    take(stream, 1)
    stream.sequence.handle_committed((1, 1))
    assert not stream.owes_ack
    stream.sequence.ack.handle_timer(SECOND)
    assert stream.owes_ack


@pytest.mark.parametrize(
    ("acked", "committed", "owes"),
    [((0, 0), (1, 2), True), ((1, 2), (1, 2), False), ((1, 2), (1, 3), True), ((1, 4), (1, 4), True)],
)
def test_half_of_it_is_owed_once(acked: Position, committed: Position, owes: bool) -> None:
    """While four are accepted and not all are durable, only what is new is said; all of it, as often as asked."""
    stream = new_stream()
    take(stream, 1, 2, 3, 4, ack_requested=True)
    stream.acked = acked
    stream.sequence.handle_committed(committed)
    assert stream.owes_ack is owes


def test_an_ordered_stream_comes_back_at_its_position() -> None:
    """And owes nothing until it is asked: perhaps everything was said."""
    stream = new_stream()
    take(stream, 1, 2, 3)
    again = IncomingStream.restore(stream.row(), SETTINGS)
    assert (again.origin, again.number, again.queue, again.delivery) == (ORIGIN, 3, "q", Delivery.TRANSACTIONAL)
    assert again.sequence.position == again.sequence.committed == (1, 3)
    assert again.ordered
    assert (again.owes_ack, again.via, again.acked) == (False, None, (0, 0))
    again.sequence.ack.handle_request()
    assert again.owes_ack
    assert again.row() == stream.row()


@pytest.mark.parametrize("delivery", [Delivery.EXPRESS, Delivery.RECOVERABLE])
def test_an_unordered_stream_comes_back_with_what_it_has_seen(delivery: Delivery) -> None:
    """Gaps included."""
    stream = new_stream(delivery)
    headers = {number: SequenceHeader(ORIGIN, 3, 1, number, 0, "q", False, b"") for number in (1, 2, 3, 5)}
    for number in (1, 2, 5):
        assert stream.filter.handle_packet(headers[number])
    again = IncomingStream.restore(stream.row(), SETTINGS)
    assert not again.ordered
    assert [number for number, header in headers.items() if again.filter.handle_packet(header)] == [3]


def test_a_filter_that_is_none_is_damage() -> None:
    row = new_stream(Delivery.RECOVERABLE).row()._replace(filter=b"\xff")
    with pytest.raises(StoreDamaged):
        IncomingStream.restore(row, SETTINGS)
