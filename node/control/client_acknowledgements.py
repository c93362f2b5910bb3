"""What becomes of the messages of one outgoing queue of a node in another process, told as events."""

import asyncio
import contextlib
import weakref
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Self

from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, UsageError
from triack.node.acknowledgements import EVENTS_MAX, AckHandler, Every, handle_each
from triack.node.control.client_receipts import Caller
from triack.node.control.frames import Header
from triack.node.control.told import describe_every, read_event
from triack.queues.ack_events import AckEvent

__all__ = ["ClientAcknowledgements", "ClientAcknowledging"]


class ClientAcknowledgements:
    """An async iterator over the events of one outgoing queue of the node; see ``Acknowledgements``.

    It ends when the node is closed; when its process is gone without a word, it raises NodeClosed.
    """

    def __init__(self, client: Caller, watch: int) -> None:
        self._client = client
        self._watch = watch
        self._unread: deque[AckEvent] = deque()
        self._coming: asyncio.Task[tuple[Header, bytes]] | None = None
        self._ended = False
        weakref.finalize(self, client.post, "unwatch", watch=watch, forget=True).atexit = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AckEvent:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            await self._fetch()
        return self._unread.popleft()

    async def get_many(self, most: int = EVENTS_MAX) -> list[AckEvent]:
        """The next events, in order; see ``Acknowledgements.get_many``."""
        first = await anext(self, None)
        if first is None:
            return []
        return [first, *(self._unread.popleft() for _ in range(min(most - 1, len(self._unread))))]

    async def _fetch(self) -> None:
        """Wait for more. Who is cancelled takes nothing along: what then comes is for the next one who asks."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._client.call("told", watch=self._watch), name="triack-told")
            self._coming.add_done_callback(_look_at)
        coming = self._coming
        await asyncio.wait([coming])
        if self._coming is coming:  # and not another one's, who waited for the same
            self._coming = None
            header, _ = coming.result()
            self._unread += [read_event(said) for said in header["events"]]
            self._ended = not header["events"]

    def close(self) -> None:
        """Gather no more; what is unread can still be read. A second call does nothing."""
        self._client.post("unwatch", watch=self._watch, forget=False)


class ClientAcknowledging(ABC):
    """What a client tells of acknowledgements."""

    _handlers: set[asyncio.Task[None]]

    @abstractmethod
    async def call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        """Let the node do something, and wait for the end of it."""

    @abstractmethod
    def post(self, op: str, **fields: Any) -> None:
        """Tell the node something."""

    async def acknowledgements(
        self,
        destination: str,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        every: Every = None,
        handler: AckHandler | None = None,
    ) -> ClientAcknowledgements:
        """What becomes of the messages to a queue, whoever sends them; see ``Node.acknowledgements``.

        A ``handler`` is called in this process, until the client is closed or the node ends. The numbers of messages
        are those of ``ClientReceipt.number``.
        """
        _check(destination, delivery, every)
        told = describe_every(every)
        header, _ = await self.call("watch", destination=destination, delivery=delivery.name, every=told)
        events = ClientAcknowledgements(self, header["watch"])
        if handler is not None:
            task = asyncio.create_task(_handle(events, destination, handler), name="triack-acknowledgements")
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
        return events


def _check(destination: object, delivery: object, every: object) -> None:
    if not isinstance(destination, str) or not isinstance(delivery, Delivery):
        raise UsageError(
            f"acknowledgements of {destination!r} as {delivery!r}: a destination is text, a class is a triack.Delivery"
        )
    if not isinstance(every, AckTrigger | None) and every != "message":
        raise UsageError(f"acknowledgements of {destination}: every must be an AckTrigger or 'message', not {every!r}")


async def _handle(events: ClientAcknowledgements, destination: str, handler: AckHandler) -> None:
    with contextlib.suppress(NodeClosed):
        await handle_each(events, destination, handler)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Whoever waited may have gone: then nobody else looks at what it raised."""
    if not task.cancelled():
        task.exception()
