"""What a node knows of one incoming stream: how far it has come, and what is owed for it.

[MS-MQQB] 3.1.1.1.1 calls this an incoming transactional transfer; express and recoverable streams are kept beside them,
with a filter of duplicates in place of a position.
"""

from triack.base.commit import PositionRow
from triack.base.delivery import Delivery
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Position
from triack.ordering.settings import OrderSettings
from triack.queues.link import Conversation

__all__ = ["Arrival", "IncomingTransfer"]

Arrival = tuple[Conversation, int]
"""By which conversation a packet came, and its number there."""


class IncomingTransfer:
    """One incoming stream, named for ever by the id of its origin and the origin's number of the lane.

    Attributes:
        sequence: its position, if it is transactional.
        filter: its duplicate filter, if it is not.
        acked: what the last order ack said.
        via: the conversation that its newest packet came by.
    """

    __slots__ = ("acked", "delivery", "filter", "lane", "origin", "queue", "sequence", "via")

    def __init__(self, origin: bytes, lane: int, queue: str, delivery: Delivery, settings: OrderSettings) -> None:
        self.origin = origin
        self.lane = lane
        self.queue = queue
        self.delivery = delivery
        self.sequence: IncomingSequence[Arrival] = IncomingSequence(settings)
        self.filter = DuplicateFilter()
        self.acked: Position = (0, 0)
        self.via: Conversation | None = None

    @classmethod
    def restore(cls, row: PositionRow, settings: OrderSettings) -> "IncomingTransfer":
        """Take what the store has.

        Raises:
            StoreDamaged: the filter in it is none.
        """
        transfer = cls(row.origin, row.lane, row.queue, Delivery(row.delivery), settings)
        if transfer.ordered:
            transfer.sequence = IncomingSequence(settings, (row.sequence, row.number))
        else:
            transfer.filter = DuplicateFilter.decode(row.filter)
        return transfer

    @property
    def ordered(self) -> bool:
        """Whether it is a sequence with positions."""
        return self.delivery is Delivery.TRANSACTIONAL

    @property
    def owes_ack(self) -> bool:
        """Whether an order ack is due that says something new, or was asked for, and whose commit has returned."""
        sequence = self.sequence
        all_committed = sequence.committed == sequence.position
        return sequence.ack.due and sequence.committed != (0, 0) and (all_committed or sequence.committed > self.acked)

    def row(self) -> PositionRow:
        """Its state as the store keeps it."""
        sequence, number = self.sequence.position if self.ordered else (self.filter.sequence, 0)
        blob = b"" if self.ordered else self.filter.encode()
        return PositionRow(self.origin, self.lane, self.delivery, self.queue, sequence, number, blob)
