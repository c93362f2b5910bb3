"""The engine of a queue manager: sessions, sequences and queues put together.

Pure: a host owns clock, sockets and disk. Inputs are the calls of the application and ``handle_*``. After every input,
and when ``next_deadline`` has come, the host calls ``poll`` and does what it says, one effect after the other
(``triack.queues.effects`` has their order). Nothing is swept: who has something to do puts itself into a ready set
(``wake``), who waits for a moment into ``Deadlines``; all others cost nothing.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from triack.base.commit import Read, StoreContent
from triack.base.datagram import Channels, Header, Kind, read_header
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import ProtocolError, TriackError
from triack.base.peers import Directory
from triack.base.reasons import DeadReason, DropReason
from triack.ordering import wire
from triack.queues.control import Control
from triack.queues.deadlines import Deadlines
from triack.queues.effects import Effect, Job, Send, StartJob, TellRollback, WriteRecords
from triack.queues.group_commit import GroupCommit
from triack.queues.handshake import Handshakes, session_settings
from triack.queues.inbox import Inbox
from triack.queues.incoming_transfer import IncomingTransfer
from triack.queues.link import Conversation, Link
from triack.queues.mailbox import Lease, Mailbox, Run
from triack.queues.news import News
from triack.queues.outbox import Outbox, PacketContext
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.packing import Outgoing, check
from triack.queues.recorder import Recorder, start_record
from triack.queues.redelivery import Return
from triack.queues.settings import NodeSettings
from triack.queues.stages import Stage, Waiter
from triack.session import events
from triack.session.frames import Hello
from triack.session.session import Session, content_limit_bytes
from triack.session.states import CloseReason, State

if TYPE_CHECKING:
    from random import Random

__all__ = ["Engine"]

_KINDS = {
    events.TransmitKind.CONNECT: Kind.CONNECT,
    events.TransmitKind.ACCEPT: Kind.ACCEPT,
    events.TransmitKind.DATA: Kind.DATA,
}


class Engine:
    """One queue manager without its I/O.

    Args:
        content: what the store had at the start.
        name: a label for people.
        address: where the node listens, empty when it does not.
        settings: every limit and timeout.
        queues: the only queues there are, or None to make them on arrival.
        channels: makes what protects datagrams.
        random: for ids and jitter.
        now_ns: the monotonic clock.
        wall_offset_ns: wall clock minus monotonic clock.
        recording: whether to keep a session log.

    Attributes:
        node_id: 16 bytes that name this node for ever.
        drops: what was dropped, by reason.
        closes: sessions that ended, by reason.
        failure: what ended the store, or None.
        news: what it has to tell of its links.
        draining: whether the node is closing and takes nothing new.
    """

    def __init__(
        self,
        content: StoreContent,
        *,
        name: str,
        address: str,
        settings: NodeSettings,
        queues: list[str] | None,
        channels: Channels,
        random: "Random",
        now_ns: int,
        wall_offset_ns: int,
        recording: bool,
    ) -> None:
        self.node_id = content.node_id
        self.address = address
        self.settings = settings
        self.drops: Counter[DropReason] = Counter()
        self.closes: Counter[str] = Counter()
        self.failure: TriackError | None = None
        self.draining = False
        self._channels = channels
        self._wall_offset_ns = wall_offset_ns
        self._recorder = Recorder(content.node_id, content.incarnation, wall_offset_ns, now_ns) if recording else None
        self._group = GroupCommit()
        self._job: Job | None = None
        self._read_next = False
        self._awake: dict[Conversation, None] = {}
        self._deadlines = Deadlines[Conversation]()
        self._record("node_started", now_ns, name=name, **start_record(address, settings))
        self.inbox = Inbox(settings, queues, Directory(), wall_offset_ns, self.drops, self._record)
        self.outbox = Outbox(
            content.node_id,
            content.incarnation,
            settings,
            content_bytes=self._content_bytes,
            wall_offset_ns=wall_offset_ns,
            inbox=self.inbox,
            random=random,
            record=self._record,
        )
        self.news = News(self.outbox.links)
        self.handshakes = Handshakes(
            content,
            name=name,
            address=address,
            settings=settings,
            channels=channels,
            random=random,
            outbox=self.outbox,
            drops=self.drops,
            record=self._record,
            report=self._handle_events,
            awake=self._awake,
        )
        self.inbox.restore(content, self._group, now_ns)
        self.outbox.restore(content, now_ns)

    # ---- the application

    def outgoing_queue(self, address: str, queue: str, delivery: Delivery) -> OutgoingQueue:
        """The outgoing queue to a queue; ``address`` empty, or our own, for a queue of this node."""
        return self.outbox.outgoing_queue("" if address == self.address else address, queue, delivery, self._group)

    def submit(self, outgoing: OutgoingQueue, message: bytes | Outgoing, size_bytes: int) -> int:
        """Accept a message. All that is submitted between two calls of ``poll`` is committed together."""
        return self.outbox.submit(outgoing, message, size_bytes)

    def await_stage(self, outgoing: OutgoingQueue, ticket: int, stage: Stage, waiter: Waiter) -> None:
        """Call ``waiter`` when a message reaches a stage; a packet that is on its way is asked for its acks."""
        entries = outgoing.stages.wait(ticket, stage, waiter)
        link = self.outbox.links.get(outgoing.address)
        if stage is Stage.QUEUED or link is None or link.conversation is None:
            return
        if any(entry.sends for entry in entries):
            link.conversation.session.ping()
            link.conversation.wake()

    def await_commit(self, waiter: Any) -> None:
        """Call ``waiter`` with None when all that was asked for so far is durable, or with the store's error."""
        self._group.waiters.append(waiter)

    def set_state(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application with the next commit; None removes it."""
        self._group.commit.state[key] = value

    def make_queue(self, name: str) -> Mailbox:
        """The queue of that name."""
        return self.inbox.make_queue(name, self._group)

    def open_run(self, mailbox: Mailbox, now_ns: int) -> Run | None:
        """The next messages of a queue that are still worth reading, to be drawn one by one.

        Args:
            mailbox: the queue, as ``make_queue`` gave it.
            now_ns: the monotonic clock.

        Returns:
            A run from which at least one message can be drawn, or None when there is none, or its body is still on
            its way from the disk; the queue's listeners are told when to ask again.
        """
        while (run := mailbox.open_run(self.wall_ms(now_ns))) is not None:
            reason = self._unreadable(run, now_ns)
            if reason is None:
                return run
            self.inbox.dead_letter(mailbox, run.lease(run.draw()), reason, now_ns, self._group)
        return None

    def take(self, mailbox: Mailbox, now_ns: int) -> Lease | None:
        """The next message of a queue, for those who read one at a time; see ``open_run``."""
        run = self.open_run(mailbox, now_ns)
        return None if run is None else run.lease(run.draw())

    def _unreadable(self, run: Run, now_ns: int) -> str | None:
        """Why the next message of a run is not handed out: time-to-be-received, [MS-MQMQ] 2.2.19.2, or bad pieces.

        Messages with properties are looked at one by one.
        """
        try:
            content = run.packet.open()
        except ProtocolError:
            return DeadReason.BAD_BODY
        if content.properties is None:
            return None
        run.ready = run.next + 1
        receive_by_ms = content.properties[run.next].get("receive_by_ms")
        expired = isinstance(receive_by_ms, int) and self.wall_ms(now_ns) > receive_by_ms
        return DeadReason.RECEIVE_TIMEOUT if expired else None

    def give_back(self, mailbox: Mailbox, lease: Lease, way: Return, now_ns: int) -> None:
        """A message was not processed: it comes again, or goes to the dead-letter queue when it failed too often."""
        self.inbox.give_back(mailbox, lease, way, now_ns, self._group)

    # ---- the network

    def handle_datagram(self, data: bytes, sender: str, now_ns: int) -> None:
        """Take a datagram from an address. A bad one is dropped and counted by its reason."""
        try:
            header = read_header(data)
            if header.kind is Kind.CONNECT:
                self._handle_connect(data, sender, now_ns)
                return
            conversation = self.handshakes.conversations.get(header.connection_id)
            if conversation is None:
                self.drops[DropReason.UNKNOWN_CONNECTION] += 1
                return
            payload = conversation.channel.open(data)
            conversation.wake()
            _HANDLERS[header.kind](self, conversation, header, payload, now_ns)
            if header.counter > conversation.highest_counter:
                conversation.highest_counter = header.counter
                if not conversation.session.initiator:
                    conversation.path = sender
            self._handle_events(conversation, now_ns)
        except ProtocolError as error:
            self.drops[error.reason] += 1

    def handle_path_lost(self, address: str, now_ns: int) -> None:
        """The transport says that an address cannot be reached any more."""
        for conversation in list(self.handshakes.conversations.values()):
            if conversation.path == address:
                self._close(conversation, CloseReason.PATH_LOST, now_ns)

    def _close(self, conversation: Conversation, reason: CloseReason, now_ns: int) -> None:
        conversation.session.close(reason)
        conversation.wake()
        self._handle_events(conversation, now_ns)

    def _handle_connect(self, data: bytes, sender: str, now_ns: int) -> None:
        channel, payload = self._channels.answer(data)
        if self.draining or self.failure is not None:
            raise ProtocolError(DropReason.CLOSING)
        self.handshakes.handle_connect(Hello.decode(payload), channel, sender, now_ns)

    def _handle_accept(self, conversation: Conversation, _header: Header, payload: bytes, now_ns: int) -> None:
        self.handshakes.handle_accept(conversation, Hello.decode(payload), now_ns)

    def _handle_data(self, conversation: Conversation, header: Header, payload: bytes, now_ns: int) -> None:
        session = conversation.session
        if session.state is State.ACCEPTING:
            self.handshakes.confirm(conversation, now_ns)
        session.handle_datagram(payload, header.counter, now_ns)
        if conversation.known is not None:
            conversation.known.handle_serial(session.peer_mark)

    def _content_bytes(self, address: str) -> int:
        max_datagram_bytes = session_settings(self.settings, address).max_datagram_bytes
        return content_limit_bytes(max_datagram_bytes, self._channels.overhead_bytes)

    # ---- what sessions report

    def _handle_events(self, conversation: Conversation, now_ns: int) -> None:
        while (event := conversation.session.poll_event()) is not None:
            try:
                _REPORTS[type(event)](self, conversation, event, now_ns)
            except ProtocolError as error:
                self.drops[error.reason] += 1

    def _on_opened(self, conversation: Conversation, _event: events.SessionOpened, now_ns: int) -> None:
        session = conversation.session
        settings = self.settings.session
        self._record(
            "session_opened",
            now_ns,
            session=conversation.label,
            peer=conversation.peer_id.hex(),
            role="initiator" if session.initiator else "acceptor",
            address=conversation.path,
            window=session.window.limit,
            idle_ack_delay_ns=settings.trigger.delay_ns,
            ack_threshold=settings.trigger.count or 0,
        )
        self.handshakes.handle_opened(conversation, now_ns)
        self.news.handle_opened(conversation)
        if conversation.link is not None:
            self.outbox.handle_session_opened(conversation.link, now_ns)
        self.inbox.handle_request(conversation.peer_id)

    def _on_packet(self, conversation: Conversation, event: events.PacketArrived, now_ns: int) -> None:
        packet = wire.decode(event.content)
        if isinstance(packet, wire.SequenceHeader):
            check(packet.body)
        if self._recorder is not None:
            self._recorder.add_received(conversation.label, event, packet, now_ns)
        if event.duplicate:
            return
        if isinstance(packet, wire.SequenceHeader):
            if event.delivery in DURABLE:
                self._depend(conversation)
            self.inbox.handle_packet(conversation, event.number, packet, event.delivery, now_ns, self._group)
            return
        if packet.origin != self.node_id or not self.outbox.leads(packet.lane, conversation.peer_id):
            raise ProtocolError(DropReason.NOT_OUR_PACKET)
        if isinstance(packet, wire.OrderAckPacket):
            self._depend(conversation)
            self.outbox.handle_order_ack(packet.lane, packet.sequence, packet.number, self._group, now_ns)
        else:
            self.outbox.handle_reject(packet.lane, packet.sequence, packet.number, packet.reason)

    def _depend(self, conversation: Conversation) -> None:
        """The next commit is to say what of the peer's store it depends on."""
        if conversation.known is not None:
            self.handshakes.peers.depend(conversation.known)

    def _on_dropped(self, _conversation: Conversation, event: events.PacketDropped, _now_ns: int) -> None:
        self.drops[event.reason] += 1

    def _on_acked(self, conversation: Conversation, event: events.PacketsAcked, now_ns: int) -> None:
        if self._recorder is not None:
            self._recorder.add_numbers("ack_received", conversation.label, event.packets, now_ns)
        for sent in event.packets:
            if isinstance(sent.context, PacketContext):
                self.outbox.handle_session_ack(sent.context, self._group)
            elif isinstance(sent.context, Control):
                conversation.session.handle_refused(sent.context.refuses)

    def _on_stored(self, conversation: Conversation, event: events.PacketsStored, now_ns: int) -> None:
        if self._recorder is not None:
            self._recorder.add_numbers("store_ack_received", conversation.label, event.packets, now_ns)
        if event.packets:
            self._depend(conversation)
        for sent in event.packets:
            if isinstance(sent.context, PacketContext):
                self.outbox.handle_store_ack(sent.context, self._group)

    def _on_request(self, conversation: Conversation, _event: events.AcksRequested, _now_ns: int) -> None:
        self.inbox.handle_request(conversation.peer_id)

    def _on_closed(self, conversation: Conversation, event: events.SessionClosed, now_ns: int) -> None:
        self.closes[event.reason.value] += 1
        self._record(
            "session_closed",
            now_ns,
            session=conversation.label,
            peer=conversation.peer_id.hex(),
            reason=event.reason.value,
            unacked=event.unacked,
        )
        self.handshakes.handle_closed(conversation, event.reason, now_ns)
        self.news.handle_closed(conversation, event.reason)
        link = conversation.link
        if link is not None and link.conversation is conversation:
            unanswered = event.reason is CloseReason.CONNECT_TIMEOUT
            self.outbox.handle_session_closed(link, now_ns, unanswered=unanswered)

    # ---- the clock

    def handle_timer(self, now_ns: int) -> None:
        """Let everything whose time has come do its work."""
        for conversation in self._deadlines.poll_due(now_ns):
            # One that was never open may have given way to others.
            if not self.handshakes.has(conversation):
                continue
            conversation.session.handle_timer(now_ns)
            self.news.look_at(conversation)
            conversation.wake()
            self._handle_events(conversation, now_ns)
        if self.failure is None:
            self.inbox.handle_timer(now_ns)
            self.outbox.handle_timer(now_ns, self.wall_ms(now_ns))

    def next_deadline(self) -> int | None:
        """When ``poll`` must be called at the latest, or None."""
        earliest = self._deadlines.earliest()
        if self.failure is not None:
            return earliest
        deadlines = (earliest, self.inbox.next_deadline(), self.outbox.next_deadline())
        return min((at_ns for at_ns in deadlines if at_ns is not None), default=None)

    def refresh_deadlines(self) -> None:
        """Set every deadline again, for searches that change them and for whom their order decides nothing."""
        self._deadlines = Deadlines()
        for conversation in self.handshakes.conversations.values():
            self._deadlines.set(conversation, conversation.session.next_deadline())
        self.inbox.refresh_deadlines()
        self.outbox.refresh_deadlines()

    def wall_ms(self, now_ns: int) -> int:
        """The wall clock as this node knows it: read once, at the start, so that a jump ends no message's life."""
        return (now_ns + self._wall_offset_ns) // 1_000_000

    # ---- outputs

    def poll(self, now_ns: int) -> list[Effect]:
        """Let time pass, and say what is to be done now, in this order; see ``triack.queues.effects``."""
        effects: list[Effect] = []
        self.handle_timer(now_ns)
        # The disk takes longest: it begins before anything else is done.
        self._start_job(effects, now_ns)
        sends = self._transmit_all(now_ns)
        # Sending may have found that bodies must come from the disk.
        self._start_job(effects, now_ns)
        self._write_records(effects, now_ns)
        effects += self.news.take()
        effects += [TellRollback(error) for error in self.handshakes.take_detected()]
        effects += [Send(address, datagrams) for address, datagrams in sends.items()]
        return effects

    def _write_records(self, effects: list[Effect], now_ns: int) -> None:
        self.inbox.note_runs(now_ns)
        recorder = self._recorder
        if recorder is None:
            return
        recorder.add_drops(self.drops, now_ns, last=False)
        if data := recorder.take():
            effects.append(WriteRecords(data))

    # ---- outputs: datagrams

    def _transmit_all(self, now_ns: int) -> dict[str, list[bytes]]:
        """Everything to send now, by address."""
        if self.failure is None:
            self.outbox.pack_express(self._group, now_ns, self.wall_ms(now_ns))
            self.inbox.send_order_acks(self._route, now_ns)
            if not self.draining:
                for link in self.outbox.poll_links(now_ns):
                    self.handshakes.connect(link, now_ns)
        batches: dict[str, list[bytes]] = {}
        paced: dict[Conversation, None] = {}
        while self._awake:
            # To close one session can give another one something to do.
            awake = list(self._awake)
            self._awake.clear()
            for conversation in awake:
                if self.handshakes.has(conversation):
                    self._serve(conversation, batches, now_ns)
                    if conversation.session.is_paced:
                        paced[conversation] = None
        # Credit grows with time: any later look may let a packet go, and timers of the system are coarse.
        self._awake.update(paced)
        for address, datagram in self.handshakes.take_replies():
            batches.setdefault(address, []).append(datagram)
        return batches

    def _serve(self, conversation: Conversation, batches: dict[str, list[bytes]], now_ns: int) -> None:
        session = conversation.session
        # A session that drains may have closed when the disk, not a datagram, freed its last packet.
        self._handle_events(conversation, now_ns)
        if self.failure is None:
            self._fill(conversation, now_ns)
        self._transmit(conversation, batches, now_ns)
        if session.state is State.CLOSED:
            self._deadlines.set(conversation, None)
            self.handshakes.remove(conversation)
        else:
            self._deadlines.set(conversation, session.next_deadline())

    def _route(self, transfer: IncomingTransfer) -> Conversation | None:
        """The conversation for an order ack: the one its packets came by, or another with the same node."""
        via = transfer.via
        if via is None or via.is_open:
            return via
        return next((other for other in self.handshakes.with_peer(via.peer_id) if other.is_open), None)

    def _fill(self, conversation: Conversation, now_ns: int) -> None:
        """Give a session as many packets as its window takes."""
        session, control = conversation.session, conversation.control
        while control and session.room:
            answer = control.popitem(last=False)[1]
            session.send_packet(Delivery.EXPRESS, answer.content, answer)
        link = conversation.link
        if link is None or link.conversation is not conversation or self.draining:
            return
        while session.room and (turn := link.next_turn()) is not None:
            self._fill_from(session, link, *turn, now_ns)

    def _fill_from(self, session: Session, link: Link, outgoing: OutgoingQueue, most: int, now_ns: int) -> None:
        """Let an outgoing queue have its turn, or as much of it as the window takes."""
        sequence = outgoing.sequence
        for _ in range(min(session.room, most)):
            entry = sequence.peek()
            if entry is None:
                break
            if entry.body is None:
                self.outbox.want_bodies(outgoing)
                link.end_turn(outgoing)
                break
            content, context, awaited = self.outbox.content_of(outgoing, entry)
            packet = session.send_packet(outgoing.delivery, content, context, asks=awaited)
            sequence.handle_sent(entry, now_ns, packet=packet)
            link.handle_given(outgoing)
        self.outbox.handle_handed_over(outgoing)

    def _transmit(self, conversation: Conversation, batches: dict[str, list[bytes]], now_ns: int) -> None:
        session = conversation.session
        session.mark = self.handshakes.history.committed
        while (transmit := session.poll_transmit(now_ns)) is not None:
            to, counter, payload = transmit.connection_id, transmit.counter, transmit.payload
            data = conversation.channel.seal(_KINDS[transmit.kind], to, counter, payload)
            batches.setdefault(conversation.path, []).append(data)
            if self._recorder is not None:
                self._recorder.add_transmit(conversation.label, transmit, now_ns)

    # ---- outputs: the disk

    def _start_job(self, effects: list[Effect], now_ns: int) -> None:
        """Give the store its next job, unless it has one; what the job changes is on record before."""
        if self._job is not None or self.failure is not None:
            return
        self._job = self._next_job(now_ns)
        if self._job is not None:
            self._write_records(effects, now_ns)
            effects.append(StartJob(self._job))

    def _next_job(self, now_ns: int) -> Job | None:
        """Commits and reads in turns, so that neither starves."""
        now_ms = self.wall_ms(now_ns)
        self.outbox.dead_letter_given_up(self._group, now_ns, now_ms)
        read_next, self._read_next = self._read_next, False
        if read_next and (read := self._next_read()) is not None:
            return read
        self.outbox.pack_durable(self._group, now_ms)
        self.inbox.complete(self._group)
        if not self._group:
            return self._next_read()
        group, self._group = self._group, GroupCommit()
        if group.commit:
            self.handshakes.number(group.commit)
        self._read_next = True
        return group

    def _next_read(self) -> Read | None:
        return self.outbox.poll_fetch() or self.inbox.poll_fetch()

    def handle_done(self, job: Job, now_ns: int) -> None:
        """The store has done a job: what it holds is durable."""
        self._job = None
        if isinstance(job, GroupCommit):
            self.handshakes.history.handle_committed(job.commit)
            self.outbox.handle_committed(job, now_ns)
            self.inbox.handle_committed(job, now_ns)
            for waiter in job.waiters:
                waiter(None)
        elif job.table == "outgoing":
            self.outbox.handle_fetched(job)
        else:
            self.inbox.handle_fetched(job)

    def handle_store_failed(self, job: Job | None, error: TriackError, now_ns: int) -> None:
        """The store is finished: nothing more is acknowledged, every session closes, everyone who waits is told."""
        self.failure = error
        if job is not None:
            self._job = None
        for conversation in list(self.handshakes.conversations.values()):
            self._close(conversation, CloseReason.STORE_FAILED, now_ns)
        waiters = [*self._group.waiters, *(job.waiters if isinstance(job, GroupCommit) else ())]
        for waiter in waiters:
            waiter(error)
        for outgoing in self.outbox.queues:
            outgoing.stages.fail_all(str(error))
        for mailbox in self.inbox.mailboxes.values():
            mailbox.interrupt()

    @property
    def rollbacks(self) -> dict[str, str]:
        """Peers that this node speaks to no more: node id in hex, and whose store it is (own, peer, unknown)."""
        halted = self.handshakes.halted
        return {node_id.hex(): peer.error.rolled_back for node_id, peer in halted.items()}

    # ---- closing

    def drain(self, now_ns: int) -> None:
        """Take nothing new; let the sessions finish what they have."""
        self.draining = True
        self.inbox.request_all()
        self.inbox.send_order_acks(self._route, now_ns)
        for conversation in list(self.handshakes.conversations.values()):
            self._fill(conversation, now_ns)
            conversation.session.drain(now_ns)
            conversation.wake()
            self._handle_events(conversation, now_ns)

    @property
    def busy_storing(self) -> bool:
        """Whether anything accepted is not yet durable."""
        return self._job is not None or bool(self._group) or self.outbox.unfinished

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do for a node that drains."""
        return not self.handshakes.conversations and not self.busy_storing

    def stop(self, error: TriackError, now_ns: int) -> None:
        """Close what is left, at once; who still waits for a commit gets the error. One more ``poll`` must follow."""
        waiters, self._group.waiters = self._group.waiters, []
        for waiter in waiters:
            waiter(error)
        for conversation in list(self.handshakes.conversations.values()):
            self._close(conversation, CloseReason.LOCAL_STOP, now_ns)

    def finish(self, now_ns: int) -> bytes:
        """The last records of the session log, when the store is closed and no poll follows any more."""
        self.inbox.note_runs(now_ns)
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return b""
        recorder.add_drops(self.drops, now_ns, last=True)
        recorder.add("node_stopped", now_ns, {})
        return recorder.take()

    # ---- records

    def _record(self, event: str, now_ns: int, **fields: Any) -> None:
        if self._recorder is not None:
            self._recorder.add(event, now_ns, fields)


_HANDLERS = {Kind.ACCEPT: Engine._handle_accept, Kind.DATA: Engine._handle_data}

_REPORTS: dict[type, Any] = {
    events.SessionOpened: Engine._on_opened,
    events.PacketArrived: Engine._on_packet,
    events.PacketDropped: Engine._on_dropped,
    events.PacketsAcked: Engine._on_acked,
    events.PacketsStored: Engine._on_stored,
    events.AcksRequested: Engine._on_request,
    events.SessionClosed: Engine._on_closed,
}
