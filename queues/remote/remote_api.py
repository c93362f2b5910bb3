"""What a node does about subscriptions over the network: those of others to its topics, and its own to theirs.

Promise: a request is acknowledged in the commit that does what it asks and that holds its answer. The queues of this
module accept messages only from nodes that have a subscription here, or may ask for one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from triack.base.commit import Commit, StoreContent
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.names import StreamId
from triack.base.reasons import DropReason, RejectReason
from triack.queues.clock_jumps import ClockJumps
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.queued_packet import QueuedPacket, bits_of
from triack.queues.mailboxes.system_queues import SUBSCRIPTIONS_QUEUE, is_subscribed
from triack.queues.messages import NO_DEAD_LETTER, Outgoing
from triack.queues.remote.peer_subscriptions import PeerSubscriptions, Subscriber
from triack.queues.remote.remote_subscriptions import RemoteSubscription, RemoteSubscriptions
from triack.queues.remote.requests import Answer, Live, Message, Subscribe, Unknown, Unsubscribe, decode
from triack.queues.schedule import Restore, Schedule
from triack.queues.streams.group_commit import Turn
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.topics import Topics

REQUESTS_MAX = 256
"""Handled at a time: some milliseconds of work."""
REQUEST_BYTES = 4 * 1024 * 1024
"""Their bytes: one request of the largest size."""
ANSWERS_MAX = 10_000
"""Waiting packets of answers for the nodes of one neighbour, some 10 MB: ten times its subscriptions by default."""


@dataclass(eq=False, repr=False)
class RemoteApi:
    """Handles requests and answers about subscriptions, and drives both sides of them.

    Args:
        name_of: the name of a node in destinations; empty for this node.
        way_back: the name by which messages go to a node that has sent a stream; empty if none leads there.
        is_open: whether the node may still say something of its own.
    """

    of_peers: PeerSubscriptions
    own: RemoteSubscriptions
    name_of: Callable[[bytes], str]
    way_back: Callable[[bytes, int], str]
    commit: Callable[[], Commit]
    is_open: Callable[[], bool]

    def __post_init__(self) -> None:
        self._queues, self._outbox, self._drops = self.of_peers.queues, self.of_peers.outbox, self.of_peers.drops
        self._mailbox: Mailbox | None = None
        self.of_peers.reply = self._reply
        self._queues.admits = self._admits

    def register(self, schedule: Schedule) -> None:
        """Register what is done for subscriptions between nodes, and when."""
        own, of_peers = self.own, self.of_peers
        schedule.restore(Restore.RULES, own.restore)
        schedule.restore(Restore.REST, self._handle_restored)
        schedule.timer(of_peers.handle_timer, of_peers.leases)
        schedule.timer(own.handle_timer, needs=(own.subscriptions,))
        schedule.deadline(own.next_deadline, own.subscriptions)
        schedule.timer(self.dispatch, needs=(self._queues.notices.topical,))

    # ---- starting

    def _handle_restored(self, _content: StoreContent, turn: Turn, _jumps: ClockJumps) -> None:
        """The store has been read."""
        self._mailbox = self._queues.mailboxes.get(SUBSCRIPTIONS_QUEUE)
        self.of_peers.handle_restored()
        self.own.handle_restored(turn)

    # ---- who may send what

    def _admits(self, queue: str, stream: StreamId, sealed: bool) -> bool:
        """Whether a node may send to a queue, as far as subscriptions are concerned."""
        if queue == SUBSCRIPTIONS_QUEUE:
            who = self._subscriber(stream, sealed=sealed)
            is_open = who.name != "" and (self._asks(stream) or self.of_peers.may_ask(who))
            if is_open:
                self._open()
            else:
                self._drops[DropReason.SUBSCRIPTION_REFUSED] += 1
            return is_open
        if is_subscribed(queue):
            found = self.own.of_queue(queue)
            return found is not None and self._is_of(stream, found)
        return True

    def _subscriber(self, stream: StreamId, *, sealed: bool) -> Subscriber:
        return Subscriber(self.way_back(*stream), stream.origin.hex(), self.of_peers.proved_of(stream.origin, sealed))

    def _asks(self, stream: StreamId) -> bool:
        return any(self._is_of(stream, found) for found in self.own.subscriptions.values())

    def _is_of(self, stream: StreamId, found: RemoteSubscription) -> bool:
        """Whether a node is that of a subscription: the one that has accepted it, or that has its name."""
        names = self.name_of(stream.origin), self.way_back(*stream)
        return found.node == stream.origin.hex() or any(self._is_at(name, found.peer) for name in names)

    def _is_at(self, name: str, peer: str) -> bool:
        """Whether a node's name is that of a destination: the same, or the one that the way by relays gives it."""
        if name == peer:
            return True
        way, (own, _, via) = self.own.routes.way_of(peer), name.rpartition("@")
        return bool(own) and not way.is_direct and (way.via, way.final.partition("@")[0]) == (via, own)

    def _open(self) -> None:
        if self._mailbox is None:
            self._mailbox = self._queues.make_queue(SUBSCRIPTIONS_QUEUE, self.commit())

    # ---- requests and answers

    def _has_enough(self, name: str) -> bool:
        """Whether a node, or all behind a relay, leave too many answers waiting to get more.

        It may ask often and accept no answer. A node without an answer repeats what it wants.
        """
        link = self._outbox.links.get(self.own.routes.way_of(name).via)
        streams = () if link is None else link.streams
        mine = [it for it in streams if it.queue == SUBSCRIPTIONS_QUEUE]
        return sum(len(it.pending) + it.unacknowledged for it in mine) >= ANSWERS_MAX

    def _reply(self, name: str, answer: Answer | Unknown, turn: Turn) -> None:
        if self._has_enough(name):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1
            return
        outgoing = self._outbox.outgoing_stream(name, SUBSCRIPTIONS_QUEUE, Delivery.TRANSACTIONAL, turn.commit)
        body = answer.encode()
        self._outbox.submit(outgoing, Outgoing(body, {NO_DEAD_LETTER: True}), len(body))

    def _take(self, packet: QueuedPacket, index: int, turn: Turn) -> None:
        content, stream = packet.open(), StreamId(packet.origin, packet.stream)
        who = self._subscriber(stream, sealed=content.sealed)
        try:
            message = decode(content.bodies[index])
            if who.name:
                self._handle(message, who, stream, turn)
            else:
                self._drops[DropReason.SUBSCRIPTION_REFUSED] += 1
        except ProtocolError as error:
            self._drops[error.reason] += 1

    def _handle(self, message: Message, who: Subscriber, stream: StreamId, turn: Turn) -> None:
        match message:
            case Answer() | Unknown():
                mine = [it.peer for it in self.own.subscriptions.values() if self._is_of(stream, it)]
                for peer in dict.fromkeys(mine):
                    if isinstance(message, Unknown):
                        self.own.handle_unknown(peer, message, turn)
                    else:
                        self.own.handle_answer(peer, message, who.node, turn)
            case Subscribe() if self._has_enough(who.name):
                self._drops[DropReason.SUBSCRIPTION_REFUSED] += 1
            case Subscribe():
                self.of_peers.handle_subscribe(message, who, turn)
            case Unsubscribe():
                self.of_peers.handle_unsubscribe(message, who, turn)
            case Live():
                self.of_peers.handle_live(message, who, turn)

    def end(self, subscription: Subscription, topics: Topics, turn: Turn) -> None:
        """An operator ends a subscription of another node."""
        topics.end(subscription, "unsubscribed", turn.now_ns)
        self.of_peers.tell_end(subscription, turn)

    # ---- going on

    def dispatch(self, turn: Turn) -> bool:
        """Dispatch what topics allow, and pass on what other nodes get of it. Returns whether there was any."""
        topics = self.of_peers.topics
        topics.advance(turn.now_ns)
        has_mail = self._mailbox is not None and self._mailbox.length
        if not (has_mail or self.own.has_work or self.of_peers.stirred) or not self.is_open():
            return False
        passed = False
        while self.go(turn):
            passed = True
            topics.advance(turn.now_ns)
        return passed

    def go(self, turn: Turn) -> bool:
        """Handle, pass on, ask and answer what is due. Returns whether topics may continue."""
        mailbox = self._mailbox
        while mailbox is not None and mailbox.length:
            drawn = self.of_peers.draw(mailbox, REQUESTS_MAX, REQUEST_BYTES, turn.now_ns)
            for run, indices in drawn:
                for index in indices:
                    self._take(run.packet, index, turn)
                mailbox.acknowledge_many([(run.packet, bits_of(indices))])
            if not drawn:
                break
        self.own.go(turn)
        return self.of_peers.go(turn)

    def handle_directory_changed(self) -> None:
        """Permissions, or the names of nodes, have changed."""
        self.of_peers.handle_directory_changed()
        self.own.handle_directory_changed()

    def handle_refused(self, queue: str, sender: str, reason: RejectReason, now_ns: int) -> None:
        """This node has refused what another one has sent."""
        if queue == SUBSCRIPTIONS_QUEUE:
            self.own.handle_refused(lambda peer: self._is_at(sender, peer), reason, now_ns)
