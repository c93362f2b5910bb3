"""Statistics of topics and of the subscriptions to them, as typed values; ``node_stats`` has those of the node."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from triack.base.reasons import Trouble
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Strategy
from triack.queues.remote.remote_subscriptions import RemoteState, RemoteSubscription, RemoteSubscriptions
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.topic_root import TopicRoot
from triack.queues.topics.topics import Topics
from triack.stats.holding import Holding


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """One subscription.

    Attributes:
        name: of a durable one, its name; of any other, one that the node has given it.
        pattern: the topics that it receives.
        durable: whether it continues without a reader.
        shared: whether it may have several readers at a time.
        readers: how many it has.
        pending: messages that it has got and not acknowledged, leased ones included.
        in_hand: messages that its readers have leased.
        bytes: size of the packets that hold the pending ones, which stay on the disk for it.
        oldest_s: seconds since the oldest message that waits was sent; None if none waits.
        max_unacked: pending messages at which it has no room for its topic's strategy; durable ones always have.
        discarded: messages that were dropped for it since the node started.
        late_acks: acknowledgements, and returns, of messages that its reader no longer had.
        redelivered: messages that came back.
        suspended: whether its reader has paused it, so that it misses what is dispatched; a durable one misses nothing.
        peer: the node that owns it; empty for this one.
        on_the_way: messages that were passed on to that node, and have not arrived there as far as is known.
        waits_for: why no more are passed on, as in an outgoing queue, or ``may_subscribe`` if the node may not have it
            any more; None if nothing stops them.
    """

    name: str
    pattern: str
    durable: bool
    shared: bool
    readers: int
    pending: int
    in_hand: int
    bytes: int
    oldest_s: float | None
    max_unacked: int
    discarded: int
    late_acks: int
    redelivered: int
    suspended: bool = False
    peer: str = ""
    on_the_way: int = 0
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class RemoteSubscriptionStats:
    """One subscription of this node to topics of another one.

    Attributes:
        name: of a durable one, its name; of any other, one that this node has given it.
        peer: the node with the topics.
        pattern: the topics that it receives.
        durable: whether it continues without a reader.
        shared: whether it may have several readers at a time.
        state: ``asked`` until that node has answered, ``live``, or ``ending`` until that node has heard that it ends.
        queue: the queue of this node in which its messages wait.
        readers: how many it has.
        pending: messages that wait there, leased ones included.
        waits_for: why it gets nothing: ``answer`` until that node has answered, ``answer-refused`` if this node refuses
            the answer, ``may_subscribe`` if it may not have it any more; None if no reason is known.
        since_s: seconds since its state, or what it waits for, last changed, or since the node started.
    """

    name: str
    peer: str
    pattern: str
    durable: bool
    shared: bool
    state: str
    queue: str
    readers: int
    pending: int
    waits_for: str | None = None
    since_s: float = 0.0


class Passing(NamedTuple):
    """How a subscription of another node gets its messages: see ``SubscriptionStats``."""

    on_the_way: int = 0
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class TopicStats:
    """The topics below one root.

    Attributes:
        strategy: when messages go to subscriptions that are not durable.
        messages: messages that some subscription wants, or that are not dispatched.
        bytes: size of the packets that hold them; each is stored once.
        oldest_s: seconds since the oldest of them was sent; None if there are none.
        waiting: messages that the strategy has not dispatched, as subscriptions have no room.
        is_full: whether it has reached its quota, so that publishers wait or are refused.
        arrived: messages that were published to it since the node started.
        discarded: messages dropped for slow subscriptions since then, counted once for each subscription.
        subscriptions: those to topics below it.
    """

    strategy: Strategy
    messages: int
    bytes: int
    oldest_s: float | None
    waiting: int
    is_full: bool
    arrived: int
    discarded: int
    subscriptions: list[SubscriptionStats] = field(default_factory=list)


def gather_topics(
    topics: Topics, holding: Holding, now_ms: int, passing: Callable[[Subscription], Passing]
) -> dict[str, TopicStats]:
    """The statistics of all topics, by their roots."""
    found = sorted(topics.roots, key=lambda root: root.topic)
    return {root.topic: _topic(root, holding, now_ms, passing) for root in found}


def gather_remote(own: RemoteSubscriptions, now_ns: int) -> list[RemoteSubscriptionStats]:
    """The subscriptions of this node to topics of others."""
    return [
        RemoteSubscriptionStats(
            one.name,
            one.peer,
            one.ask.pattern,
            one.ask.durable,
            one.shared,
            one.state.value,
            one.queue,
            0 if one.mailbox is None else len(one.mailbox.listeners),
            0 if one.mailbox is None else one.mailbox.length,
            _waits_for(one),
            (now_ns - one.since_ns) / SECOND,
        )
        for one in own.subscriptions.values()
    ]


def _waits_for(one: RemoteSubscription) -> str | None:
    if one.trouble is Trouble.SUBSCRIPTION_DENIED:
        return "may_subscribe"
    if one.trouble is not None:
        return one.trouble.value
    return "answer" if one.state is RemoteState.ASKED else None


def _topic(root: TopicRoot, holding: Holding, now_ms: int, passing: Callable[[Subscription], Passing]) -> TopicStats:
    mailbox = root.mailbox
    return TopicStats(
        root.settings.strategy,
        mailbox.length,
        mailbox.size_bytes,
        age_s(mailbox.oldest_ms, now_ms),
        root.last_place - root.dispatched,
        mailbox.fill.is_full,
        mailbox.left + mailbox.length - mailbox.restored,
        root.discarded,
        [_subscription(one, holding, now_ms, passing(one) if one.peer else Passing()) for one in root.subscriptions],
    )


def _subscription(one: Subscription, holding: Holding, now_ms: int, passing: Passing) -> SubscriptionStats:
    # Thousands of subscriptions that have read everything must not keep a node from its work.
    mailbox = one.mailbox
    held = [packet for _, packets in holding.of(mailbox.name) for packet in packets] if mailbox.length else []
    return SubscriptionStats(
        one.title,
        one.pattern,
        one.durable,
        one.shared,
        0 if one.peer else len(mailbox.listeners),
        mailbox.length,
        sum([packet.bits.bit_count() for packet in held]),
        mailbox.size_bytes,
        age_s(mailbox.oldest_ms, now_ms) if mailbox.length else None,
        one.max_unacked,
        one.discarded,
        one.late_acks,
        one.redelivered,
        one.suspended_at is not None,
        "" if one.peer is None else one.peer.name,
        *passing,
    )


def age_s(since_ms: int | None, now_ms: int) -> float | None:
    """Seconds since a time of day; never negative, even if clocks differ."""
    return None if since_ms is None else max(0, now_ms - since_ms) * MS / SECOND
