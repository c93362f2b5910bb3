"""The subscriptions of other nodes to topics of this one: who may have which, how long they last, and their pumps.

Promise: a durable one goes on until its node or an operator ends it. Any other one ends ``LEASE_NS`` after its node was
heard last, or had a session with this one, and with this process. The answer to a request is in the commit that does
what was asked, so that a request that is made again does no harm. No node can name a subscription of another one: the
name of the node is a part of its title.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from triack.base.errors import AddressError, SubscriptionMismatch
from triack.base.names import LEVEL_END, TOPIC_PREFIX, check_pattern
from triack.base.peers import Directory
from triack.base.peers import Peer as DirectoryPeer
from triack.base.reasons import DropReason, RefusalReason
from triack.base.units import SECOND
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.node_settings import NodeSettings
from triack.queues.remote.pump import Draw, Pump
from triack.queues.remote.requests import Answer, Live, Subscribe, Unknown, Unsubscribe
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outbox import Outbox
from triack.queues.topics.subscription import Peer, Subscription
from triack.queues.topics.topics import Topics

__all__ = ["LEASE_NS", "PeerSubscriptions", "Reply"]

LEASE_NS = 60 * SECOND
"""A subscription that is not durable ends so long after its node was heard last: twice as long as the node may take."""

Reply = Callable[[str, Answer | Unknown, Turn], None]
"""Sends an answer to a node, by its name, with the next commit."""


class PeerSubscriptions:
    """The subscriptions of all peers.

    Args:
        settings: says how many a peer may have.
        topics: of this node.
        queues: of this node.
        outbox: takes what is passed on.
        directory: says who may subscribe to what.
        draw: hands out messages.
        reply: sends answers.
        has_session: whether a node of that name has a session with this one.
        drops: counts what was refused.
        node_id: this node.
    """

    __slots__ = (
        "_directory",
        "_draw",
        "_drops",
        "_has_session",
        "_leases",
        "_node_id",
        "_outbox",
        "_pumps",
        "_queues",
        "_reply",
        "_settings",
        "_stirred",
        "_topics",
    )

    def __init__(
        self,
        settings: NodeSettings,
        topics: Topics,
        queues: LocalQueues,
        outbox: Outbox,
        directory: Directory,
        *,
        draw: Draw,
        reply: Reply,
        has_session: Callable[[str], bool],
        drops: Counter[DropReason],
        node_id: bytes,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._queues = queues
        self._outbox = outbox
        self._directory = directory
        self._draw = draw
        self._reply = reply
        self._has_session = has_session
        self._drops = drops
        self._node_id = node_id
        self._pumps: dict[Subscription, Pump] = {}
        self._stirred: dict[Pump, None] = {}
        # When the subscriptions of a node that are not durable end, by its name.
        self._leases = Deadlines[str]()
        topics.on_end = self._handle_end
        outbox.dead_lettering.subscription_of = self._title_of

    def handle_restored(self) -> None:
        """The store has been read: go on with its subscriptions."""
        for subscription in self._topics.subscriptions.values():
            if subscription.peer is not None:
                self._begin(subscription)

    def handle_settings(self, settings: NodeSettings) -> None:
        """Another number of subscriptions is in force, for further ones."""
        self._settings = settings

    def _begin(self, subscription: Subscription) -> None:
        pump = self._pumps[subscription] = Pump(subscription, self._outbox, self._draw, self._stir, self._node_id)
        pump.is_allowed = self._may_have(subscription)
        self._stir(pump)

    def _stir(self, pump: Pump) -> None:
        self._stirred[pump] = None

    # ---- permissions

    def may_ask(self, name: str) -> bool:
        """Whether a node may ask for subscriptions at all."""
        return self._is_keyless or any(peer.may_subscribe for peer in self._entries(name))

    @property
    def _is_keyless(self) -> bool:
        """Whether nodes have no keys here: then each node of this machine may subscribe, as it may send."""
        return not any(peer.keys for peer in self._directory)

    def _entries(self, name: str) -> Iterator[DirectoryPeer]:
        """What the directory has of a node: its own entry, or that of the relay that brings its messages."""
        own, _, via = name.rpartition("@")
        found = self._directory.named(own or name) or self._directory.named(via)
        if found is not None:
            yield found

    def _may(self, name: str, pattern: str) -> bool:
        return self._is_keyless or any(peer.may_subscribe_to(pattern) for peer in self._entries(name))

    def _may_have(self, subscription: Subscription) -> bool:
        return subscription.peer is not None and self._may(subscription.peer.name, subscription.pattern)

    def handle_directory_changed(self) -> None:
        """Nothing is passed on to a node that may not have it any more, until it may again."""
        for subscription, pump in self._pumps.items():
            pump.is_allowed = self._may_have(subscription)
            self._stir(pump)

    # ---- requests

    def handle_subscribe(self, ask: Subscribe, name: str, turn: Turn) -> None:
        """A node asks for a subscription, perhaps again."""
        self._renew(name, turn.now_ns)
        reason, why = self._refusal(ask, name)
        if not reason:
            try:
                self._subscribe(ask, name, turn)
            except SubscriptionMismatch as error:
                reason, why = RefusalReason.MISMATCH, str(error)
        if reason:
            self._drops[DropReason.SUBSCRIPTION_REFUSED] += 1
            self._reply(name, Answer("refused", ask.name, ask.number, reason, why), turn)
        else:
            self._reply(name, Answer("accepted", ask.name, ask.number), turn)

    def _refusal(self, ask: Subscribe, name: str) -> tuple[str, str]:
        """Why a node does not get a subscription, and the same in words; empty if it does."""
        try:
            pattern = check_pattern(ask.pattern)
        except AddressError as error:
            return RefusalReason.BAD_PATTERN, str(error)[:200]
        if not self._may(name, pattern):
            return RefusalReason.ACCESS_DENIED, f"{name} may not subscribe to {pattern}"
        is_known = f"{name}/{ask.name}" in self._topics.subscriptions
        most = self._settings.max_peer_subscriptions
        if not is_known and self._count(name) >= most:
            return RefusalReason.TOO_MANY_SUBSCRIPTIONS, f"{name} has {most} subscriptions"
        root = f"{TOPIC_PREFIX}{pattern.split(LEVEL_END, maxsplit=1)[0]}"
        if self._queues.is_fixed and root not in self._queues.mailboxes:
            return RefusalReason.TOPIC_NOT_FOUND, f"there is no {root}"
        return "", ""

    def _count(self, name: str) -> int:
        """How many subscriptions a node has; all nodes behind a relay together, as these prove nothing."""
        return len([it for it in self._pumps if it.peer is not None and _payer(it.peer.name) == _payer(name)])

    def _subscribe(self, ask: Subscribe, name: str, turn: Turn) -> None:
        peer = Peer(name, ask.name, ask.number, int(ask.delivery))
        known = self._topics.subscriptions.get(peer.title)
        if known is not None and known.durable != ask.durable:
            raise SubscriptionMismatch(f"subscription {ask.name} is {'durable' if known.durable else 'not durable'}")
        if known is not None and not ask.durable and known.peer is not None and known.peer.number < ask.number:
            self._topics.end(known, "replaced", turn.now_ns)
            known = None
        found = self._topics.subscribe(
            ask.pattern,
            turn,
            durable=ask.name if ask.durable else None,
            max_unacked=ask.max_unacked,
            ack_wait_ns=0,  # its reader is on the other node, which has that limit
            peer=peer,
        )
        if known is None:
            self._begin(found)
        elif found.peer != peer:
            found.peer = peer
            found.notices.dirty[found] = None

    def handle_unsubscribe(self, ask: Unsubscribe, name: str, turn: Turn) -> None:
        """A node ends a subscription; the same for one that has ended."""
        self._renew(name, turn.now_ns)
        known = self._topics.subscriptions.get(f"{name}/{ask.name}")
        if known is not None:
            self._topics.end(known, "unsubscribed", turn.now_ns)
        self._reply(name, Answer("ended", ask.name, ask.number), turn)

    def handle_live(self, ask: Live, name: str, turn: Turn) -> None:
        """A node names all its subscriptions here: end the others, and tell it which there are not."""
        self._renew(name, turn.now_ns)
        mine = [it for it in self._topics.subscriptions.values() if it.peer is not None and it.peer.name == name]
        for subscription in mine:
            if subscription.peer is not None and subscription.peer.subscription not in ask.names:
                self._topics.end(subscription, "unsubscribed", turn.now_ns)
        known = {it.peer.subscription for it in mine if it.peer is not None}
        unknown = {it: number for it, number in ask.names.items() if it not in known}
        if unknown:
            self._reply(name, Unknown(unknown), turn)

    def _renew(self, name: str, now_ns: int) -> None:
        self._leases.set(name, now_ns + LEASE_NS)

    # ---- ends

    def _handle_end(self, subscription: Subscription) -> None:
        """A subscription has ended, by its node, its lease or an operator."""
        pump = self._pumps.pop(subscription, None)
        if pump is not None:
            self._stirred.pop(pump, None)
            pump.end()

    def tell_end(self, subscription: Subscription, turn: Turn) -> None:
        """An operator has ended a subscription of another node."""
        peer = subscription.peer
        if peer is not None:
            self._reply(peer.name, Answer("ended", peer.subscription, peer.number), turn)

    def _title_of(self, peer: str, queue: str, messages: int) -> str:
        """The durable subscription whose messages, passed on in vain, become dead letters; counts them if none is."""
        for subscription, pump in self._pumps.items():
            if subscription.durable and pump.destination == (peer, queue):
                return subscription.title
        self._drops[DropReason.SUBSCRIPTION_OVER] += messages
        return ""

    def handle_timer(self, now_ns: int) -> None:
        """End the subscriptions whose nodes were not heard for too long."""
        for name in self._leases.poll_due(now_ns):
            mine = [
                it
                for it in self._topics.subscriptions.values()
                if it.peer is not None and it.peer.name == name and not it.durable
            ]
            if mine and self._has_session(name):
                self._renew(name, now_ns)
                continue
            for subscription in mine:
                self._topics.end(subscription, "not-renewed", now_ns)

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` must be called, or None."""
        return self._leases.earliest()

    # ---- passing on

    @property
    def has_work(self) -> bool:
        """Whether ``go`` has something to look at."""
        return bool(self._stirred)

    def go(self, turn: Turn) -> bool:
        """Pass on what may go now. Returns whether there was anything to look at."""
        stirred, self._stirred = self._stirred, {}
        for pump in stirred:
            pump.go(turn)
        if stirred:
            self._topics.note(turn.now_ns)  # before the records of express packets, which need no commit
        return bool(stirred)

    def pump_of(self, subscription: Subscription) -> Pump | None:
        """The pump of a subscription; None for one of this node."""
        return self._pumps.get(subscription)


def _payer(name: str) -> str:
    """The neighbour that answers for a node."""
    return name.rpartition("@")[2]
