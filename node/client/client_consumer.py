"""Reading a queue of a node in another process."""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Generator
from dataclasses import asdict
from functools import partial
from typing import Any, Self

from triack.base.checks import check_most, check_timeout
from triack.base.errors import ConnectionLost, NodeClosed
from triack.base.names import TOPIC_PREFIX
from triack.node.client.asking import begin_now
from triack.node.control.client_messages import ClientHolder, message_of
from triack.node.control.control_frames import Caller, Header, cut
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.handles.message import Keeper, Message, Messages, as_messages
from triack.node.handles.transaction import DONE
from triack.node.shell.event_loop import is_failure, may_wait, when_dropped
from triack.node.shell.holding import task_name
from triack.queues.mailboxes.lookup import Wanted
from triack.queues.node_settings import Redelivery


class ClientConsumer:
    """An async iterator over the messages of one queue of the node; also an async context manager. See ``Consumer``.

    When the process of the node ends, it continues with the next one. Its leased messages are redelivered: ``ack`` of
    one then raises HandOverEnded, and with ``ack="auto"`` a loop gets it again, marked ``redelivered``.
    """

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
        # The connection that has the reader.
        self._epoch = 0
        self._beginning = asyncio.Lock()
        self._closed = False
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._last: list[Message] = []
        self._first_of_last = 0, 0

    def __repr__(self) -> str:
        return f"<ClientConsumer of queue {self._queue}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return await self.get()

    async def get(self, timeout: float | None = None) -> Message:
        """The next message; see ``Consumer.get``."""
        header, content = await self._ask("get", timeout)
        return self._take(header, [header], [content])[0]

    async def get_by_id(self, id: str, timeout: float | None = 0) -> Message:  # noqa: A002 - as users name it
        """Take the message with an id, whatever waits before it; see ``Consumer.get_by_id``."""
        Wanted.by_id(id)
        return await self._get_chosen(timeout, id=id, correlation_id=None)

    async def get_by_correlation_id(self, correlation_id: str, timeout: float | None = 0) -> Message:
        """Take the first message with a correlation id; see ``Consumer.get_by_correlation_id``."""
        Wanted.by_correlation_id(correlation_id)
        return await self._get_chosen(timeout, id=None, correlation_id=correlation_id)

    async def _get_chosen(self, timeout: float | None, **wanted: str | None) -> Message:
        header, content = await self._ask("get_chosen", timeout, **wanted)
        return self._take(header, [header], [content])[0]

    async def get_many(self, most: int = BATCH_MESSAGES, timeout: float | None = None) -> Messages:
        """The next messages, in order; see ``Consumer.get_many``."""
        check_most(self._queue, most)
        header, content = await self._ask("get_many", timeout, most=most)
        return as_messages(self._take(header, header["about"], cut(content, header["sizes"])))

    async def _ask(self, do: str, timeout: float | None, **fields: Any) -> tuple[Header, bytes]:
        check_timeout(f"receive from {self._queue}", timeout)
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        name, first = self._name or task_name(), True
        while True:
            self._check_open()
            epoch = await self._client.connected(end)
            try:
                await self._begin_on(epoch, name)
                self._acknowledge_last()
                left = timeout if first or end is None else max(0.0, end - asyncio.get_running_loop().time())
                return await self._client.call(do, epoch=self._epoch, reader=self._number, timeout=left, **fields)
            except ConnectionLost:
                first = False
                await self._client.lost(epoch)

    def _check_open(self) -> None:
        if self._closed:
            raise NodeClosed(f"receive from {self._queue}: the consumer is closed")

    async def _begin_on(self, epoch: int, name: str) -> None:
        """Have a reader on that connection, or on a later one."""
        async with self._beginning:  # concurrent first calls share one reader
            if self._number is None or self._epoch < epoch:
                begun = await self._ask_for_reader(name)
                if self._closed:  # during the call
                    self._client.post("leave", epoch=begun["epoch"], reader=begun["reader"])
                    self._check_open()
                if self._finalizer is not None:
                    self._finalizer.detach()
                self._number, self._epoch = begun["reader"], begun["epoch"]
                leave = partial(self._client.post, "leave", epoch=self._epoch, reader=self._number)
                self._finalizer = when_dropped(self._keeper or self, leave)
        self._check_open()

    async def _ask_for_reader(self, name: str) -> Header:
        begun, _ = await self._client.call(
            "read",
            queue=self._queue,
            redelivery=self._redelivery,
            hand_over_timeout=self._hand_over_timeout,
            name=name,
            in_order=False,
        )
        return begun

    async def report(self, why: str) -> None:
        """See ``Consumer.report``. Raises WaitTimeout while the node is away, as the report would come too late."""
        now = asyncio.get_running_loop().time()
        await self._begin_on(await self._client.connected(now), self._name or task_name())
        self._client.post("waits", epoch=self._epoch, reader=self._number, why=why)

    def _take(self, answer: Header, headers: list[Header], contents: list[bytes]) -> list[Message]:
        first, epoch = answer["message"], answer["epoch"]
        messages = [
            message_of(header, content, ClientHolder(self._client, epoch, number, self._keeper).settle, self._client)
            for number, (header, content) in enumerate(zip(headers, contents, strict=True), first)
        ]
        if self._keeper is None:
            self._first_of_last, self._last = (epoch, first), messages
        return messages

    def _acknowledge_last(self) -> None:
        last, self._last = self._last, []
        epoch, first = self._first_of_last
        if last and epoch == self._epoch:  # else they are redelivered, marked ``redelivered``
            self._client.post("ack", epoch=epoch, message=first, count=len(last))

    def close(self) -> Awaitable[None]:
        """Give back unacknowledged messages, and receive no more. A second call does nothing.

        It happens even if the caller does not wait; awaiting it means that the node knows.
        """
        self._closed = True
        number, self._number = self._number, None
        if number is None:
            return DONE
        if self._finalizer is not None:
            self._finalizer.detach()
        return begin_now(self._close(self._epoch, number))

    async def _close(self, epoch: int, number: int) -> None:
        with contextlib.suppress(NodeClosed, ConnectionLost):
            await self._client.call("close", epoch=epoch, reader=number)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._acknowledge_last()
            else:
                failed = is_failure(kind)
                for message in self._last:
                    message.reject(failed=failed)
        finally:
            closed = self.close()
            if may_wait(kind):
                await closed


class ClientSubscriber(ClientConsumer):
    """An async iterator over the messages of one subscription; also an async context manager. See ``Subscriber``.

    It begins with ``async with``, or with the first request for a message. When the process of the node ends, it
    continues with the next one: a subscription that is not durable then begins anew, and misses what came in between.
    """

    def __init__(
        self, client: Caller, pattern: str, redelivery: Redelivery | None, *, auto: bool, name: str | None, **about: Any
    ) -> None:
        queue = pattern if f"/{TOPIC_PREFIX}" in pattern else f"{TOPIC_PREFIX}{pattern}"
        super().__init__(client, queue, redelivery, auto=auto, hand_over_timeout=None, name=name)
        self._about = {"pattern": pattern, **about}
        self._is_paused = False

    def __repr__(self) -> str:
        return f"<ClientSubscriber to {self._about['pattern']}>"

    async def _ask_for_reader(self, name: str) -> Header:
        about = {**self._about, "redelivery": self._redelivery, "paused": self._is_paused}
        begun, _ = await self._client.call("subscribe", **about, name=name)
        return begun

    async def pause(self) -> None:
        """See ``Subscriber.pause``. It stays paused with the next process of the node."""
        await self._set_paused(paused=True)

    async def resume(self) -> None:
        """See ``Subscriber.resume``."""
        await self._set_paused(paused=False)

    async def _set_paused(self, *, paused: bool) -> None:
        self._check_open()
        self._is_paused = paused
        while True:
            epoch = await self._client.connected()
            try:
                await self._begin_on(epoch, self._name or task_name())
                await self._client.call("pause_reader", epoch=self._epoch, reader=self._number, paused=paused)
            except ConnectionLost:
                await self._client.lost(epoch)
            else:
                return

    async def __aenter__(self) -> Self:
        await self._begin_on(await self._client.connected(), self._name or task_name())
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        """``await node.subscribe(...)`` enters it."""
        return self.__aenter__().__await__()
