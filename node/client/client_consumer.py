"""Reading a queue of a node in another process."""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable
from dataclasses import asdict
from functools import partial
from types import TracebackType
from typing import Any, Self

from triack.base.checks import check_most, check_timeout
from triack.base.errors import NodeClosed
from triack.node.client.at_once import begin_now
from triack.node.control.client_messages import ClientHolder, message_of
from triack.node.control.control_frames import Caller, Header, cut
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.handles.message import Keeper, Message
from triack.node.handles.transaction import DONE
from triack.node.shell.event_loop import run_at_home
from triack.node.shell.holding import task_name
from triack.queues.node_settings import Redelivery

__all__ = ["ClientConsumer"]


class ClientConsumer:
    """An async iterator over the messages of one queue of the node; also an async context manager. See ``Consumer``."""

    def __init__(
        self,
        client: Caller,
        queue: str,
        redelivery: Redelivery | None,
        *,
        auto: bool,
        hand_over_timeout: float | None,
        name: str | None,
    ) -> None:
        self._client = client
        self._queue = queue
        self._hand_over_timeout = hand_over_timeout
        self._name = name
        self._redelivery = None if redelivery is None else asdict(redelivery)
        self._keeper = None if auto else Keeper()
        self._number: int | None = None
        self._beginning = asyncio.Lock()
        self._closed = False
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._last: list[Message] = []
        self._first_of_last = 0

    def __repr__(self) -> str:
        return f"<ClientConsumer of queue {self._queue}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return await self.get()

    async def get(self, timeout: float | None = None) -> Message:
        """The next message; see ``Consumer.get``."""
        header, content = await self._ask("get", timeout)
        return self._take(header["message"], [header], [content])[0]

    async def get_many(self, most: int = BATCH_MESSAGES, timeout: float | None = None) -> list[Message]:
        """The next messages, in order; see ``Consumer.get_many``."""
        check_most(self._queue, most)
        header, content = await self._ask("get_many", timeout, most=most)
        return self._take(header["message"], header["about"], cut(content, header["sizes"]))

    async def _ask(self, do: str, timeout: float | None, **fields: Any) -> tuple[Header, bytes]:
        check_timeout(f"receive from {self._queue}", timeout)
        if self._closed:
            raise NodeClosed(f"receive from {self._queue}: the consumer is closed")
        if self._number is None:  # a cancelled call leaves no unknown reader behind
            await asyncio.shield(self._begin(self._name or task_name()))
        self._acknowledge_last()
        return await self._client.call(do, reader=self._number, timeout=timeout, **fields)

    async def _begin(self, name: str) -> None:
        async with self._beginning:  # concurrent first calls share one reader
            if self._number is None:
                begun, _ = await self._client.call(
                    "read",
                    queue=self._queue,
                    redelivery=self._redelivery,
                    hand_over_timeout=self._hand_over_timeout,
                    name=name,
                    in_order=False,
                )
                self._number = begun["reader"]
                self._leave_when_forgotten(asyncio.get_running_loop(), begun["reader"])

    def _leave_when_forgotten(self, home: asyncio.AbstractEventLoop, number: int) -> None:
        """End the reader with its last reference, as for a consumer of the node itself."""
        leave = partial(self._client.post, "leave", reader=number)
        self._finalizer = weakref.finalize(self._keeper or self, run_at_home, home, leave)
        self._finalizer.atexit = False

    def _take(self, first: int, headers: list[Header], contents: list[bytes]) -> list[Message]:
        messages = [
            message_of(header, content, ClientHolder(self._client, number, self._keeper))
            for number, (header, content) in enumerate(zip(headers, contents, strict=True), first)
        ]
        if self._keeper is None:
            self._first_of_last, self._last = first, messages
        return messages

    def _acknowledge_last(self) -> None:
        last, self._last = self._last, []
        if last:
            self._client.post("ack", message=self._first_of_last, count=len(last))

    def close(self) -> Awaitable[None]:
        """Give back unacknowledged messages, and take no more. A second call does nothing.

        It happens even if the caller does not wait; awaiting it means that the node has heard of it.
        """
        self._closed = True
        number, self._number = self._number, None
        if number is None:
            return DONE
        if self._finalizer is not None:
            self._finalizer.detach()
        return begin_now(self._close(number))

    async def _close(self, number: int) -> None:
        with contextlib.suppress(NodeClosed):
            await self._client.call("close", reader=number)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._acknowledge_last()
            else:
                for message in self._last:
                    message.reject(failed=issubclass(kind, Exception))
        finally:
            await self.close()
