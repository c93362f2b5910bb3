"""Incoming streams.

A packet becomes visible to the application, store-acknowledged and order-acknowledged only after the commit that holds
it and its stream's new position has returned.
"""

from collections import Counter
from collections.abc import Callable

from triack.base.clock import UNSET_BEFORE_MS, WallClock
from triack.base.commit import HEAD_BYTES, PositionRow, StoreContent
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import check_queue, composed
from triack.base.reasons import DropReason, FreedReason, RejectReason
from triack.base.session_log import Record
from triack.base.units import in_ns
from triack.ordering.incoming import Outcome
from triack.ordering.wire import RejectPacket, RelayedHeader, RelayedReject, SequenceHeader
from triack.queues.body_head import is_sealed, messages_in, priority_of
from triack.queues.clock_jumps import ClockJumps, head_here, late_by_ms
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.incoming_run import IncomingRun, held_runs
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Mailbox, QueuedPacket
from triack.queues.mailboxes.system_queues import large_target
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.link import Conversation
from triack.queues.peers.permissions import Permissions
from triack.queues.routes import BY_HAND
from triack.queues.schedule import Phase, Restore, Schedule
from triack.queues.streams.admission import Admission
from triack.queues.streams.group_commit import REFUSED, GroupCommit, Turn
from triack.queues.streams.incoming_ends import ENDED_STREAM, IncomingEnds
from triack.queues.streams.incoming_stream import HELD_BYTES, Arrival, IncomingStream, IncomingStreams, new_row
from triack.queues.streams.owed_acks import OwedAcks, Positions
from triack.queues.streams.sealing import Refused, Sealing
from triack.queues.streams.stream_records import StreamRecords


class Inbox:
    """All incoming streams of a node.

    Attributes:
        ends: those of them that end.
        on_refused: called with the queue, the sender, the reason and the time when a packet is refused for good.
    """

    def __init__(
        self,
        settings: NodeSettings,
        queues: LocalQueues,
        wall: WallClock,
        drops: Counter[DropReason],
        record: Record,
        *,
        permissions: Permissions,
        sealing: Sealing,
    ) -> None:
        self.sealing = sealing
        self.on_refused: Callable[[str, str, RejectReason, int], None] = lambda *_: None
        self.route: Callable[[IncomingStream], Conversation | None] = lambda stream: stream.via
        self._node_id = permissions.node_id
        self._origins = permissions.origins
        self._settings = settings
        self._queues = queues
        self._mailboxes = queues.mailboxes
        self._wall = wall
        self._drops = drops
        self._records = records = StreamRecords(record)
        self._streams = IncomingStreams()
        self._starts: dict[bytes, int] = {}
        self.admission = Admission(settings, queues, permissions, goes_on=self._goes_on)
        self.positions = Positions(records)
        self.order_acks = OwedAcks(permissions.node_id, sealing, drops, records)
        parts = self.admission.stream_places, permissions, sealing, self.order_acks, drops, records
        self.ends = IncomingEnds(self._streams, *parts, forget=self._forget)
        self.held = Deadlines[IncomingStream]()
        self._held_at: dict[IncomingStream, tuple[int, int]] = {}
        # Before the store ack timeout of the relay, which would end its session.
        self._hold_ns = in_ns(settings.session.store_ack_timeout_min_s) // 2

    def handle_settings(self, settings: NodeSettings) -> None:
        """Other quotas are in force."""
        self._settings = settings
        self.admission.disk_room.set_reserve(settings.limits.disk_reserve_bytes)

    def register(self, schedule: Schedule) -> None:
        """Register what is done for streams that arrive, and when."""
        admission, notices = self.admission, self._queues.notices
        room = notices.relieved, admission.stream_places.freed, admission.queue_places.wanted
        schedule.restore(Restore.RULES, self.restore)
        schedule.restore(Restore.FILLED, self._handle_restored)
        schedule.timer(self.handle_timer, self.order_acks.deadlines, self.held, self.ends.awaited.due)
        schedule.step(Phase.BEGIN, self.complete)
        schedule.step(Phase.ACKS, self.handle_committed)
        schedule.step(Phase.GIVE, self.send_order_acks, self.order_acks.due, *room)
        schedule.tell(admission.holds.news)

    # ---- starting

    def restore(self, content: StoreContent, turn: Turn, _jumps: ClockJumps) -> None:
        """Restore the streams from the store."""
        self.admission.disk_room.all_bytes = content.disk_bytes
        self.admission.disk_room.handle_room(content.room_bytes)
        self.sealing.restore(content.state)
        for row in content.positions:
            self._restore_stream(row, turn.now_ns)

    def _handle_restored(self, _content: StoreContent, _turn: Turn, _jumps: ClockJumps) -> None:
        """The queues are restored: drop what they have of streams that a commit has forgotten.

        A later one was to delete it, and the process died in between.
        """
        for mailbox in self._mailboxes.values():
            for stream in mailbox.unfinished:
                if self._streams.find(*stream) is None:
                    mailbox.drop_stream(*stream)

    def _restore_stream(self, row: PositionRow, now_ns: int) -> None:
        if row.stream == ENDED_STREAM:
            self.ends.restore(row)
            return
        stream = IncomingStream(row, self._settings.order)
        self._records.found(stream, row, now_ns)
        if stream.relay:
            self._origins.bind(stream.origin, stream.relay, stream.from_name)
        self._add(stream)
        if stream.ordered:
            self.positions.handle_committed(stream)
        self.admission.count_early(stream)

    @property
    def streams(self) -> list[IncomingStream]:
        """Every incoming stream that has not ended."""
        return [stream for stream in self._streams if not stream.has_ended]

    def relay_of(self, origin: bytes, number: int) -> str:
        """The neighbour that brings a stream of another node; empty for a neighbour's own one."""
        stream = self._streams.find(origin, number)
        return "" if stream is None else stream.relay

    def _goes_on(self, origin: bytes, number: int) -> bool:
        stream = self._streams.find(origin, number)
        return stream is not None and stream.via is not None

    def _add(self, stream: IncomingStream) -> None:
        if self._streams.add(stream):
            self.admission.stream_places.charge(stream.origin)

    # ---- admission

    def handle_directory_changed(self) -> None:
        """Check the permission of each stream again when its next packet comes.

        A peer that may no longer send will not bring the rest of a large body: free what is stored of it.
        """
        for stream in self._streams:
            stream.may_send = None
            target, permissions = large_target(stream.queue), self.admission.permissions
            if target and not permissions.may_continue(stream.relay, stream.origin, target):
                self._drop_unfinished(stream)

    def has_room(self, name: str, *, durable: bool, coming: int = 0) -> bool:
        """Whether a queue accepts one more message of this node itself, besides the ``coming`` ones."""
        mailbox = self._mailboxes.get(name)
        return mailbox is None or self.admission.has_room(mailbox, durable=durable, coming=coming)

    def refuses(self, name: str, *, durable: bool) -> bool:
        """Whether a queue accepts no more messages of this node, and is set to reject instead of letting it wait."""
        return self._queues.quota_of(name).when_full == "reject" and not self.has_room(name, durable=durable)

    # ---- packets

    def handle_packet(
        self, conversation: Conversation, packet: int, header: SequenceHeader, delivery: Delivery, turn: Turn
    ) -> None:
        """Handle a sequence packet that a session delivered. Its body has been checked.

        Raises ProtocolError if the packet contradicts what is known of its stream.
        """
        if header.origin != conversation.peer_id and self._refuses_relay(conversation, packet, header, delivery, turn):
            return
        comes_sealed = is_sealed(header.body)
        if self._refuses_seal(conversation, packet, header, delivery, turn):
            return
        stream = self._stream_of(conversation, header, delivery)
        if stream is RejectReason.HELD_BACK:
            self._records.rejected(header, delivery, stream, turn.now_ns)
            conversation.withhold(delivery, packet)
            self.ends.awaited.hasten(conversation.link_name)
            if not self.admission.stream_places.keep_out(conversation, header, packet):
                self._drops[DropReason.CONTROL_OVERFLOW] += 1
            return
        if isinstance(stream, RejectReason):
            self._refuse((conversation, packet), header, delivery, stream, turn.now_ns)
            return
        stream.sealed = comes_sealed
        if not stream.heard:
            self.admission.stream_places.let_in(conversation, stream.id)
        if stream.via is not conversation:
            self._handle_via(stream, conversation, header)
        stream.agree(conversation, header)
        stream.handle_heard(conversation, priority_of(header.body))
        if stream.forget_unwanted(header) and delivery in DURABLE:
            turn.accepted.setdefault(stream, [])
        mailbox = self._mailboxes.get(stream.queue)
        if mailbox is not None:
            # Do this first: it may make the room that this packet needs.
            mailbox.drop_unfinished(header.origin, header.stream, *stream.unwanted(header))
        if not self._holds_back(stream, (conversation, packet), header, turn.now_ns):
            handle = self._handle_ordered if stream.ordered else self._handle_unordered
            handle(stream, (conversation, packet), header, turn)
        self.admission.count_early(stream)

    def _refuses_relay(
        self, conversation: Conversation, packet: int, header: SequenceHeader, delivery: Delivery, turn: Turn
    ) -> bool:
        """Whether a packet of another node than the neighbour is refused, and its origin told so.

        Nothing of it is remembered: the neighbour might have invented all of it. Raises ProtocolError
        ``foreign-origin``.
        """
        if not isinstance(header, RelayedHeader):
            raise ProtocolError(DropReason.FOREIGN_ORIGIN)
        stream = self._streams.find(header.origin, header.stream)
        if stream is not None and stream.via is conversation and stream.may_send is not None:
            return False
        # A message of this node that comes back has travelled in a circle.
        is_own = header.origin == self._node_id
        reason = RejectReason.ROUTE_LOOP if is_own else self.admission.permissions.check_brought(conversation, header)
        if reason is None:
            return False
        self.on_refused(header.queue, _sender(header, conversation), reason, turn.now_ns)
        self._refuse((conversation, packet), header, delivery, reason, turn.now_ns)
        return True

    def _refuses_seal(
        self, conversation: Conversation, packet: int, header: SequenceHeader, delivery: Delivery, turn: Turn
    ) -> bool:
        """Open a sealed packet. Returns whether it, or one that should be sealed, is refused; its origin hears so.

        Nothing of it is remembered, as of all that a relay might have invented.
        """
        stream = self._streams.find(header.origin, header.stream)
        refused: Refused | None = None
        if is_sealed(header.body):
            refused = self.sealing.open(conversation, header, delivery, turn.commit)
            if refused is None and stream is not None and not stream.sealed:
                # Its origin never sent this stream unsealed: what came so was a relay's own, and proves nothing of it.
                self._forget(stream)
        elif (stream is not None and stream.sealed) or self.sealing.demands(conversation, header):
            refused = Refused(RejectReason.NOT_SEALED)
        if refused is None:
            return False
        if stream is not None and stream.sealed and stream.has_taken(header):
            # A bad copy of a stored packet: its relay may forget it, and its origin need not know.
            self._records.rejected(header, delivery, RejectReason.DUPLICATE, turn.now_ns)
            if delivery in DURABLE:
                turn.store_ack(conversation, packet)
            return True
        if stream is not None and stream.sealed and stream.relay and stream.has_passed(header):
            self._refuse_passed(stream, header, (conversation, packet), turn.now_ns)
            return True
        self.on_refused(header.queue, _sender(header, conversation), refused.reason, turn.now_ns)
        self._refuse((conversation, packet), header, delivery, refused.reason, turn.now_ns, refused.key)
        return True

    def _handle_via(self, stream: IncomingStream, conversation: Conversation, header: SequenceHeader) -> None:
        """A stream comes by another conversation than before, perhaps with another neighbour."""
        before, relay = stream.side, "" if header.origin == conversation.peer_id else conversation.link_name
        stream.from_name = header.from_name if relay and isinstance(header, RelayedHeader) else ""
        if relay and self._origins.bind(stream.origin, relay, stream.from_name):
            self.admission.handle_proved(stream.origin)
        if relay == stream.relay:
            return
        self._streams.bring(stream, relay)
        stream.may_send = None
        self.order_acks.handle_moved(stream, before)

    def handle_run(self, conversation: Conversation, run: IncomingRun, delivery: Delivery, turn: Turn) -> bool:
        """Handle all packets of a run, as ``handle_packet`` would one by one.

        Returns False when the packets must come one by one because their outcomes may differ; nothing has changed then.
        """
        header = run.header
        stream = self._streams.find(header.origin, header.stream)
        if stream is None or not stream.is_of(header, delivery):
            return False
        mailbox = self._takes_run(stream, run)
        if (
            mailbox is None
            or (header.origin != conversation.peer_id and stream.via is not conversation)
            or (stream.relay and self.sealing.demands(conversation, header))
        ):
            return False
        numbers = range(run.packet, run.packet + run.length)
        judged = self._judge_run(stream, conversation, run, numbers, turn.now_ns)
        if judged is None:
            return False
        outcome, following = judged
        stream.handle_heard(conversation, priority_of(header.body))
        if mailbox.partials.by_stream:
            mailbox.drop_unfinished(header.origin, header.stream, *stream.unwanted(header))
        if stream.ordered:
            stream.agree(conversation, header)
            self.order_acks.owe(stream)
        if outcome is Outcome.OUT_OF_ORDER:
            if stream.relay and self.held.of(stream) is None:
                self._hold(stream, turn.now_ns)
        else:
            if delivery in DURABLE:
                turn.stored.setdefault(conversation, []).extend(numbers)
            self._accept_run(stream, mailbox, run, turn)
            if following:
                self._take_held(stream, following, turn)
            if delivery not in DURABLE:
                self.admission.stop_express(stream, conversation)
        self.admission.count_early(stream)
        return True

    def _judge_run(
        self, stream: IncomingStream, conversation: Conversation, run: IncomingRun, numbers: range, now_ns: int
    ) -> tuple[Outcome, list[tuple[SequenceHeader, Arrival]]] | None:
        """The outcome of a run and the packets that may follow it now; None when each must be inspected."""
        header, packets = run.header, run.length
        early_bytes = run.body_bytes + packets * HELD_BYTES
        if stream.is_too_early(header, crowded=not self.admission.early.takes(header.origin, early_bytes)):
            return None
        if not stream.ordered:
            return (Outcome.ACCEPTED, []) if stream.filter.handle_run(header, packets) else None

        def items() -> list[tuple[SequenceHeader, Arrival]]:
            return [(item, (conversation, number)) for item, number in zip(run.headers(), numbers, strict=True)]

        return stream.sequence.handle_run(header, packets, now_ns, ack_requested=run.ack_requested, items=items)

    def _takes_run(self, stream: IncomingStream, run: IncomingRun) -> Mailbox | None:
        """The queue that accepts all packets of a run; None when each must be inspected."""
        if stream.sealed or stream.queue not in self._mailboxes:
            return None
        mailbox = self._mailboxes[stream.queue]
        if not mailbox.takes_runs:
            return None
        if run.piece_of is not None and (
            stream.delivery not in DURABLE
            or run.sent_at_ms[0] < UNSET_BEFORE_MS
            or not mailbox.partials.expects(stream.origin, stream.number, run.piece_of[0])
        ):
            return None  # the first piece, which was charged for all, is not here; or each has to be charged, or dated
        takes = self.admission.takes_run(stream, mailbox, run.length, run.messages, run.body_bytes)
        return mailbox if takes else None

    def _take_held(self, stream: IncomingStream, held: list[tuple[SequenceHeader, Arrival]], turn: Turn) -> None:
        """Packets that waited for one before them have their turn: accept them, by the run where possible."""
        for run, items in held_runs(held, stream.delivery):
            mailbox = self._takes_run(stream, run) if run is not None else None
            if run is None or mailbox is None:
                for header, arrival in items:
                    self._take(stream, header, arrival, turn)
                continue
            for _, arrival in items:
                turn.store_ack(*arrival)
            self._accept_run(stream, mailbox, run, turn)

    def _accept_run(self, stream: IncomingStream, mailbox: Mailbox, run: IncomingRun, turn: Turn) -> None:
        stream.rejected = 0
        header, delivery = run.header, stream.delivery
        accepted = (header.sequence, header.number, run.last, run.messages)
        queued = mailbox.charge_run(run, delivery)
        if any(run.receive_by_ms) or run.sent_at_ms[0] < UNSET_BEFORE_MS:
            self._date(queued, turn.now_ns)
        if delivery in DURABLE:
            turn.accepted.setdefault(stream, []).append(accepted)
            self._queues.add_rows(mailbox, queued, None, turn)
        else:
            mailbox.put_all(queued, None)
            self._records.accepted({stream: [accepted]}, turn.now_ns)

    def _date(self, packets: list[QueuedPacket], now_ns: int) -> None:
        """Date packets of a sender whose clock is not set: their times count from now on."""
        now_ms = self._wall.ms(now_ns)
        for packet in packets:
            by_ms = late_by_ms(packet.sent_at_ms, packet.receive_by_ms, now_ms)
            packet.sent_at_ms += by_ms
            packet.receive_by_ms += by_ms if packet.receive_by_ms else 0

    def _holds_back(self, stream: IncomingStream, arrival: Arrival, header: SequenceHeader, now_ns: int) -> bool:
        """Whether a packet is not accepted now because there is no room for it."""
        admission = self.admission
        if not stream.is_fresh(header):
            return False
        if stream.relay and not stream.ordered and stream.filter.full:
            # No origin says which of its packets will not come, so the oldest gaps are those that will not be filled.
            stream.filter.forget_oldest()
        is_early = admission.announces_body(stream, header.body) and not stream.sequence.is_next(header)
        if is_early or stream.is_too_early(header, crowded=admission.early.is_full(header.origin)):
            stream.rejected += 1
            self._records.rejected(header, stream.delivery, RejectReason.HOLD_FULL, now_ns)
            return True
        if stream.delivery not in DURABLE:
            return False
        if not admission.must_wait(stream, header) or admission.refusal(stream, arrival[0], header.body):
            return False
        stream.rejected += 1
        self._records.rejected(header, stream.delivery, RejectReason.HELD_BACK, now_ns)
        if stream.ordered:
            # Acknowledge what came before it: nothing more will be accepted for a while.
            stream.sequence.ack.handle_packet(now_ns, ack_requested=header.ack_requested)
            self.order_acks.owe(stream)
        if not admission.stop(stream, arrival[0], (arrival[1],)):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1
        return True

    def _stream_of(
        self, conversation: Conversation, header: SequenceHeader, delivery: Delivery
    ) -> IncomingStream | RejectReason:
        stream, queue = self._streams.find(header.origin, header.stream), composed(header.queue)
        is_known = stream is not None and stream.begun == header.sequence
        if stream.has_ended if stream is not None and is_known else self.ends.ended.has(header, delivery):
            return RejectReason.STALE_SEQUENCE
        if stream is not None:
            if not stream.ordered and header.sequence > stream.filter.sequence:
                # Its origin has begun anew: the filter accepts nothing older, so the rest of a message cannot come.
                self._drop_unfinished(stream)
            if stream.queue == queue and stream.delivery is delivery:
                return stream
            # Express streams are numbered anew in each life of their origin, under a greater sequence.
            if not (delivery is stream.delivery is Delivery.EXPRESS and header.sequence > stream.filter.sequence):
                raise ProtocolError(DropReason.BAD_PACKET, "a stream changed its queue or class")
        try:
            check_queue(queue)
        except AddressError:
            return RejectReason.BAD_QUEUE_NAME
        if stream is None and self._has_streams_enough(conversation, header, queue):
            return RejectReason.HELD_BACK
        if stream is not None:
            self.admission.forget_early(stream)
        stream = IncomingStream(new_row(header, queue, delivery), self._settings.order)
        self._add(stream)
        return stream

    def _has_streams_enough(self, conversation: Conversation, header: SequenceHeader, queue: str) -> bool:
        """Whether the peer that pays for a new stream may have no more: for an origin that it brings, the neighbour.

        A neighbour may invent any number of origins, so it pays for the first stream of each as well.
        """
        origin, from_name = header.origin, header.from_name if isinstance(header, RelayedHeader) else ""
        is_new = origin != conversation.peer_id and self._origins.of(origin) is None
        if is_new:
            self._origins.bind(origin, conversation.link_name, from_name)
        has_enough = self.admission.stream_places.has_enough(origin, queue)
        if is_new and has_enough:
            self._origins.forget(origin)
        return has_enough

    def _forget(self, stream: IncomingStream) -> None:
        """Forget a stream that has ended and is no longer on the disk."""
        if self._streams.remove(stream) and not self.ends.ended.is_brought(stream.origin):
            self._origins.forget(stream.origin)
        self.admission.handle_forgotten(stream)
        self.positions.forget(stream)
        self.held.set(stream, None)
        self._held_at.pop(stream, None)
        self.order_acks.forget(stream)
        self._drop_unfinished(stream)

    def _drop_unfinished(self, stream: IncomingStream) -> None:
        """Drop messages of which only some pieces have arrived: the others will not come."""
        mailbox = self._mailboxes.get(stream.queue)
        if mailbox is not None:
            mailbox.drop_stream(stream.origin, stream.number)

    def _handle_ordered(self, stream: IncomingStream, arrival: Arrival, header: SequenceHeader, turn: Turn) -> None:
        outcome, accepted = stream.sequence.handle_packet(header, arrival, turn.now_ns)
        self.order_acks.owe(stream)
        if accepted:
            self._take(stream, *accepted[0], turn)
            self._take_held(stream, accepted[1:], turn)
        if stream.relay and stream.sequence.held and self.held.of(stream) is None:
            self._hold(stream, turn.now_ns)
        if outcome in (Outcome.ACCEPTED, Outcome.OUT_OF_ORDER):
            return
        stream.rejected += 1
        passed = outcome is Outcome.DUPLICATE and stream.has_passed(header)
        if stream.relay and (passed or outcome is Outcome.STALE_SEQUENCE):
            self._refuse_passed(stream, header, arrival, turn.now_ns)
        elif outcome is not Outcome.DUPLICATE:
            self._records.rejected(header, stream.delivery, outcome.value, turn.now_ns)
        elif not self._reject_again(stream, header, arrival, turn) and stream.sequence.has_accepted(header):
            # It is on disk, or will be with the next commit. The order ack is due now: it says which numbers were
            # passed over.
            turn.store_ack(*arrival)

    def _refuse_passed(self, stream: IncomingStream, header: SequenceHeader, arrival: Arrival, now_ns: int) -> None:
        """A relay brings a packet that this node no longer waits for. Tell the relay: it keeps the packet until then.

        It is not on the disk here, so no store ack may say that it is.
        """
        self._refuse(arrival, header, stream.delivery, RejectReason.STALE_SEQUENCE, now_ns)

    def _handle_unordered(self, stream: IncomingStream, arrival: Arrival, header: SequenceHeader, turn: Turn) -> None:
        durable = stream.delivery in DURABLE
        if stream.filter.handle_packet(header):
            self._take(stream, header, arrival, turn)
            if not durable:
                self._records.accepted({stream: turn.accepted.pop(stream)}, turn.now_ns)
            return
        stream.rejected += 1
        passed = durable and stream.has_passed(header)
        if passed and stream.relay:
            self._refuse_passed(stream, header, arrival, turn.now_ns)
        elif not self._reject_again(stream, header, arrival, turn) and durable and not passed:
            turn.store_ack(*arrival)

    def _take(self, stream: IncomingStream, header: SequenceHeader, arrival: Arrival, turn: Turn) -> None:
        """A packet's turn has come: put it into its queue, or reject it permanently."""
        reason = self.admission.refusal(stream, arrival[0], header.body)
        if reason is None:
            self._accept(stream, header, arrival, turn)
        else:
            self._reject(stream, header, arrival, reason, turn)

    def _accept(self, stream: IncomingStream, header: SequenceHeader, arrival: Arrival, turn: Turn) -> None:
        stream.rejected = stream.announces_bytes = 0
        body = header.body
        accepted = (header.sequence, header.number, header.number, messages_in(body))
        turn.accepted.setdefault(stream, []).append(accepted)
        packet = QueuedPacket((), *header.named, stream.delivery, 1, len(body), [body])
        if stream.queue not in self._mailboxes:
            self.admission.queue_places.handle_made(stream.origin, stream.queue)
        if stream.delivery in DURABLE:
            turn.store_ack(*arrival)
        self._queues.put(stream.queue, packet, head_here(body[:HEAD_BYTES], turn.now_ms), turn)
        if stream.delivery not in DURABLE:
            self.admission.stop_express(stream, arrival[0])

    def complete(self, group: GroupCommit) -> None:
        """Complete the commit before it goes to the disk: add positions of streams, and streams that have ended."""
        if group.accepted or group.ended:
            for stream in group.accepted:
                group.commit.positions[stream.id] = stream.row()
            self.ends.complete(group)

    # ---- rejections

    def _refuse(
        self,
        arrival: Arrival,
        header: SequenceHeader,
        delivery: Delivery,
        reason: RejectReason,
        now_ns: int,
        sealer: bytes = b"",
    ) -> None:
        """Refuse a packet, and tell its origin. Nothing of it is remembered."""
        self._records.rejected(header, delivery, reason, now_ns)
        arrival[0].withhold(delivery, arrival[1])
        self._tell_rejected(arrival, header, reason, sealer)

    def _reject(
        self, stream: IncomingStream, header: SequenceHeader, arrival: Arrival, reason: RejectReason, turn: Turn
    ) -> None:
        """Reject a packet permanently; its origin is notified when the rejection is on disk."""
        stream.rejected += 1
        stream.rejections.add(header, reason)
        arrival[0].withhold(stream.delivery, arrival[1])
        refused = (header.sequence, header.number, header.number, REFUSED)
        turn.accepted.setdefault(stream, []).append(refused)
        turn.refused.append((arrival, header, reason))
        self._records.rejected(header, stream.delivery, reason, turn.now_ns)
        self.on_refused(header.queue, _sender(header, arrival[0]), reason, turn.now_ns)

    def _reject_again(self, stream: IncomingStream, header: SequenceHeader, arrival: Arrival, turn: Turn) -> bool:
        """Reject a duplicate if it was rejected before. Returns whether it was."""
        self._records.rejected(header, stream.delivery, RejectReason.DUPLICATE, turn.now_ns)
        reason = stream.rejections.reason_of(header)
        if reason is not None:
            arrival[0].withhold(stream.delivery, arrival[1])
            # The rejection may not be on disk yet; it is with the next commit.
            turn.refused.append((arrival, header, reason))
        return reason is not None

    def _tell_rejected(self, arrival: Arrival, header: SequenceHeader, reason: str, sealer: bytes = b"") -> None:
        """Tell the origin of a packet that it was refused; ``sealer`` is the key that it was sealed with, if known."""
        conversation, packet = arrival
        word = RejectPacket(*header.named, reason)
        if header.origin != conversation.peer_id:
            word = self.sealing.prove(RelayedReject(*header.named, reason, 0, self._node_id), sealer)
        if not conversation.say(word, (packet,)):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1

    # ---- after the commit

    def handle_committed(self, group: GroupCommit) -> None:
        """The commit has returned: acknowledge what it holds."""
        if not (group.stored or group.accepted or group.refused or group.ended):
            return
        now_ns = group.now_ns
        for (origin, number), row in group.commit.positions.items():
            if number == ENDED_STREAM:
                continue
            stream = self._streams.find(origin, number)
            if stream is None or stream.sealed is not bool(row.sealed):
                continue  # of the stream that the sealed one has replaced
            stream.handle_committed(row)
            if stream.ordered:
                self.positions.handle_committed(stream)
                self.order_acks.owe(stream)
        self._records.accepted(group.accepted, now_ns)
        for arrival, header, reason in group.refused:
            self._tell_rejected(arrival, header, reason)
        self.ends.handle_committed(group, now_ns)
        for conversation, numbers in group.stored.items():
            conversation.session.handle_stored(numbers, now_ns)
            conversation.wake()

    # ---- sessions, timers and order acks

    def handle_session_opened(self, peer_id: bytes, peer_start: int, name: str) -> None:
        """Tell a peer again all that may have been lost with older sessions.

        If the peer has restarted, the express messages that its last process had begun will never be complete.
        """
        if self._starts.get(peer_id, peer_start) != peer_start:
            for mailbox in self._mailboxes.values():
                mailbox.drop_unfinished_express(peer_id)
            for stream in self._streams.of(peer_id):
                if stream.delivery not in DURABLE:
                    self._forget(stream)
            self.ends.ended.handle_parted(peer_id)
        self._starts[peer_id] = peer_start
        self.order_acks.handle_session_opened(self._streams.by(peer_id, name))

    def handle_session_closed(self, conversation: Conversation) -> None:
        """A session has ended: keep nothing for it, as its peer may not come back."""
        self.admission.handle_session_closed(conversation)
        # Its unfinished messages may be all that blocks others.
        self._queues.notices.relieved[conversation] = None
        for stream in self._streams.by(conversation.peer_id, conversation.link_name):
            if stream.via is conversation:
                stream.via = None
        if not self._streams.of(conversation.peer_id):
            # Nothing here depends on whether it restarts, and one peer may appear as any number of nodes.
            self._starts.pop(conversation.peer_id, None)
            self.ends.ended.handle_parted(conversation.peer_id)

    def send_order_acks(self, turn: Turn) -> None:
        """Hand every due order ack to a conversation; first let streams continue when there is room for them again."""
        self.admission.go()
        if self.order_acks.due:
            self.order_acks.send(self.route, turn.now_ns)

    def handle_timer(self, turn: Turn) -> None:
        """Let order acks become due whose wait has ended, and give back packets that have waited for a gap to close."""
        now_ns = turn.now_ns
        self.order_acks.handle_timer(now_ns)
        if self.ends.awaited.ends:
            self.ends.handle_timer(turn)
        for stream in self.held.poll_due(now_ns):
            position = self._held_at.pop(stream)
            if not stream.sequence.held or stream.has_ended:
                continue
            if stream.sequence.position == position:
                self._let_go(stream, now_ns)
            else:
                self._hold(stream, now_ns)

    def _hold(self, stream: IncomingStream, now_ns: int) -> None:
        """Wait for a gap to close, but not until the relay that waits for store acks ends its session."""
        wait_ns = stream.via.session.peer_store_wait_ns if stream.via is not None else 0
        self.held.set(stream, now_ns + (min(self._hold_ns, wait_ns // 2) if wait_ns else self._hold_ns))
        self._held_at[stream] = stream.sequence.position

    def _let_go(self, stream: IncomingStream, now_ns: int) -> None:
        """Give packets back to the relay that has brought them: no store ack can come for them in time.

        With a relay on the way, a gap may last: the packet that is missing may wait elsewhere, or may have been given
        up. The relay forgets them. Their origin has them, and resends them.
        """
        for header, arrival in stream.sequence.let_go():
            self._records.rejected(header, stream.delivery, RejectReason.HELD_BACK, now_ns)
            self._tell_rejected(arrival, header, FreedReason.LET_GO)
        self.admission.count_early(stream)


def _sender(header: SequenceHeader, conversation: Conversation) -> str:
    """The node that has sent a packet, as its neighbour, or the relay that brings it, calls it."""
    if isinstance(header, RelayedHeader):
        return f"{header.from_name}{BY_HAND}{conversation.link_name}"
    return conversation.link_name
