"""The verbs of a node about topics, and the reader of a subscription."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Self, TypeVar

from triack.base.checks import check_kind
from triack.base.delivery import Delivery
from triack.base.errors import (
    AddressError,
    QueueNotFound,
    RequestTimeout,
    SubscriptionBusy,
    SubscriptionEnded,
    SubscriptionMismatch,
    UsageError,
)
from triack.base.names import LEVEL_END, TOPIC_PREFIX, check_name, check_pattern, composed, what_else
from triack.base.units import SECOND, in_ns
from triack.node.handles.consumer import AckMode, Consumer, check_hand_over, check_reading, draw_nothing
from triack.node.shell.engine_handle import EngineHandle, OnPort
from triack.node.shell.holding import reader_of
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.resolver import RemoteQueue
from triack.queues.node_settings import Redelivery
from triack.queues.remote.remote_subscriptions import RemoteState, RemoteSubscription
from triack.queues.remote.requests import check_remote_name
from triack.queues.topics.subscription import Subscription
from triack.stats.causes import cause_at
from triack.stats.holding import Reader

ANSWER_S = 60.0
"""How long to wait for the answer of another node, as a request does by default."""
RESERVED = "$"
"""The names of subscriptions to other nodes that are not durable, which the node gives them, begin with this."""

T = TypeVar("T")
UNACKED_MAX = 10**9
"""More than a quota lets a topic have, and a number that each record of it can hold."""


class Terms(NamedTuple):
    """What a caller wants of a subscription; see ``Subscribing.subscribe``."""

    durable: str | None
    shared: bool
    ack_wait_s: float | None
    max_unacked: int | None
    delivery: Delivery


class Subscriber(Consumer):
    """An async iterator over the messages of one subscription; also an async context manager. See ``Consumer``.

    Entering it waits until a durable subscription is on the disk. A subscription that is not durable ends with it.
    """

    _is_paused = False

    async def __aenter__(self) -> Self:
        await self._port.commit()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        """``await node.subscribe(...)`` enters it."""
        return self.__aenter__().__await__()

    async def pause(self) -> None:
        """Receive nothing until ``resume``: calls that wait for a message keep waiting.

        A subscription that is not durable misses what is dispatched in that time, and its topic's strategy does not
        wait for it; what was pending before stays pending. A durable one keeps everything, and its other readers
        continue. Messages that the reader has stay with it, and may be settled. A second call does nothing.
        """
        self._check_open()
        self._is_paused, self._draw = True, draw_nothing
        found = self._mailbox.owner
        if isinstance(found, Subscription) and not found.durable:
            self._port.topics.suspend(found, self._port.next_turn().now_ns)

    async def resume(self) -> None:
        """Continue with what waits, and with what comes from now on. Without a pause it does nothing."""
        self._check_open()
        self._is_paused = False
        if isinstance(self._mailbox.owner, Subscription):
            self._port.topics.resume(self._mailbox.owner, self._port.next_turn().now_ns)
        self._arrived.set()

    async def _wait_for(self, take: Callable[[], T | None]) -> T:
        return await super()._wait_for(lambda: None if self._is_paused else take())


class RemoteSubscriber(Subscriber):
    """The same for topics of another node. In a pause, messages wait in the queue of this node.

    Entering it waits until that node has answered. A durable subscription that it gave before can be read immediately.

    Attributes:
        found: the subscription, as this node knows it.
    """

    found: RemoteSubscription

    async def __aenter__(self) -> Self:
        found, port = self.found, self._port
        await port.commit()
        try:
            await _reached(port, found, f"subscribe to {found.destination}", RemoteState.LIVE)
        except BaseException:
            self.close()
            raise
        return self

    def _check_open(self) -> None:
        if self.found.error is not None:
            raise type(self.found.error)(str(self.found.error), reason=self.found.error.reason)
        super()._check_open()


async def _reached(port: EngineHandle, found: RemoteSubscription, what: str, state: RemoteState) -> None:
    """Wait until a subscription at another node is in a state. Raises SubscriptionRefused, SubscriptionEnded, ..."""
    changed = asyncio.Event()
    found.waiters.append(changed.set)
    try:
        async with asyncio.timeout(ANSWER_S):
            while found.state is not state:
                if found.error is not None:
                    raise type(found.error)(str(found.error), reason=found.error.reason)
                if found.state is RemoteState.OVER:
                    raise SubscriptionEnded(f"{what}: {found.peer} has ended it")
                port.check_alive()
                changed.clear()
                await changed.wait()
    except TimeoutError:
        late = f"{what}: no answer from {found.peer} after {ANSWER_S:g} s"
        why = found.why or cause_at(port.engine, found.peer)
        raise RequestTimeout(late, cause=why) from None
    finally:
        found.waiters.remove(changed.set)


class Subscribing(OnPort):
    """The verbs of a ``Node`` about topics."""

    def subscribe(
        self,
        pattern: str,
        *,
        durable: str | None = None,
        shared: bool = False,
        ack: AckMode = "auto",
        ack_wait_s: float | None = None,
        max_unacked: int | None = None,
        redelivery: Redelivery | None = None,
        name: str | None = None,
        delivery: Delivery = Delivery.TRANSACTIONAL,
    ) -> Subscriber:
        """Read topics of this node, or of another: ``async with node.subscribe("Games.#") as messages``.

        ``hub/topic:Games.#`` are topics of the node hub, which must let this one subscribe (``may_subscribe``). It
        sends the messages to this node, where they wait for the reader; ``message.topic``, ``id`` and ``sender`` are
        those of the publication. Entering the subscriber waits for the answer of that node; if none comes, this node
        keeps asking for a durable subscription.

        It gets what arrives from now on, and nothing that ``publish`` has accepted before. A subscription that is not
        durable ends with its reader, and its topic's strategy (``Topic``) says when messages go to it. A durable one
        gets each message, also those that arrive without a reader, until ``unsubscribe``; but express messages only
        while the node runs.

        Args:
            pattern: the topics: ``Games.Cricket`` is that one, ``Games.*`` those one level below ``Games``, ``Games.#``
                that and all below it. Its first level is a name. Of another node: that, ``/topic:`` and the pattern.
            durable: the name of a durable subscription; None for one that is not.
            shared: whether a durable subscription may have several readers at a time; each message goes to one of them.
            ack: ``auto`` acknowledges a message when the next one is asked for, ``manual`` leaves that to the caller.
            ack_wait_s: seconds that a reader may have a message; then it has failed, and is redelivered. Acknowledging
                it later changes nothing. None: as the settings of its topic say.
            max_unacked: the messages that may be unacknowledged before a subscription that is not durable has no room;
                None: as the settings of its topic say. At another node: the messages that may be on their way here, and
                that may wait here; None: as the settings of this node say.
            redelivery: when messages that fail are redelivered; it overrides the settings.
            name: the reader's name in ``stats``; None: that of the task that reads.
            delivery: messages of another node come in this class, or in a weaker one if they were published in that.

        Raises:
            AddressError: the pattern or the name cannot be read, or names an unknown peer.
            SubscriptionRefused: the other node does not give the subscription, for the reason in the error.
            RequestTimeout: the other node has not answered within a minute.
            SubscriptionBusy: the durable subscription has a reader, and is not shared.
            SubscriptionMismatch: the durable subscription of that name is another one.
            QueueNotFound: the node has a fixed set of queues without this topic.
            UsageError: an argument is not valid.
        """
        terms = Terms(durable, shared, ack_wait_s, max_unacked, delivery)
        return begin_subscription(self._port, pattern, terms, ack, redelivery, reader_of(pattern, name))

    async def unsubscribe(self, durable: str) -> None:
        """End a durable subscription. What waits for it alone is deleted; its readers get SubscriptionEnded.

        Args:
            durable: its name. One of another node to topics of this one is ``plant-b/audit``, the node and its name
                there; it need not be durable.

        Raises:
            QueueNotFound: there is no durable subscription of that name.
            RequestTimeout: it is at another node, which has not answered within a minute. It ends once that node hears
                of it.
        """
        port = self._port
        topics, remote, turn = port.topics, port.remote, port.next_turn()
        check_kind("unsubscribe: the name", durable, str)
        durable = composed(durable)
        found = topics.subscriptions.get(durable)
        away = remote.own.subscriptions.get(durable)
        if away is not None and away.ask.durable:
            remote.own.unsubscribe(away, turn)
            await port.commit()
            await _reached(port, away, f"unsubscribe {durable}", RemoteState.OVER)
            return
        if found is None or not (found.durable or found.peer):
            known = [one.title for one in topics.subscriptions.values() if one.durable]
            known += [name for name, one in remote.own.subscriptions.items() if one.ask.durable]
            raise QueueNotFound(f"unsubscribe {durable}: there is no such subscription; {what_else(durable, known)}")
        if found.peer is not None:
            remote.end(found, topics, turn)
        else:
            topics.end(found, "unsubscribed", turn.now_ns)
        await port.commit()


def split_pattern(pattern: object) -> tuple[str, str]:
    """The node with the topics, empty for this one, and the pattern. Raises AddressError."""
    if not isinstance(pattern, str):
        return "", check_pattern(pattern)
    where, _, there = pattern.rpartition(f"/{TOPIC_PREFIX}")
    return composed(where), check_pattern(there)


def check_subscription(pattern: str, terms: Terms) -> None:
    """Check the arguments of a subscription. Raises AddressError, UsageError."""
    where, _ = split_pattern(pattern)
    what, durable = f"subscribe to {pattern}", terms.durable
    check_kind(f"{what}: shared", terms.shared, bool)
    check_kind(f"{what}: delivery", terms.delivery, Delivery)
    if durable is not None and terms.delivery == Delivery.EXPRESS:
        raise UsageError(f"{what}: a durable subscription cannot have express messages alone")
    if durable is not None:
        (check_remote_name if where else check_name)(durable)
        if where and durable.startswith(RESERVED):
            raise AddressError(f"{what}: the name of a subscription must not begin with {RESERVED}")
        if not where and durable.startswith("$"):
            raise AddressError(f"{what}: durable={durable!r}: names that begin with $ are the node's own")
    elif terms.shared:
        raise UsageError(f"{what}: only a durable subscription can be shared")
    most = terms.max_unacked
    if most is not None and (type(most) is not int or not 1 <= most <= UNACKED_MAX):
        raise UsageError(f"{what}: max_unacked must be a whole number from 1 to {UNACKED_MAX:,}, not {most!r}")
    check_hand_over(pattern, terms.ack_wait_s)


def begin_subscription(
    port: EngineHandle, pattern: str, terms: Terms, ack: AckMode, redelivery: Redelivery | None, reader: Reader
) -> Subscriber:
    """The reader of a subscription, which is begun if it is new; see ``Subscribing.subscribe``."""
    what = f"subscribe to {pattern}"
    check_subscription(pattern, terms)
    check_reading(what, ack, redelivery)
    where, pattern = split_pattern(pattern)
    durable, shared, ack_wait_s, max_unacked, delivery = terms
    durable = None if durable is None else composed(durable)
    root = f"{TOPIC_PREFIX}{pattern.partition(LEVEL_END)[0]}"
    target = port.check_way(f"{where}/{root}" if where else root, Delivery.TRANSACTIONAL)
    topics, remote, turn = port.topics, port.remote, port.next_turn()
    if isinstance(target, RemoteQueue):
        if durable is not None and durable in topics.subscriptions:
            raise SubscriptionMismatch(f"{what}: subscription {durable} is to topics of this node")
        away = remote.own.subscribe(
            target.peer,
            pattern,
            turn,
            durable=durable,
            shared=shared,
            delivery=delivery,
            max_unacked=max_unacked or topics.settings_of(pattern).max_unacked,
        )
        mailbox = away.mailbox
        assert mailbox is not None
        _check_free(mailbox, what, durable, shared=shared)
        subscriber = RemoteSubscriber(port, mailbox, ack, redelivery, ack_wait_s, reader=reader)
        subscriber.found = away
        return subscriber
    if durable is not None and durable in remote.own.subscriptions:
        raise SubscriptionMismatch(f"{what}: subscription {durable} is to topics of another node")
    found: Subscription = topics.subscribe(
        pattern,
        turn,
        durable=durable,
        shared=shared,
        max_unacked=max_unacked,
        ack_wait_ns=None if ack_wait_s is None else in_ns(ack_wait_s),
    )
    _check_free(found.mailbox, what, durable, shared=shared)
    wait_s = found.ack_wait_ns / SECOND if found.ack_wait_ns else None
    return Subscriber(port, found.mailbox, ack, redelivery, wait_s, reader=reader)


def _check_free(mailbox: Mailbox, what: str, durable: str | None, *, shared: bool) -> None:
    if mailbox.listeners and not shared:
        raise SubscriptionBusy(f"{what}: subscription {durable} has a reader, and is not shared")
