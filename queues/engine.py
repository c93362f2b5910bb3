"""The engine of a queue manager: sessions, streams and queues put together.

Pure: the driver owns clock, sockets and disk. Inputs: ``submit``, ``handle_datagram``, ``handle_path_lost``,
``handle_timer``, ``handle_done``, ``handle_store_failed``. Outputs, to be drained after every input: ``poll_job``,
``poll_datagrams``, and ``poll_job`` again, as sending may need bodies from the disk; the records of the session log
(``take_records``) must reach the operating system before the datagrams of the same drain are sent. ``next_deadline``
says when to call ``handle_timer`` if nothing happens before.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from triack.base.commit import Commit, Read, StoreContent
from triack.base.datagram import Channels, Header, Kind, read_header
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import ProtocolError, RollbackDetected, TriackError
from triack.base.reasons import DeadReason, DropReason
from triack.ordering import wire
from triack.queues.group_commit import GroupCommit
from triack.queues.handshake import Handshakes, session_settings
from triack.queues.inbox import DEAD_LETTER_QUEUE, Inbox, IncomingTransfer
from triack.queues.link import Control, Conversation
from triack.queues.mailbox import Lease, Mailbox
from triack.queues.outbox import Outbox, PacketContext
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.packing import Outgoing, check
from triack.queues.recorder import Recorder
from triack.queues.settings import NodeSettings
from triack.queues.stages import Stage, Waiter
from triack.session import events
from triack.session.frames import Hello
from triack.session.session import Session, content_limit_bytes
from triack.session.states import CloseReason, State

if TYPE_CHECKING:
    from random import Random

__all__ = ["Engine", "Job"]

Job = GroupCommit | Read
LANE_TURN_PACKETS = 16
"""Packets that one lane may give to a session before the next lane has its turn."""
DROPS_EVERY_NS = 1_000_000_000

_UNANSWERED = (CloseReason.CONNECT_TIMEOUT, CloseReason.PATH_LOST)
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
        self.name = name
        self.address = address
        self.settings = settings
        self.drops: Counter[DropReason] = Counter()
        self.closes: Counter[str] = Counter()
        self.failure: TriackError | None = None
        self._channels = channels
        self._wall_offset_ns = wall_offset_ns
        self.recorder = Recorder(content.node_id, content.incarnation, wall_offset_ns) if recording else None
        self._pending = GroupCommit()
        self._silent: list[str] = []
        self._job_out = False
        self._read_next = False
        self._drops_recorded: Counter[DropReason] = Counter()
        self._drops_at_ns = now_ns
        self.draining = False
        self._record("node_started", now_ns, name=name, **({"address": address} if address else {}))
        self.inbox = Inbox(settings, queues, self._record)
        self.outbox = Outbox(
            content.node_id,
            content.incarnation,
            settings,
            content_bytes=self._content_bytes,
            inbox=self.inbox,
            random=random,
            record=self._record,
        )
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
            settle=self._handle_events,
        )
        self._by_connection = self.handshakes.conversations
        self.inbox.restore(content, self._pending, now_ns)
        self.outbox.restore(content, now_ns)

    # ---- the application

    def lane_for(self, address: str, queue: str, delivery: Delivery) -> OutgoingQueue:
        """The stream to a queue; ``address`` empty, or our own, for a queue of this node."""
        return self.outbox.lane_for("" if address == self.address else address, queue, delivery, self._pending)

    def submit(self, lane: OutgoingQueue, message: bytes | Outgoing, size_bytes: int) -> int:
        """Accept a message. All that is submitted between two calls of ``poll_job`` is committed together."""
        return self.outbox.submit(lane, message, size_bytes)

    def await_stage(self, lane: OutgoingQueue, ticket: int, stage: Stage, waiter: Waiter) -> None:
        """Call ``waiter`` when a message reaches a stage; a packet that is on its way is asked for its acks."""
        entries = lane.receipts.wait(ticket, stage, waiter)
        link = self.outbox.links.get(lane.address)
        if stage is Stage.QUEUED or link is None or link.conversation is None:
            return
        if any(entry.sends for entry in entries):
            link.conversation.session.ping()

    def await_commit(self, waiter: Any) -> None:
        """Call ``waiter`` with None when all that was asked for so far is durable, or with the store's error."""
        self._pending.waiters.append(waiter)

    def set_state(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application with the next commit; None removes it."""
        self._pending.commit.state[key] = value

    def make_queue(self, name: str) -> Mailbox:
        """The queue of that name."""
        return self.inbox.make_queue(name, self._pending)

    def take(self, mailbox: Mailbox, now_ns: int) -> Lease | None:
        """The next message of a queue that is still worth reading, or None."""
        while (handed := self.inbox.take(mailbox, now_ns)) is not None:
            reason = self._unreadable(handed, now_ns)
            if reason is None:
                return handed
            self.dead_letter(mailbox, handed, reason, now_ns)
        return None

    def _unreadable(self, handed: Lease, now_ns: int) -> str | None:
        try:
            content = handed.parcel.open()
        except ProtocolError:
            return DeadReason.BAD_BODY
        if content.properties is None:
            return None
        receive_by_ms = content.properties[handed.index].get("receive_by_ms")
        expired = isinstance(receive_by_ms, int) and self.wall_ms(now_ns) > receive_by_ms
        return DeadReason.RECEIVE_TIMEOUT if expired else None

    def give_back(self, mailbox: Mailbox, handed: Lease, *, failed: bool, now_ns: int) -> None:
        """A message was not processed: it comes again, or goes to the dead-letter queue when it failed too often."""
        too_often = failed and mailbox.count_failure(handed) > self.settings.max_redeliveries
        if too_often and mailbox.name != DEAD_LETTER_QUEUE:
            self.dead_letter(mailbox, handed, DeadReason.MAX_REDELIVERIES, now_ns)
        else:
            mailbox.give_back(handed)

    def dead_letter(self, mailbox: Mailbox, handed: Lease, reason: str, now_ns: int) -> None:
        """Move a message from a queue to the dead-letter queue, in one commit."""
        parcel, index = handed.parcel, handed.index
        try:
            content = parcel.open()
            body, ordinal = content.bodies[index], content.first_ordinal + index
            properties = dict(content.properties[index]) if content.properties else {}
        except ProtocolError:
            body, ordinal, properties = b"".join(parcel.pieces), parcel.number, {}
        properties.pop("receive_by_ms", None)
        properties.update(dead_reason=reason, dead_destination=mailbox.name)
        mailbox.acknowledge(handed)
        letter, now_ms = Outgoing(body, properties), self.wall_ms(now_ns)
        self.inbox.put_dead_letter(letter, parcel.origin, ordinal, now_ms, self._pending)

    # ---- the network

    def handle_datagram(self, data: bytes, sender: str, now_ns: int) -> None:
        """Take a datagram from an address. A bad one is dropped and counted by its reason."""
        try:
            header = read_header(data)
            if header.kind is Kind.CONNECT:
                self._handle_connect(data, sender, now_ns)
                return
            conversation = self._by_connection.get(header.connection_id)
            if conversation is None:
                self.drops[DropReason.UNKNOWN_CONNECTION] += 1
                return
            payload = conversation.channel.open(data)
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
        for conversation in list(self._by_connection.values()):
            if conversation.path == address:
                conversation.session.close(CloseReason.PATH_LOST)
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
        if conversation.link is not None:
            conversation.link.handle_opened()
            for lane in conversation.link.lanes:
                lane.sequence.handle_session_opened(now_ns)
        self.inbox.handle_request(conversation.peer_id)

    def _on_packet(self, conversation: Conversation, event: events.PacketArrived, now_ns: int) -> None:
        packet = wire.decode(event.content)
        if isinstance(packet, wire.SequenceHeader):
            check(packet.body)
        if self.recorder is not None:
            self.recorder.add_received(conversation.label, event, packet, now_ns)
        if event.duplicate:
            return
        if isinstance(packet, wire.SequenceHeader):
            if event.delivery in DURABLE:
                self._depend(conversation)
            self.inbox.handle_packet(conversation, event.number, packet, event.delivery, now_ns, self._pending)
            return
        if packet.origin != self.node_id or not self.outbox.leads(packet.lane, conversation.peer_id):
            raise ProtocolError(DropReason.NOT_OUR_PACKET)
        if isinstance(packet, wire.OrderAckPacket):
            self._depend(conversation)
            self.outbox.handle_order_ack(packet.lane, packet.sequence, packet.number, self._pending, now_ns)
        else:
            self.outbox.handle_reject(packet.lane, packet.sequence, packet.number, packet.reason)

    def _depend(self, conversation: Conversation) -> None:
        """The next commit is to say what of the peer's store it depends on."""
        if conversation.known is not None:
            self.handshakes.peers.depend(conversation.known)

    def _on_dropped(self, _conversation: Conversation, event: events.PacketDropped, _now_ns: int) -> None:
        self.drops[event.reason] += 1

    def _on_acked(self, conversation: Conversation, event: events.PacketsAcked, now_ns: int) -> None:
        if self.recorder is not None:
            self.recorder.add_numbers("ack_received", conversation.label, event.packets, now_ns)
        for sent in event.packets:
            if isinstance(sent.context, PacketContext):
                self.outbox.handle_session_ack(sent.context, self._pending)

    def _on_stored(self, conversation: Conversation, event: events.PacketsStored, now_ns: int) -> None:
        if self.recorder is not None:
            self.recorder.add_numbers("store_ack_received", conversation.label, event.packets, now_ns)
        if event.packets:
            self._depend(conversation)
        for sent in event.packets:
            if isinstance(sent.context, PacketContext):
                self.outbox.handle_store_ack(sent.context, self._pending)

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
        link = conversation.link
        if link is not None and link.conversation is conversation:
            if not conversation.peer_id and not link.silent and event.reason in _UNANSWERED:
                link.silent = True
                self._silent.append(link.address)
            link.handle_closed(now_ns, unanswered=event.reason is CloseReason.CONNECT_TIMEOUT)
            for lane in link.lanes:
                lane.sequence.handle_session_closed()

    # ---- the clock

    def handle_timer(self, now_ns: int) -> None:
        """Let everything whose time has come do its work."""
        for conversation in list(self._by_connection.values()):
            deadline_ns = conversation.session.next_deadline()
            if deadline_ns is not None and deadline_ns <= now_ns:
                conversation.session.handle_timer(now_ns)
                self._handle_events(conversation, now_ns)
        self.inbox.handle_timer(now_ns)
        self.outbox.handle_timer(now_ns, self.wall_ms(now_ns))

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` and a drain must follow at the latest, or None."""
        deadlines = [conversation.session.next_deadline() for conversation in self._by_connection.values()]
        if self.failure is None:
            deadlines += [self.inbox.next_deadline(), self.outbox.next_deadline(self._wall_offset_ns)]
        if self.failure is None and not self.draining:
            deadlines += [
                link.retry_at_ns for link in self.outbox.links.values() if link.conversation is None and link.busy
            ]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def wall_ms(self, now_ns: int) -> int:
        """The wall clock as this node knows it: read once, at the start, so that a jump ends no message's life."""
        return (now_ns + self._wall_offset_ns) // 1_000_000

    # ---- outputs: datagrams

    def poll_datagrams(self, now_ns: int) -> dict[str, list[bytes]]:
        """Everything to send now, by address."""
        if self.failure is None:
            self.outbox.pack_express(self._pending, now_ns, self.wall_ms(now_ns))
            self.inbox.poll_order_acks(self._route, now_ns)
            self._connect(now_ns)
        batches: dict[str, list[bytes]] = {}
        for connection_id, conversation in list(self._by_connection.items()):
            if self.failure is None:
                self._fill(conversation, now_ns)
            self._transmit(conversation, batches, now_ns)
            if conversation.session.state is State.CLOSED:
                self.handshakes.remove(connection_id)
        for address, datagram in self.handshakes.take_replies():
            batches.setdefault(address, []).append(datagram)
        return batches

    def _connect(self, now_ns: int) -> None:
        if self.draining:
            return
        for link in self.outbox.links.values():
            if link.wants_session(now_ns):
                self.handshakes.connect(link, now_ns)

    def _route(self, stream: IncomingTransfer) -> Conversation | None:
        """The conversation for an order ack: the one its packets came by, or another with the same node."""
        via = stream.via
        if via is None or via.is_open:
            return via
        for conversation in self._by_connection.values():
            if conversation.is_open and conversation.peer_id == via.peer_id:
                return conversation
        return None

    def _fill(self, conversation: Conversation, now_ns: int) -> None:
        """Give a session as many packets as its window takes."""
        session, control = conversation.session, conversation.control
        while control and session.room:
            session.send_packet(Delivery.EXPRESS, control.pop(next(iter(control))), Control())
        link = conversation.link
        if link is None or not session.room or self.draining:
            return
        progress = True
        while progress and session.room:
            progress = False
            for lane in link.next_lanes():
                progress = self._fill_from(session, lane, now_ns) or progress

    def _fill_from(self, session: Session, lane: OutgoingQueue, now_ns: int) -> bool:
        gave = False
        for _ in range(min(session.room, LANE_TURN_PACKETS)):
            entry = lane.sequence.peek()
            if entry is None:
                break
            if entry.body is None:
                lane.fetching = True
                break
            content, token, awaited = self.outbox.content_of(lane, entry)
            packet = session.send_packet(lane.delivery, content, token, asks=awaited)
            lane.sequence.handle_sent(entry, now_ns, packet=packet)
            gave = True
        return gave

    def _transmit(self, conversation: Conversation, batches: dict[str, list[bytes]], now_ns: int) -> None:
        session = conversation.session
        session.mark = self.handshakes.history.committed
        while (transmit := session.poll_transmit(now_ns)) is not None:
            kind = _KINDS[transmit.kind]
            data = conversation.channel.seal(kind, transmit.connection_id, transmit.counter, transmit.payload)
            batches.setdefault(conversation.path, []).append(data)
            if self.recorder is not None:
                self.recorder.add_transmit(conversation.label, transmit, now_ns)

    # ---- outputs: the disk

    def poll_job(self, now_ns: int) -> Job | None:
        """The next commit or read for the store's thread; one at a time, answered by ``handle_done``."""
        if self._job_out or self.failure is not None:
            return None
        now_ms = self.wall_ms(now_ns)
        self.outbox.bury(self._pending, now_ns, now_ms)
        job: Job | None = self._poll_read() if self._read_next else None
        self._read_next = False
        if job is None:
            self.outbox.pack_durable(self._pending, now_ms)
            self.inbox.seal(self._pending)
            if self._pending:
                self._number(self._pending.commit)
                job, self._pending = self._pending, GroupCommit()
                self._read_next = True
            else:
                job = self._poll_read()
        self._job_out = job is not None
        return job

    def _number(self, commit: Commit) -> None:
        if commit:
            self.handshakes.peers.seal(commit)
            self.handshakes.history.number(commit)

    def _poll_read(self) -> Read | None:
        read = self.outbox.poll_fetch()
        if read is not None:
            return read
        for mailbox in self.inbox.mailboxes.values():
            keys = mailbox.poll_fetch()
            if keys:
                return Read("messages", keys)
        return None

    def handle_done(self, job: Job, now_ns: int) -> None:
        """The store has done a job: what it holds is durable."""
        self._job_out = False
        if isinstance(job, Read):
            self._handle_read(job)
            return
        self.handshakes.history.handle_committed(job.commit)
        self.outbox.handle_committed(job, now_ns)
        self.inbox.handle_committed(job, now_ns)
        for conversation, numbers in job.stored.items():
            conversation.session.handle_stored(numbers)
        for waiter in job.waiters:
            waiter(None)

    def _handle_read(self, read: Read) -> None:
        if read.table == "outgoing":
            self.outbox.handle_fetched(read)
            return
        for mailbox in self.inbox.mailboxes.values():
            if mailbox.fetching:
                mailbox.load(read.bodies)

    def handle_store_failed(self, job: Job, error: TriackError, now_ns: int) -> None:
        """The store is finished: nothing more is acknowledged, every session closes, everyone who waits is told."""
        self.failure = error
        for conversation in list(self._by_connection.values()):
            conversation.session.close(CloseReason.STORE_FAILED)
            self._handle_events(conversation, now_ns)
        waiters = list(self._pending.waiters)
        if isinstance(job, GroupCommit):
            waiters += job.waiters
        for waiter in waiters:
            waiter(error)
        for lane in self.outbox.lanes:
            lane.receipts.fail_all(str(error))
        for mailbox in self.inbox.mailboxes.values():
            mailbox.wake()

    def take_silent(self) -> list[str]:
        """Addresses that have begun not to answer since the last call, for the operator."""
        silent, self._silent = self._silent, []
        return silent

    def take_rollbacks(self) -> list[RollbackDetected]:
        """Rollbacks detected since the last call, one for each peer, for the operator."""
        return self.handshakes.take_detected()

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
        self.inbox.poll_order_acks(self._route, now_ns)
        for conversation in list(self._by_connection.values()):
            self._fill(conversation, now_ns)
            conversation.session.drain(now_ns)
            self._handle_events(conversation, now_ns)

    @property
    def busy_storing(self) -> bool:
        """Whether anything accepted is not yet durable."""
        return self._job_out or bool(self._pending) or self.outbox.unfinished

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do for a node that drains."""
        return not self._by_connection and not self.busy_storing

    def stop(self, error: TriackError, now_ns: int) -> None:
        """Close what is left, at once; who still waits for a commit gets the error."""
        waiters, self._pending.waiters = self._pending.waiters, []
        for waiter in waiters:
            waiter(error)
        for conversation in list(self._by_connection.values()):
            conversation.session.close(CloseReason.LOCAL_STOP)
            self._handle_events(conversation, now_ns)

    # ---- records

    def take_records(self, now_ns: int, *, last: bool = False) -> bytes:
        """The session log since the last call; ``last`` ends the incarnation."""
        if self.recorder is None:
            return b""
        self.inbox.flush_handed(now_ns)
        if last or now_ns - self._drops_at_ns >= DROPS_EVERY_NS:
            for reason, count in (self.drops - self._drops_recorded).items():
                self._record("dropped", now_ns, reason=reason, count=count)
            self._drops_recorded = Counter(self.drops)
            self._drops_at_ns = now_ns
        if last:
            self._record("node_stopped", now_ns)
        return self.recorder.take()

    def _record(self, event: str, now_ns: int, **fields: Any) -> None:
        if self.recorder is not None:
            self.recorder.add(event, now_ns, fields)


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
