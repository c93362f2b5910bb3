"""Mistakes of ``queues/``: what is committed, what leaves when, and what comes back after a restart."""

from dataclasses import replace
from typing import Any

from proof.planted.bug import Always, Bugs, Patch
from proof.planted.stories import EVENTS, FORBIDDEN, FULL, LATE, REFUSED, REPLACED
from proof.planted.worlds import HISTORY, PLAIN, READING, RECEIVER_DIES, SENDER_DIES
from triack.base.commit import HEAD_BYTES, Commit, OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.reasons import RejectReason
from triack.ordering.outgoing import StreamPacket
from triack.ordering.wire import SequenceHeader
from triack.queues.clock_jumps import ClockJumps
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.expiry import Expiry
from triack.queues.mailboxes.leases import Leases
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Mailbox, QueuedPacket, Run
from triack.queues.mailboxes.priority_queue import Level, PriorityQueue
from triack.queues.mailboxes.progress import Progress
from triack.queues.manager.engine import Engine
from triack.queues.manager.receiver import Burst, Receiver
from triack.queues.manager.recorder import Recorder
from triack.queues.packing import Unpacked
from triack.queues.peers.history import History
from triack.queues.peers.introduction import HistoryPoint
from triack.queues.peers.link import Conversation
from triack.queues.peers.permissions import Permissions
from triack.queues.peers.resuming import Resuming
from triack.queues.schedule import Schedule
from triack.queues.streams.ack_events import AckEvents
from triack.queues.streams.admission import Admission
from triack.queues.streams.dead_lettering import DeadLettering, DeadMessage
from triack.queues.streams.group_commit import GroupCommit, Turn
from triack.queues.streams.inbox import Inbox
from triack.queues.streams.incoming_ends import EndedStreams
from triack.queues.streams.incoming_stream import Arrival, IncomingStream
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.owed_acks import OwedAcks
from triack.queues.streams.retirement import Retirement
from triack.queues.streams.stream_records import StreamRecords

BUGS = Bugs()


# ---- where a peer is


@BUGS.by_seeds("a path is used before it is validated", Receiver, "_end_burst")
def _path(end_burst: Any, self: Receiver, run: Burst | None, sender: str, now_ns: int) -> None:
    if run is not None and run.counters and max(run.counters) > run.conversation.highest_counter:
        run.conversation.highest_counter = max(run.counters)
        self.handshakes.index.move(run.conversation, sender)
    end_burst(self, run, sender, now_ns)


# ---- the report of standing still


BUGS.by_seeds("a process that stood still does not say so")(Always(None, Recorder, "handle_time"))


# ---- streams that end


BUGS.by_search("a late packet begins a stream again that has ended", LATE, "2 messages came of one")(
    Always(False, EndedStreams, "has")
)


@BUGS.by_seeds("a destination forgets a stream whose place another one needs", Inbox, "_stream_of")
def _forgotten(
    transfer_of: Any, self: Inbox, conversation: Conversation, header: SequenceHeader, delivery: Delivery
) -> IncomingStream | RejectReason:
    known = self._streams.find(header.origin, header.stream)
    if known is None and self._has_streams_enough(conversation, header, header.queue):
        live = (it for it in self._streams.of(header.origin) if it.ordered and not it.has_ended)
        at_rest = (it for it in live if it.sequence.committed == it.sequence.position)
        for stream in list(at_rest)[:1]:
            self._forget(stream)
    return transfer_of(self, conversation, header, delivery)


@BUGS.by_seeds("that a stream has ended is told before it is on the disk", Retirement, "_end")
def _told_early(end: Any, self: Retirement, chosen: list[OutgoingStream], turn: Turn) -> None:
    end(self, chosen, turn)
    ending, turn.ending = turn.ending, []
    self.handle_stored(ending)


# ---- before the commit has returned


@BUGS.by_both("the store ack leaves before the commit returns", PLAIN, "store ack", GroupCommit, "store_ack")
def _early_store_ack(_right: Any, self: GroupCommit, conversation: Conversation, packet: int) -> None:
    conversation.session.handle_stored([packet], 0)


@BUGS.by_seeds("packets are sent before the commit that holds them", Outbox, "pack_durable")
def _early_packets(pack_durable: Any, self: Outbox, turn: Turn) -> None:
    pack_durable(self, turn)
    for outgoing, entries in turn.started:
        if outgoing.peer:
            outgoing.start(entries)
            self._look_at(outgoing)


@BUGS.by_search("a message is handed out before its commit", READING, "before it was on disk", LocalQueues, "add_rows")
def _early_message(
    add_rows: Any, self: LocalQueues, mailbox: Mailbox, packets: list[QueuedPacket], head: bytes | None, turn: LocalTurn
) -> None:
    add_rows(self, mailbox, packets, head, turn)
    mailbox.put_all(*turn.queued.pop()[1:])


@BUGS.by_both("a packet that is only held is called stored", PLAIN, "store ack", Inbox, "_handle_ordered")
def _held_is_stored(
    handle_ordered: Any, self: Inbox, stream: IncomingStream, arrival: Arrival, header: SequenceHeader, turn: Turn
) -> None:
    handle_ordered(self, stream, arrival, header, turn)
    if header.number in stream.sequence._held:
        turn.store_ack(*arrival)


# ---- what the commit holds


@BUGS.by_both("the position is not in the commit of the messages", RECEIVER_DIES, "accepted twice", Inbox, "complete")
def _position_missing(complete: Any, self: Inbox, group: GroupCommit) -> None:
    complete(self, group)
    for stream in list(group.accepted)[:1]:
        del group.commit.positions[stream.id]


@BUGS.by_seeds("an ack deletes one row too many", Outbox, "_free")
def _row_too_many(free: Any, self: Outbox, outgoing: OutgoingStream, entries: list[StreamPacket], turn: Turn) -> None:
    free(self, outgoing, entries, turn)
    if entries and outgoing.durable:
        first, last = turn.commit.outgoing_deletes[-1]
        turn.commit.outgoing_deletes[-1] = (first, last + 1)


@BUGS.by_seeds("acknowledging one message removes its whole packet", Mailbox, "take_changes")
def _whole_packet(take_changes: Any, self: Mailbox) -> tuple[list[QueuedPacket], list[int]]:
    changed, orphans = take_changes(self)
    begun = [packet for packet in changed if self.reader.acked(packet) and not self.reader.is_done(packet)]
    return [packet for packet in changed if packet not in begun], orphans + [key for one in begun for key in one.keys]


@BUGS.by_seeds("expired messages just disappear", DeadLettering, "_dead_letter")
def _no_dead_letter(dead_letter: Any, self: DeadLettering, item: DeadMessage, content: Unpacked, turn: Turn) -> None:
    dead_letter(self, item, replace(content, bodies=[]), turn)


@BUGS.by_seeds("what the application keeps misses its commit", Engine, "set_state")
def _state_missing(set_state: Any, self: Engine, key: str, value: bytes | None) -> None:
    if value is None or len(self.jobs.group.commit.state) % 2:
        set_state(self, key, value)


@BUGS.by_seeds("commits are not numbered", History, "number")
def _not_numbered(_right: Any, self: History, commit: Commit) -> None:
    commit.serial = self._last


# ---- after a restart


BUGS.by_both("a stream's position is forgotten by a restart", RECEIVER_DIES, "accepted twice")(
    Always(None, Inbox, "_restore_stream")
)


@BUGS.by_both("numbers are used again after a restart", SENDER_DIES, "has let go of", Outbox, "_make")
def _numbers_again(make: Any, self: Outbox, row: OutgoingStreamRow) -> OutgoingStream:
    return make(self, row._replace(next_number=1))


BUGS.by_seeds("a clock that was set between two starts ends what is on its way")(Always(0, ClockJumps, "outgoing_ms"))


@BUGS.by_seeds("what was acknowledged in a packet is forgotten by a restart")
def _progress_forgotten(patch: Patch) -> None:
    def forgetful(cls: type[Progress], progress: bytes, number: int, now_ms: int, moved_ms: int = 0) -> Progress:
        return cls()

    patch.setattr(Progress, "decode", classmethod(forgetful))


@BUGS.by_both("messages come again after a restart without a word", READING, "not marked redelivered", Mailbox, "put")
def _not_marked(put: Any, self: Mailbox, packet: QueuedPacket, head: bytes, progress: Progress | None = None) -> None:
    packet.restored = False
    put(self, packet, head, progress)


@BUGS.by_search("a store denies its newest commit", HISTORY, "older copy", History, "has")
def _history(has: Any, self: History, point: HistoryPoint) -> bool:
    return has(self, HistoryPoint(point.start, point.serial + bool(point.start)))


# ---- what is said, and what is handed out


@BUGS.by_search("an order ack is said only once", RECEIVER_DIES, "still waits", OwedAcks, "_send")
def _said_once(send: Any, self: OwedAcks, stream: IncomingStream, conversation: Conversation, now_ns: int) -> None:
    if stream.acked != stream.sequence.committed:
        send(self, stream, conversation, now_ns)


BUGS.by_seeds("what has expired is handed out before the timer comes")(Always(False, QueuedPacket, "has_expired"))


@BUGS.by_seeds("messages expire only in queues that are read", Expiry, "handle_timer")
def _expires_when_read(handle_timer: Any, self: Expiry, turn: LocalTurn) -> None:
    due, self.notices.expiring = self.notices.expiring, Deadlines()
    handle_timer(self, turn)
    self.notices.expiring = due


@BUGS.by_seeds("what was given back comes last", Mailbox, "_next_run")
def _comes_last(next_run: Any, self: Mailbox, now_ms: int) -> Run | None:
    lines = [line for line in self._lines.by_rank if line.first() is not None]
    backs = [self.reader.lines[line.priority].returned for line in lines]
    kept = [back.coming for back in backs]
    for back in backs:
        back.coming = []
    run = next_run(self, now_ms)
    for back, coming in zip(backs, kept, strict=True):
        back.coming = coming + back.coming
    return run


@BUGS.by_seeds("lower priorities are read first", PriorityQueue, "_open")
def _lower_first(made: Any, self: PriorityQueue, priority: int) -> Level:
    line = made(self, priority)
    self.by_rank.reverse()
    return line


BUGS.by_seeds("the death of a reader is not counted")(Always(None, Leases, "hold"))
BUGS.by_seeds("a removal leaves no record")(Always(None, StreamRecords, "removed"))


@BUGS.by_seeds("a node whose disk failed spins", Schedule, "handle_failure")
def _spins(handle_failure: Any, self: Schedule, *kept: Deadlines[Any]) -> None:
    clocks = list(self._clocks)
    handle_failure(self, *kept)
    self._clocks[:] = clocks


# ---- who may, and how much


BUGS.by_both("a permission is not asked", FORBIDDEN, "may not send to")(Always(True, Permissions, "_may_carry"))
BUGS.by_search("a quota is not asked", FULL, "whose quota is")(Always(False, Admission, "_is_full"))


@BUGS.by_search(
    "what is refused is delivered as well", REFUSED, "delivered, and dead letters as well", Inbox, "_reject"
)
def _refused_and_delivered(
    reject: Any,
    self: Inbox,
    stream: IncomingStream,
    header: SequenceHeader,
    arrival: Arrival,
    reason: RejectReason,
    turn: Turn,
) -> None:
    reject(self, stream, header, arrival, reason, turn)
    body, delivery = header.body, stream.delivery
    packet = QueuedPacket([], *header.named, delivery, 1, len(body), [body])
    self._queues.put(stream.queue, packet, body[:HEAD_BYTES], turn)


BUGS.by_search("who acknowledged is forgotten by a restart", REPLACED, "went to a node without those before them")(
    Always(None, Resuming, "restore")
)


# ---- the events for the application


# The following code treats it as acknowledged, and drops it as well.
BUGS.by_search("a failure is folded into a range", EVENTS, "told")(Always(None, AckEvents, "handle_failed"))
