"""What becomes of the messages of one outgoing queue of a node in another process, told as events."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_kind
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, UsageError
from triack.node.control.client_events import Feed
from triack.node.control.control_frames import Header
from triack.node.control.told import describe_every, read_event
from triack.node.handles.acknowledgements import AckHandler, Every, handle_each
from triack.node.shell.link_events import EVENTS_MAX
from triack.queues.streams.ack_events import AckEvent

__all__ = ["ClientAcknowledgements", "ClientAcknowledging"]


class ClientAcknowledgements(Feed[AckEvent]):
    """An async iterator over the events of one outgoing queue of the node; see ``Acknowledgements``.

    It ends when the node is closed; when its process is gone without a word, it raises NodeClosed.
    """

    def _read(self, header: Header) -> list[AckEvent]:
        return [read_event(said) for said in header["events"]]

    async def get_many(self, most: int = EVENTS_MAX) -> list[AckEvent]:
        """The next events, in order; see ``Acknowledgements.get_many``."""
        first = await anext(self, None)
        if first is None:
            return []
        return [first, *(self._unread.popleft() for _ in range(min(most - 1, len(self._unread))))]


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
        check_kind(f"acknowledgements of {destination}: handler", handler, Callable | None)
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
