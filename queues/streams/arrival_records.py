"""What the session log says of incoming streams (docs/session-log.md). Formatting only."""

from collections.abc import Callable

from triack.base.commit import PositionRow
from triack.base.delivery import Delivery
from triack.ordering.wire import SequenceHeader
from triack.queues.streams.group_commit import AcceptedRun, fold
from triack.queues.streams.incoming_transfer import IncomingTransfer

__all__ = ["Record", "record_accepted", "record_forgotten", "record_order_ack", "record_recovered", "record_rejected"]

Record = Callable[..., None]
"""Writes to the session log: ``record(event, now_ns, **fields)``."""


def record_recovered(record: Record, row: PositionRow, transfer: IncomingTransfer, now_ns: int) -> None:
    """A stream was found on the disk."""
    where: dict[str, object] = {"number": row.number} if transfer.ordered else {"ranges": transfer.filter.ranges}
    record(
        "position_recovered",
        now_ns,
        origin=row.origin.hex(),
        lane=row.lane,
        sequence=row.sequence,
        **where,
        **{"class": transfer.delivery.label},
    )


def record_forgotten(record: Record, transfer: IncomingTransfer, sequence: int, now_ns: int) -> None:
    """A stream has ended, and the next commit forgets it."""
    record(
        "stream_forgotten",
        now_ns,
        origin=transfer.origin.hex(),
        lane=transfer.lane,
        sequence=sequence,
        **{"class": transfer.delivery.label},
    )


def record_rejected(record: Record, header: SequenceHeader, delivery: Delivery, reason: str, now_ns: int) -> None:
    """A packet was not accepted."""
    record(
        "rejected",
        now_ns,
        origin=header.origin.hex(),
        lane=header.lane,
        sequence=header.sequence,
        number=header.number,
        reason=reason,
        **{"class": delivery.label},
    )


def record_accepted(record: Record, accepted: dict[IncomingTransfer, list[AcceptedRun]], now_ns: int) -> None:
    """Packets are in the queues for good."""
    for transfer, numbers in accepted.items():
        for sequence, first, last, count in fold(numbers, bridge=transfer.ordered):
            record(
                "committed",
                now_ns,
                origin=transfer.origin.hex(),
                lane=transfer.lane,
                sequence=sequence,
                first=first,
                last=last,
                count=count,
                queue=transfer.queue,
                **{"class": transfer.delivery.label},
            )


def record_order_ack(record: Record, transfer: IncomingTransfer, peer_id: bytes, now_ns: int) -> None:
    """An order ack has left; what it says is ``transfer.acked``."""
    sequence, number = transfer.acked
    record(
        "order_ack_sent",
        now_ns,
        origin=transfer.origin.hex(),
        lane=transfer.lane,
        sequence=sequence,
        number=number,
        peer=peer_id.hex(),
    )
