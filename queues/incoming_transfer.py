"""What a node knows of one incoming stream: how far it has come, and what is owed for it.

[MS-MQQB] 3.1.1.1.1 calls this an incoming transactional transfer; express and recoverable streams are kept beside them,
with a filter of duplicates in place of a position.
"""

from struct import Struct

from triack.base.commit import PositionRow
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Position
from triack.ordering.rejections import Rejections
from triack.ordering.settings import OrderSettings
from triack.ordering.wire import SequenceHeader
from triack.queues.link import Conversation

__all__ = ["Arrival", "IncomingTransfer"]

_LENGTH = Struct("!I")

Arrival = tuple[Conversation, int]
"""By which conversation a packet came, and its number there."""


class IncomingTransfer:
    """One incoming stream, named for ever by the id of its origin and the origin's number of the lane.

    Attributes:
        sequence: its position, if it is transactional.
        filter: its duplicate filter, if it is not.
        rejections: what was refused of it, and its origin may not know yet.
        may_send: whether its origin may send to the queue; None while nobody has asked.
        acked: what the last order ack said.
        via: the conversation that its newest packet came by.
        turn: how often its origin was told to stop, or to go on; odd while it is to stop.
        early_bytes: of the packets that came too early, as they were counted last.
    """

    __slots__ = (
        "acked",
        "delivery",
        "early_bytes",
        "filter",
        "lane",
        "may_send",
        "origin",
        "queue",
        "rejections",
        "sequence",
        "turn",
        "via",
    )

    def __init__(self, origin: bytes, lane: int, queue: str, delivery: Delivery, settings: OrderSettings) -> None:
        self.origin = origin
        self.lane = lane
        self.queue = queue
        self.delivery = delivery
        self.sequence: IncomingSequence[Arrival] = IncomingSequence(settings)
        self.filter = DuplicateFilter()
        self.rejections = Rejections()
        self.may_send: bool | None = None
        self.acked: Position = (0, 0)
        self.via: Conversation | None = None
        self.turn = 0
        self.early_bytes = 0

    @classmethod
    def restore(cls, row: PositionRow, settings: OrderSettings) -> "IncomingTransfer":
        """Take what the store has.

        Raises:
            StoreDamaged: the filter in it is none.
        """
        transfer = cls(row.origin, row.lane, row.queue, Delivery(row.delivery), settings)
        if transfer.ordered:
            transfer.sequence = IncomingSequence(settings, (row.sequence, row.number))
            transfer.rejections = Rejections.decode(row.filter)
            return transfer
        if len(row.filter) < _LENGTH.size:
            raise StoreDamaged("incoming stream: too short")
        at = _LENGTH.size + _LENGTH.unpack_from(row.filter)[0]
        transfer.rejections = Rejections.decode(row.filter[_LENGTH.size : at])
        transfer.filter = DuplicateFilter.decode(row.filter[at:])
        return transfer

    @property
    def ordered(self) -> bool:
        """Whether it is a sequence with positions."""
        return self.delivery is Delivery.TRANSACTIONAL

    @property
    def stopped(self) -> bool:
        """Whether its origin was told to wait."""
        return bool(self.turn & 1)

    def is_fresh(self, header: SequenceHeader) -> bool:
        """Whether a packet was neither taken nor refused before."""
        return self.sequence.is_fresh(header) if self.ordered else self.filter.is_fresh(header)

    @property
    def claimable(self) -> Position:
        """How far an order ack may speak now.

        What it covers is delivered, for its origin: so it stops before what was refused and the origin may not know of.
        """
        sequence, number = self.sequence.committed
        lowest = self.rejections.lowest
        return (sequence, number) if lowest is None else (sequence, min(number, lowest - 1))

    @property
    def owes_ack(self) -> bool:
        """Whether an order ack is due that says something new, or was asked for, and whose commit has returned."""
        sequence, claimable = self.sequence, self.claimable
        all_committed = sequence.committed == sequence.position
        return sequence.ack.due and claimable[1] > 0 and (all_committed or claimable > self.acked)

    def settle(self, header: SequenceHeader) -> None:
        """See from a packet what its origin wants no more, and forget that it was refused."""
        # An ordered stream names the packet before that is still wanted; another one all that is not.
        first = header.previous + 1 if self.ordered else 0
        last = header.number - 1 if self.ordered else header.previous
        if self.rejections and self.rejections.settle(header.sequence, first, last) and self.ordered:
            self.sequence.ack.handle_request()

    def row(self) -> PositionRow:
        """Its state as the store keeps it."""
        sequence, number = self.sequence.position if self.ordered else (self.filter.sequence, 0)
        blob = self.rejections.encode()
        if not self.ordered:
            blob = _LENGTH.pack(len(blob)) + blob + self.filter.encode()
        return PositionRow(self.origin, self.lane, self.delivery, self.queue, sequence, number, blob)
