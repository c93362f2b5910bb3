"""The subscriptions of this node to topics of other nodes.

Promise: a durable one, and what was asked for it, is on the disk with the next commit; a request without an answer is
repeated. At each session, and every ``RENEW_NS`` if one of them is not durable, this node tells the node with the
topics which subscriptions there are: what one side has lost is restored.

    ASKED --accepted--> LIVE --unknown there--> ASKED (asked again)
    ASKED --refused--> OVER
    ASKED, LIVE --unsubscribed, or one that is not durable has no reader--> ENDING --ended--> OVER
    ASKED, LIVE --ended there--> OVER

A LIVE one may get nothing: its node may no longer have it. The node with the topics says so, and when it may again.
When it is OVER, its queue is removed, with all that waits in it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from triack.base.commit import OWN_STATE, Commit, StoreContent, kept_under
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged, SubscriptionBusy, SubscriptionMismatch, SubscriptionRefused
from triack.base.news import SubscriptionLost
from triack.base.reasons import Reason, RefusalReason, RejectReason, Trouble
from triack.base.transitions import next_state
from triack.base.units import SECOND
from triack.queues.clock_jumps import ClockJumps
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.system_queues import SUBSCRIPTIONS_QUEUE, is_subscribed, subscribed_queue
from triack.queues.messages import NO_DEAD_LETTER, Outgoing
from triack.queues.remote.requests import Answer, Live, Message, Subscribe, Unknown, Unsubscribe
from triack.queues.routes import Routes
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream

RENEW_NS = 30 * SECOND
"""A node names its subscriptions that are not durable this often: twice in the time after which they end."""
START_BITS = 32
"""A request's number has the number of the start above these bits: later requests have higher numbers."""
_KEY = f"{OWN_STATE}remote:"


class RemoteState(Enum):
    """The state of a subscription to another node."""

    ASKED = "asked"
    LIVE = "live"
    ENDING = "ending"
    OVER = "over"


class RemoteEvent(Enum):
    """What happens to one."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    LEFT = "left"
    ENDED = "ended"


_WANTED = {
    RemoteEvent.ACCEPTED: RemoteState.LIVE,
    RemoteEvent.REFUSED: RemoteState.OVER,
    RemoteEvent.UNKNOWN: RemoteState.ASKED,
    RemoteEvent.LEFT: RemoteState.ENDING,
    RemoteEvent.ENDED: RemoteState.OVER,
}
TRANSITIONS: Mapping[RemoteState, Mapping[RemoteEvent, RemoteState]] = {
    RemoteState.ASKED: _WANTED,
    RemoteState.LIVE: _WANTED,
    RemoteState.ENDING: _WANTED | {RemoteEvent.ACCEPTED: RemoteState.ENDING, RemoteEvent.UNKNOWN: RemoteState.OVER},
}


@dataclass(slots=True, eq=False)
class RemoteSubscription:
    """One subscription.

    Attributes:
        node: the id of the node that has accepted it, in hexadecimal digits; empty until then.
        trouble: why it has no answer or gets nothing, although it was not refused; None if nothing is known.
    """

    peer: str
    ask: Subscribe
    shared: bool
    state: RemoteState = RemoteState.ASKED
    node: str = ""
    error: SubscriptionRefused | None = None
    trouble: Trouble | None = None
    why: str = ""
    since_ns: int = 0
    mailbox: Mailbox | None = None
    waiters: list[Callable[[], None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name."""
        return self.ask.name

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return subscribed_queue(self.ask.name)

    def note(self, trouble: Trouble | None, why: str, now_ns: int) -> None:
        """This stops it from now on, or nothing does."""
        if trouble is not self.trouble:
            self.trouble, self.since_ns = trouble, now_ns
        self.why = why

    @property
    def destination(self) -> str:
        """The topics, as they were given."""
        return f"{self.peer}/topic:{self.ask.pattern}"

    def encode(self) -> bytes:
        """What the store keeps of it."""
        fields = [self.peer, self.ask.number, self.ask.pattern, int(self.ask.delivery), self.ask.max_unacked]
        return json.dumps([*fields, self.shared, self.state.value, self.node]).encode()

    @classmethod
    def decode(cls, name: str, value: bytes) -> "RemoteSubscription":
        """A subscription of the store. Raises StoreDamaged."""
        try:
            peer, number, pattern, delivery, max_unacked, shared, state, node = json.loads(value)
            ask = Subscribe(name, number, pattern, True, Delivery(delivery), max_unacked)
            return cls(peer, ask, shared, RemoteState(state), node)
        except (ValueError, TypeError) as cause:
            raise StoreDamaged(f"subscription {name} to another node cannot be read") from cause


class _Requests:
    """Learns which requests to one node will not arrive. See ``AckReader``."""

    __slots__ = ("_handle", "_peer", "is_full", "tickets")

    def __init__(self, peer: str, handle: Callable[[str, list[str], str], None]) -> None:
        self._peer = peer
        self.is_full = False
        # The names of the subscriptions that a message is about, by its ticket.
        self.tickets: dict[int, list[str]] = {}
        self._handle = handle

    def handle_acked(self, ticket: int, messages: int, size_bytes: int, *, ack_requested: bool) -> None:
        """Requests have arrived."""
        del size_bytes, ack_requested
        for at in range(ticket, ticket + messages):
            self.tickets.pop(at, None)

    def handle_failed(self, ticket: int, messages: int, reason: str) -> None:
        """Requests were refused as a whole."""
        for at in range(ticket, ticket + messages):
            self._handle(self._peer, self.tickets.pop(at, []), reason)


@dataclass(eq=False, repr=False)
class RemoteSubscriptions:
    """All subscriptions of this node to topics of other nodes.

    Args:
        recheck: called when another node may send to a queue, or may not any more.
    """

    queues: LocalQueues
    outbox: Outbox
    incarnation: int
    recheck: Callable[[], None]
    routes: Routes

    def __post_init__(self) -> None:
        self._numbered = 0
        self.subscriptions: dict[str, RemoteSubscription] = {}
        self._requests: dict[str, _Requests] = {}
        # Nodes that must learn which subscriptions there are.
        self._live: dict[str, None] = {}
        self._renew_ns: int | None = None
        # Queues to be removed, those without readers, and requests that were refused.
        self._dropping: dict[str, None] = {}
        self._left: list[str] = []
        self.queues.notices.on_left = self._handle_left
        self._refused: list[tuple[str, str]] = []

    # ---- starting

    def restore(self, content: StoreContent, _turn: Turn, _jumps: ClockJumps) -> None:
        """Read what the store has, before its queues are restored. Raises StoreDamaged."""
        for name, value in kept_under(content.state, _KEY):
            found = self.subscriptions[name] = RemoteSubscription.decode(name, value)
            self.queues.windows[found.queue] = found.ask.max_unacked

    def handle_restored(self, turn: Turn) -> None:
        """The queues are restored. Remove those of subscriptions that ended with the process before."""
        known = {found.queue for found in self.subscriptions.values()}
        for found in self.subscriptions.values():
            found.since_ns = turn.now_ns
            self._bind(found, turn.commit)
            self._live[found.peer] = None
        for name in self.queues.mailboxes:
            if is_subscribed(name) and name not in known:
                self._dropping[name] = None

    def _bind(self, found: RemoteSubscription, commit: Commit) -> None:
        self.queues.windows[found.queue] = found.ask.max_unacked
        self._dropping.pop(found.queue, None)
        mailbox = self.queues.make_queue(found.queue, commit)
        if mailbox.has_ended:  # of a subscription of the same name, until its last commit has returned
            self.queues.drop_queue(found.queue)
            mailbox = self.queues.make_queue(found.queue, commit)
            mailbox.has_ended = False
        found.mailbox = mailbox
        self.queues.handle_quota(found.queue)

    # ---- the application

    def subscribe(
        self,
        peer: str,
        pattern: str,
        turn: Turn,
        *,
        durable: str | None,
        shared: bool,
        delivery: Delivery,
        max_unacked: int,
    ) -> RemoteSubscription:
        """Begin a subscription, or find the durable one of that name. Its request goes with the next commit.

        ``pattern`` and ``durable``, the name of one that outlives its reader, were checked. ``delivery`` is the class
        of its messages that were not published in a weaker one. ``max_unacked`` messages may be in transit, and in its
        queue.

        Raises:
            SubscriptionMismatch: the subscription of that name is another one, or it is ending.
            SubscriptionBusy: one of that name has ended, and has a reader.
        """
        what = f"subscribe to {peer}/topic:{pattern}"
        known = self.subscriptions.get(durable) if durable else None
        if known is not None and known.state is RemoteState.ENDING:
            raise SubscriptionMismatch(f"{what}: subscription {durable} ends, and {known.peer} has not said so yet")
        if known is not None:
            if (known.peer, known.ask.pattern, known.shared) != (peer, pattern, shared):
                kind = "shared" if known.shared else "not shared"
                raise SubscriptionMismatch(
                    f"{what}: subscription {durable} is to {known.destination}, and {kind}; unsubscribe {durable} first"
                )
            return known
        before = self.queues.mailboxes.get(subscribed_queue(durable)) if durable else None
        if before is not None and before.listeners:
            raise SubscriptionBusy(f"{what}: a reader of the former subscription {durable} is still open")
        self._numbered += 1
        number = self.incarnation << START_BITS | self._numbered
        name = durable or f"${self.incarnation}.{self._numbered}"
        ask = Subscribe(name, number, pattern, durable is not None, delivery, max_unacked)
        found = self.subscriptions[name] = RemoteSubscription(peer, ask, shared, since_ns=turn.now_ns)
        self._bind(found, turn.commit)
        self.recheck()
        self._keep(found, turn.commit)
        self._tell(peer, ask, [name], turn)
        if not ask.durable and self._renew_ns is None:
            self._renew_ns = turn.now_ns + RENEW_NS
        return found

    def unsubscribe(self, found: RemoteSubscription, turn: Turn) -> None:
        """End a subscription: its request goes with the next commit, its queue when the answer has come."""
        self._handle(found, RemoteEvent.LEFT, turn)
        if found.state is RemoteState.ENDING:
            self._tell(found.peer, Unsubscribe(found.name, found.ask.number), [found.name], turn)

    def _handle_left(self, mailbox: Mailbox) -> None:
        if mailbox.subscription:
            self._left.append(mailbox.subscription)

    def _tell(self, peer: str, message: Message, names: list[str], turn: Turn) -> None:
        outgoing = self._stream(peer, turn.commit)
        reader = self._requests.get(peer)
        if reader is None:
            reader = self._requests[peer] = _Requests(peer, self._handle_rejected)
        if reader not in outgoing.readers:
            outgoing.readers.append(reader)
        body = message.encode()
        ticket = self.outbox.submit(outgoing, Outgoing(body, {NO_DEAD_LETTER: True}), len(body))
        reader.tickets[ticket] = names

    def _stream(self, peer: str, commit: Commit) -> OutgoingStream:
        return self.outbox.outgoing_stream(peer, SUBSCRIPTIONS_QUEUE, Delivery.TRANSACTIONAL, commit)

    # ---- answers

    def handle_answer(self, peer: str, answer: Answer, node: str, turn: Turn) -> None:
        """A node says what has become of a subscription."""
        found = self.subscriptions.get(answer.name)
        if found is None or found.peer != peer or found.ask.number != answer.number:
            return
        if answer.do == "refused":
            self._refuse(found, answer.reason, answer.why)
        elif answer.do == "accepted" and found.node != node:
            found.node = node
            self._keep(found, turn.commit)
        self._handle(found, RemoteEvent(answer.do), turn)
        if answer.do == "accepted":
            trouble = Trouble.SUBSCRIPTION_DENIED if answer.reason else None
            found.note(trouble, _said(answer.reason, answer.why), turn.now_ns)

    def handle_refused(self, sender: Callable[[str], bool], reason: RejectReason, now_ns: int) -> None:
        """This node has refused what the node with some topics says about subscriptions."""
        for found in self.subscriptions.values():
            if found.state is RemoteState.ASKED and sender(found.peer):
                found.note(Trouble.ANSWER_REFUSED, _said(reason), now_ns)

    def handle_unknown(self, peer: str, unknown: Unknown, turn: Turn) -> None:
        """A node does not have some subscriptions: ask for them again."""
        for name, number in unknown.names.items():
            found = self.subscriptions.get(name)
            if found is not None and found.peer == peer and found.ask.number == number:
                if found.state is RemoteState.LIVE:
                    self.queues.notices.news.append(SubscriptionLost(found.destination, name))
                self._handle(found, RemoteEvent.UNKNOWN, turn)
                if found.state is RemoteState.ASKED:
                    self._tell(peer, found.ask, [name], turn)

    def _handle_rejected(self, peer: str, names: list[str], reason: str) -> None:
        self._refused += [(name, reason) for name in names if name in self.subscriptions]
        if not names:
            self._live[peer] = None  # a request of the process before, perhaps for one that waits

    def _refuse(self, found: RemoteSubscription, reason: str, why: str = "") -> None:
        text = f"subscribe to {found.destination}: {found.peer} refuses it ({reason}): {why or _sentence(reason)}"
        found.error = SubscriptionRefused(text, reason=reason)

    def _handle(self, found: RemoteSubscription, event: RemoteEvent, turn: Turn) -> None:
        before = found.state
        found.state = next_state(TRANSITIONS, before, event)
        if found.state is before:
            return
        found.trouble, found.why, found.since_ns = None, "", turn.now_ns
        self._keep(found, turn.commit)
        if found.state is RemoteState.OVER:
            del self.subscriptions[found.name]
            del self.queues.windows[found.queue]
            self._dropping[found.queue] = None
            self.recheck()
        if found.state in (RemoteState.ENDING, RemoteState.OVER) and found.mailbox is not None:
            found.mailbox.end()
        for waiter in list(found.waiters):
            waiter()

    def _keep(self, found: RemoteSubscription, commit: Commit) -> None:
        if found.ask.durable:
            commit.state[f"{_KEY}{found.name}"] = None if found.state is RemoteState.OVER else found.encode()

    # ---- going on

    def of_queue(self, queue: str) -> RemoteSubscription | None:
        """The subscription that has a queue."""
        return next((found for found in self.subscriptions.values() if found.queue == queue), None)

    def handle_session_opened(self, neighbour: str) -> None:
        """A session with a neighbour is open: name the subscriptions to nodes behind it."""
        for peer in {found.peer for found in self.subscriptions.values()}:
            if self.routes.way_of(peer).via == neighbour:
                self._live[peer] = None

    def handle_routes_changed(self) -> None:
        """Requests may go by another way: name the subscriptions to each node there."""
        self._live |= {found.peer: None for found in self.subscriptions.values()}

    def handle_directory_changed(self) -> None:
        """Refused answers may be accepted now: ask again."""
        self._live |= {found.peer: None for found in self.subscriptions.values() if found.state is RemoteState.ASKED}

    def handle_timer(self, turn: Turn) -> None:
        """Name the subscriptions that are not durable."""
        if self._renew_ns is not None and turn.now_ns >= self._renew_ns:
            peers = {found.peer: None for found in self.subscriptions.values() if not found.ask.durable}
            self._live |= peers
            self._renew_ns = turn.now_ns + RENEW_NS if peers else None

    def next_deadline(self) -> int | None:
        """When ``handle_timer`` must be called, or None."""
        return self._renew_ns

    @property
    def has_work(self) -> bool:
        """Whether ``go`` has something to do."""
        return bool(self._refused or self._left or self._live or self._dropping)

    def go(self, turn: Turn) -> None:
        """Ask and tell what is due, and remove queues."""
        while self._refused:
            refused, self._refused = self._refused, []
            for name, reason in refused:
                self._handle_refused(name, reason, turn)
        while self._left:
            left, self._left = self._left, []
            for name in left:
                found = self.subscriptions.get(name)
                if found is not None and not found.ask.durable and found.mailbox and not found.mailbox.listeners:
                    self.unsubscribe(found, turn)
        for peer in list(self._live):
            # One such message at a time: a node that is away gets the last one.
            if not self._stream(peer, turn.commit).unacknowledged:
                del self._live[peer]
                self._tell_live(peer, turn)
        for name in list(self._dropping):
            if self.queues.drop_queue(name):
                del self._dropping[name]

    def _handle_refused(self, name: str, reason: str, turn: Turn) -> None:
        found = self.subscriptions.get(name)
        if found is not None and found.state is RemoteState.ASKED:
            self._refuse(found, reason)
            self._handle(found, RemoteEvent.REFUSED, turn)
        elif found is not None and found.state is RemoteState.ENDING:
            self._handle(found, RemoteEvent.ENDED, turn)
        elif found is not None:
            found.note(Trouble.SUBSCRIPTION_DENIED, f"{found.peer} refuses its requests: {_said(reason)}", turn.now_ns)

    def _tell_live(self, peer: str, turn: Turn) -> None:
        mine = [found for found in self.subscriptions.values() if found.peer == peer]
        for found in mine:
            if found.state is RemoteState.ENDING:
                self._tell(peer, Unsubscribe(found.name, found.ask.number), [found.name], turn)
            elif found.state is RemoteState.ASKED or found.trouble is not None:
                self._tell(peer, found.ask, [found.name], turn)  # the answer was refused here, or is another by now
        names = {found.name: found.ask.number for found in mine if found.state is not RemoteState.ENDING}
        if names:
            self._tell(peer, Live(names), list(names), turn)


def _said(reason: str, why: str = "") -> str:
    """A reason by its name, and as a sentence; nothing for none."""
    return f"{why or _sentence(reason)} ({reason})" if reason else ""


def _sentence(reason: str) -> str:
    known: dict[str, Reason] = {it.value: it for kind in (RejectReason, RefusalReason) for it in kind}
    return known.get(reason, RefusalReason.UNKNOWN).sentence
