"""What arrives: incoming streams, the queues they fill, and the order acks they owe.

A packet becomes visible to the application, store-acknowledged and order-acknowledged only when the commit has
returned that holds it together with its stream's new position.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from triack.base.commit import HEAD_BYTES, MessageRow, PositionRow, Read, StoreContent, key_of, split_key
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import check_name
from triack.base.ranges import as_ranges
from triack.base.reasons import DropReason, RejectReason
from triack.ordering.incoming import Outcome
from triack.ordering.wire import SequenceHeader, encode_order_ack, encode_reject
from triack.queues.deadlines import Deadlines
from triack.queues.group_commit import GroupCommit
from triack.queues.incoming_transfer import Arrival, IncomingTransfer
from triack.queues.link import Conversation
from triack.queues.mailbox import Lease, Mailbox, QueuedPacket
from triack.queues.packing import MAX_PROPERTIES_BYTES, Outgoing, completes, pack_one, write_properties
from triack.queues.settings import NodeSettings

__all__ = ["DEAD_LETTER_QUEUE", "Inbox", "Record"]

DEAD_LETTER_QUEUE = "dead-letter"
DEAD_LETTER_LANE = 0
"""No outgoing queue has it: dead letters are numbered by their ordinals at their origins."""
Record = Callable[..., None]
"""Writes to the session log: ``record(event, now_ns, **fields)``."""


@dataclass(slots=True)
class _Run:
    """Messages of one parcel that were handed out in a row; ``last`` None while it goes on."""

    parcel: QueuedPacket
    first: int
    last: int | None
    redelivered: bool

    @property
    def ended(self) -> bool:
        """Whether the parcel has been read to its end."""
        return self.first >= self.parcel.count


class Inbox:
    """All incoming streams and local queues of a node.

    Args:
        settings: limits.
        queues: the only queues there are, or None to make a queue when something arrives for it.
        drops: counts what is dropped, by reason.
        record: writes to the session log.

    Attributes:
        mailboxes: the queues of this node, by name.
    """

    def __init__(
        self, settings: NodeSettings, queues: list[str] | None, drops: Counter[DropReason], record: Record
    ) -> None:
        self._settings = settings
        self._fixed = queues is not None
        self._drops = drops
        self._record = record
        self.mailboxes: dict[str, Mailbox] = {}
        self._next_queue_id = 1
        self._transfers: dict[bytes, dict[int, IncomingTransfer]] = {}
        self._owing: dict[IncomingTransfer, None] = {}
        self._due: dict[IncomingTransfer, None] = {}
        self._deadlines = Deadlines[IncomingTransfer]()
        self._runs: dict[Mailbox, _Run] = {}
        self._declared = queues or []

    # ---- starting

    def restore(self, content: StoreContent, group: GroupCommit, now_ns: int) -> None:
        """Take what the store has, and make the declared queues."""
        for queue_id, name in content.queues:
            self.mailboxes[name] = Mailbox(queue_id, name)
            self._next_queue_id = max(self._next_queue_id, queue_id + 1)
        by_id = {mailbox.queue_id: mailbox for mailbox in self.mailboxes.values()}
        for name in (*self._declared, DEAD_LETTER_QUEUE):
            self.make_queue(name, group)
        for row in content.positions:
            self._restore_transfer(row, now_ns)
        orphaned: list[int] = []
        for index in content.messages:
            queue_id, position = split_key(index.key)
            mailbox = by_id[queue_id]
            mailbox.next_position = max(mailbox.next_position, position + 1)
            parcel = QueuedPacket(
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
                parcel.decode_progress(index.progress)
            orphaned += mailbox.put(parcel, index.head)
        group.commit.message_deletes += [(key, key) for key in orphaned]

    def _delivery_of(self, origin: bytes, lane: int) -> Delivery:
        if lane == DEAD_LETTER_LANE:
            return Delivery.RECOVERABLE
        transfer = self._find(origin, lane)
        return transfer.delivery if transfer is not None else Delivery.TRANSACTIONAL

    def _restore_transfer(self, row: PositionRow, now_ns: int) -> None:
        transfer = IncomingTransfer.restore(row, self._settings.order)
        where: dict[str, object] = {"number": row.number} if transfer.ordered else {"ranges": transfer.filter.ranges}
        self._record(
            "position_recovered",
            now_ns,
            origin=row.origin.hex(),
            lane=row.lane,
            sequence=row.sequence,
            **where,
            **{"class": transfer.delivery.label},
        )
        self._add(transfer)

    def _find(self, origin: bytes, lane: int) -> IncomingTransfer | None:
        return self._transfers.get(origin, {}).get(lane)

    def _add(self, transfer: IncomingTransfer) -> None:
        self._transfers.setdefault(transfer.origin, {})[transfer.lane] = transfer

    # ---- queues

    def make_queue(self, name: str, group: GroupCommit) -> Mailbox:
        """The queue of that name, made in the next commit if there is none."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            mailbox = self.mailboxes[name] = Mailbox(self._next_queue_id, name)
            self._next_queue_id += 1
            group.commit.queues.append((mailbox.queue_id, name))
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

    def put_local(self, name: str, parcel: QueuedPacket, body: bytes, group: GroupCommit) -> None:
        """Put a packet of this node itself into one of its queues, in the next commit."""
        mailbox = self.make_queue(name, group)
        if parcel.delivery == Delivery.EXPRESS:
            mailbox.put(parcel, body[:HEAD_BYTES])
            return
        self._add_row(mailbox, parcel, body, group)

    def put_dead_letter(self, message: Outgoing, origin: bytes, ordinal: int, now_ms: int, group: GroupCommit) -> None:
        """Keep a message that went nowhere, in the next commit, under the id that it has for ever."""
        properties = message.properties or {}
        if len(write_properties(properties)) > MAX_PROPERTIES_BYTES:
            message.properties = {name: value for name, value in properties.items() if name.startswith("dead_")}
        body = pack_one(message, ordinal, now_ms)
        parcel = QueuedPacket([], origin, DEAD_LETTER_LANE, 1, ordinal, Delivery.RECOVERABLE, 1, len(body), [body])
        self.put_local(DEAD_LETTER_QUEUE, parcel, body, group)

    def _add_row(self, mailbox: Mailbox, parcel: QueuedPacket, body: bytes, group: GroupCommit) -> None:
        key = key_of(mailbox.queue_id, mailbox.next_position)
        mailbox.next_position += 1
        parcel.keys = [key]
        row = MessageRow(key, parcel.origin, parcel.lane, parcel.sequence, parcel.number, body)
        group.commit.messages.append(row)
        group.arrivals.queued.append((mailbox, parcel, body[:HEAD_BYTES]))

    # ---- packets

    def handle_packet(
        self,
        conversation: Conversation,
        packet: int,
        header: SequenceHeader,
        delivery: Delivery,
        now_ns: int,
        group: GroupCommit,
    ) -> None:
        """Take a sequence packet that a session delivered. Its body has been checked.

        Raises:
            ProtocolError: the packet contradicts what its stream is known to be.
        """
        if header.origin != conversation.peer_id:
            raise ProtocolError(DropReason.FOREIGN_ORIGIN)
        transfer = self._transfer_of(header, delivery)
        if transfer is None:
            reason = self.accepts(header.queue) or RejectReason.TOO_MANY_STREAMS
            self._reject(conversation, header, delivery, reason, now_ns)
            return
        transfer.via = conversation
        handle = self._handle_ordered if transfer.ordered else self._handle_unordered
        handle(transfer, (conversation, packet), header, now_ns, group)

    def _transfer_of(self, header: SequenceHeader, delivery: Delivery) -> IncomingTransfer | None:
        transfer = self._find(header.origin, header.lane)
        if transfer is not None:
            if transfer.queue == header.queue and transfer.delivery is delivery:
                return transfer
            if not (delivery is transfer.delivery is Delivery.EXPRESS and header.sequence > transfer.filter.sequence):
                raise ProtocolError(DropReason.BAD_PACKET, "a stream changed its queue or class")
        elif len(self._transfers.get(header.origin, ())) >= self._settings.max_streams:
            return None
        if self.accepts(header.queue) is not None:
            return None
        transfer = IncomingTransfer(header.origin, header.lane, header.queue, delivery, self._settings.order)
        self._add(transfer)
        return transfer

    def _handle_ordered(
        self, transfer: IncomingTransfer, arrival: Arrival, header: SequenceHeader, now_ns: int, group: GroupCommit
    ) -> None:
        outcome, accepted = transfer.sequence.handle_packet(header, arrival, now_ns)
        self._owe(transfer)
        for item, its_arrival in accepted:
            self._accept(transfer, item, its_arrival, group)
        if outcome in (Outcome.ACCEPTED, Outcome.HELD):
            return
        self._record_rejected(header, transfer.delivery, outcome.value, now_ns)
        if outcome is Outcome.DUPLICATE and transfer.sequence.has_accepted(header):
            # It is on disk, or will be with the commits up to the next one. What was passed over is settled by the
            # order ack, which is due at once.
            group.arrivals.store_ack(*arrival)

    def _handle_unordered(
        self, transfer: IncomingTransfer, arrival: Arrival, header: SequenceHeader, now_ns: int, group: GroupCommit
    ) -> None:
        if transfer.filter.full:
            self._record_rejected(header, transfer.delivery, RejectReason.HOLD_FULL, now_ns)
            return
        durable = transfer.delivery in DURABLE
        mailbox = self.mailboxes.get(transfer.queue)
        if mailbox is not None:
            orphaned = mailbox.drop_unfinished(header.origin, header.lane, header.previous)
            group.commit.message_deletes += [(key, key) for key in orphaned]
        if transfer.filter.handle_packet(header):
            self._accept(transfer, header, arrival, group)
            if not durable:
                self._record_accepted({transfer: group.arrivals.accepted.pop(transfer)}, now_ns)
            return
        self._record_rejected(header, transfer.delivery, RejectReason.DUPLICATE, now_ns)
        if durable and not transfer.filter.has_skipped(header):
            group.arrivals.store_ack(*arrival)

    def _accept(self, transfer: IncomingTransfer, header: SequenceHeader, arrival: Arrival, group: GroupCommit) -> None:
        body = header.body
        group.arrivals.accepted.setdefault(transfer, []).append((header.sequence, header.number, completes(body)))
        packet = QueuedPacket(
            [], header.origin, header.lane, header.sequence, header.number, transfer.delivery, 1, len(body), [body]
        )
        if transfer.delivery in DURABLE:
            group.arrivals.store_ack(*arrival)
        self.put_local(transfer.queue, packet, body, group)

    def complete(self, group: GroupCommit) -> None:
        """Complete the commit before it goes to the disk: positions of streams, acknowledged messages."""
        for transfer in group.arrivals.accepted:
            group.commit.positions[(transfer.origin, transfer.lane)] = transfer.row()
        for mailbox in self.mailboxes.values():
            for parcel in mailbox.dirty.values():
                if not parcel.keys:
                    continue
                if parcel.done:
                    group.commit.message_deletes += as_ranges(sorted(parcel.keys))
                else:
                    group.commit.progress[parcel.keys[0]] = parcel.encode_progress()
            mailbox.dirty.clear()

    def _reject(
        self, conversation: Conversation, header: SequenceHeader, delivery: Delivery, reason: str, now_ns: int
    ) -> None:
        self._record_rejected(header, delivery, reason, now_ns)
        self._control(conversation, (header.lane, header.number), encode_reject(header, reason))

    def _control(self, conversation: Conversation, key: tuple[int, int], content: bytes) -> None:
        if not conversation.put_control(key, content):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1

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

    def handle_committed(self, group: GroupCommit, now_ns: int) -> None:
        """The commit has returned: acknowledgements may speak of it, the application may see it."""
        for (origin, lane), row in group.commit.positions.items():
            transfer = self._transfers[origin][lane]
            if transfer.ordered:
                transfer.sequence.handle_committed((row.sequence, row.number))
                self._owe(transfer)
        self._record_accepted(group.arrivals.accepted, now_ns)
        for mailbox, packet, head in group.arrivals.queued:
            orphaned = mailbox.put(packet, head)
            for row_key in orphaned:
                dead = QueuedPacket([row_key], b"", 0, 0, 0, 0, 0, 0, [])
                mailbox.dirty[id(dead)] = dead
        for conversation, numbers in group.arrivals.stored.items():
            conversation.session.handle_stored(numbers)
            conversation.wake()

    def _record_accepted(self, accepted: dict[IncomingTransfer, list[tuple[int, int, int]]], now_ns: int) -> None:
        """Record what is in the queues for good."""
        for transfer, numbers in accepted.items():
            for sequence, first, last, count in _fold(numbers, bridge=transfer.ordered):
                self._record(
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

    # ---- order acks

    def _owe(self, transfer: IncomingTransfer) -> None:
        """Something has happened for which an order ack is owed, now or later."""
        self._owing[transfer] = None
        if transfer.owes_ack:
            self._due[transfer] = None
        self._deadlines.set(transfer, transfer.sequence.ack.deadline_ns)

    def handle_request(self, peer_id: bytes) -> None:
        """A peer wants every order ack that it can get."""
        for transfer in self._transfers.get(peer_id, {}).values():
            if transfer.ordered and transfer.via is not None and transfer.sequence.position[1]:
                transfer.sequence.ack.handle_request()
                self._owe(transfer)

    def request_all(self) -> None:
        """Owed order acks leave now: the node is about to close."""
        for transfer in self._owing:
            transfer.sequence.ack.handle_request()
            self._owe(transfer)

    def handle_timer(self, now_ns: int) -> None:
        """Let order acks whose wait has ended become due."""
        for transfer in self._deadlines.poll_due(now_ns):
            transfer.sequence.ack.handle_timer(now_ns)
            self._owe(transfer)

    def next_deadline(self) -> int | None:
        """When the next order ack becomes due, or None."""
        return self._deadlines.earliest()

    def send_order_acks(self, route: Callable[[IncomingTransfer], Conversation | None], now_ns: int) -> None:
        """Hand every due order ack to a conversation with its origin's side.

        Without one it waits until a session opens, which asks for all of them.
        """
        due, self._due = self._due, {}
        for transfer in due:
            conversation = route(transfer) if transfer.owes_ack else None
            if conversation is None:
                continue
            self._send_order_ack(transfer, conversation, now_ns)
            sequence = transfer.sequence
            if sequence.committed == sequence.position:
                sequence.ack.handle_sent()
                del self._owing[transfer]

    def _send_order_ack(self, transfer: IncomingTransfer, conversation: Conversation, now_ns: int) -> None:
        sequence, number = transfer.acked = transfer.sequence.committed
        self._control(
            conversation,
            (transfer.lane, 0),
            encode_order_ack(transfer.origin, transfer.lane, sequence, number),
        )
        self._record(
            "order_ack_sent",
            now_ns,
            origin=transfer.origin.hex(),
            lane=transfer.lane,
            sequence=sequence,
            number=number,
            peer=conversation.peer_id.hex(),
        )

    # ---- bodies on the disk

    def poll_fetch(self) -> Read | None:
        """Which bodies to fetch next, or None."""
        for mailbox in self.mailboxes.values():
            keys = mailbox.poll_fetch()
            if keys:
                return Read("messages", keys)
        return None

    def handle_fetched(self, read: Read) -> None:
        """Bodies have come from the disk."""
        for mailbox in self.mailboxes.values():
            if mailbox.fetching:
                mailbox.load(read.bodies)

    # ---- handing out

    def take(self, mailbox: Mailbox, now_ns: int) -> Lease | None:
        """The next message of a queue; see ``Mailbox.take``."""
        handed = mailbox.take()
        if handed is not None:
            self._note_handed(mailbox, handed, now_ns)
        return handed

    def _note_handed(self, mailbox: Mailbox, handed: Lease, now_ns: int) -> None:
        """Begin a run, unless the message belongs to the one that goes on.

        A run of fresh messages ends where its parcel has been read to: readers take what follows in it by themselves.
        """
        run = self._runs.get(mailbox)
        parcel, index = handed.parcel, handed.index
        fresh = handed.redelivered == parcel.redelivered and index == parcel.next_index - 1
        if run is not None:
            if fresh and run.last is None and run.parcel is parcel:
                return
            self._record_handed(mailbox, run, now_ns)
        self._runs[mailbox] = _Run(parcel, index, None if fresh else index, handed.redelivered)

    def flush_handed(self, now_ns: int) -> None:
        """Write down what was handed out since the last call."""
        for mailbox, run in self._runs.items():
            self._record_handed(mailbox, run, now_ns)
            run.first, run.redelivered = run.parcel.next_index, run.parcel.redelivered
        self._runs = {mailbox: run for mailbox, run in self._runs.items() if run.last is None and not run.ended}

    def _record_handed(self, mailbox: Mailbox, run: _Run, now_ns: int) -> None:
        parcel = run.parcel
        last = parcel.next_index - 1 if run.last is None else run.last
        if last < run.first:
            return
        self._record(
            "handed",
            now_ns,
            queue=mailbox.name,
            origin=parcel.origin.hex(),
            lane=parcel.lane,
            sequence=parcel.sequence,
            number=parcel.number,
            first=run.first,
            last=last,
            redelivered=run.redelivered,
            **{"class": Delivery(parcel.delivery).label},
        )


def _fold(numbers: list[tuple[int, int, int]], *, bridge: bool) -> list[tuple[int, int, int, int]]:
    """(sequence, number, count) into (sequence, first, last, count); ``bridge`` lets a run pass expired numbers."""
    runs: list[tuple[int, int, int, int]] = []
    for sequence, number, count in numbers if bridge else sorted(numbers):
        if runs and runs[-1][0] == sequence and (bridge or runs[-1][2] + 1 == number):
            runs[-1] = (sequence, runs[-1][1], number, runs[-1][3] + count)
        else:
            runs.append((sequence, number, number, count))
    return runs
