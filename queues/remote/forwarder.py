"""Passes the messages of one subscription on to the node that it belongs to, by ordinary outgoing streams.

Promise: what a durable subscription gets is done for it with the commit that holds the outgoing packet. So each message
is stored once: as a content of its topic, or in a stream. A subscription that is not durable is done with a message
when the acknowledgement that frees its class has arrived: until then it is pending, as with a local reader.

    AHEAD of the cursor --drawn--> SUBMITTED --the acknowledgement of its class--> FREED
                          durable: done        any other: done

At any time at most ``AHEAD_BYTES``, and as many messages as the subscription may have pending, are in transit.
"""

from collections.abc import Callable
from dataclasses import dataclass

from triack.base.delivery import LABELS, Delivery, default_priority
from triack.queues.mailboxes.mailbox import Mailbox, Run
from triack.queues.mailboxes.queued_packet import QueuedPacket, bits_of
from triack.queues.mailboxes.system_queues import subscribed_queue
from triack.queues.messages import CARING, NO_DEAD_LETTER, Passed, Properties
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.topics.subscription import Subscription, ranges_of

AHEAD_BYTES = 4 * 1024 * 1024
"""In transit at a time: some windows of the largest datagrams, and one message of the largest size."""
TURN_MESSAGES = 256
"""Drawn at a time: what is drawn is submitted together, and few hundred messages fill a packet of the largest size."""
OVERHEAD_BYTES = 64
"""Bytes that each message counts in limits on memory beside its body."""

Draw = Callable[[Mailbox, int, int, int], list[tuple[Run, range]]]
"""Hands out the next messages of a queue: at most that many, and that many bytes, at that time; see ``Engine``."""
_NOT_PASSED = CARING | {NO_DEAD_LETTER}
"""Properties about what happens to the message at the node to which it was published."""


class _Way:
    """Learns which messages of one outgoing stream are freed; ``tickets``: those that are not durable, by ticket."""

    __slots__ = ("_freed", "is_full", "outgoing", "tickets")

    def __init__(self, outgoing: OutgoingStream, freed: Callable[[list[tuple[QueuedPacket, int]]], None]) -> None:
        self.outgoing = outgoing
        self.tickets: dict[int, tuple[QueuedPacket, int]] = {}
        self.is_full = False
        self._freed = freed
        outgoing.readers.append(self)

    @property
    def ahead(self) -> int:
        """Number of messages that are not freed; those after one that is not are counted, too."""
        return self.outgoing.submitted - self.outgoing.first_unsettled

    @property
    def ahead_bytes(self) -> int:
        return self.outgoing.pending_bytes + self.outgoing.unacked_bytes

    def end(self) -> None:
        """Learn of nothing more."""
        self.outgoing.readers.remove(self)

    def handle_acked(self, ticket: int, messages: int, size_bytes: int, *, ack_requested: bool) -> None:
        """Messages have arrived."""
        del size_bytes, ack_requested
        tickets = self.tickets
        self._freed([tickets.pop(at) for at in range(ticket, ticket + messages) if at in tickets])

    def handle_failed(self, ticket: int, messages: int, reason: str) -> None:
        """Messages will never arrive."""
        del reason
        self.handle_acked(ticket, messages, 0, ack_requested=False)


@dataclass(eq=False, repr=False)
class Forwarder:
    """Passes the messages of one subscription of another node on.

    Attributes:
        is_allowed: whether its node may have it, by the present permissions.
        is_told: the same, as its node knows it.
    """

    subscription: Subscription
    outbox: Outbox
    draw: Draw
    stir: Callable[["Forwarder"], None]
    node_id: bytes

    def __post_init__(self) -> None:
        self.is_allowed = self.is_told = True
        self._done: list[tuple[QueuedPacket, int]] = []
        peer, queue = self.destination
        found = [it for it in self.outbox.streams if it.peer == peer and it.queue == queue]
        self._ways = {(it.delivery, it.priority): self._hear(it) for it in found}
        self.subscription.mailbox.listeners.append(self.handle_ready)

    def _hear(self, outgoing: OutgoingStream) -> _Way:
        """Use an outgoing stream, and learn what happens to its messages."""
        self.outbox.pass_on(outgoing, self.subscription.root.topic)
        return _Way(outgoing, self._handle_freed)

    @property
    def destination(self) -> tuple[str, str]:
        """The node and the queue that get the messages."""
        peer = self.subscription.subscriber
        return peer.name, subscribed_queue(peer.subscription)

    def move(self, name: str, turn: Turn) -> None:
        """Its node has another name from now on: messages in transit, and all later ones, go there."""
        self.subscription.subscriber.name = name
        for outgoing in self.streams:
            self.outbox.move(outgoing, name, turn)
        self.stir(self)

    @property
    def streams(self) -> list[OutgoingStream]:
        """The outgoing streams with messages of it."""
        return [way.outgoing for way in self._ways.values()]

    @property
    def ahead(self) -> int:
        """Number of messages in transit."""
        return sum([way.ahead for way in self._ways.values()])

    def handle_ready(self) -> None:
        """Messages wait, or some have arrived."""
        self.stir(self)

    def _handle_freed(self, done: list[tuple[QueuedPacket, int]]) -> None:
        self._done += done
        self.stir(self)

    def go(self, turn: Turn) -> None:
        """Pass on what may go now."""
        subscription = self.subscription
        if self._done:
            done, self._done = self._done, []
            subscription.mailbox.acknowledge_many(_joined(done))
        if subscription.mailbox.has_ended or not self.is_allowed:
            return
        for key, way in list(self._ways.items()):
            if not way.ahead and not way.tickets:
                way.end()  # so that the stream may end when it is idle
                del self._ways[key]
        while self._go_on(turn):
            pass

    def _go_on(self, turn: Turn) -> bool:
        most = min(TURN_MESSAGES, self.subscription.max_unacked - self.ahead)
        most_bytes = AHEAD_BYTES - sum([way.ahead_bytes for way in self._ways.values()])
        if most <= 0 or most_bytes <= 0:
            return False
        drawn = self.draw(self.subscription.mailbox, most, most_bytes, turn.now_ns)
        for run, indices in drawn:
            self._submit(run, indices, turn)
        return bool(drawn)

    def _submit(self, run: Run, indices: range, turn: Turn) -> None:
        packet, content = run.packet, run.packet.open()
        way = self._way_for(Delivery(packet.delivery), content.priority, turn)
        messages = [
            Passed(
                content.bodies[index],
                _passed(content.properties[index]) if content.properties else None,
                receive_by_ms=packet.receive_by_ms,
                topic=packet.topic,
                publisher=packet.origin,
                ordinal=content.first_ordinal + index,
                sent_at_ms=content.sent_at_ms,
            )
            for index in indices
        ]
        size_bytes = sum(len(it.body) + OVERHEAD_BYTES for it in messages)
        rows = self.outbox.submit_many(way.outgoing, list(messages), size_bytes)
        tickets = [row.ticket + at for row in rows for at in range(row.messages)]
        self._note(way.outgoing, packet, indices)
        if self.subscription.durable:
            self.settle([(packet, bits_of(indices))], turn)
        else:
            way.tickets |= {at: (packet, 1 << index) for at, index in zip(tickets, indices, strict=True)}

    def settle(self, done: list[tuple[QueuedPacket, int]], turn: Turn) -> None:  # noqa: ARG002 - a call of that commit
        """A durable subscription is done with messages, in the commit that holds their outgoing packets."""
        self.subscription.mailbox.acknowledge_many(done)

    def _way_for(self, delivery: Delivery, priority: int, turn: Turn) -> _Way:
        """The outgoing stream for messages that were published in a class and with a priority."""
        weakest = Delivery.RECOVERABLE if self.subscription.durable else Delivery.EXPRESS
        weaker = min(delivery, max(Delivery(self.subscription.subscriber.delivery), weakest))
        priority = priority if weaker is delivery else default_priority(weaker)
        key = weaker, priority
        way = self._ways.get(key)
        if way is None:
            where, queue = self.destination
            outgoing = self.outbox.outgoing_stream(where, queue, weaker, turn.commit, priority)
            way = self._ways[key] = self._hear(outgoing)
        return way

    def _note(self, outgoing: OutgoingStream, packet: QueuedPacket, indices: range) -> None:
        run = Run(packet, indices.start, indices.stop, redelivered=False)
        run.next = indices.stop
        stream = {
            "class": LABELS[outgoing.delivery],
            "origin": self.node_id.hex(),
            "stream": outgoing.stream_number,
            "sequence": outgoing.sequence.sequence,
        }
        self.subscription.records.note("passed_on", ranges_of([run]), stream)

    def end(self) -> None:
        """The subscription has ended: give up what has not arrived."""
        for way in self._ways.values():
            way.end()
            self.outbox.dead_lettering.purge(way.outgoing)
        self._ways.clear()


def _passed(properties: Properties) -> Properties | None:
    if _NOT_PASSED.isdisjoint(properties):
        return properties or None
    return {name: value for name, value in properties.items() if name not in _NOT_PASSED} or None


def _joined(done: list[tuple[QueuedPacket, int]]) -> list[tuple[QueuedPacket, int]]:
    joined: dict[QueuedPacket, int] = {}
    for packet, bits in done:
        joined[packet] = joined.get(packet, 0) | bits
    return list(joined.items())
