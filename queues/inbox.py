"""What arrives: incoming streams, and the queues they fill.

A packet becomes visible to the application, store-acknowledged and order-acknowledged only when the commit has
returned that holds it together with its stream's new position.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter

from triack.base.commit import HEAD_BYTES, MessageRow, PositionRow, Read, StoreContent, key_of, split_key
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import check_name
from triack.base.peers import Directory
from triack.base.ranges import as_ranges
from triack.base.reasons import DeadReason, DropReason, RejectReason
from triack.base.units import MS
from triack.ordering.incoming import Outcome
from triack.ordering.wire import EndPacket, SequenceHeader, encode_end, encode_reject
from triack.queues.admission import DEAD_LETTER_QUEUE, Admission
from triack.queues.arrival_records import (
    Record,
    record_accepted,
    record_forgotten,
    record_recovered,
    record_rejected,
)
from triack.queues.clock_jumps import ClockJumps, head_here, late_by_ms
from triack.queues.control import Control
from triack.queues.ended_streams import ENDED_LANE, EndedStreams
from triack.queues.expiry import LETTERS_MAX, Expiry
from triack.queues.given_up import EXPIRED
from triack.queues.group_commit import REFUSED, GroupCommit
from triack.queues.handed import as_runs, handed_fields, settled_runs
from triack.queues.in_hand import InHand
from triack.queues.incoming_run import IncomingRun
from triack.queues.incoming_transfer import Arrival, IncomingTransfer
from triack.queues.line import Cache
from triack.queues.link import Conversation
from triack.queues.mailbox import Lease, Mailbox, Notices, QueuedPacket
from triack.queues.owed_acks import OwedAcks
from triack.queues.packing import (
    MAX_PROPERTIES_BYTES,
    NO_DEAD_LETTER,
    Outgoing,
    messages_in,
    pack_one,
    write_properties,
)
from triack.queues.positions import Positions
from triack.queues.queued_packet import indices_of
from triack.queues.quotas import Account, PayerOf, Quota
from triack.queues.redelivery import Return, Wait, wait_after_death_ms, wait_ms
from triack.queues.run import Run
from triack.queues.settings import NodeSettings
from triack.queues.stream_state import EXPRESS_LANES, FORGOTTEN_KEY

__all__ = ["DEAD_LETTER_QUEUE", "Inbox", "Record"]

DEAD_LETTER_LANE = 0
"""No outgoing queue has it: dead letters are numbered by their ordinals at their origins."""


class Inbox:
    """All incoming streams and local queues of a node.

    Args:
        settings: limits.
        queues: the only queues there are, or None to make a queue when something arrives for it.
        directory: says who may send to which queue.
        wall_offset_ns: wall clock minus monotonic clock.
        drops: counts what is dropped, by reason.
        record: writes to the session log.
        payer_of: who is charged for what a node sends.
        words: where it is noted what applications have in hand; None for nowhere.

    Attributes:
        in_hand: these notes.
        mailboxes: the queues of this node, by name.
        admission: who may put what into them, and when.
        expiry: what nobody received in time.
        positions: how far the ordered streams are.
        ended: which streams have ended.
        order_acks: those that are owed.
    """

    def __init__(
        self,
        settings: NodeSettings,
        queues: list[str] | None,
        directory: Directory,
        wall_offset_ns: int,
        drops: Counter[DropReason],
        record: Record,
        payer_of: PayerOf,
        *,
        words: memoryview | None = None,
    ) -> None:
        self._settings = settings
        self._wall_offset_ns = wall_offset_ns
        self._drops = drops
        self._record = record
        self.in_hand = InHand(words)
        self.mailboxes: dict[str, Mailbox] = {}
        self._next_queue_id = 1
        self._transfers: dict[bytes, dict[int, IncomingTransfer]] = {}
        self._starts: dict[bytes, int] = {}
        self._notices = Notices(
            drops,
            disk=Account(settings.limits.peer_quota_bytes, settings.limits.node_quota_bytes, payer_of),
            express=Account(settings.limits.peer_memory_bytes // 4, settings.limits.memory_bytes // 4, payer_of),
            cache=Cache(settings.body_cache_bytes),
            in_hand=self.in_hand,
        )
        self._removed: list[int] = []
        self.admission = Admission(
            settings,
            self.mailboxes,
            fixed=queues is not None,
            directory=directory,
            notices=self._notices,
            make_room=self._make_room,
            goes_on=self._goes_on,
            payer_of=payer_of,
        )
        self.expiry = Expiry(self._notices, self.dead_letter, record)
        self.positions = Positions(record)
        self.ended = EndedStreams()
        self.order_acks = OwedAcks(drops, record)
        self._fetching: Mailbox | None = None
        self._declared = queues or []
        self.dead_letters: Counter[str] = Counter()

    # ---- starting

    def restore(self, content: StoreContent, group: GroupCommit, now_ns: int, jumps: ClockJumps) -> None:
        """Take what the store has, and make the declared queues."""
        self.admission.handle_start(content.node_id)
        self.admission.handle_room(content.room_bytes)
        for queue_id, name in content.queues:
            self.mailboxes[name] = self._new_mailbox(queue_id, name)
            self._next_queue_id = max(self._next_queue_id, queue_id + 1)
        by_id = {mailbox.queue_id: mailbox for mailbox in self.mailboxes.values()}
        for name in (*self._declared, DEAD_LETTER_QUEUE):
            self.make_queue(name, group)
        for row in content.positions:
            self._restore_transfer(row, now_ns)
        for index in content.messages:
            queue_id, position = split_key(index.key)
            mailbox = by_id[queue_id]
            mailbox.next_position = max(mailbox.next_position, position + 1)
            packet = QueuedPacket(
                keys=range(index.key, index.key + 1),
                origin=index.origin,
                lane=index.lane,
                sequence=index.sequence,
                number=index.number,
                delivery=Delivery(index.delivery),
                count=1,
                size_bytes=index.size_bytes,
                pieces=[],
                redelivered=True,
            )
            if index.progress is not None:
                packet.decode_progress(index.progress, self._wall_ms(now_ns), jumps.by_ms)
            is_left = index.key in content.left
            if is_left:
                self._count_left(mailbox.name, packet, *content.left[index.key], now_ns)
                self._notices.settles = True
            if (is_left or index.progress) and (progress := packet.encode_progress()) != index.progress:
                # What the clock would have made of a wait, it makes of it no more, nor for any further start.
                group.commit.progress[index.key] = progress
            mailbox.put(packet, head_here(jumps.move_queued(index.head), self._wall_ms(now_ns)))
        for mailbox in self.mailboxes.values():
            mailbox.restored = mailbox.length
        if self._notices.settles:
            group.waiters.append(self._handle_settled)
        else:
            self.in_hand.forget_left()

    def _count_left(self, queue: str, packet: QueuedPacket, held: int, acked: int, now_ns: int) -> None:
        """The process that had messages of a packet in hand died: which of them are done, and which failed."""
        packet.acked |= acked
        redelivery = self._settings.redelivery_of(queue)
        for index in indices_of(held & ~packet.acked):
            length_ms = wait_after_death_ms(redelivery, packet.count_death(index))
            if length_ms:
                packet.keep_back(index, Wait(self._wall_ms(now_ns) + length_ms, length_ms, redelivery.keep_order))

    def _handle_settled(self, error: Exception | None) -> None:
        """What the start before has left is on the disk: from here on messages are handed out."""
        if error is None:
            self._notices.settles = False
            self.in_hand.forget_left()
            for mailbox in self.mailboxes.values():
                mailbox.wake()

    @property
    def settles(self) -> bool:
        """Whether nothing is handed out yet, see ``Notices``."""
        return self._notices.settles

    def _restore_transfer(self, row: PositionRow, now_ns: int) -> None:
        if row.lane == ENDED_LANE:
            self.ended.restore(row)
            self.admission.add_stream(row.origin)
            return
        transfer = IncomingTransfer.restore(row, self._settings.order)
        record_recovered(self._record, row, transfer, now_ns)
        self._add(transfer)
        if transfer.ordered:
            self.positions.handle_committed(transfer)
        self.admission.count_early(transfer)

    def _find(self, origin: bytes, lane: int) -> IncomingTransfer | None:
        return self._transfers.get(origin, {}).get(lane)

    def _goes_on(self, origin: bytes, lane: int) -> bool:
        transfer = self._find(origin, lane)
        return transfer is not None and transfer.via is not None

    def _add(self, transfer: IncomingTransfer) -> None:
        streams = self._transfers.setdefault(transfer.origin, {})
        if transfer.lane not in streams:
            self.admission.add_stream(transfer.origin)
        streams[transfer.lane] = transfer

    # ---- queues

    def make_queue(self, name: str, group: GroupCommit) -> Mailbox:
        """The queue of that name, made in the next commit if there is none."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            if len(self.mailboxes) >= self._settings.max_queues:
                self._make_room()
            # One that was removed comes back under a new number: its rows under the old one may still have to go.
            mailbox = self.mailboxes[name] = self._new_mailbox(self._next_queue_id, name)
            self._next_queue_id += 1
            group.commit.queues.append((mailbox.queue_id, name))
        return mailbox

    def _new_mailbox(self, queue_id: int, name: str) -> Mailbox:
        if name == DEAD_LETTER_QUEUE:
            letters = self._settings.limits.dead_letters
            return Mailbox(queue_id, name, self._notices, Quota(letters.messages, letters.size_bytes), is_apart=True)
        return Mailbox(queue_id, name, self._notices, self._settings.limits.quota_of(name))

    def _make_room(self) -> None:
        """Remove the queues that are empty and that nobody waits for."""
        kept = (DEAD_LETTER_QUEUE, *self._declared)
        idled, self._notices.idled = self._notices.idled, {}
        for mailbox in idled:
            name = mailbox.name
            if mailbox.is_idle and name not in kept and self.mailboxes.get(name) is mailbox:
                self._removed.append(self.mailboxes.pop(name).queue_id)
                self.admission.handle_removed(name)

    def handle_directory_changed(self) -> None:
        """Ask again who may send where, when the next packet of each stream comes."""
        for transfers in self._transfers.values():
            for transfer in transfers.values():
                transfer.may_send = None

    def has_room(self, name: str, *, durable: bool, coming: int = 0) -> bool:
        """Whether a queue takes one message more of this node itself, beside those that are ``coming``."""
        mailbox = self.mailboxes.get(name)
        return mailbox is None or self.admission.has_room(mailbox, durable=durable, coming=coming)

    def refuses(self, name: str, *, durable: bool) -> bool:
        """Whether a queue takes no message more of this node, and is set not to let it wait."""
        return self._settings.limits.quota_of(name).when_full == "reject" and not self.has_room(name, durable=durable)

    def put_local(self, name: str, packet: QueuedPacket, body: bytes, group: GroupCommit) -> None:
        """Put a packet of this node itself into one of its queues, in the next commit."""
        self._put(name, packet, body[:HEAD_BYTES], group)

    def _put(self, name: str, packet: QueuedPacket, head: bytes, group: GroupCommit) -> None:
        mailbox = self.make_queue(name, group)
        mailbox.charge(packet, head)
        if packet.delivery == Delivery.EXPRESS:
            mailbox.put(packet, head)
            return
        self._add_rows(mailbox, [packet], head, group)

    def put_dead_letter(self, message: Outgoing, origin: bytes, ordinal: int, now_ms: int, group: GroupCommit) -> None:
        """Keep a message that went nowhere, in the next commit, under the id that it has for ever."""
        properties = message.properties or {}
        if NO_DEAD_LETTER in properties and origin == self.admission.disk.own:
            self._drops[DropReason.REQUEST_ENDED] += 1
            return
        reason = str(properties["dead_reason"])
        self.dead_letters[reason] += 1
        if self._settings.limits.dead_letters.when_full == "discard expired" and reason in EXPIRED:
            self._drops[DropReason.EXPIRED_DISCARDED] += 1
            return
        if len(write_properties(properties)) > MAX_PROPERTIES_BYTES:
            message.properties = {name: value for name, value in properties.items() if name.startswith("dead_")}
        body = pack_one(message, ordinal, now_ms)
        letters = self.mailboxes[DEAD_LETTER_QUEUE]
        if self._settings.limits.dead_letters.when_full == "keep" and not letters.fill.fits(1, len(body)):
            self._drops[DropReason.DEAD_LETTERS_FULL] += 1
            return
        packet = QueuedPacket((), origin, DEAD_LETTER_LANE, 1, ordinal, Delivery.RECOVERABLE, 1, len(body), [body])
        self.put_local(DEAD_LETTER_QUEUE, packet, body, group)

    def _drop_oldest_letters(self) -> None:
        """Let the oldest dead letters give way to those that a commit has brought; all of these are there by now."""
        mailbox = self.mailboxes[DEAD_LETTER_QUEUE]
        messages = mailbox.fill.messages
        while not mailbox.fill.fits(0, 0):
            dropped = mailbox.drop_oldest(max(1, min(messages.value - messages.limit, LETTERS_MAX)))
            if not dropped:
                return  # readers have them all in hand
            self._drops[DropReason.DEAD_LETTER_REPLACED] += len(dropped)

    def _add_rows(self, mailbox: Mailbox, packets: list[QueuedPacket], head: bytes | None, group: GroupCommit) -> None:
        """Put packets that were counted, and follow each other, into the next commit; see ``Arrivals.queued``."""
        first, first_key = packets[0], key_of(mailbox.queue_id, mailbox.next_position)
        for key, packet in enumerate(packets, first_key):
            packet.keys = range(key, key + 1)
        bodies = [packet.pieces[0] for packet in packets]
        group.commit.messages.append(
            MessageRow(first_key, first.origin, first.lane, first.sequence, first.number, bodies, first.delivery)
        )
        mailbox.next_position += len(packets)
        self.admission.waiting.add(packets[0].origin, sum([packet.size_bytes for packet in packets]))
        group.arrivals.queued.append((mailbox, packets, head))

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
        if transfer is RejectReason.HELD_BACK:
            record_rejected(self._record, header, delivery, transfer, now_ns)
            conversation.withhold(delivery, packet)
            if not self.admission.keep_out(conversation, header, packet):
                self._drops[DropReason.CONTROL_OVERFLOW] += 1
            return
        if isinstance(transfer, RejectReason):
            record_rejected(self._record, header, delivery, transfer, now_ns)
            conversation.withhold(delivery, packet)
            self._tell_rejected((conversation, packet), header, transfer)
            return
        if not transfer.heard:
            self.admission.let_in(conversation, transfer)
        transfer.handle_heard(conversation)
        if transfer.forget_unwanted(header) and delivery in DURABLE:
            group.arrivals.accepted.setdefault(transfer, [])
        mailbox = self.mailboxes.get(transfer.queue)
        if mailbox is not None:
            # First: that may be the room that this packet needs.
            mailbox.drop_unfinished(header.origin, header.lane, *transfer.unwanted(header))
        if not self._holds_back(transfer, (conversation, packet), header, now_ns):
            handle = self._handle_ordered if transfer.ordered else self._handle_unordered
            handle(transfer, (conversation, packet), header, now_ns, group)
        self.admission.count_early(transfer)

    def handle_run(
        self, conversation: Conversation, run: IncomingRun, delivery: Delivery, now_ns: int, group: GroupCommit
    ) -> bool:
        """Take all packets of a run, as ``handle_packet`` would one by one.

        Returns:
            False when they must come one by one, as it may depend on each what becomes of it; nothing has changed then.
        """
        header = run.header
        transfer = self._find(header.origin, header.lane)
        if transfer is None or not transfer.is_of(header, delivery):
            return False
        mailbox = self.mailboxes.get(transfer.queue)
        if header.origin != conversation.peer_id or mailbox is None:
            return False
        packets = len(run.bodies)
        if not self.admission.takes_run(transfer, mailbox, packets, sum(run.counts), run.body_bytes):
            return False
        if not transfer.ordered:
            if not transfer.filter.handle_run(header, packets):
                return False
            mailbox.drop_unfinished(header.origin, header.lane, *transfer.unwanted(header))
        elif transfer.sequence.handle_run(header, packets, now_ns, asks=run.asks):
            self.order_acks.owe(transfer)
        else:
            return False
        transfer.handle_heard(conversation)
        accepted = (header.sequence, header.number, run.last, sum(run.counts))
        queued = mailbox.charge_run(run, delivery)
        if any(run.receive_by_ms):
            self._date(queued, now_ns)
        if delivery in DURABLE:
            group.arrivals.stored.setdefault(conversation, []).extend(range(run.packet, run.packet + packets))
            group.arrivals.accepted.setdefault(transfer, []).append(accepted)
            self._add_rows(mailbox, queued, None, group)
        else:
            mailbox.put_all(queued, None)
            record_accepted(self._record, {transfer: [accepted]}, now_ns)
            self.admission.stop_express(transfer, conversation)
        self.admission.count_early(transfer)
        return True

    def _date(self, packets: list[QueuedPacket], now_ns: int) -> None:
        """What a sender said whose clock is not set counts from now on."""
        now_ms = self._wall_ms(now_ns)
        for packet in packets:
            by_ms = late_by_ms(packet.sent_at_ms, packet.receive_by_ms, now_ms)
            packet.sent_at_ms += by_ms
            packet.receive_by_ms += by_ms

    def _holds_back(self, transfer: IncomingTransfer, arrival: Arrival, header: SequenceHeader, now_ns: int) -> bool:
        """Whether a packet is not taken now, as there is no room for it."""
        admission = self.admission
        if not transfer.is_fresh(header):
            return False
        if transfer.is_too_early(header, crowded=admission.early.is_full(header.origin)):
            record_rejected(self._record, header, transfer.delivery, RejectReason.HOLD_FULL, now_ns)
            return True
        if transfer.delivery not in DURABLE:
            return False
        if not admission.must_wait(transfer, header) or admission.refusal(transfer, arrival[0], header.body):
            return False
        record_rejected(self._record, header, transfer.delivery, RejectReason.HELD_BACK, now_ns)
        if transfer.ordered:
            # What came before it is all that there is to acknowledge for a while.
            transfer.sequence.ack.handle_packet(now_ns, asks=header.asks)
            self.order_acks.owe(transfer)
        if not admission.stop(transfer, arrival[0], (arrival[1],)):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1
        return True

    def _transfer_of(self, header: SequenceHeader, delivery: Delivery) -> IncomingTransfer | RejectReason:
        """The stream of a packet, made when it is new; or why there can be none, as long as this process lives."""
        transfer = self._find(header.origin, header.lane)
        is_known = transfer is not None and transfer.begun == header.sequence
        if transfer.has_ended if transfer is not None and is_known else self.ended.has(header, delivery):
            return RejectReason.STALE_SEQUENCE
        if transfer is not None:
            if transfer.queue == header.queue and transfer.delivery is delivery:
                return transfer
            # Express lanes are numbered anew in each life of their origin, under a greater sequence.
            if not (delivery is transfer.delivery is Delivery.EXPRESS and header.sequence > transfer.filter.sequence):
                raise ProtocolError(DropReason.BAD_PACKET, "a stream changed its queue or class")
        elif self.admission.has_streams_enough(header.origin):
            return RejectReason.HELD_BACK
        try:
            check_name(header.queue)
        except AddressError:
            return RejectReason.BAD_QUEUE_NAME
        if transfer is not None:
            self.admission.forget_early(transfer)
        transfer = IncomingTransfer(
            header.origin, header.lane, header.queue, delivery, self._settings.order, header.sequence
        )
        self._add(transfer)
        return transfer

    # ---- streams that end

    def handle_end(self, conversation: Conversation, packet: EndPacket, now_ns: int, group: GroupCommit) -> None:
        """A stream has ended, says its origin: forget it with the next commit, and then say so."""
        origin, durable = packet.origin, packet.lane < EXPRESS_LANES
        transfer = self._find(origin, packet.lane)
        if transfer is not None and (transfer.begun > packet.sequence or transfer.has_ended):
            # Its lane is another stream's by now; or it is about to be forgotten.
            transfer = None
        if origin in self._transfers or self.ended.knows(origin):
            if durable and not self.ended.knows(origin):
                self.admission.add_stream(origin)
            if not self.ended.add(origin, packet.since, packet.sequence, durable=durable):
                raise ProtocolError(DropReason.TOO_MANY_ENDS)
        if transfer is not None:
            transfer.has_ended = True
            record_forgotten(self._record, transfer, packet.sequence, now_ns)
        if durable:
            group.arrivals.ended.append((conversation, packet, transfer))
            return
        if transfer is not None:
            self._forget(transfer)
        self._answer_end(conversation, packet)

    def _answer_end(self, conversation: Conversation, packet: EndPacket) -> None:
        content = encode_end(packet.origin, packet.lane, packet.sequence, packet.since, answer=True)
        # Without an answer its origin asks again in the next session.
        is_over = conversation.session.is_closed
        if not is_over and not conversation.put_control((packet.lane, FORGOTTEN_KEY), Control(content)):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1

    def _forget(self, transfer: IncomingTransfer) -> None:
        """A stream has ended, and the disk does not have it any more."""
        streams = self._transfers[transfer.origin]
        del streams[transfer.lane]
        if not streams:
            del self._transfers[transfer.origin]
        self.admission.handle_forgotten(transfer)
        self.positions.forget(transfer)
        self.order_acks.forget(transfer)
        mailbox = self.mailboxes.get(transfer.queue)
        if mailbox is not None:
            mailbox.drop_stream(transfer.origin, transfer.lane)

    def _handle_ordered(
        self, transfer: IncomingTransfer, arrival: Arrival, header: SequenceHeader, now_ns: int, group: GroupCommit
    ) -> None:
        outcome, accepted = transfer.sequence.handle_packet(header, arrival, now_ns)
        self.order_acks.owe(transfer)
        for item, its_arrival in accepted:
            self._take(transfer, item, its_arrival, now_ns, group)
        if outcome in (Outcome.ACCEPTED, Outcome.HELD):
            return
        if outcome is not Outcome.DUPLICATE:
            record_rejected(self._record, header, transfer.delivery, outcome.value, now_ns)
        elif self._reject_again(transfer, header, arrival, now_ns, group):
            return
        elif transfer.sequence.has_accepted(header):
            # It is on disk, or will be with the commits up to the next one. What was passed over is answered by
            # the order ack, which is due at once.
            group.arrivals.store_ack(*arrival)

    def _handle_unordered(
        self, transfer: IncomingTransfer, arrival: Arrival, header: SequenceHeader, now_ns: int, group: GroupCommit
    ) -> None:
        durable = transfer.delivery in DURABLE
        if transfer.filter.handle_packet(header):
            self._take(transfer, header, arrival, now_ns, group)
            if not durable:
                record_accepted(self._record, {transfer: group.arrivals.accepted.pop(transfer)}, now_ns)
        elif (
            not self._reject_again(transfer, header, arrival, now_ns, group)
            and durable
            and not transfer.filter.has_skipped(header)
        ):
            group.arrivals.store_ack(*arrival)

    def _take(
        self, transfer: IncomingTransfer, header: SequenceHeader, arrival: Arrival, now_ns: int, group: GroupCommit
    ) -> None:
        """A packet's turn has come, once and for all: it goes into its queue, or is refused."""
        reason = self.admission.refusal(transfer, arrival[0], header.body)
        if reason is None:
            self._accept(transfer, header, arrival, now_ns, group)
        else:
            self._reject(transfer, header, arrival, reason, now_ns, group)

    def _accept(
        self, transfer: IncomingTransfer, header: SequenceHeader, arrival: Arrival, now_ns: int, group: GroupCommit
    ) -> None:
        body = header.body
        accepted = (header.sequence, header.number, header.number, messages_in(body))
        group.arrivals.accepted.setdefault(transfer, []).append(accepted)
        packet = QueuedPacket(
            (), header.origin, header.lane, header.sequence, header.number, transfer.delivery, 1, len(body), [body]
        )
        if transfer.queue not in self.mailboxes:
            self.admission.handle_made(transfer.origin, transfer.queue)
        if transfer.delivery in DURABLE:
            group.arrivals.store_ack(*arrival)
        self._put(transfer.queue, packet, head_here(body[:HEAD_BYTES], self._wall_ms(now_ns)), group)
        if transfer.delivery not in DURABLE:
            self.admission.stop_express(transfer, arrival[0])

    def complete(self, group: GroupCommit) -> None:
        """Complete the commit before it goes to the disk: positions of streams, acknowledged messages."""
        for transfer in group.arrivals.accepted:
            group.commit.positions[(transfer.origin, transfer.lane)] = transfer.row()
        for _, end, ended in group.arrivals.ended:
            if ended is not None:
                group.commit.positions.pop((end.origin, end.lane), None)
                group.commit.position_deletes.append((end.origin, end.lane))
            if self.ended.knows(end.origin):
                group.commit.positions[(end.origin, ENDED_LANE)] = self.ended.row(end.origin)
        for mailbox in self._notices.dirty:
            changed, gone = mailbox.take_changes()
            for packet in changed:
                if packet.done:
                    gone += packet.keys
                    if packet.cell:
                        group.arrivals.settled.append(packet)
                else:
                    group.commit.progress[packet.keys[0]] = packet.encode_progress()
            group.commit.message_deletes += as_ranges(sorted(gone))
        self._notices.dirty.clear()
        if self._removed:
            commit, removed = group.commit, self._removed
            commit.queues = [row for row in commit.queues if row[0] not in removed]
            commit.queue_deletes += removed
            self._removed = []

    # ---- bodies that only the disk has

    def poll_fetch(self) -> Read | None:
        """The bodies that a queue needs next."""
        wanting = self._notices.wanting
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
        self,
        transfer: IncomingTransfer,
        header: SequenceHeader,
        arrival: Arrival,
        reason: RejectReason,
        now_ns: int,
        group: GroupCommit,
    ) -> None:
        """Refuse a packet for ever; its origin is told when that is on disk."""
        transfer.rejections.add(header, reason)
        arrival[0].withhold(transfer.delivery, arrival[1])
        refused = (header.sequence, header.number, header.number, REFUSED)
        group.arrivals.accepted.setdefault(transfer, []).append(refused)
        group.arrivals.refused.append((arrival, header, reason))
        record_rejected(self._record, header, transfer.delivery, reason, now_ns)

    def _reject_again(
        self, transfer: IncomingTransfer, header: SequenceHeader, arrival: Arrival, now_ns: int, group: GroupCommit
    ) -> bool:
        """Refuse a packet that came again as it was refused before. Returns whether it was."""
        record_rejected(self._record, header, transfer.delivery, RejectReason.DUPLICATE, now_ns)
        reason = transfer.rejections.reason_of(header)
        if reason is not None:
            arrival[0].withhold(transfer.delivery, arrival[1])
            # What was decided may not be on disk yet: it is with the next commit.
            group.arrivals.refused.append((arrival, header, reason))
        return reason is not None

    def _tell_rejected(self, arrival: Arrival, header: SequenceHeader, reason: str) -> None:
        conversation, packet = arrival
        control = Control(encode_reject(header, reason), (packet,))
        if not conversation.put_control((header.lane, header.number), control):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1

    # ---- after the commit

    def handle_committed(self, group: GroupCommit, now_ns: int) -> None:
        """The commit has returned: acknowledgements may speak of it, the application may see it."""
        for (origin, lane), row in group.commit.positions.items():
            if lane == ENDED_LANE:
                continue
            transfer = self._transfers[origin][lane]
            transfer.handle_committed(row)
            if transfer.ordered:
                self.positions.handle_committed(transfer)
                self.order_acks.owe(transfer)
        record_accepted(self._record, group.arrivals.accepted, now_ns)
        for packet in group.arrivals.settled:
            self.in_hand.close(packet)
        for mailbox, packets, head in group.arrivals.queued:
            self.admission.waiting.add(packets[0].origin, -sum([packet.size_bytes for packet in packets]))
            mailbox.put_all(packets, head)
        self._drop_oldest_letters()
        self._notices.relieved = self._notices.relieved or bool(group.arrivals.queued)
        for arrival, header, reason in group.arrivals.refused:
            self._tell_rejected(arrival, header, reason)
        for conversation, end, ended in group.arrivals.ended:
            if ended is not None:
                self._forget(ended)
            self._answer_end(conversation, end)
        for conversation, numbers in group.arrivals.stored.items():
            conversation.session.handle_stored(numbers, now_ns)
            conversation.wake()

    # ---- what comes with time, and order acks

    def handle_proved(self, node_id: bytes) -> None:
        """It is known, perhaps only now, which peer has proved to be a node: that one pays for it."""
        self.admission.handle_proved(node_id)

    def handle_session_opened(self, peer_id: bytes, peer_start: int) -> None:
        """What was said on older sessions may have been lost with them: a peer is told all of it again.

        If it has started anew what its last process had begun, and no disk holds, will never be whole.
        """
        if self._starts.get(peer_id, peer_start) != peer_start:
            for mailbox in self.mailboxes.values():
                mailbox.drop_unfinished_express(peer_id)
            for transfer in list(self._transfers.get(peer_id, {}).values()):
                if transfer.delivery not in DURABLE:
                    self._forget(transfer)
            self.ended.handle_parted(peer_id)
        self._starts[peer_id] = peer_start
        self.order_acks.handle_session_opened(self._transfers.get(peer_id, {}).values())

    def handle_session_closed(self, conversation: Conversation) -> None:
        """Nobody keeps what is over: a peer that has gone may not come back."""
        self.admission.handle_session_closed(conversation)
        # What it had begun may be all that others wait for.
        self._notices.relieved = True
        for transfer in self._transfers.get(conversation.peer_id, {}).values():
            if transfer.via is conversation:
                transfer.via = None
        if conversation.peer_id not in self._transfers:
            # Nothing of it is here that a restart of it would end; and a peer may be any number of nodes.
            self._starts.pop(conversation.peer_id, None)
            self.ended.handle_parted(conversation.peer_id)

    def send_order_acks(self, route: Callable[[IncomingTransfer], Conversation | None], now_ns: int) -> None:
        """Hand every due order ack to a conversation; before that, tell streams for which there is room again."""
        self.admission.go()
        self.order_acks.send(route, now_ns)

    def handle_timer(self, now_ns: int) -> None:
        """Let order acks become due whose wait has ended, messages expire, and others come again."""
        self.order_acks.handle_timer(now_ns)
        now_ms = self._wall_ms(now_ns)
        self.expiry.handle_timer(now_ms)
        for mailbox in self._notices.resuming.poll_due(now_ms):
            mailbox.interrupt()

    def next_deadline(self) -> int | None:
        """When the next order ack becomes due, a message expires or a wait ends, or None."""
        earliest_ns = self.order_acks.next_deadline()
        for at_ms in (self._notices.resuming.earliest(), self.expiry.next_deadline_ms()):
            if at_ms is not None:
                at_ns = at_ms * MS - self._wall_offset_ns
                earliest_ns = at_ns if earliest_ns is None else min(earliest_ns, at_ns)
        return earliest_ns

    # ---- handing out

    def give_back(self, mailbox: Mailbox, lease: Lease, way: Return, now_ns: int, group: GroupCommit) -> None:
        """A message was not processed: it comes again, or goes to the dead-letter queue when it failed too often."""
        died = way.reason is DeadReason.READER_DIED
        failures = mailbox.count_failure(lease, died=died) if way.failed else 0
        if self.is_over(mailbox, failures):
            self.dead_letter(mailbox, lease, way.reason, now_ns, group)
            return
        redelivery = way.redelivery or self._settings.redelivery_of(mailbox.name)
        length_ms = (wait_after_death_ms if died else wait_ms)(redelivery, failures) if failures else 0
        if way.delay_ms is not None:
            length_ms = way.delay_ms
        wait = Wait(self._wall_ms(now_ns) + length_ms, length_ms, redelivery.keep_order) if length_ms else None
        self._notices.returned.append((mailbox.name, [lease]))
        mailbox.give_back(lease, wait)

    def is_over(self, mailbox: Mailbox, failures: int) -> bool:
        """Whether a message of a queue has failed so often that it is handed out no more."""
        return failures > self._settings.max_redeliveries and mailbox.name != DEAD_LETTER_QUEUE

    def dead_letter(self, mailbox: Mailbox, lease: Lease, reason: str, now_ns: int, group: GroupCommit) -> None:
        """Move a message from a queue to the dead-letter queue, in one commit."""
        packet, index = lease.packet, lease.index
        try:
            content = packet.open()
            body, ordinal = content.bodies[index], content.first_ordinal + index
            properties = dict(content.properties[index]) if content.properties else {}
        except ProtocolError:
            body, ordinal, properties = b"".join(packet.pieces), packet.number, {}
        properties.update(dead_reason=reason, dead_destination=mailbox.name, dead_attempts=packet.failures_of(index))
        mailbox.acknowledge(lease)
        self.put_dead_letter(Outgoing(body, properties), packet.origin, ordinal, self._wall_ms(now_ns), group)

    def _wall_ms(self, now_ns: int) -> int:
        return (now_ns + self._wall_offset_ns) // MS

    def note_runs(self, now_ns: int) -> None:
        """Write down what was handed out, came back or was purged since the last call. Ends every open run."""
        for mailbox in self._notices.read:
            for fields in handed_fields(mailbox.name, mailbox.take_runs()):
                self._record("handed", now_ns, **fields)
        self._notices.read.clear()
        for event, taken in (("returned", self._notices.returned), ("purged", self._notices.purged)):
            for queue, several in groupby(taken, key=itemgetter(0)):
                self._note(event, queue, as_runs([lease for _, leases in several for lease in leases]), now_ns)
            taken.clear()

    def note_settled(self, now_ns: int) -> None:
        """Write down what the commit that begins now takes out of its queues for good, behind its handing out."""
        self.note_runs(now_ns)
        for mailbox, settled in self._notices.settled.items():
            self._note("settled", mailbox.name, settled_runs(settled), now_ns)
        self._notices.settled.clear()

    def _note(self, event: str, queue: str, runs: Iterable[Run], now_ns: int) -> None:
        for fields in handed_fields(queue, runs):
            del fields["redelivered"]
            self._record(event, now_ns, **fields)
