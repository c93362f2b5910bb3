"""State of one incoming stream: its position, and the acknowledgements that it owes.

[MS-MQQB] 3.1.1.1.1 calls this an incoming transactional stream. Express and recoverable streams are kept alike, with a
duplicate filter in place of a position.
"""

from collections.abc import Iterator
from struct import Struct

from triack.base.ack_debt import AckState
from triack.base.commit import PositionRow
from triack.base.delivery import Delivery, default_priority
from triack.base.errors import StoreDamaged
from triack.base.names import StreamId, composed
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Position
from triack.ordering.order_ack import AckWait, wait_of
from triack.ordering.order_settings import OrderSettings
from triack.ordering.rejections import Rejections
from triack.ordering.wire import RelayedHeader, SequenceHeader
from triack.queues.peers.link import Conversation

_LENGTH = Struct("!I")

HELD_BYTES = 512
"""Memory of an out-of-order packet without its body, measured."""
GAP_BYTES = 128
"""The same for one range between two gaps."""

Arrival = tuple[Conversation, int]
"""The conversation that a packet came by, and its number there."""

_NO_SEQUENCE: IncomingSequence[Arrival] = IncomingSequence(OrderSettings())
"""Shared placeholder of streams without positions, which is never changed; a stream has a sequence or a filter."""
_NO_FILTER = DuplicateFilter()
_NOTHING_SEEN = _LENGTH.pack(0) + _NO_FILTER.encode()


def new_row(header: SequenceHeader, queue: str, delivery: Delivery) -> PositionRow:
    """The row of a stream that begins with a packet."""
    seen = b"" if delivery is Delivery.TRANSACTIONAL else _NOTHING_SEEN
    return PositionRow(header.origin, header.stream, delivery, queue, header.sequence, 0, seen)


def _split(blob: bytes) -> tuple[bytes, bytes]:
    """The rejections and the filter of a stream without positions, as its row keeps them."""
    if len(blob) < _LENGTH.size:
        raise StoreDamaged("incoming stream: too short")
    at = _LENGTH.size + _LENGTH.unpack_from(blob)[0]
    return blob[_LENGTH.size : at], blob[at:]


class IncomingStream:
    """One incoming stream, named by the id of its origin and the origin's number of the stream.

    Args:
        row: it as the store keeps it, or will.

    Raises StoreDamaged if the row holds no valid filter.

    Attributes:
        ordered: whether it is transactional, a sequence with positions.
        sequence: its position, if it is ordered; else ``filter`` finds duplicates.
        may_send: whether its origin may send to the queue; None before the first check.
        acked: the position in the last order ack or accept.
        acked_at_ns: when the last order ack left, by the monotonic clock; 0 for none in this process.
        via: the conversation that its newest packet came by; None when that has ended.
        heard: whether any packet has come since the start of this node.
        early_bytes: memory of its out-of-order packets and gaps at the last count.
        begun: the sequence that it began with, or had at the start.
        has_ended: whether its origin has said that it ended; the next commits forget it.
        relay: the neighbour that brings its packets, by name; empty when their origin itself sends them.
        from_name: the name of its origin where a relay has passed them first; empty without a relay.
        rejected: packets that were not accepted since the last one that was, duplicates among them.
        announces_bytes: the size of the large body that its last packet announces, while that waits for room.
        sealed: whether its packets come sealed: then it accepts no others.
        refused_from: the lowest number on the disk as rejected, or None; after a crash it is rejected again.
        ack_wait: how long order acks may wait, as its origin has stated it; None when it has not.
    """

    __slots__ = (
        "ack_wait",
        "acked",
        "acked_at_ns",
        "announces_bytes",
        "begun",
        "delivery",
        "early_bytes",
        "filter",
        "from_name",
        "has_ended",
        "heard",
        "id",
        "may_send",
        "number",
        "ordered",
        "origin",
        "priority",
        "queue",
        "refused_from",
        "rejected",
        "rejections",
        "relay",
        "sealed",
        "sequence",
        "via",
    )

    def __init__(self, row: PositionRow, settings: OrderSettings) -> None:
        self.id = StreamId(row.origin, row.stream)
        self.origin = row.origin
        self.number = row.stream
        self.queue = row.queue
        self.delivery = Delivery(row.delivery)
        self.ordered = self.delivery is Delivery.TRANSACTIONAL
        if self.ordered:
            position = (row.sequence, row.number) if row.number else (0, 0)
            self.sequence, self.filter = IncomingSequence[Arrival](settings, position), _NO_FILTER
            self.rejections = Rejections.decode(row.filter)
        else:
            rejections, seen = _split(row.filter)
            self.sequence, self.filter = _NO_SEQUENCE, DuplicateFilter.decode(seen)
            self.rejections = Rejections.decode(rejections)
        self.may_send: bool | None = None
        self.acked: Position = (0, 0)
        self.acked_at_ns = 0
        self.via: Conversation | None = None
        self.heard = False
        self.priority = default_priority(self.delivery)
        self.early_bytes = 0
        self.begun = row.sequence
        self.has_ended = False
        self.relay, self.from_name, self.sealed = row.via, row.from_name, bool(row.sealed)
        self.announces_bytes = 0
        self.refused_from = self.rejections.lowest if self.ordered else None
        self.rejected = 0
        self.ack_wait: AckWait | None = None

    @property
    def current(self) -> int:
        """The newest sequence with an accepted packet, or that it began with: express ones continue in it."""
        return max(self.begun, self.sequence.position[0] if self.ordered else self.filter.sequence)

    def is_of(self, header: SequenceHeader, delivery: Delivery) -> bool:
        """Whether a packet belongs to this stream, by its header, and the stream has not ended."""
        same = self.delivery is delivery and self.begun == header.sequence and not self.has_ended
        return same and (self.queue == header.queue or self.queue == composed(header.queue))

    def is_fresh(self, header: SequenceHeader) -> bool:
        """Whether a packet was neither accepted nor rejected before."""
        return self.sequence.is_fresh(header) if self.ordered else self.filter.is_fresh(header)

    def has_taken(self, header: SequenceHeader) -> bool:
        """Whether a packet of that number was accepted, and is on the disk with the next commit, or was before."""
        if self.rejections.reason_of(header) is not None:
            return False
        if self.ordered:
            return self.sequence.has_accepted(header)
        return not self.filter.is_fresh(header) and not self.filter.has_skipped(header)

    def has_passed(self, header: SequenceHeader) -> bool:
        """Whether a packet was given up by its origin before it came, and is not waited for any more."""
        return self.sequence.has_passed(header) if self.ordered else self.filter.has_skipped(header)

    def is_too_early(self, header: SequenceHeader, *, crowded: bool) -> bool:
        """Whether a new packet would exceed the limit of gaps or rejections.

        ``crowded``: whether its origin has no memory left for either in any stream.
        """
        if self.rejections.refused and (crowded or self.rejections.full):
            return True
        if self.ordered:
            return crowded and not self.sequence.is_next(header)
        return (crowded or self.filter.full) and self.filter.opens_gap(header)

    def agree(self, conversation: Conversation, header: SequenceHeader) -> None:
        """Its order acks may wait for as long as its origin states: the neighbour itself, or a node behind relays."""
        wait = conversation.ack_wait
        if type(header) is RelayedHeader and header.origin != conversation.peer_id:
            # A relay that has started anew says nothing of packets that waited there: what is known holds.
            wait = wait_of(header.ack_wait) or self.ack_wait
        if self.ordered and wait != self.ack_wait:
            self.ack_wait = wait
            self.sequence.ack.agree(wait)

    def handle_heard(self, conversation: Conversation, priority: int) -> None:
        """A packet of it, of that priority, has arrived by a conversation."""
        self.via = conversation
        self.priority = priority
        self.heard = True

    @property
    def side(self) -> str | bytes:
        """Where its acknowledgements go: the relay, by name, or the origin itself, by its id."""
        return self.relay or self.origin

    @property
    def out_of_order_bytes(self) -> int:
        """Memory of out-of-order packets, gaps and rejections."""
        if self.ordered and not self.rejections.refused and not self.sequence.held:
            return 0
        known = len(self.rejections) + (0 if self.ordered else self.filter.gaps)
        return self.sequence.held_bytes + HELD_BYTES * self.sequence.held + GAP_BYTES * known

    @property
    def claimable(self) -> Position:
        """The position up to which an order ack may acknowledge now.

        Its origin regards what it covers as delivered, and forgets it. So it stops before rejections that the origin
        may not know of, and before those still on the disk, which nothing would settle after a crash.
        """
        if self.refused_from is None and not self.rejections.refused:
            return self.sequence.committed
        sequence, number = self.sequence.committed
        for lowest in (self.rejections.lowest, self.refused_from):
            if lowest is not None:
                number = min(number, lowest - 1)
        return sequence, number

    @property
    def owes_ack(self) -> bool:
        """Whether an order ack is due, and all is committed or it would acknowledge more than the last one."""
        sequence = self.sequence
        if sequence.ack.state is not AckState.DUE:
            return False
        claimable = self.claimable
        return claimable[1] > 0 and (sequence.committed == sequence.position or claimable > self.acked)

    def unwanted(self, header: SequenceHeader) -> tuple[int, int]:
        """The first and last number that its origin has given up, by a packet's header; the range may be empty.

        In an ordered stream ``previous`` is the last number before this one that is still wanted; in another stream, it
        is the last number that is not.
        """
        return (header.previous + 1, header.number - 1) if self.ordered else (1, header.previous)

    def forget_unwanted(self, header: SequenceHeader) -> bool:
        """Forget the rejections of packets that its origin has given up, by a packet's header.

        Returns whether there were any: the disk must forget them, too.
        """
        return bool(self.rejections) and self.rejections.forget_unwanted(header.sequence, *self.unwanted(header))

    def handle_committed(self, row: PositionRow) -> None:
        """The state in ``row`` is on the disk."""
        if not self.ordered:
            return
        before, self.refused_from = self.refused_from, Rejections.decode(row.filter).lowest if row.filter else None
        self.sequence.handle_committed((row.sequence, row.number))
        if before is not None and before != self.refused_from:
            # Numbers after that rejection may be acknowledged now.
            self.sequence.ack.handle_request()

    def row(self) -> PositionRow:
        """Its state as the store keeps it."""
        sequence, number = self.sequence.position if self.ordered else (self.filter.sequence, 0)
        blob = self.rejections.encode()
        if not self.ordered:
            blob = _LENGTH.pack(len(blob)) + blob + self.filter.encode()
        way = self.relay, self.from_name, int(self.sealed)
        return PositionRow(self.origin, self.number, self.delivery, self.queue, sequence, number, blob, *way)


class IncomingStreams:
    """All incoming streams: by origin and number, and by the relay that brings them."""

    def __init__(self) -> None:
        self._by_origin: dict[bytes, dict[int, IncomingStream]] = {}
        self._by_relay: dict[str, dict[IncomingStream, None]] = {}

    def __iter__(self) -> Iterator[IncomingStream]:
        return (stream for streams in self._by_origin.values() for stream in streams.values())

    def find(self, origin: bytes, number: int) -> IncomingStream | None:
        """A stream, or None."""
        if origin not in self._by_origin or number not in self._by_origin[origin]:
            return None
        return self._by_origin[origin][number]

    def of(self, origin: bytes) -> list[IncomingStream]:
        """The streams of an origin."""
        return list(self._by_origin.get(origin, {}).values())

    def by(self, peer_id: bytes, name: str) -> list[IncomingStream]:
        """The streams that a neighbour sends, and those that it brings."""
        return [*(stream for stream in self.of(peer_id) if not stream.relay), *self._by_relay.get(name, ())]

    def add(self, stream: IncomingStream) -> bool:
        """Add a stream. Returns False if it takes the place of another one of its number."""
        streams = self._by_origin.setdefault(stream.origin, {})
        before = streams.get(stream.number)
        if before is not None:
            self._leave(before)
        streams[stream.number] = stream
        self.bring(stream, stream.relay)
        return before is None

    def bring(self, stream: IncomingStream, relay: str) -> None:
        """A neighbour brings a stream from now on; empty: its origin itself sends it."""
        self._leave(stream)
        stream.relay = relay
        if relay:
            self._by_relay.setdefault(relay, {})[stream] = None

    def _leave(self, stream: IncomingStream) -> None:
        brought = self._by_relay.get(stream.relay, {})
        brought.pop(stream, None)
        if not brought:
            self._by_relay.pop(stream.relay, None)

    def remove(self, stream: IncomingStream) -> bool:
        """Remove a stream. Returns whether it was the last one of its origin."""
        self._leave(stream)
        streams = self._by_origin[stream.origin]
        del streams[stream.number]
        if not streams:
            del self._by_origin[stream.origin]
        return not streams
