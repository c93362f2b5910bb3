"""One stream of another node that passes through this one: where it comes from and goes, and what of it is stored."""

from collections.abc import Iterable

from triack.base.commit import HEAD_BYTES, TransitIndex, TransitRow, TransitStreamRow, key_of
from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.base.ranges import Range, as_ranges, joined
from triack.ordering.transit import TransitPacket, TransitSequence
from triack.ordering.wire import MARK_BYTES, RelayedHeader, SequenceHeader, encode_relayed_run, passing
from triack.queues.body_head import fragment_range, priority_of
from triack.queues.peers.link import Conversation
from triack.queues.streams.departing_stream import DepartingContext, DepartingStream, relayed_packets
from triack.session.protocol.frames import Ask

PURGED_MAX = 256
"""Runs of numbers that one stream remembers as removed by an operator: what waits is a few runs."""

GAP_REPEATS = 3
"""This many order acks in a row that say nothing new show a gap."""


class TransitStream(DepartingStream[TransitSequence]):
    """One stream in transit.

    Args:
        row: it as the store keeps it, or will.

    Attributes:
        number: of this node for it.
        final: its destination, as its neighbour has named it.
        from_name: the name of its origin where it was relayed first.
        came_by: the neighbour that it comes by, by name.
        trace: the relays that its packets here have passed.
        ordered: everything up to this number has an order ack of the destination.
        repeats: how many order acks have said nothing new since the next hop last accepted a packet.
        judged_by: the conversation that may send it here, as of the last check; None before the next one.
        noted: the neighbour that was noted last as its way back.
        held: why the next hop lets it wait; empty if it does not.
        leaving: how many times packets have left that the disk still has: the commits that delete them have not
            returned.
        messages: number of messages that are stored here; ``size_bytes`` of the packets that hold them.
        away_bytes: memory for packets that only the disk has, as it is charged.
        awaited: whether its neighbour waits for the report that packets were passed on, as its last packet said.
        purged: the numbers of packets that an operator has removed, whose origin may have resent them before it knew.
        ack_wait: how long order acks may wait, as its origin last said in the header of a packet.
    """

    __slots__ = (
        "ack_wait",
        "awaited",
        "away_bytes",
        "came_by",
        "final",
        "from_name",
        "has_share",
        "held",
        "judged_by",
        "leaving",
        "messages",
        "noted",
        "number",
        "ordered",
        "purged",
        "repeats",
        "size_bytes",
        "trace",
    )

    def __init__(self, row: TransitStreamRow) -> None:
        sequence = TransitSequence(Delivery(row.delivery), row.sequence)
        # No origin uses the turns of another.
        turn_key = row.origin, row.final, row.queue
        super().__init__(StreamId(row.origin, row.stream), row.queue, row.priority, sequence, turn_key)
        self.number, self.final, self.from_name = row.id, row.final, row.from_name
        self.came_by, self.trace = row.via, row.trace
        sequence.highest, self.ordered = row.highest, row.ordered
        self.repeats = 0
        self.judged_by: Conversation | None = None
        self.noted = ""
        self.held = ""
        self.leaving = 0
        self.messages = 0
        self.size_bytes = self.away_bytes = 0
        self.has_share = False
        self.awaited = False
        self.purged: list[Range] = []
        self.ack_wait = 0

    def is_of(self, header: RelayedHeader, delivery: Delivery) -> bool:
        """Whether a packet belongs to this stream, by its header."""
        if self.priority != priority_of(header.body):
            return False
        return (self.queue, self.delivery, self.final) == (header.queue, delivery, header.final)

    def comes_as(self, conversation: Conversation, header: RelayedHeader) -> bool:
        """Whether a packet came the same way as those that are here.

        Only of such a one may a copy be a duplicate: passed on, it has passed one relay more. If it answered for a copy
        that came another way, that might answer for it in turn, where routes lead in a circle.
        """
        return (self.came_by, self.trace) == (conversation.link_name, header.trace)

    def handle_purged(self, numbers: Iterable[int]) -> None:
        """An operator has removed packets with these numbers: copies in flight are not accepted again."""
        self.purged = joined([*self.purged, *as_ranges(sorted(numbers))])[-PURGED_MAX:]

    def is_purged(self, sequence: int, number: int) -> bool:
        """Whether an operator has removed the packet of that number."""
        same = bool(self.purged) and sequence == self.sequence.sequence
        return same and any(first <= number <= last for first, last in self.purged)

    @property
    def has_gap(self) -> bool:
        """Whether the destination waits for a packet that is neither stored here nor said to wait behind the next hop.

        It was refused, and a relay has died before it passed that on: only the origin has it now. As in TCP (RFC 5681,
        section 3.2) three order acks in a row that say nothing new indicate that.
        """
        if self.repeats < GAP_REPEATS or not self.sequence.ordered:
            return False
        lowest = self.sequence.find(self.sequence.lowest)
        return lowest is not None and lowest.before > max(self.ordered, self.sequence.waits_until)

    def handle_order_ack(self, number: int) -> bool:
        """The destination has everything up to a number. Returns whether this shows a gap that was not known."""
        self.repeats = 0 if number > self.ordered else self.repeats + 1
        self.ordered = max(self.ordered, number)
        self.sequence.handle_order_ack(number)
        # Checked once, as a backlog may be long. If the next hop withdraws its statement later, that does the same.
        return self.repeats == GAP_REPEATS and self.has_gap

    def restore_packet(self, index: TransitIndex, place: int, came_ns: int) -> TransitPacket:
        """Restore a packet from its row in the store, without its body."""
        entry = TransitPacket(
            index.number, None, index.size_bytes, index.messages, index.previous, came_ns, reach_by_ms=index.left_by_ms
        )
        self.sequence.restore(entry, place)
        self.expect([entry])
        return entry

    # ---- time, and packets that only the disk has

    def may_expire(self, entry: TransitPacket) -> bool:
        """Whether a packet ends when its time has ended.

        An express one that is part of a large message ends with the others, and some of them may have left.
        """
        if self.durable:
            return True
        body = entry.body or b""
        return fragment_range(body[:HEAD_BYTES], len(body)) is None

    @property
    def next_expiry_ms(self) -> int | None:
        """When the next packet expires, by this node's wall clock, or None."""
        on_disk_ms, in_memory_ms = self.sequence.on_disk.earliest_ms, self.expiries.earliest()
        if on_disk_ms is None or in_memory_ms is None:
            return in_memory_ms if on_disk_ms is None else on_disk_ms
        return min(on_disk_ms, in_memory_ms)

    def row(self) -> TransitStreamRow:
        """It as the store keeps it."""
        ways, sequence = (self.final, self.from_name, self.came_by), self.sequence
        which, numbers = (int(self.delivery), sequence.sequence), (sequence.highest, self.ordered)
        return TransitStreamRow(self.number, *self.id, *which, self.queue, *ways, *numbers, self.priority, self.trace)

    def packet_row(self, entry: TransitPacket, body: bytes) -> TransitRow:
        """A packet as the store keeps it."""
        key = key_of(self.number, entry.place)
        return TransitRow(key, entry.number, entry.messages, entry.previous, entry.reach_by_ms, body)

    def keys_of(self, entries: Iterable[TransitPacket]) -> list[Range]:
        """The keys of packets in the store."""
        ranges = as_ranges(sorted([entry.place for entry in entries]))
        return [(key_of(self.number, first), key_of(self.number, last)) for first, last in ranges]

    def contents_of(
        self, run: list[TransitPacket], arrives_ms: int, *, passed_by: bytes, hurries: bool
    ) -> tuple[list[bytes], list[DepartingContext], list[int]]:
        """Contents, contexts and ``Ask`` of each of a run of packets that leave now and arrive at that time.

        ``passed_by``: this node. ``hurries``: its acks are awaited without any delay.
        """
        assert self.way is not None
        sequence = self.sequence
        previous = [sequence.previous_of(entry) for entry in run]
        asked = [entry.ack_requested or entry.sends > 0 for entry in run]
        packets = relayed_packets(run, previous, asked, [entry.body or b"" for entry in run], arrives_ms)
        first = SequenceHeader(*self.id, sequence.sequence, run[0].number, 0, self.queue, False, b"")
        awaited, trace = self.next_hop.awaited, passing(self.trace, passed_by)
        names = self.way.final, self.from_name
        contents = encode_relayed_run(first, *names, packets, trace=trace, awaited=awaited, ack_wait=self.ack_wait)
        contexts = self.contexts_of(run, previous, len(trace) // MARK_BYTES)
        asks = [int(entry.ack_requested) for entry in run]
        if hurries or sequence.start.credit is not None:
            # As at an origin: the stream stands still until these are accepted, and no ack delay is to be added.
            asks[-1] = asks[-1] or Ask.WITH_STORE
        return contents, contexts, asks

    @property
    def pausable(self) -> tuple[str, ...]:
        """The names of its destination by which an operator may pause it."""
        direct = self.via if self.way is not None and self.way.is_direct else ""
        return tuple(dict.fromkeys(name for name in (self.final, direct) if name))

    @property
    def destination(self) -> str:
        """Its destination as one text."""
        return f"{self.final}/{self.queue}"

    @property
    def awaits_order_ack(self) -> bool:
        """Whether its origin waits for an order ack of something that has been here."""
        return self.sequence.ordered and self.ordered < self.sequence.highest
