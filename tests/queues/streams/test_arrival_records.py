"""What the log says of incoming streams: the fields of each event, and neighbours as one record."""

from tests.queues.records import Log
from triack.base.delivery import Delivery
from triack.ordering.order_settings import OrderSettings
from triack.ordering.wire import SequenceHeader
from triack.queues.streams.arrival_records import record_accepted, record_order_ack, record_recovered, record_rejected
from triack.queues.streams.group_commit import REFUSED
from triack.queues.streams.incoming_stream import IncomingStream

ORIGIN = b"o" * 16


def transfer_of(delivery: Delivery) -> IncomingStream:
    return IncomingStream(ORIGIN, 3, "q", delivery, OrderSettings())


def test_a_recovered_stream_says_how_far_it_was() -> None:
    """By its position, or by what it has seen."""
    log = Log()
    for delivery in (Delivery.TRANSACTIONAL, Delivery.RECOVERABLE):
        stream = transfer_of(delivery)
        record_recovered(log, stream.row(), stream, 9)
    assert [(one.get("number"), one.get("ranges")) for one in log] == [(0, None), (None, [])]


def test_neighbours_are_accepted_in_one_record() -> None:
    """In order a run passes what was given up, and ends at what was refused."""
    log, numbers = Log(), [(1, 3, 4, 2), (1, 6, 6, 3), (1, 7, 7, REFUSED), (1, 8, 8, 1)]
    record_accepted(log, {transfer_of(Delivery.TRANSACTIONAL): numbers}, 9)
    assert [(one["first"], one["last"], one["count"]) for one in log] == [(3, 6, 5), (8, 8, 1)]


def test_rejections_and_order_acks_name_their_stream() -> None:
    log, stream = Log(), transfer_of(Delivery.TRANSACTIONAL)
    header = SequenceHeader(ORIGIN, 3, 1, 5, 4, "q", False, b"")
    record_rejected(log, header, Delivery.TRANSACTIONAL, "queue-full", 9)
    stream.acked = (1, 4)
    record_order_ack(log, stream, b"p" * 16, 9)
    assert [(one["stream"], one["sequence"], one["number"]) for one in log] == [(3, 1, 5), (3, 1, 4)]
    assert (log[0]["reason"], log[1]["peer"]) == ("queue-full", (b"p" * 16).hex())
