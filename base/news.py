"""Events of a node for its program, such as links that come and go, and peers that it no longer talks to."""

from dataclasses import dataclass


class NodeEvent:
    """Any event of a node: one of the classes below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LinkUp(NodeEvent):
    """A session with another node is open.

    Attributes:
        address: where its datagrams go.
        peer: the other node's name.
        node_id: its id, 32 hex digits.
    """

    address: str
    peer: str
    node_id: str


@dataclass(frozen=True, slots=True)
class LinkDown(NodeEvent):
    """An open session has ended. The next one resends its unacknowledged packets.

    Attributes:
        address: where its datagrams went.
        peer: the other node's name.
        node_id: its id, 32 hex digits.
        reason: why, by the names of docs/reasons.md: ``ack-timeout``, ``peer-closed``, or ``idle`` when there was
            nothing to send for a while.
    """

    address: str
    peer: str
    node_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class LinkDowngraded(NodeEvent):
    """A synchronous link is asynchronous for now: its packets count as passed on once the next hop has stored them.

    Attributes:
        peer: the neighbour that receives the messages.
        oldest_s: for how long the oldest packet has waited to be passed on.
        packets: how many wait for that.
    """

    peer: str
    oldest_s: float
    packets: int


@dataclass(frozen=True, slots=True)
class LinkUpgraded(NodeEvent):
    """A link that was downgraded is synchronous again.

    Attributes:
        peer: the neighbour that receives the messages.
    """

    peer: str


@dataclass(frozen=True, slots=True)
class WayChanged(NodeEvent):
    """Messages of routes with several neighbours go through another one of them from now on.

    Attributes:
        ways: the neighbours, the preferred one first.
        via: the one that receives the messages now.
        before: the one that received them before.
    """

    ways: tuple[str, ...]
    via: str
    before: str


@dataclass(frozen=True, slots=True)
class PeerSilent(NodeEvent):
    """No node answers at an address, and messages for it wait. Reported once until one does; the node keeps trying.

    Attributes:
        address: where it tries.
        cause: the system's reason, such as ``cannot resolve nosuch.invalid``, or that nothing came back.
    """

    address: str
    cause: str


@dataclass(frozen=True, slots=True)
class PeerUnknown(NodeEvent):
    """Messages for a peer wait: this node does not trust it, or knows no address of it and gets no call from it.

    Reported once until that has changed.

    Attributes:
        peer: the peer, as the destination of the messages names it.
        cause: the reason.
    """

    peer: str
    cause: str


@dataclass(frozen=True, slots=True)
class PeerHalted(NodeEvent):
    """A store was found to be an older copy of itself: the two nodes exchange nothing until they start again.

    Attributes:
        peer: the other node's id, 32 hex digits.
        rolled_back: whose store it is: ``own``, ``peer`` or ``unknown``.
        cause: the evidence.
    """

    peer: str
    rolled_back: str
    cause: str


@dataclass(frozen=True, slots=True)
class GapFound(NodeEvent):
    """Another node answers for a peer, and has none of the messages that the one before it acknowledged.

    Attributes:
        peer: the peer that this node sends to, by name.
        node_id: the node that answers, 32 hex digits.
        before: the node that has the acknowledged messages, unless they were read.
        queues: the peer's queues whose messages were acknowledged, or given up.
        halts: whether the node has stopped sending there, as ``Reconnect(gap=)`` says.
        cause: all of that in a sentence.
    """

    peer: str
    node_id: str
    before: str
    queues: tuple[str, ...]
    halts: bool
    cause: str


@dataclass(frozen=True, slots=True)
class CallRefused(NodeEvent):
    """A node called and got no answer, or its answer could not be read. Reported once while that lasts.

    Attributes:
        host: the address that the call came from, without the port; the network does not prove it.
        trouble: the reason, by the names of ``Trouble``: ``untrusted``, ``wrong-key``, ``other-suite``,
            ``other-version``, ``one-without-keys``, ``other-psk`` or ``code-expired``.
        cause: the same in a sentence.
        remedy: what the operator can do.
    """

    host: str
    trouble: str
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class QueueOverQuota(NodeEvent):
    """A queue of this node has reached its quota: its senders wait, or are refused. Reported once until it has room.

    Attributes:
        queue: its name.
        messages: how many are in it.
        bytes: the size of the packets that hold them.
    """

    queue: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DeadLettersWaiting(NodeEvent):
    """The queue of dead letters has reached ``DeadLetters.warn_at``. Reported once until fewer than half of them wait.

    Attributes:
        queue: their queue.
        messages: how many are in it. The node refuses none because of that.
    """

    queue: str
    messages: int


@dataclass(frozen=True, slots=True)
class BridgeUp(NodeEvent):
    """A bridge is connected to its broker, and passes messages on.

    Attributes:
        bridge: its name.
        broker: the broker, as the settings have it.
    """

    bridge: str
    broker: str


@dataclass(frozen=True, slots=True)
class BridgeLost(NodeEvent):
    """A bridge has lost its broker, or does not reach it. It tries again; a repeated cause is no new event.

    Attributes:
        bridge: its name.
        cause: why.
    """

    bridge: str
    cause: str


@dataclass(frozen=True, slots=True)
class BridgeRefused(NodeEvent):
    """Messages that can never be passed on are in the queue ``NAME.refused`` of a bridge.

    Attributes:
        bridge: its name.
        reason: why, by the names of docs/reasons.md.
        messages: how many.
    """

    bridge: str
    reason: str
    messages: int


@dataclass(frozen=True, slots=True)
class JournalFull(NodeEvent):
    """A journal has reached its quota. Reported once until it has room.

    Attributes:
        queue: the journal, ``$journal.`` and the name of its queue.
        messages: how many copies are in it.
        bytes: the size of the packets that hold them.
        when_full: what happens now: ``drop oldest``, ``stop`` or ``hold``, see ``Journal``.
    """

    queue: str
    messages: int
    bytes: int
    when_full: str


@dataclass(frozen=True, slots=True)
class StoreLow(NodeEvent):
    """The disk has less room than the reserve, or enough again. While it is low the node accepts nothing new for it.

    Attributes:
        is_low: True when it has less room than the reserve, False when it has enough again.
        room_bytes: how many more bytes the disk accepts.
    """

    is_low: bool
    room_bytes: int


@dataclass(frozen=True, slots=True)
class StreamHeld(NodeEvent):
    """Messages to a queue wait at their sender, as their destination has no room; or the wait has ended.

    Reported once for all queues of a peer that wait for one reason, and for each queue if the queue is the reason.

    Attributes:
        peer: the node at the other end, by name.
        queue: the destination queue; the first of them if all of the peer's wait.
        reason: why, by the names of docs/reasons.md: ``queue-full``, ``peer-quota``, ``store-low`` and others.
        here: True if this node makes the peer's messages wait, False if the peer makes this node's wait. If the reason
            is this node's own queue or disk, ``QueueOverQuota`` and ``StoreLow`` report it instead.
        is_held: False when the wait has ended.
    """

    peer: str
    queue: str
    reason: str
    here: bool
    is_held: bool


@dataclass(frozen=True, slots=True)
class CanSend(NodeEvent):
    """A queue accepts messages again after a ``send_nowait`` to it raised ``WouldBlock``. Reported once after each.

    Attributes:
        destination: ``peer/queue``, or the name of a queue of this node.
        delivery: the class, by its name in lower case.
    """

    destination: str
    delivery: str


@dataclass(frozen=True, slots=True)
class StreamsNearLimit(NodeEvent):
    """A peer is near its limit of live streams, or has reached it: then further ones wait at their sender.

    Both ends report it, once until there are fewer again. A stream is one queue of a peer in one class; it ends when it
    has had nothing to send for a while.

    Attributes:
        peer: the other node, by name.
        streams: how many are live.
        limit: how many may be.
        incoming: True if they come from the peer, False if they lead there.
        is_full: whether some have to wait.
    """

    peer: str
    streams: int
    limit: int
    incoming: bool
    is_full: bool


@dataclass(frozen=True, slots=True)
class MessagesDiscarded(NodeEvent):
    """Messages were dropped for a slow subscription, as its topic's strategy allows. Reported at most once a second.

    Attributes:
        topic: the first level of the topics' names.
        subscription: its name.
        messages: how many, since the last report.
    """

    topic: str
    subscription: str
    messages: int


@dataclass(frozen=True, slots=True)
class SubscriptionLost(NodeEvent):
    """Another node had ended a subscription to its topics, and this node asks for it again: messages are missed.

    That happens when a cut lasts longer than a subscription that is not durable. How many messages are missed is
    unknown.

    Attributes:
        destination: the node and the pattern, as they were given to ``subscribe``.
        subscription: its name.
    """

    destination: str
    subscription: str


@dataclass(frozen=True, slots=True)
class AckWaitOver(NodeEvent):
    """Readers kept messages of a subscription for too long: those count as failed. Reported at most once a second.

    Attributes:
        topic: the first level of the topics' names.
        subscription: its name.
        messages: how many, since the last report.
    """

    topic: str
    subscription: str
    messages: int


@dataclass(frozen=True, slots=True)
class EventsMissed(NodeEvent):
    """A client was without its node for a while: the events of that time are missing. Only clients get this.

    Attributes:
        cause: a sentence that says why.
    """

    cause: str


@dataclass(frozen=True, slots=True)
class NoRoute(NodeEvent):
    """A neighbour brought messages for a node to which this one has no route: they go back as dead letters.

    Reported once for each node until routes or peers change.

    Attributes:
        final: the node that they are for, as the neighbour calls it.
        came_by: the neighbour.
    """

    final: str
    came_by: str


@dataclass(frozen=True, slots=True)
class TransitOverQuota(NodeEvent):
    """The messages that wait here for other nodes have reached a quota: a neighbour must wait.

    Reported once until all that this neighbour brought has left.

    Attributes:
        came_by: the neighbour whose message found no room.
        messages: how many wait here in all.
        bytes: the bytes that this neighbour has brought.
        all_bytes: the bytes of all of them.
    """

    came_by: str
    messages: int
    bytes: int
    all_bytes: int
