"""The subscriptions of other nodes to topics of this one: who may have which, how long they last, and their forwarders.

Promise: a durable one continues until its node or an operator ends it. Any other one ends with this process, or
``LEASE_NS`` after its node was last heard or had a session with this one. The answer to a request is in the commit that
does what was asked, so that a repeated request does no harm. No node can name a subscription of another one.

A subscriber is a node, by its id. If its requests come by another relay, or by a session with it, its subscriptions
stay the same, and messages in transit continue in the same streams. A right belongs to the peer that has proved to be
that node. A node that has proved nothing has the rights of the relay that brings it, whatever name the relay gives it.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from triack.base.errors import AddressError, SubscriptionMismatch
from triack.base.names import LEVEL_END, TOPIC_PREFIX, check_pattern
from triack.base.peers import Directory
from triack.base.peers import Peer as DirectoryPeer
from triack.base.reasons import DropReason, RefusalReason
from triack.base.units import SECOND
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.conversations import Conversations
from triack.queues.remote.forwarder import Draw, Forwarder
from triack.queues.remote.requests import Answer, Live, Subscribe, Unknown, Unsubscribe
from triack.queues.routes import BY_HAND
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outbox import Outbox
from triack.queues.topics.subscription import Peer, Subscription
from triack.queues.topics.topics import Topics

LEASE_NS = 60 * SECOND
"""A subscription that is not durable ends this long after its node was last heard: twice what the node may need."""


class Subscriber(NamedTuple):
    """The node that makes a request.

    Attributes:
        name: the name by which messages go there now; empty for this node.
        proved: the peer that has proved to be it, or to have made this request; empty when none has.
    """

    name: str
    node: str
    proved: str


Proved = Callable[[bytes, bool], str]
"""The peer that has proved to be a node, by its id, in what comes sealed or not; empty when none has."""

Reply = Callable[[str, Answer | Unknown, Turn], None]
"""Sends an answer to a node, by its name, with the next commit."""


@dataclass(eq=False, repr=False)
class PeerSubscriptions:
    """The subscriptions of all peers.

    Args:
        proved_of: the peer that has proved to be a node.
        keyless: whether nodes have no keys here: then each node of this machine may subscribe, as it may send.

    Attributes:
        leases: when the subscriptions of a node that are not durable end, by its id.
        stirred: those that have something to pass on.
    """

    settings: NodeSettings
    topics: Topics
    queues: LocalQueues
    outbox: Outbox
    directory: Directory
    draw: Draw
    conversations: Conversations
    proved_of: Proved
    keyless: bool
    drops: Counter[DropReason]
    node_id: bytes

    def __post_init__(self) -> None:
        self.reply: Reply = lambda *_: None
        self._forwarders: dict[Subscription, Forwarder] = {}
        # By the id of a node, and their names there.
        self._by_node: dict[str, dict[str, Subscription]] = {}
        self.stirred: dict[Forwarder, None] = {}
        self.leases = Deadlines[str]()
        self.topics.on_end = self._handle_end
        self.outbox.dead_lettering.subscription_of = self._title_of

    def handle_restored(self) -> None:
        """The store has been read: continue its subscriptions."""
        for subscription in self.topics.subscriptions.values():
            if subscription.peer is not None:
                self._begin(subscription)

    def _begin(self, subscription: Subscription) -> None:
        forwarder = self._forwarders[subscription] = Forwarder(
            subscription, self.outbox, self.draw, self._stir, self.node_id
        )
        forwarder.is_allowed = self._may_have(subscription)
        self._note_node(subscription, subscription.subscriber.node)
        self._stir(forwarder)

    def _note_node(self, subscription: Subscription, node: str) -> None:
        peer = subscription.subscriber
        self._forget_node(subscription)
        peer.node = node
        self._by_node.setdefault(node, {})[peer.subscription] = subscription

    def _forget_node(self, subscription: Subscription) -> None:
        peer = subscription.subscriber
        mine = self._by_node.get(peer.node)
        if mine and mine.get(peer.subscription) is subscription:
            del mine[peer.subscription]
            if not mine:
                del self._by_node[peer.node]

    def _stir(self, forwarder: Forwarder) -> None:
        self.stirred[forwarder] = None

    # ---- permissions

    def may_ask(self, who: Subscriber) -> bool:
        """Whether a node may ask for subscriptions at all."""
        entry = self._entry(who)
        return self.keyless or (entry is not None and bool(entry.may_subscribe))

    def _entry(self, who: Subscriber) -> DirectoryPeer | None:
        """The directory's entry for a node: of the peer that has proved to be it, or else of the relay that brings it.

        The name that a relay gives a node proves nothing: it gives no rights of a peer of that name. If a relay may no
        longer bring anything of a node, the node has no rights, either.
        """
        proved = self.directory.named(who.proved) if who.proved else None
        called, by_relay, via = who.name.rpartition(BY_HAND)
        if not by_relay:
            return proved
        relay = self.directory.named(via)
        names = [called] if proved is None else [called, proved.name]
        if relay is None or not any(map(relay.may_bring, names)):
            return None
        return proved or relay

    def _may(self, who: Subscriber, pattern: str) -> bool:
        entry = self._entry(who)
        return self.keyless or (entry is not None and entry.may_subscribe_to(pattern))

    def _may_have(self, subscription: Subscription) -> bool:
        """Whether its node may have it, sealed or not as it asks now, or did when the subscription began."""
        peer = subscription.subscriber
        node = bytes.fromhex(peer.node)
        proved = {self.proved_of(node, is_sealed) for is_sealed in (False, True)}
        return any(self._may(Subscriber(peer.name, peer.node, one), subscription.pattern) for one in proved)

    def handle_directory_changed(self) -> None:
        """Nothing is passed on to a node that may no longer have it, until it may again."""
        for subscription, forwarder in self._forwarders.items():
            forwarder.is_allowed = self._may_have(subscription)
            self._stir(forwarder)

    # ---- requests

    def handle_subscribe(self, ask: Subscribe, who: Subscriber, turn: Turn) -> None:
        """A node asks for a subscription, perhaps again."""
        self._meet(who, turn)
        try:
            known = self._find(who, ask.name)
            reason, why = self._refusal(ask, who, known)
            if not reason:
                self._subscribe(ask, who, known, turn)
        except SubscriptionMismatch as error:
            known, reason, why = None, RefusalReason.MISMATCH, str(error)
        is_known = known is not None and known.subscriber.number == ask.number
        if known is not None and is_known and reason == RefusalReason.ACCESS_DENIED:
            self._tell_again(self._forwarders[known])  # it has this one, and gets nothing until it may
        elif reason:
            self.drops[DropReason.SUBSCRIPTION_REFUSED] += 1
            self.reply(who.name, Answer("refused", ask.name, ask.number, reason, why), turn)
        else:
            self.reply(who.name, Answer("accepted", ask.name, ask.number), turn)

    def _meet(self, who: Subscriber, turn: Turn) -> None:
        """A node was heard, perhaps by another way than before: its subscriptions go there from now on."""
        self._renew(who, turn)
        for subscription in self._by_node.get(who.node, {}).values():
            forwarder = self._forwarders[subscription]
            if subscription.subscriber.name != who.name:
                forwarder.move(who.name, turn)
                forwarder.is_allowed = self._may_have(subscription)
                subscription.note_changed()

    def _renew(self, who: Subscriber, turn: Turn) -> None:
        """A node that has subscriptions was heard. Others are not noted, as any number of nodes may ask for nothing."""
        if who.node in self._by_node:
            self.leases.set(who.node, turn.now_ns + LEASE_NS)

    def _find(self, who: Subscriber, name: str) -> Subscription | None:
        """The subscription of a node by its name there; also one of a node that had the name of this one before it.

        What a peer has proved to be its own is not for a node to which a relay gives the same name.

        Raises SubscriptionMismatch if another node of that name has it.
        """
        found = self._by_node.get(who.node, {}).get(name)
        if found is not None:
            return found
        found = self.topics.subscriptions.get(f"{who.name}/{name}")
        if found is None or found.peer is None:
            return None
        other = found.peer.node
        if found.peer.name != who.name or not self._has_gone(bytes.fromhex(other), who):
            raise SubscriptionMismatch(
                f"subscription {found.title} belongs to another node, {other}, that is called {who.name}, too: "
                "give one of the two nodes another name"
            )
        # Its machine has a new store.
        self._note_node(found, who.node)
        found.note_changed()
        return found

    def _has_gone(self, node: bytes, who: Subscriber) -> bool:
        """Whether ``who``, which has the name that ``node`` had, may be that machine with a new store."""
        proved = self.proved_of(node, True)
        if proved not in ("", who.proved) or any(one.is_open for one in self.conversations.with_node(node)):
            return False
        # No session says whether a node behind a relay is there.
        return proved != "" or BY_HAND not in who.name or self.leases.of(node.hex()) is None

    def _refusal(self, ask: Subscribe, who: Subscriber, known: Subscription | None) -> tuple[str, str]:
        """Why a node does not get a subscription: a reason and a sentence; empty if it does."""
        try:
            pattern = check_pattern(ask.pattern)
        except AddressError as error:
            return RefusalReason.BAD_PATTERN, str(error)[:200]
        if not self._may(who, pattern):
            return RefusalReason.ACCESS_DENIED, f"{who.name} may not subscribe to {pattern}"
        # All nodes behind a relay count together, as these prove nothing.
        most, payer = self.settings.max_peer_subscriptions, _payer(who.name)
        if known is None and len([it for it in self._forwarders if _payer(it.subscriber.name) == payer]) >= most:
            return RefusalReason.TOO_MANY_SUBSCRIPTIONS, f"{who.name} has {most} subscriptions"
        root = f"{TOPIC_PREFIX}{pattern.split(LEVEL_END, maxsplit=1)[0]}"
        if self.queues.is_fixed and root not in self.queues.mailboxes:
            return RefusalReason.TOPIC_NOT_FOUND, f"there is no {root}"
        return "", ""

    def _subscribe(self, ask: Subscribe, who: Subscriber, known: Subscription | None, turn: Turn) -> None:
        peer = Peer(who.name, ask.name, ask.number, int(ask.delivery), who.node)
        title = peer.title if known is None else known.title
        if known is not None and known.durable != ask.durable:
            raise SubscriptionMismatch(f"subscription {ask.name} is {'durable' if known.durable else 'not durable'}")
        if known is not None and not ask.durable and known.subscriber.number < ask.number:
            self.topics.end(known, "replaced", turn.now_ns)
            known = None
        found = self.topics.subscribe(
            ask.pattern,
            turn,
            durable=ask.name if ask.durable else None,
            max_unacked=ask.max_unacked,
            ack_wait_ns=0,  # its reader is on the other node, which has that limit
            peer=peer,
            title=title,
        )
        if known is None:
            self._begin(found)
        elif found.peer != peer:
            found.peer = peer
            found.note_changed()
        self._renew(who, turn)

    def handle_unsubscribe(self, ask: Unsubscribe, who: Subscriber, turn: Turn) -> None:
        """A node ends a subscription; the answer is the same for one that has ended."""
        self._meet(who, turn)
        known = self._known(who, ask.name)
        if known is not None:
            self.topics.end(known, "unsubscribed", turn.now_ns)
        self.reply(who.name, Answer("ended", ask.name, ask.number), turn)

    def _known(self, who: Subscriber, name: str) -> Subscription | None:
        with suppress(SubscriptionMismatch):
            return self._find(who, name)
        return None

    def handle_live(self, ask: Live, who: Subscriber, turn: Turn) -> None:
        """A node names all its subscriptions here: end the others, and tell it which do not exist."""
        self._meet(who, turn)
        unknown = {it: number for it, number in ask.names.items() if self._known(who, it) is None}
        self._renew(who, turn)
        for name, subscription in list(self._by_node.get(who.node, {}).items()):
            if name not in ask.names:
                self.topics.end(subscription, "unsubscribed", turn.now_ns)
            elif not self._forwarders[subscription].is_allowed:
                self._tell_again(self._forwarders[subscription])
        if unknown:
            self.reply(who.name, Unknown(unknown), turn)

    def _tell_again(self, forwarder: Forwarder) -> None:
        """The node may have forgotten that it gets nothing of a subscription."""
        forwarder.is_told = True
        self._stir(forwarder)

    def _tell_right(self, forwarder: Forwarder, turn: Turn) -> None:
        """The right to a subscription was withdrawn, or given again: tell its node, if a way leads there."""
        peer = forwarder.subscription.subscriber
        if forwarder.subscription.mailbox.has_ended or self.directory.named(_payer(peer.name)) is None:
            return
        forwarder.is_told = forwarder.is_allowed
        denied = not forwarder.is_allowed
        reason = RefusalReason.ACCESS_DENIED.value if denied else ""
        why = f"{peer.name} may not subscribe to {forwarder.subscription.pattern} any more" if denied else ""
        self.reply(peer.name, Answer("accepted", peer.subscription, peer.number, reason, why), turn)

    # ---- ends

    def _handle_end(self, subscription: Subscription) -> None:
        forwarder = self._forwarders.pop(subscription, None)
        if forwarder is not None:
            self._forget_node(subscription)
            self.stirred.pop(forwarder, None)
            forwarder.end()

    def tell_end(self, subscription: Subscription, turn: Turn) -> None:
        """An operator has ended a subscription of another node."""
        peer = subscription.peer
        if peer is not None:
            self.reply(peer.name, Answer("ended", peer.subscription, peer.number), turn)

    def _title_of(self, peer: str, queue: str, messages: int) -> str:
        """The durable subscription whose forwarded messages become dead letters; counts them if it is none."""
        for subscription, forwarder in self._forwarders.items():
            if subscription.durable and forwarder.destination == (peer, queue):
                return subscription.title
        self.drops[DropReason.SUBSCRIPTION_OVER] += messages
        return ""

    def handle_timer(self, turn: Turn) -> None:
        """End the subscriptions whose nodes were not heard for too long."""
        for node in self.leases.poll_due(turn.now_ns):
            mine = [it for it in self._by_node.get(node, {}).values() if not it.durable]
            if mine and self.conversations.open_with(mine[0].subscriber.name) is not None:
                self.leases.set(node, turn.now_ns + LEASE_NS)
                continue
            for subscription in mine:
                self.topics.end(subscription, "not-renewed", turn.now_ns)

    # ---- passing on

    def go(self, turn: Turn) -> bool:
        """Pass on what may go now. Returns whether there was anything to look at."""
        stirred, self.stirred = self.stirred, {}
        for forwarder in stirred:
            forwarder.go(turn)
            if forwarder.is_told is not forwarder.is_allowed:
                self._tell_right(forwarder, turn)
        if stirred:
            self.topics.note(turn.now_ns)  # before the records of express packets, which need no commit
        return bool(stirred)

    @property
    def denied(self) -> list[Subscription]:
        """The subscriptions with waiting messages that their nodes may not have."""
        return [it for it, forwarder in self._forwarders.items() if it.mailbox.length and not forwarder.is_allowed]

    def pump_of(self, subscription: Subscription) -> Forwarder | None:
        """The forwarder of a subscription; None for one of this node."""
        return self._forwarders.get(subscription)


def _payer(name: str) -> str:
    return name.rpartition(BY_HAND)[2]
