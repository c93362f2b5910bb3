"""Outgoing messages that were given up, until their dead letters exist.

Promise: each is in the session log before anything can pass it over. It becomes a dead letter when its bodies are in
memory, in the order of giving up, unless it was acknowledged after all. It stays in its sequence until the dead letter
is on the disk, so that a crash before then does not lose it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from triack.base.commit import Commit, key_of
from triack.base.names import LEVEL_END, TOPIC_PREFIX
from triack.base.reasons import EXPIRED, DeadReason
from triack.ordering.departing import StreamPacketState
from triack.ordering.outgoing import ENDED, StreamPacket
from triack.queues.admin_acks import Tell, Told, nobody_told
from triack.queues.body_head import large_of
from triack.queues.mailboxes.expiry import LETTERS_MAX
from triack.queues.mailboxes.system_queues import large_target
from triack.queues.message_classes import class_on_the_way
from triack.queues.messages import DEAD_SEALED, LargeMessage, Outgoing, Properties
from triack.queues.packing import Unpacked, unpack_pieces
from triack.queues.schedule import Phase, Schedule
from triack.queues.streams.accepted_keys import AcceptedKeys
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.stream_records import StreamRecords


@dataclass(slots=True)
class DeadMessage:
    """The packets of one message, or the one packet of several, that were given up, and why.

    They wait for their bodies. Until the dead letter exists, the destination may still acknowledge or reject them.
    """

    outgoing: OutgoingStream
    entries: list[StreamPacket]
    reason: str

    @property
    def is_freed(self) -> bool:
        """Whether they were acknowledged after all. The packets of one message are freed together."""
        return self.entries[0].state is StreamPacketState.DONE

    @property
    def is_here(self) -> bool:
        """Whether all bodies are in memory."""
        return all(entry.body is not None for entry in self.entries)

    @property
    def has_expired(self) -> bool:
        """Whether it expired."""
        return self.reason in EXPIRED

    def open(self) -> Unpacked:
        """Unpack the messages. Also set which of the two times ended: only the packet itself has them."""
        content = unpack_pieces([entry.body or b"" for entry in self.entries])
        if self.has_expired and content.receive_by_ms == self.entries[0].reach_by_ms:
            self.reason = DeadReason.RECEIVE_TIMEOUT
        return content

    def destination_of(self, content: Unpacked) -> str:
        """Where its messages were going; of a topic, its whole name."""
        below = content.topic
        if content.publisher:
            return f"{TOPIC_PREFIX}{below}"
        return f"{self.outgoing.destination}{LEVEL_END}{below}" if below else self.outgoing.destination

    @property
    def properties(self) -> Properties:
        """What a dead letter says. A definite rejection means that nothing was delivered, even after it was given up.

        An earlier process of this node may have sent what it had queued: there is no record of that.
        """
        first, sends = self.entries[0], max(entry.sends for entry in self.entries)
        is_recovered, rejected = first.first_ticket < self.outgoing.recovered, first.state is StreamPacketState.REJECTED
        # The destination's disk does not say what an earlier process there accepted of an express stream.
        definite = rejected and (self.outgoing.durable or sends == 1)
        return {
            "dead_reason": self.reason,
            "dead_destination": self.outgoing.destination,
            "dead_attempts": sends,
            "dead_maybe_delivered": (sends > 0 or is_recovered) and not definite,
            **({DEAD_SEALED: True} if self.outgoing.sealed else {}),
        }


@dataclass(eq=False, repr=False)
class DeadLettering:
    """The messages that an outbox has given up.

    Args:
        put_dead_letter: keeps a dead letter with the next commit: message, origin, ordinal, turn.

    Attributes:
        waiting: messages without a dead letter, the oldest first.
        unnoted: those that are not in the session log yet, see ``note``.
        tell: gets what happened to messages whose senders may want to know.
        subscription_of: the subscription whose messages, passed on to a peer and a queue there, become dead letters;
            empty if they are dropped, which it counts.
        give_up_body: tells the destination of a large message, a peer and its queue, to free the body of that ordinal.
    """

    node_id: bytes
    records: StreamRecords
    keys: AcceptedKeys
    put_dead_letter: Callable[[Outgoing, bytes, int, Turn], None]

    def __post_init__(self) -> None:
        self.waiting: deque[DeadMessage] = deque()
        self.unnoted: list[DeadMessage] = []
        self.tell: Tell = nobody_told
        self.subscription_of: Callable[[str, str, int], str] = lambda *_: ""
        self.give_up_body: Callable[[str, str, int, Commit], None] = lambda *_: None

    # ---- giving up

    def register(self, schedule: Schedule) -> None:
        """Register when dead letters are noted, and written."""
        # Before a job, and before what is sent if a job is running.
        for phase in (Phase.END, Phase.PACK_EXPRESS):
            schedule.step(phase, self.note, self.unnoted)
        schedule.step(Phase.END, self.dead_letter, self.waiting)

    def give_up(self, outgoing: OutgoingStream, entry: StreamPacket, reason: str) -> None:
        """Give up the message that a packet is part of; it becomes a dead letter when its bodies are in memory."""
        if entry.state not in ENDED:
            entries = outgoing.sequence.message_of(entry)
            outgoing.sequence.give_up(entries)
            self._put(DeadMessage(outgoing, entries, reason))

    def reject(self, outgoing: OutgoingStream, entry: StreamPacket, reason: str) -> list[StreamPacket]:
        """The destination has rejected a packet, and so its whole message. Returns the packets of the message."""
        entries = outgoing.sequence.message_of(entry)
        # An expired message is becoming a dead letter already. Now it is known not to have been delivered.
        is_new = entry.state is not StreamPacketState.GIVEN_UP
        outgoing.sequence.reject(entries)
        if is_new:
            self._put(DeadMessage(outgoing, entries, reason))
        return entries

    def purge(self, outgoing: OutgoingStream) -> list[StreamPacket]:
        """Give up all that waits in an outgoing stream. Returns the packets, which become dead letters.

        What a relay answers for stays until it has passed it on.
        """
        sequence = outgoing.sequence
        entries = [
            entry
            for entry in sequence.entries.values()
            if entry.state not in ENDED and not sequence.relay_answers(sequence.message_of(entry))
        ]
        for entry in entries:
            self.give_up(outgoing, entry, DeadReason.PURGED)
        return entries

    def _put(self, item: DeadMessage) -> None:
        self.waiting.append(item)
        self.unnoted.append(item)

    # ---- dead letters

    def note(self, turn: Turn) -> None:
        """Log given-up messages, before a session passes them over or a commit holds their dead letters."""
        given_up = list(self.unnoted)
        self.unnoted.clear()
        for item in given_up:
            # Acks that came with the end of a session may have freed what was given up at that end.
            if not item.is_freed:
                self.records.removed(
                    item.outgoing, item.entries, "expired" if item.has_expired else item.reason, turn.now_ns
                )

    def missing(self, limit: int) -> Iterator[tuple[OutgoingStream, StreamPacket]]:
        """Packets of at most ``limit`` next messages whose bodies are only on the disk."""
        for item in islice(self.waiting, limit):
            if not item.is_freed:
                yield from ((item.outgoing, entry) for entry in item.entries if entry.body is None)

    def dead_letter(self, turn: Turn) -> None:
        """Put messages into the dead-letter queue with the next commit, in order, up to the first without its body."""
        letters = 0
        while self.waiting and letters < LETTERS_MAX:
            item = self.waiting[0]
            if not (item.is_freed or item.is_here):
                break
            self.waiting.popleft()
            if item.is_freed:
                continue
            content = item.open()
            letters += len(content.bodies)
            self._dead_letter(item, content, turn)

    def _dead_letter(self, item: DeadMessage, content: Unpacked, turn: Turn) -> None:
        outgoing, entries = item.outgoing, item.entries
        added = item.properties | {"dead_destination": item.destination_of(content)}
        if entries[0].cares:
            self._tell(item, content, turn.now_ns)
        large = large_of(entries[0].body or b"\0")
        if large and not large_target(outgoing.queue):
            self.give_up_body(outgoing.peer, outgoing.queue, large, turn.commit)
        for entry in entries:
            entry.cares = False  # an ack that still comes has no consequences but that
        kept = len(content.bodies)
        if large_target(outgoing.queue):
            kept = 0  # a part of a large message: its sender has the error of that
        elif content.publisher:
            title = self.subscription_of(outgoing.peer, outgoing.queue, kept)
            added["dead_subscription"], kept = title, kept if title else 0
        for index, body in enumerate(content.bodies[:kept]):
            properties = {**(content.properties[index] if content.properties else {}), **added}
            letter, ordinal = Outgoing(body, properties, priority=content.priority), content.first_ordinal + index
            if large:
                letter = LargeMessage(body, properties, priority=content.priority, ordinal=large)
            self.put_dead_letter(letter, content.publisher or self.node_id, ordinal, turn)
            if not content.publisher:
                self.keys.handle_dead(ordinal, item.reason, turn.commit)
        if outgoing.durable:
            span = (
                key_of(outgoing.stream_number, entries[0].number),
                key_of(outgoing.stream_number, entries[-1].number),
            )
            turn.commit.outgoing_deletes.append(span)
        if outgoing.tear(entries) and outgoing.durable:
            turn.commit.streams[outgoing.stream_number] = outgoing.row()
        turn.dead_lettered.append((outgoing, entries, item.reason))

    def _tell(self, item: DeadMessage, content: Unpacked, now_ns: int) -> None:
        """Tell this node's applications, if they want to know, that messages have ended before they arrived."""
        outgoing, sequence = item.outgoing, item.outgoing.sequence.sequence
        where = self.node_id, outgoing.stream_number, sequence, item.entries[-1].number
        indices, message_class = range(len(content.bodies)), class_on_the_way(item.reason)
        self.tell(Told(*where, outgoing.delivery, outgoing.destination, content, indices, message_class), now_ns)
