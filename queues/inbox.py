"""What arrives: incoming streams, the queues they fill, and the order acks they owe.

A packet becomes visible to the application, store-acknowledged and order-acknowledged only when the commit has
returned that holds it together with its stream's new position.
"""

from collections import Counter
from collections.abc import Callable

from triack.base.commit import HEAD_BYTES, MessageRow, PositionRow, Read, StoreContent, key_of, split_key
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import check_name
from triack.base.ranges import as_ranges
from triack.base.reasons import DropReason, RejectReason
from triack.ordering.duplicates import DuplicateFilter
from triack.ordering.incoming import IncomingSequence, Outcome, Position
from triack.ordering.wire import SequenceHeader, encode_order_ack, encode_reject
from triack.queues.group_commit import GroupCommit
from triack.queues.link import Conversation
from triack.queues.mailbox import Mailbox, Notices, QueuedPacket, Run
from triack.queues.packing import MAX_PROPERTIES_BYTES, Outgoing, completes, pack_one, write_properties
from triack.queues.settings import NodeSettings

__all__ = ["DEAD_LETTER_QUEUE", "Inbox", "IncomingTransfer"]

DEAD_LETTER_QUEUE = "dead-letter"
DEAD_LETTER_LANE = 0
"""No stream has it: dead letters are numbered by their ordinals at their origins."""
Record = Callable[..., None]
Arrival = tuple[Conversation, int]
"""By which conversation a packet came, and its number there."""


class IncomingTransfer:
    """One incoming stream: its position if it is transactional, its duplicate filter otherwise."""

    __slots__ = ("acked", "delivery", "filter", "lane", "origin", "queue", "sequence", "via")

    def __init__(self, origin: bytes, lane: int, queue: str, delivery: Delivery, settings: NodeSettings) -> None:
        self.origin = origin
        self.lane = lane
        self.queue = queue
        self.delivery = delivery
        self.sequence: IncomingSequence[Arrival] = IncomingSequence(settings.order)
        self.filter = DuplicateFilter()
        self.acked: Position = (0, 0)
        self.via: Conversation | None = None

    @property
    def ordered(self) -> bool:
        """Whether it is a sequence with positions."""
        return self.delivery is Delivery.TRANSACTIONAL

    def row(self) -> PositionRow:
        """Its state as the store keeps it."""
        sequence, number = self.sequence.position if self.ordered else (self.filter.sequence, 0)
        blob = b"" if self.ordered else self.filter.encode()
        return PositionRow(self.origin, self.lane, self.delivery, self.queue, sequence, number, blob)


class Inbox:
    """All incoming streams and local queues of a node.

    Args:
        settings: limits.
        queues: the only queues there are, or None to make a queue when something arrives for it.
        record: writes to the session log, ``record(event, now_ns, **fields)``.
        drops: counts what is given up, by reason.
    """

    def __init__(
        self, settings: NodeSettings, queues: list[str] | None, record: Record, drops: Counter[DropReason]
    ) -> None:
        self._settings = settings
        self._fixed = queues is not None
        self._record = record
        self.mailboxes: dict[str, Mailbox] = {}
        self._next_queue_id = 1
        self._streams: dict[tuple[bytes, int], IncomingTransfer] = {}
        self._stream_counts: dict[bytes, int] = {}
        self._owing: dict[IncomingTransfer, None] = {}
        self.notices = Notices(drops)
        self._fetching: Mailbox | None = None
        self._declared = queues or []

    # ---- starting

    def restore(self, content: StoreContent, pending: GroupCommit, now_ns: int) -> None:
        """Take what the store has, and make the declared queues."""
        for queue_id, name in content.queues:
            self.mailboxes[name] = Mailbox(queue_id, name, self.notices)
            self._next_queue_id = max(self._next_queue_id, queue_id + 1)
        by_id = {mailbox.queue_id: mailbox for mailbox in self.mailboxes.values()}
        for name in (*self._declared, DEAD_LETTER_QUEUE):
            self.make_queue(name, pending)
        for row in content.positions:
            self._restore_stream(row, now_ns)
        for index in content.messages:
            queue_id, position = split_key(index.key)
            mailbox = by_id[queue_id]
            mailbox.next_position = max(mailbox.next_position, position + 1)
            packet = QueuedPacket(
                keys=[index.key],
                origin=index.origin,
                lane=index.lane,
                sequence=index.sequence,
                number=index.number,
                delivery=self._delivery_of(index.origin, index.lane),
                count=1,
                size_bytes=index.size_bytes,
                pieces=[],
                redelivered=True,
            )
            if index.progress is not None:
                packet.decode_progress(index.progress)
            mailbox.put(packet, index.head)

    def _delivery_of(self, origin: bytes, lane: int) -> Delivery:
        if lane == DEAD_LETTER_LANE:
            return Delivery.RECOVERABLE
        stream = self._streams.get((origin, lane))
        return stream.delivery if stream is not None else Delivery.TRANSACTIONAL

    def _restore_stream(self, row: PositionRow, now_ns: int) -> None:
        stream = IncomingTransfer(row.origin, row.lane, row.queue, Delivery(row.delivery), self._settings)
        if stream.ordered:
            stream.sequence = IncomingSequence(self._settings.order, (row.sequence, row.number))
            where: dict[str, object] = {"number": row.number}
        else:
            stream.filter = DuplicateFilter.decode(row.filter)
            where = {"ranges": stream.filter.ranges}
        self._record(
            "position_recovered",
            now_ns,
            origin=row.origin.hex(),
            lane=row.lane,
            sequence=row.sequence,
            **where,
            **{"class": stream.delivery.label},
        )
        self._add_stream(stream)

    # ---- queues

    def make_queue(self, name: str, pending: GroupCommit) -> Mailbox:
        """The queue of that name, made in the next commit if there is none."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            mailbox = self.mailboxes[name] = Mailbox(self._next_queue_id, name, self.notices)
            self._next_queue_id += 1
            pending.commit.queues.append((mailbox.queue_id, name))
        return mailbox

    def accepts(self, name: str) -> str | None:
        """None when packets for that queue are taken, otherwise the reason why not."""
        if name in self.mailboxes:
            return None
        if self._fixed:
            return RejectReason.QUEUE_NOT_FOUND
        if len(self.mailboxes) >= self._settings.max_queues:
            return RejectReason.TOO_MANY_QUEUES
        try:
            check_name(name)
        except AddressError:
            return RejectReason.BAD_QUEUE_NAME
        return None

    def put_local(self, name: str, packet: QueuedPacket, body: bytes, pending: GroupCommit) -> None:
        """Put a packet of this node itself into one of its queues, in the next commit."""
        mailbox = self.make_queue(name, pending)
        if packet.delivery == Delivery.EXPRESS:
            mailbox.put(packet, body[:HEAD_BYTES])
            return
        self._add_row(mailbox, packet, body, pending)

    def put_dead_letter(
        self, message: Outgoing, origin: bytes, ordinal: int, now_ms: int, pending: GroupCommit
    ) -> None:
        """Keep a message that went nowhere, in the next commit, under the id that it has for ever."""
        properties = message.properties or {}
        if len(write_properties(properties)) > MAX_PROPERTIES_BYTES:
            message.properties = {name: value for name, value in properties.items() if name.startswith("dead_")}
        body = pack_one(message, ordinal, now_ms)
        packet = QueuedPacket([], origin, DEAD_LETTER_LANE, 1, ordinal, Delivery.RECOVERABLE, 1, len(body), [body])
        self.put_local(DEAD_LETTER_QUEUE, packet, body, pending)

    def _add_row(self, mailbox: Mailbox, packet: QueuedPacket, body: bytes, pending: GroupCommit) -> None:
        key = key_of(mailbox.queue_id, mailbox.next_position)
        mailbox.next_position += 1
        packet.keys = [key]
        row = MessageRow(key, packet.origin, packet.lane, packet.sequence, packet.number, body)
        pending.commit.messages.append(row)
        pending.arrived.append((mailbox, packet, body[:HEAD_BYTES]))

    # ---- packets

    def handle_packet(
        self,
        conversation: Conversation,
        packet: int,
        header: SequenceHeader,
        delivery: Delivery,
        now_ns: int,
        pending: GroupCommit,
    ) -> None:
        """Take a sequence packet that a session delivered. Its body has been checked.

        Raises:
            ProtocolError: the packet contradicts what its stream is known to be.
        """
        if header.origin != conversation.peer_id:
            raise ProtocolError(DropReason.FOREIGN_ORIGIN)
        stream = self._stream_of(header, delivery)
        if stream is None:
            reason = self.accepts(header.queue) or RejectReason.TOO_MANY_STREAMS
            self._reject(conversation, header, delivery, reason, now_ns)
            return
        stream.via = conversation
        handle = self._handle_ordered if stream.ordered else self._handle_unordered
        handle(stream, (conversation, packet), header, now_ns, pending)

    def _stream_of(self, header: SequenceHeader, delivery: Delivery) -> IncomingTransfer | None:
        stream = self._streams.get((header.origin, header.lane))
        if stream is not None:
            if stream.queue == header.queue and stream.delivery is delivery:
                return stream
            if not (delivery is stream.delivery is Delivery.EXPRESS and header.sequence > stream.filter.sequence):
                raise ProtocolError(DropReason.BAD_PACKET, "a stream changed its queue or class")
        elif self._stream_counts.get(header.origin, 0) >= self._settings.max_streams:
            return None
        if self.accepts(header.queue) is not None:
            return None
        stream = IncomingTransfer(header.origin, header.lane, header.queue, delivery, self._settings)
        self._add_stream(stream)
        return stream

    def _add_stream(self, stream: IncomingTransfer) -> None:
        key = (stream.origin, stream.lane)
        if key not in self._streams:
            self._stream_counts[stream.origin] = self._stream_counts.get(stream.origin, 0) + 1
        self._streams[key] = stream

    def _handle_ordered(
        self, stream: IncomingTransfer, arrival: Arrival, header: SequenceHeader, now_ns: int, pending: GroupCommit
    ) -> None:
        outcome, accepted = stream.sequence.handle_packet(header, arrival, now_ns)
        self._owing[stream] = None
        for item, its_arrival in accepted:
            self._accept(stream, item, its_arrival, pending)
        if outcome in (Outcome.ACCEPTED, Outcome.HELD):
            return
        self._record_rejected(header, stream.delivery, outcome.value, now_ns)
        if outcome is Outcome.DUPLICATE and stream.sequence.has_accepted(header):
            # It is on disk, or will be with the commits up to the next one. What was passed over is settled by the
            # order ack, which is due at once.
            _store_ack(arrival, pending)

    def _handle_unordered(
        self, stream: IncomingTransfer, arrival: Arrival, header: SequenceHeader, now_ns: int, pending: GroupCommit
    ) -> None:
        if stream.filter.full:
            self._record_rejected(header, stream.delivery, RejectReason.HOLD_FULL, now_ns)
            return
        durable = stream.delivery in DURABLE
        mailbox = self.mailboxes.get(stream.queue)
        if mailbox is not None:
            mailbox.drop_unfinished(header.origin, header.lane, header.previous)
        if stream.filter.handle_packet(header):
            self._accept(stream, header, arrival, pending)
            if not durable:
                self.handle_accepted({stream: pending.accepted.pop(stream)}, now_ns)
            return
        self._record_rejected(header, stream.delivery, RejectReason.DUPLICATE, now_ns)
        if durable and not stream.filter.has_skipped(header):
            _store_ack(arrival, pending)

    def _accept(self, stream: IncomingTransfer, header: SequenceHeader, arrival: Arrival, pending: GroupCommit) -> None:
        body = header.body
        pending.accepted.setdefault(stream, []).append((header.sequence, header.number, completes(body)))
        packet = QueuedPacket(
            [], header.origin, header.lane, header.sequence, header.number, stream.delivery, 1, len(body), [body]
        )
        if stream.delivery in DURABLE:
            _store_ack(arrival, pending)
        self.put_local(stream.queue, packet, body, pending)

    def seal(self, pending: GroupCommit) -> None:
        """Complete the commit: stream positions, acknowledged messages."""
        for stream in pending.accepted:
            pending.commit.positions[(stream.origin, stream.lane)] = stream.row()
        for mailbox in self.notices.dirty:
            changed, orphans = mailbox.take_changes()
            pending.commit.message_deletes += as_ranges(sorted(orphans))
            for packet in changed:
                if packet.done:
                    pending.commit.message_deletes += as_ranges(sorted(packet.keys))
                else:
                    pending.commit.progress[packet.keys[0]] = packet.encode_progress()
        self.notices.dirty.clear()

    # ---- bodies that only the disk has

    def poll_fetch(self) -> Read | None:
        """The bodies that a queue needs next."""
        wanting = self.notices.wanting
        while wanting:
            mailbox = next(iter(wanting))
            del wanting[mailbox]
            keys = mailbox.poll_fetch()
            if keys:
                self._fetching = mailbox
                return Read("messages", keys)
        return None

    def handle_fetched(self, read: Read) -> None:
        """Take the bodies that were asked for."""
        mailbox, self._fetching = self._fetching, None
        if mailbox is not None:
            mailbox.load(read.bodies)

    # ---- what is refused

    def _reject(
        self, conversation: Conversation, header: SequenceHeader, delivery: Delivery, reason: str, now_ns: int
    ) -> None:
        self._record_rejected(header, delivery, reason, now_ns)
        conversation.put_control((header.lane, header.number), encode_reject(header, reason))

    def _record_rejected(self, header: SequenceHeader, delivery: Delivery, reason: str, now_ns: int) -> None:
        self._record(
            "rejected",
            now_ns,
            origin=header.origin.hex(),
            lane=header.lane,
            sequence=header.sequence,
            number=header.number,
            reason=reason,
            **{"class": delivery.label},
        )

    # ---- after the commit

    def handle_committed(self, pending: GroupCommit, now_ns: int) -> None:
        """The commit has returned: order acks may speak of it, the application may see it."""
        for key, row in pending.commit.positions.items():
            stream = self._streams[key]
            if stream.ordered:
                stream.sequence.handle_committed((row.sequence, row.number))
                self._owing[stream] = None
        self.handle_accepted(pending.accepted, now_ns)
        for mailbox, packet, head in pending.arrived:
            mailbox.put(packet, head)

    def handle_accepted(self, accepted: dict[IncomingTransfer, list[tuple[int, int, int]]], now_ns: int) -> None:
        """Record what is in the queues for good."""
        for stream, numbers in accepted.items():
            for sequence, first, last, count in _fold(numbers, bridge=stream.ordered):
                self._record(
                    "committed",
                    now_ns,
                    origin=stream.origin.hex(),
                    lane=stream.lane,
                    sequence=sequence,
                    first=first,
                    last=last,
                    count=count,
                    queue=stream.queue,
                    **{"class": stream.delivery.label},
                )

    # ---- order acks

    def handle_request(self, peer_id: bytes) -> None:
        """A peer wants every order ack that it can get."""
        for stream in self._streams.values():
            if (
                stream.ordered
                and stream.via is not None
                and stream.via.peer_id == peer_id
                and stream.sequence.position[1]
            ):
                stream.sequence.ack.handle_request()
                self._owing[stream] = None

    def request_all(self) -> None:
        """Owed order acks leave now: the node is about to close."""
        for stream in self._owing:
            stream.sequence.ack.handle_request()

    def handle_timer(self, now_ns: int) -> None:
        """Let order acks whose wait has ended become due."""
        for stream in self._owing:
            stream.sequence.ack.handle_timer(now_ns)

    def next_deadline(self) -> int | None:
        """When the next order ack becomes due, or None."""
        deadlines = [stream.sequence.ack.deadline_ns for stream in self._owing]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def poll_order_acks(self, route: Callable[[IncomingTransfer], Conversation | None], now_ns: int) -> None:
        """Hand every due order ack to a conversation with its origin's side; without one it stays due."""
        for stream in list(self._owing):
            sequence = stream.sequence
            settled = sequence.committed == sequence.position
            if not sequence.ack.due:
                continue
            if not (settled or sequence.committed > stream.acked) or sequence.committed == (0, 0):
                continue
            conversation = route(stream)
            if conversation is None:
                continue
            self._send_order_ack(stream, conversation, now_ns)
            if settled:
                sequence.ack.handle_sent()
                del self._owing[stream]

    def _send_order_ack(self, stream: IncomingTransfer, conversation: Conversation, now_ns: int) -> None:
        sequence, number = stream.acked = stream.sequence.committed
        conversation.put_control((stream.lane, 0), encode_order_ack(stream.origin, stream.lane, sequence, number))
        self._record(
            "order_ack_sent",
            now_ns,
            origin=stream.origin.hex(),
            lane=stream.lane,
            sequence=sequence,
            number=number,
            peer=conversation.peer_id.hex(),
        )

    # ---- handing out

    def note_runs(self, now_ns: int) -> None:
        """Write down what was handed out since the last call. Ends every open run."""
        for mailbox in self.notices.read:
            for run in mailbox.take_runs():
                self._record_handed(mailbox, run, now_ns)
        self.notices.read.clear()

    def _record_handed(self, mailbox: Mailbox, run: Run, now_ns: int) -> None:
        packet = run.packet
        self._record(
            "handed",
            now_ns,
            queue=mailbox.name,
            origin=packet.origin.hex(),
            lane=packet.lane,
            sequence=packet.sequence,
            number=packet.number,
            first=run.first,
            last=run.next - 1,
            redelivered=run.redelivered,
            **{"class": Delivery(packet.delivery).label},
        )


def _store_ack(arrival: Arrival, pending: GroupCommit) -> None:
    """Let a packet be store-acknowledged when the commit has returned."""
    conversation, packet = arrival
    pending.stored.setdefault(conversation, []).append(packet)


def _fold(numbers: list[tuple[int, int, int]], *, bridge: bool) -> list[tuple[int, int, int, int]]:
    """(sequence, number, count) into (sequence, first, last, count); ``bridge`` lets a run pass expired numbers."""
    runs: list[tuple[int, int, int, int]] = []
    for sequence, number, count in numbers if bridge else sorted(numbers):
        if runs and runs[-1][0] == sequence and (bridge or runs[-1][2] + 1 == number):
            runs[-1] = (sequence, runs[-1][1], number, runs[-1][3] + count)
        else:
            runs.append((sequence, number, number, count))
    return runs
