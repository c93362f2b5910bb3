"""One outgoing stream of this node: messages for one queue of one peer in one class, and of one priority.

It packs submitted messages into packets, gives them to the outgoing sequence, and tracks the stage of each message.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol

from triack.base.commit import HEAD_BYTES, OutgoingIndex, OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.names import TOPIC_PREFIX, StreamId
from triack.ordering.departing import StreamPacketState
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import OutgoingSequence, StreamPacket
from triack.ordering.wire import header_bytes, relayed_header_bytes
from triack.queues.body_head import SEALED_BYTES, sent_at_of
from triack.queues.messages import LargeMessage, Outgoing
from triack.queues.packing import PIECE_MIN_BYTES, PacketBody, pack
from triack.queues.routes import Way
from triack.queues.stages import Stage, StageTracker
from triack.queues.streams.departing_stream import DepartingStream, Seal
from triack.queues.streams.stream_state import StreamState

EXPRESS_LIMIT_BYTES = 16 * 1024 * 1024
"""Unacknowledged express bodies of one outgoing stream, which are only in memory: at the limit ``send`` waits. It is
more than a path of 1 Gbit/s carries in a tenth of a second, and little beside the memory of a process."""
ORDINALS_PER_START_BITS = 40
"""2^40 messages for each of 2^24 starts: message ids are never used twice."""
ORDINALS_BLOCK = 4_096
"""Ordinals that an outgoing stream allocates at a time, so that a message has its id immediately: enough for many
packets, and few compared with the ordinals of one start."""
Block = tuple[int, int]
"""A ticket, and how much greater the ordinals are of the messages from there on, up to the next block."""
_SIZE_OF = attrgetter("size_bytes")
_START = itemgetter(0)


class AckReader(Protocol):
    """Learns the outcomes of a stream's messages. ``is_full``: its senders must wait until it is read."""

    @property
    def is_full(self) -> bool:
        """See the class."""

    def handle_acked(self, ticket: int, messages: int, size_bytes: int, *, ack_requested: bool) -> None:
        """Messages were freed by the acknowledgement of their class."""

    def handle_failed(self, ticket: int, messages: int, reason: str) -> None:
        """Messages will not arrive."""


class Row(NamedTuple):
    """Messages that were submitted together: successive tickets, and successive ordinals."""

    ticket: int
    ordinal: int
    messages: int


class OutgoingStream(DepartingStream[OutgoingSequence]):
    """One outgoing stream.

    Args:
        origin: this node.
        row: it as the store keeps it, or will.
        content_bytes: largest packet content on the way there, until ``fit`` changes it.
        messages_per_packet: the most that a packet holds; None for as many as fit.
        way: the way to the peer; None for a queue of this node.

    Attributes:
        stream_number: unique in this node, and with the id of its sequence never used again.
        of_topic: whether its messages are published to topics below one root.
        peer: the peer that has the queue, by name; empty for a queue of this node.
        relayed: whether relays may have got packets of it.
        torn: see ``tear``.
        readers: the event readers that report the outcome of its messages.
        recovered: number of its messages that were restored at the start: an earlier process may have sent them.
        senders: number of senders in the middle of a list of messages, all of which is numbered in one stream; and of
            freed messages whose copies wait for their bodies, as their rows are in the store until then.
        dropped_until: parts of large bodies in packets with lower numbers are given up when their commit returns.
        cares: whether a message was packed, or restored, for which a node looks into its body (``messages.CARING``).
    """

    __slots__ = (
        "_blocks",
        "_body_bytes",
        "_messages_per_packet",
        "cares",
        "committing",
        "dropped_until",
        "life",
        "numbered",
        "of_topic",
        "peer",
        "pending",
        "pending_bytes",
        "readers",
        "recovered",
        "relayed",
        "senders",
        "stages",
        "stream_number",
        "submitted",
        "torn",
        "unacked_bytes",
    )

    def __init__(
        self,
        origin: bytes,
        row: OutgoingStreamRow,
        *,
        content_bytes: int,
        settings: OrderSettings,
        messages_per_packet: int | None = None,
        way: Way | None = None,
    ) -> None:
        sequence = OutgoingSequence(Delivery(row.delivery), row.sequence, row.next_number, settings)
        super().__init__(StreamId(origin, row.stream), row.queue, row.priority, sequence, (row.peer, row.queue))
        self.torn = bool(row.torn)
        self.way = way
        self.seal = Seal() if row.sealed else None
        self.relayed = bool(row.relayed) or (way is not None and not way.is_direct)
        self.stream_number, self.of_topic = row.stream, row.queue.startswith(TOPIC_PREFIX)
        self.peer = row.peer
        self.stages = StageTracker()
        self.readers: list[AckReader] = []
        self.pending: list[bytes | Outgoing] = []
        self.cares = False
        self.pending_bytes = 0
        self.submitted = 0
        self.numbered = 0
        self.recovered = 0
        self.life = StreamState.LIVE
        self.senders = 0
        self._blocks: list[Block] = []
        self.unacked_bytes = 0
        self.committing = self.dropped_until = 0
        self.fit(content_bytes)
        self._messages_per_packet = messages_per_packet

    def row(self) -> OutgoingStreamRow:
        """Its stream as the store keeps it."""
        where, sequence = (self.peer, self.queue, self.delivery), self.sequence
        numbers, more = (sequence.sequence, sequence.next_number), (self.priority, int(self.torn), int(self.sealed))
        return OutgoingStreamRow(self.stream_number, *where, *numbers, int(self.relayed), *more)

    def tear(self, entries: list[StreamPacket]) -> bool:
        """Note that a message ends here. Returns whether its destination may wait for the rest of it.

        Those pieces need room there until a later packet says that the others do not come. If there is none, the end of
        the stream says it, see ``queues.streams.retirement``.
        """
        first = entries[0]
        if first.whole is None or first.state is StreamPacketState.REJECTED:
            return False  # a destination that rejects a message has freed its pieces
        is_older = first.first_ticket < self.recovered
        self.torn = self.torn or is_older or any(entry.sends for entry in entries)
        return self.torn

    @property
    def key(self) -> tuple[str, str, Delivery, int, bool]:
        """What distinguishes it from all other outgoing streams of this node."""
        return self.peer, self.queue, self.delivery, self.priority, self.sealed

    @property
    def sealed(self) -> bool:
        """Whether its packets leave sealed."""
        return self.seal is not None

    def rename(self, peer: str) -> None:
        """The node that it goes to has another name from now on."""
        self.peer, self.turn_key = peer, (peer, self.queue)

    def go_by(self, way: Way | None) -> None:
        """See ``DepartingStream``."""
        if way is not None and way.via != self.via:
            former = self.next_hop.former
            self.next_hop.former = (*(name for name in former if name != way.via), self.via)
        super().go_by(way)
        self.relayed = self.relayed or (way is not None and not way.is_direct)

    def fit(self, content_bytes: int) -> None:
        """Limit the content of packets made from now on; existing packets stay as they are."""
        relayed = self.way is not None and not self.way.is_direct
        taken = relayed_header_bytes(self.queue, self.way.final) if relayed and self.way else header_bytes(self.queue)
        self._body_bytes = content_bytes - taken
        if self.seal is not None:
            # If the smallest piece of a large message is too large for a datagram then, its packet travels in several.
            self._body_bytes = max(self._body_bytes - SEALED_BYTES, HEAD_BYTES + PIECE_MIN_BYTES)

    def submit(self, message: bytes | Outgoing, size_bytes: int) -> int:
        """Accept a message. Returns its ticket."""
        self.pending.append(message)
        self.pending_bytes += size_bytes
        ticket = self.submitted
        self.submitted = ticket + 1
        if isinstance(message, LargeMessage):
            self._name(ticket, message.ordinal)
        return ticket

    def submit_many(self, messages: list[bytes | Outgoing], size_bytes: int) -> Row:
        """Accept messages for which ordinals were allocated."""
        assert self.submitted + len(messages) <= self.numbered
        self.pending += messages
        self.pending_bytes += size_bytes
        row = Row(self.submitted, self.ordinal_of(self.submitted), len(messages))
        self.submitted += len(messages)
        return row

    def number(self, first_ordinal: int, count: int) -> None:
        """Allocate ordinals for the next ``count`` messages; the earlier ones must be used up."""
        assert self.submitted == self.numbered
        offset = first_ordinal - self.numbered
        if not self._blocks or self._blocks[-1][1] != offset:
            self._begin_block(self.numbered, offset)
        self.numbered += count
        # What is acknowledged or given up has been reported.
        del self._blocks[: self._block_of(self.first_unsettled)]

    def _name(self, ticket: int, ordinal: int) -> None:
        """The message that was submitted last has a separate ordinal."""
        offset = self._blocks[-1][1]
        self._begin_block(ticket, ordinal - ticket)
        self._begin_block(ticket + 1, offset)

    def _begin_block(self, ticket: int, offset: int) -> None:
        if self._blocks and self._blocks[-1][0] == ticket:
            self._blocks.pop()
        self._blocks.append((ticket, offset))

    def ordinal_of(self, ticket: int) -> int:
        """The ordinal of the message that was submitted last, whose ticket this is."""
        return ticket + self._blocks[-1][1]

    def blocks_of(self, tickets: range) -> list[Block]:
        """The blocks of ordinals of messages that are not settled; none for those of an earlier start."""
        return self._blocks[self._block_of(tickets.start) : bisect_left(self._blocks, tickets.stop, key=_START)]

    def _block_of(self, ticket: int) -> int:
        return (bisect_right(self._blocks, ticket, key=_START) or 1) - 1

    def _pack(self, messages: list[bytes | Outgoing], now_ms: int) -> list[PacketBody]:
        packed: list[PacketBody] = []
        first, at = self.submitted - len(messages), 0
        blocks = self._blocks[self._block_of(first) :]
        ends = [*map(_START, blocks[1:]), self.submitted]
        for (_, offset), end in zip(blocks, ends, strict=True):
            until = end - first if end > first else 0
            ordinal, limit = first + at + offset, self._messages_per_packet
            packed += pack(messages[at:until], self._body_bytes, ordinal, now_ms, limit, self.priority)[0]
            at = until
        return packed

    def poll_packets(self, now_ms: int) -> list[StreamPacket]:
        """Make packets of all that was submitted: numbered, and not yet in the sequence."""
        messages, self.pending = self.pending, []
        self.pending_bytes = 0
        packed = self._pack(messages, now_ms)
        number = self.sequence.next_number
        ticket = self.submitted - len(messages)
        entries: list[StreamPacket] = []
        # Many packets have the same length and may wait for long: share one int object for each length.
        lengths: dict[int, int] = {}
        for item in packed:
            size_bytes = len(item.body)
            if size_bytes in lengths:
                size_bytes = lengths[size_bytes]
            lengths[size_bytes] = size_bytes
            entry = StreamPacket(number, item.body, size_bytes, item.messages, ticket, item.tickets)
            entry.reach_by_ms, entry.ack_requested = item.reach_by_ms, item.ack_requested
            if item.cares:
                entry.cares = self.cares = True
            entries.append(entry)
            number += 1
            # Every fragment of a message has its ticket; the last one moves on.
            ticket += item.messages
        self.committing += number - self.sequence.next_number
        self.sequence.next_number = number
        return entries

    def start(self, entries: list[StreamPacket]) -> None:
        """Send packets that are durable, or need not be."""
        self.committing -= len(entries)
        self._append(entries, sent_at_of(entries[0].body or b"") if entries else 0)
        if entries:
            self.stages.handle_queued(entries[-1].first_ticket + entries[-1].tickets)

    def restore(self, row: OutgoingIndex, number: int, sent_at_ms: int) -> None:
        """Restore a packet from the store; its messages have the tickets before those of this start.

        ``sent_at_ms``: when they were sent, by today's clock.
        """
        # Every fragment of a message has its ticket, as in ``poll_packets``.
        tickets = max(1, row.messages)
        entry = StreamPacket(number, None, row.size_bytes, row.messages, self.submitted, tickets)
        entry.reach_by_ms, entry.cares = row.reach_by_ms, row.cares
        self.cares = self.cares or row.cares
        self.submitted += row.messages
        self.numbered = self.stages.queued = self.recovered = self.submitted
        self._append([entry], sent_at_ms)

    def _append(self, entries: list[StreamPacket], sent_at_ms: int) -> None:
        self.stages.add(entries)
        self.sequence.append(entries, sent_at_ms)
        self.unacked_bytes += sum(map(_SIZE_OF, entries))
        self.expect(entries)

    def handle_freed(self, entries: list[StreamPacket]) -> None:
        """The sequence has freed packets."""
        settled = 0
        for entry in entries:
            self.unacked_bytes -= entry.size_bytes
            settled += entry.messages
            entry.body = None
            if entry.reach_by_ms:
                self.expiries.set(entry.number, None)
        self.stages.settled += settled
        self.stages.handle_progress(entries, Stage.ORDERED)
        for reader in self.readers:
            for entry in entries:
                reader.handle_acked(
                    entry.first_ticket, entry.messages, entry.size_bytes, ack_requested=entry.ack_requested
                )

    def handle_removed(self, entry: StreamPacket, reason: str) -> None:
        """A packet will never be delivered; ``handle_freed`` follows."""
        self.stages.handle_removed(entry, reason)
        for reader in self.readers:
            reader.handle_failed(entry.first_ticket, entry.messages, reason)

    @property
    def first_unsettled(self) -> int:
        """Ticket of the oldest message that is neither acknowledged nor given up."""
        oldest = next(iter(self.sequence.entries.values()), None)
        return self.stages.queued if oldest is None else oldest.first_ticket

    def settled_early(self) -> Iterator[tuple[range, str | None]]:
        """Known outcomes of messages after ``first_unsettled``: tickets, and why they failed or None."""
        at = self.first_unsettled
        for entry in self.sequence.entries.values():
            yield from self.stages.fates(range(at, entry.first_ticket))
            at = max(at, entry.first_ticket + entry.tickets)
        yield from self.stages.fates(range(at, self.stages.queued))

    @property
    def destination(self) -> str:
        """Its destination, as senders write it: ``peer/queue``, or the name of a queue of this node."""
        return f"{self.peer}/{self.queue}" if self.peer else self.queue

    @property
    def unacknowledged(self) -> int:
        """Number of packets that are not freed yet; all messages that are still to be packed count as one."""
        return bool(self.pending) + self.committing + len(self.sequence.entries)

    @property
    def messages(self) -> int:
        """Number of messages that have not arrived yet, as far as is known."""
        return sum(entry.messages for entry in self.sequence.entries.values()) + self.unqueued

    @property
    def unsettled(self) -> int:
        """Number of accepted messages that are neither acknowledged nor given up."""
        return self.submitted - self.stages.settled

    @property
    def unqueued(self) -> int:
        """Number of accepted messages that are not durable yet, or in no packet."""
        return self.submitted - self.stages.queued

    @property
    def has_let_go(self) -> bool:
        """Whether packets that were on the disk were acknowledged or given up, in this process or an earlier one."""
        return self.durable and self.sequence.next_number - 1 > self.committing + len(self.sequence.entries)

    @property
    def is_held(self) -> bool:
        """Whether readers, senders or copies refer to messages by their numbers in its stream: it must not end."""
        return bool(self.readers or self.senders)

    @property
    def busy(self) -> bool:
        """Whether anything is pending, waiting or unacknowledged."""
        return bool(self.pending or self.committing or self.sequence.entries)


class Ordinals:
    """Allocates permanent numbers of this node's messages, part of their ids; see ``Message.id``."""

    def __init__(self, incarnation: int) -> None:
        self._next = incarnation << ORDINALS_PER_START_BITS

    def take(self) -> int:
        """The ordinal of one message that is numbered by itself."""
        self._next += 1
        return self._next - 1

    def number(self, outgoing: OutgoingStream) -> None:
        """Give an outgoing stream its next block of ordinals, after it has used up the last one."""
        outgoing.number(self._next, ORDINALS_BLOCK)
        self._next += ORDINALS_BLOCK
