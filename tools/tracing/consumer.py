"""Readers whose receives have spans."""

from collections.abc import Awaitable, Sequence
from time import time_ns
from typing import Any, Protocol

from triack.node.client.client_consumer import ClientConsumer
from triack.node.handles.consumer import TURN_MESSAGES, Consumer
from triack.node.handles.message import Message, Messages, with_properties


class Tell(Protocol):
    """Makes the span of a receive."""

    def __call__(self, queue: str, brought: Sequence[Message], began_ns: int, count: int = 1) -> None:
        """Messages were received.

        Args:
            queue: from where.
            brought: those with properties, among which may be a trace.
            began_ns: when they were asked for, by the wall clock; 0 when they were ready.
            count: how many were received.
        """


async def told(receiving: Awaitable[Messages], tell: Tell) -> Messages:
    """Receive many messages, and make the span of that."""
    began_ns = time_ns()
    messages = await receiving
    if brought := with_properties(messages):
        tell(messages[0].queue, brought, began_ns, len(messages))
    return messages


class TracedConsumer(Consumer):
    """A consumer of a node; ``traced`` makes it of another one."""

    tell: Tell

    async def __anext__(self) -> Message:
        # The same as the base class does, as a call of that would cost each message as much as all else here.
        self._turn += 1
        if self._turn >= TURN_MESSAGES or self._commits:
            await self._end_turn()
        elif self._auto:
            self._in_flight.acknowledge_all()
        message = self._draw() or await self._next()
        packet = message._drawn.run.packet  # noqa: SLF001 - as ``has_properties``, without a call
        properties = (packet.content or packet.open()).properties
        if properties is not None and properties[message._index]:  # noqa: SLF001 - its trace is in its headers
            self.tell(message.queue, [message], 0)
        return message

    async def get(self, timeout: float | None = None) -> Message:
        """See ``Consumer.get``."""
        began_ns = time_ns()
        message = await (super().__anext__() if timeout is None else super().get(timeout))
        if message.has_properties:
            self.tell(message.queue, [message], began_ns)
        return message

    async def get_many(self, *args: Any, **options: Any) -> Messages:
        """See ``Consumer.get_many``."""
        return await told(super().get_many(*args, **options), self.tell)


class TracedClientConsumer(ClientConsumer):
    """A consumer of a client; ``traced`` makes it of another one."""

    tell: Tell

    async def __anext__(self) -> Message:
        message = await super().get()
        if message.has_properties:
            self.tell(message.queue, [message], 0)
        return message

    async def get(self, timeout: float | None = None) -> Message:
        """See ``Consumer.get``."""
        began_ns = time_ns()
        message = await super().get(timeout)
        if message.has_properties:
            self.tell(message.queue, [message], began_ns)
        return message

    async def get_many(self, *args: Any, **options: Any) -> Messages:
        """See ``Consumer.get_many``."""
        return await told(super().get_many(*args, **options), self.tell)


def traced(consumer: Any, tell: Tell) -> TracedConsumer | TracedClientConsumer:
    """A reader whose receives have spans, in place of a fresh one. ``tell`` gets received messages with properties."""
    # The object itself: around another one, each message would need a coroutine more.
    consumer.__class__ = TracedClientConsumer if isinstance(consumer, ClientConsumer) else TracedConsumer
    consumer.tell = tell
    there: TracedConsumer | TracedClientConsumer = consumer
    return there
