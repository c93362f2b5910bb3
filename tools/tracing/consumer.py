"""A reader whose receives have spans."""

from collections.abc import Callable
from time import time_ns
from types import TracebackType
from typing import Any, Self

from triack.node.handles.consumer import Consumer
from triack.node.handles.message import Message

__all__ = ["TracedConsumer"]

Tell = Callable[[str, list[Message], int], None]
"""Makes the span of a receive: the queue, what was received, and when it was asked for."""


class TracedConsumer:
    """A consumer of a node or a client, with the same methods.

    Args:
        inner: the consumer.
        tell: called with every message that has headers.
    """

    def __init__(self, inner: Any, tell: Tell) -> None:
        self._inner: Consumer = inner
        self._next = inner.__anext__
        self._tell = tell

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        message: Message = await self._next()
        if message.has_properties:  # its trace is in its headers
            self._tell(message.queue, [message], 0)
        return message

    async def get(self, timeout: float | None = None) -> Message:
        """See ``Consumer.get``."""
        began_ns = time_ns()
        message = await self._inner.get(timeout)
        if message.has_properties:
            self._tell(message.queue, [message], began_ns)
        return message

    async def get_many(self, *args: Any, **options: Any) -> list[Message]:
        """See ``Consumer.get_many``."""
        began_ns = time_ns()
        messages = await self._inner.get_many(*args, **options)
        if any(message.has_properties for message in messages):
            self._tell(messages[0].queue, messages, began_ns)
        return messages

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)
