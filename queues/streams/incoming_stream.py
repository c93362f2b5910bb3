"""What a node knows of one incoming stream: how far it has come, and what is owed for it.

[MS-MQQB] 3.1.1.1.1 calls this an incoming transactional stream; express and recoverable streams are kept beside them,
with a filter of duplicates in place of a position.
"""

from struct import Struct

from triack.base.commit import PositionRow
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.names import StreamId
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Position
from triack.ordering.order_settings import OrderSettings
from triack.ordering.rejections import Rejections
from triack.ordering.wire import SequenceHeader
from triack.queues.peers.link import Conversation

__all__ = ["Arrival", "IncomingStream"]

_LENGTH = Struct("!I")

HELD_BYTES = 512
"""What a packet that came too early takes in memory beside its body, measured."""
GAP_BYTES = 128
"""The same for what is remembered between two gaps."""

Arrival = tuple[Conversation, int]
"""By which conversation a packet came, and its number there."""

_NO_SEQUENCE: IncomingSequence[Arrival] = IncomingSequence(OrderSettings())
"""What streams without positions have in common, and nothing is ever given to; a stream has either this or a filter."""
_NO_FILTER = DuplicateFilter()
"""The same for streams that have positions."""


class IncomingStream:
    """One incoming stream, named for ever by the id of its origin and the origin's number of the stream.

    Attributes:
        ordered: whether it is transactional, a sequence with positions.
        sequence: its position, if it is.
        filter: its duplicate filter, if it is not.
        rejections: what was refused of it, and its origin may not know yet.
        may_send: whether its origin may send to the queue; None while nobody has asked.
        acked: what the last order ack said, or an accept.
        via: the conversation that its newest packet came by; None when that is over.
        heard: whether any packet has come since the start of this node.
        turn: how often its origin was told to stop, or to go on; odd while it is to stop.
        early_bytes: what is out of order took so much memory when it was counted last.
        begun: the sequence that it began with, or had at the start.
        has_ended: whether its origin has said that it ended; the next commits forget it.
        refused_from: the lowest number that the disk has as refused, or None: after a crash it is refused again.
    """

    __slots__ = (
        "acked",
        "begun",
        "delivery",
        "early_bytes",
        "filter",
        "has_ended",
        "heard",
        "may_send",
        "number",
        "ordered",
        "origin",
        "queue",
        "refused_from",
        "rejections",
        "sequence",
        "turn",
        "via",
    )

    def __init__(
        self, origin: bytes, stream: int, queue: str, delivery: Delivery, settings: OrderSettings, begun: int = 0
    ) -> None:
        self.origin = origin
        self.number = stream
        self.queue = queue
        self.delivery = delivery
        self.ordered = delivery is Delivery.TRANSACTIONAL
        self.sequence = IncomingSequence[Arrival](settings) if self.ordered else _NO_SEQUENCE
        self.filter = _NO_FILTER if self.ordered else DuplicateFilter()
        self.rejections = Rejections()
        self.may_send: bool | None = None
        self.acked: Position = (0, 0)
        self.via: Conversation | None = None
        self.heard = False
        self.turn = 0
        self.early_bytes = 0
        self.begun = begun
        self.has_ended = False
        self.refused_from: int | None = None

    @classmethod
    def restore(cls, row: PositionRow, settings: OrderSettings) -> "IncomingStream":
        """Take what the store has.

        Raises:
            StoreDamaged: the filter in it is none.
        """
        stream = cls(row.origin, row.stream, row.queue, Delivery(row.delivery), settings, row.sequence)
        if stream.ordered:
            stream.sequence = IncomingSequence(settings, (row.sequence, row.number))
            stream.rejections = Rejections.decode(row.filter)
            stream.refused_from = stream.rejections.lowest
            return stream
        if len(row.filter) < _LENGTH.size:
            raise StoreDamaged("incoming stream: too short")
        at = _LENGTH.size + _LENGTH.unpack_from(row.filter)[0]
        stream.rejections = Rejections.decode(row.filter[_LENGTH.size : at])
        stream.filter = DuplicateFilter.decode(row.filter[at:])
        return stream

    @property
    def stopped(self) -> bool:
        """Whether its origin was told to wait."""
        return bool(self.turn & 1)

    def is_of(self, header: SequenceHeader, delivery: Delivery) -> bool:
        """Whether a packet is one of this stream, for all that its header says, and the stream goes on."""
        same = (self.queue, self.delivery, self.begun) == (header.queue, delivery, header.sequence)
        return same and not self.has_ended

    def is_fresh(self, header: SequenceHeader) -> bool:
        """Whether a packet was neither taken nor refused before."""
        return self.sequence.is_fresh(header) if self.ordered else self.filter.is_fresh(header)

    def is_too_early(self, header: SequenceHeader, *, crowded: bool) -> bool:
        """Whether a fresh packet would make one gap, or refusal, more than are remembered.

        Args:
            header: the packet.
            crowded: whether its origin has no memory left for such things in any stream.
        """
        if self.rejections.full or (crowded and self.rejections):
            return True
        if self.ordered:
            return crowded and not self.sequence.is_next(header)
        return (crowded or self.filter.full) and self.filter.opens_gap(header)

    def handle_heard(self, conversation: Conversation) -> None:
        """A packet has come."""
        self.via = conversation
        self.heard = True

    @property
    def out_of_order_bytes(self) -> int:
        """Memory for what came too early, and for what is known of gaps."""
        known = len(self.rejections) + (0 if self.ordered else self.filter.gaps)
        return self.sequence.held_bytes + HELD_BYTES * self.sequence.held + GAP_BYTES * known

    @property
    def claimable(self) -> Position:
        """How far an order ack may speak now.

        What it covers is delivered, for its origin: so it stops before what was refused and the origin may not know of,
        and before what the disk still has as refused: the origin forgets what is covered, so that nothing would settle
        it again after a crash.
        """
        sequence, number = self.sequence.committed
        for lowest in (self.rejections.lowest, self.refused_from):
            if lowest is not None:
                number = min(number, lowest - 1)
        return sequence, number

    @property
    def owes_ack(self) -> bool:
        """Whether an order ack is due that says something new, or was asked for, and whose commit has returned."""
        sequence, claimable = self.sequence, self.claimable
        all_committed = sequence.committed == sequence.position
        return sequence.ack.due and claimable[1] > 0 and (all_committed or claimable > self.acked)

    def unwanted(self, header: SequenceHeader) -> tuple[int, int]:
        """The first and last number that its origin wants no more, as a packet shows; there may be none between them.

        An ordered stream names the packet before that is still wanted; another one all that is not.
        """
        return (header.previous + 1, header.number - 1) if self.ordered else (1, header.previous)

    def forget_unwanted(self, header: SequenceHeader) -> bool:
        """See from a packet what its origin wants no more, and forget that it was refused.

        Returns:
            Whether something was: the disk is to forget it, too.
        """
        return bool(self.rejections) and self.rejections.forget_unwanted(header.sequence, *self.unwanted(header))

    def handle_committed(self, row: PositionRow) -> None:
        """Its state, as ``row`` made it, is on the disk."""
        if not self.ordered:
            return
        before, self.refused_from = self.refused_from, Rejections.decode(row.filter).lowest
        self.sequence.handle_committed((row.sequence, row.number))
        if before is not None and before != self.refused_from:
            # What was held back by it may be said now.
            self.sequence.ack.handle_request()

    @property
    def id(self) -> StreamId:
        """Which stream it is."""
        return StreamId(self.origin, self.number)

    def row(self) -> PositionRow:
        """Its state as the store keeps it."""
        sequence, number = self.sequence.position if self.ordered else (self.filter.sequence, 0)
        blob = self.rejections.encode()
        if not self.ordered:
            blob = _LENGTH.pack(len(blob)) + blob + self.filter.encode()
        return PositionRow(self.origin, self.number, self.delivery, self.queue, sequence, number, blob)
