"""Session log records of incoming streams (docs/session-log.md). Formatting only."""

from triack.base.commit import PositionRow
from triack.base.delivery import LABELS, Delivery
from triack.base.session_log import Record, record_nothing
from triack.ordering.wire import SequenceHeader
from triack.queues.mailboxes.handed import said_priority
from triack.queues.mailboxes.system_queues import counted_in
from triack.queues.streams.group_commit import AcceptedRun, fold
from triack.queues.streams.incoming_stream import IncomingStream


def record_recovered(record: Record, row: PositionRow, stream: IncomingStream, now_ns: int) -> None:
    """A stream was found on the disk."""
    where: dict[str, object] = {"number": row.number} if stream.ordered else {"ranges": stream.filter.ranges}
    record(
        "position_recovered",
        now_ns,
        origin=row.origin.hex(),
        stream=row.stream,
        sequence=row.sequence,
        **where,
        **{"class": LABELS[stream.delivery]},
    )


def record_forgotten(record: Record, stream: IncomingStream, sequence: int, now_ns: int) -> None:
    """A stream has ended, and the next commit forgets it."""
    record(
        "stream_forgotten",
        now_ns,
        origin=stream.origin.hex(),
        stream=stream.number,
        sequence=sequence,
        **{"class": LABELS[stream.delivery]},
    )


def record_rejected(record: Record, header: SequenceHeader, delivery: Delivery, reason: str, now_ns: int) -> None:
    """A packet was not accepted."""
    record(
        "rejected",
        now_ns,
        origin=header.origin.hex(),
        stream=header.stream,
        sequence=header.sequence,
        number=header.number,
        reason=reason,
        **{"class": LABELS[delivery]},
    )


def record_accepted(record: Record, accepted: dict[IncomingStream, list[AcceptedRun]], now_ns: int) -> None:
    """Packets are in the queues for good."""
    if record is record_nothing:
        return
    for stream, numbers in accepted.items():
        for sequence, first, last, count in fold(numbers, bridge=stream.ordered):
            record(
                "committed",
                now_ns,
                origin=stream.origin.hex(),
                stream=stream.number,
                sequence=sequence,
                first=first,
                last=last,
                count=counted_in(stream.queue, count),
                queue=stream.queue,
                **{"class": LABELS[stream.delivery]},
                **said_priority(stream.delivery, stream.priority),
            )


def record_order_ack(record: Record, stream: IncomingStream, peer_id: bytes, now_ns: int) -> None:
    """An order ack for ``stream.acked`` has left."""
    sequence, number = stream.acked
    record(
        "order_ack_sent",
        now_ns,
        origin=stream.origin.hex(),
        stream=stream.number,
        sequence=sequence,
        number=number,
        peer=peer_id.hex(),
    )
