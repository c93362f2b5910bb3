"""The verbs of a node about topics, and the reader of a subscription."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, Unpack

from triack.base.checks import check_kind
from triack.base.delivery import Delivery
from triack.base.errors import AddressError, QueueNotFound, SubscriptionBusy, UsageError
from triack.base.names import LEVEL_END, TOPIC_PREFIX, check_name, check_pattern, check_topic, what_else
from triack.base.units import SECOND, in_ns
from triack.node.handles.consumer import AckMode, Consumer, check_hand_over
from triack.node.handles.receipt import Receipt
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.holding import Reader, reader_of
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.node_settings import Redelivery
from triack.queues.stages import Stage, StageName
from triack.queues.topics.subscription import Subscription

__all__ = ["Subscriber", "Subscribing", "begin_subscription", "check_reading", "check_subscription"]

T = TypeVar("T")
UNACKED_MAX = 10**9
"""More than a quota lets a topic have, and a number that each record of it can hold."""


class Subscriber(Consumer):
    """An async iterator over the messages of one subscription; also an async context manager. See ``Consumer``.

    Entering it waits until a durable subscription is on the disk. A subscription that is not durable ends with it.
    """

    _is_paused = False

    async def __aenter__(self) -> Self:
        await self._port.commit()
        return self

    async def pause(self) -> None:
        """Take nothing until ``resume``: calls that wait for a message go on waiting.

        A subscription that is not durable misses what is dispatched meanwhile, and its topic's strategy does not wait
        for it; what was pending before stays pending. A durable one keeps everything, and its other readers go on.
        Messages in hand stay there, and may be settled. A second call does nothing.

        Raises:
            NodeClosed, StoreFailed: the node or this reader has ended.
        """
        self._check_open()
        topics, turn = self._port.topics()
        self._is_paused, self._draw = True, _draw_nothing
        if not self._subscription.durable:
            topics.suspend(self._subscription, turn.now_ns)

    async def resume(self) -> None:
        """Go on with what waits, and with what comes from now on. Without a pause it does nothing.

        Raises:
            NodeClosed, StoreFailed: the node or this reader has ended.
        """
        self._check_open()
        topics, turn = self._port.topics()
        self._is_paused = False
        topics.resume(self._subscription, turn.now_ns)
        self._arrived.set()

    @property
    def _subscription(self) -> Subscription:
        assert isinstance(self._mailbox, Subscription)
        return self._mailbox

    async def _wait_for(self, take: Callable[[], T | None]) -> T:
        return await super()._wait_for(lambda: None if self._is_paused else take())


def _draw_nothing() -> None:
    """Draw from no run: the reader is paused."""


class Subscribing(ABC):
    """The verbs of a ``Node`` about topics."""

    @property
    @abstractmethod
    def _port(self) -> EngineHandle:
        """The node's port. Raises NodeClosed before the start."""

    @abstractmethod
    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """See ``Verbs.send``."""

    async def publish(
        self,
        topic: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """Publish to a topic of this node: as ``send`` to ``topic:`` and its name.

        Each subscription that takes the topic gets the message; if there is none, it is dropped (``no-subscriber``).
        ``send("hub/topic:Games.Cricket", ...)`` publishes at another node.

        Args:
            topic: its name, such as ``Games.Cricket``. Any other argument is as for ``send``.
            body: at most 4 MiB.
            delivery: ``EXPRESS``, ``RECOVERABLE`` or ``TRANSACTIONAL``.
            until: a stage that the message is to reach before the call returns.
            timeout: seconds to wait for that, None for no limit.
            **properties: as for ``send``.

        Returns:
            A receipt, whose stages can be awaited.

        Raises:
            AddressError: no topic can have that name.
            MessageTooLarge, QueueNotFound, UsageError, QueueFull, NoRoom, TooManyKeys, WaitTimeout, DeliveryFailed,
                NodeClosed, StoreFailed: as for ``send``.
        """
        destination = f"{TOPIC_PREFIX}{check_topic(topic)}"
        return await self.send(destination, body, delivery=delivery, until=until, timeout=timeout, **properties)

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
    ) -> Subscriber:
        """Read topics of this node: ``async with node.subscribe("Games.#") as messages``.

        It gets what arrives from now on. A subscription that is not durable ends with its reader, and its topic's
        strategy (``Topic``) says when messages go to it. A durable one gets each message, also those that arrive while
        nobody reads it, until ``unsubscribe``; but express messages only as long as the node runs.

        Args:
            pattern: the topics: ``Games.Cricket`` is that one, ``Games.*`` those one level below ``Games``, ``Games.#``
                that and all below it. Its first level is a name.
            durable: the name of a durable subscription; None for one that is not.
            shared: whether a durable subscription may have several readers at a time; each message goes to one of them.
            ack: ``auto`` acknowledges a message when the next one is asked for, ``manual`` leaves that to the caller.
            ack_wait_s: seconds that a message may be in hand; then it has failed, and comes again. Acknowledging it
                later changes nothing. None: as the settings of its topic say.
            max_unacked: the messages that may be unacknowledged before a subscription that is not durable has no room;
                None: as the settings of its topic say.
            redelivery: when messages that fail come again; it overrides the settings.
            name: the reader's name in ``stats``; None: that of the task that reads.

        Raises:
            AddressError: the pattern or the name cannot be read.
            SubscriptionBusy: the durable subscription has a reader, and is not shared.
            SubscriptionMismatch: the durable subscription of that name is another one.
            QueueNotFound: the node has a fixed set of queues without this topic.
            UsageError: an argument is not valid.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        return begin_subscription(
            self._port,
            pattern,
            durable=durable,
            shared=shared,
            ack=ack,
            ack_wait_s=ack_wait_s,
            max_unacked=max_unacked,
            redelivery=redelivery,
            reader=reader_of(pattern, name),
        )

    async def unsubscribe(self, durable: str) -> None:
        """End a durable subscription. What waits for it alone is gone; its readers get SubscriptionEnded.

        Args:
            durable: its name.

        Raises:
            QueueNotFound: there is no durable subscription of that name.
            NodeClosed, StoreFailed: the node has ended, or was not started.
        """
        port = self._port
        topics, turn = port.topics()
        check_kind("unsubscribe: the name", durable, str)
        found = topics.subscriptions.get(durable)
        if found is None or not found.durable:
            known = [one.title for one in topics.subscriptions.values() if one.durable]
            raise QueueNotFound(f"unsubscribe {durable}: there is no such subscription; {what_else(durable, known)}")
        topics.end(found, "unsubscribed", turn.now_ns)
        await port.commit()


def check_subscription(pattern: str, about: Mapping[str, Any]) -> None:
    """Check the arguments of a subscription by their names. Raises AddressError, UsageError."""
    what = f"subscribe to {check_pattern(pattern)}"
    check_kind(f"{what}: shared", about["shared"], bool)
    if about["durable"] is not None:
        if check_name(about["durable"]).startswith("$"):
            raise AddressError(f"{what}: durable={about['durable']!r}: names that begin with $ are the node's own")
    elif about["shared"]:
        raise UsageError(f"{what}: only a durable subscription can be shared")
    most = about["max_unacked"]
    if most is not None and (type(most) is not int or not 1 <= most <= UNACKED_MAX):
        raise UsageError(f"{what}: max_unacked must be a whole number from 1 to {UNACKED_MAX:,}, not {most!r}")
    check_hand_over(pattern, about["ack_wait_s"])


def check_reading(what: str, ack: object, redelivery: object) -> None:
    """Check how a subscription is read. Raises UsageError."""
    if ack not in ("auto", "manual"):
        raise UsageError(f"{what}: ack must be 'auto' or 'manual', not {ack!r}")
    check_kind(f"{what}: redelivery", redelivery, Redelivery | None)


def begin_subscription(
    port: EngineHandle,
    pattern: str,
    *,
    durable: str | None,
    shared: bool,
    ack: AckMode,
    ack_wait_s: float | None,
    max_unacked: int | None,
    redelivery: Redelivery | None,
    reader: Reader,
) -> Subscriber:
    """The reader of a subscription, which is begun if it is new; see ``Subscribing.subscribe``."""
    what = f"subscribe to {pattern}"
    about = {"durable": durable, "shared": shared, "ack_wait_s": ack_wait_s, "max_unacked": max_unacked}
    check_subscription(pattern, about)
    check_reading(what, ack, redelivery)
    port.check_way(f"{TOPIC_PREFIX}{pattern.partition(LEVEL_END)[0]}", Delivery.TRANSACTIONAL)
    topics, turn = port.topics()
    found: Subscription = topics.subscribe(
        pattern,
        turn,
        durable=durable,
        shared=shared,
        max_unacked=max_unacked,
        ack_wait_ns=None if ack_wait_s is None else in_ns(ack_wait_s),
    )
    if found.listeners and not shared:
        raise SubscriptionBusy(f"{what}: subscription {durable} has a reader, and is not shared")
    wait_s = found.ack_wait_ns / SECOND if found.ack_wait_ns else None
    return Subscriber(port, found, ack, redelivery, wait_s, reader=reader)
