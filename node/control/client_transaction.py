"""A transaction of a node in another process."""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from triack.base.checks import check_most, check_timeout
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import NodeClosed, UsageError
from triack.node.control.at_once import begin_now
from triack.node.control.client_messages import frames_of, message_of, name_of
from triack.node.control.client_receipts import Caller, ClientReceipt, check_until
from triack.node.control.control_frames import Header, check_frame, cut
from triack.node.control.told import read_receipts
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.handles.message import Message, way_back
from triack.node.handles.transaction import DONE, ONLY_THE_TRANSACTION, Done, add_listed, all_reached, check_state
from triack.node.shell.event_loop import run_at_home
from triack.node.shell.holding import task_name
from triack.node.shell.outgoing_message import MessageProperties, as_bytes, check_size
from triack.queues.stages import Stage

__all__ = ["ClientTransaction"]


class ClientTransaction:
    """A transaction of the node: leaving the block commits, an exception rolls back. See ``Transaction``.

    After 131,072 sends and receives it refuses to send more, by a UsageError: a commit is answered in one frame.
    """

    def __init__(self, client: Caller) -> None:
        self._client = client
        self._number: int | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._beginning = asyncio.Lock()
        self._classes: set[Delivery] = set()
        self._listed_bytes = 0
        # What the commit is to remember.
        self._state: dict[str, bytes | None] = {}
        # The calls by which something was sent or received last.
        self._last: list[int] = []
        self._ended = False

    def __repr__(self) -> str:
        return f"<ClientTransaction, {'ended' if self._ended else 'open'}>"

    async def _call(self, do: str, body: bytes = b"", *, ends: bool = False, **fields: Any) -> tuple[Header, bytes]:
        if self._number is None:  # whoever is cancelled leaves no transaction behind that nobody knows
            await asyncio.shield(self._begin(task_name()))
        self._check_open()
        self._ended = ends
        header, content = await self._client.call(do, body, transaction=self._number, **fields)
        self._last = [header["n"]]
        if ends and self._finalizer is not None:
            self._finalizer.detach()
        return header, content

    def _check_open(self) -> None:
        if self._ended:
            raise NodeClosed("this transaction has ended")

    def undo_last(self) -> Callable[[], None]:
        """What takes back, at any later time, what was sent or received last; see ``Transaction.undo``."""
        return partial(self._undo, self._last)

    def _undo(self, calls: list[int]) -> None:
        for number in calls:
            self._client.post("cancel", n=number)

    async def _begin(self, name: str) -> None:
        async with self._beginning:  # several calls at once are of one transaction, too
            if self._number is None and not self._ended:
                self._number = (await self._client.call("begin", name=name))[0]["transaction"]
                leave = partial(self._client.post, "leave", transaction=self._number)
                self._finalizer = weakref.finalize(self, run_at_home, asyncio.get_running_loop(), leave)
                self._finalizer.atexit = False

    async def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send with the commit; see ``Transaction.send``."""
        name = _durable_name_of(destination, delivery)
        body = as_bytes(destination, body)
        check_size(destination, body)
        await self._call("tx_send", body, destination=destination, delivery=name, properties=properties)
        self._classes.add(delivery)

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send a list with the commit, in order; see ``Transaction.send_many``."""
        name = _durable_name_of(destination, delivery)
        frames = frames_of(destination, bodies)
        self._listed_bytes = add_listed(destination, self._listed_bytes, [one for _, sizes in frames for one in sizes])
        self._classes.add(delivery)
        sent: list[int] = []
        try:
            for body, sizes in frames:
                header, _ = await self._call(
                    "tx_send_many", body, sizes=sizes, destination=destination, delivery=name, properties=properties
                )
                sent.append(header["n"])
        except BaseException:
            self._undo(sent)  # all of the list or nothing
            raise
        self._last = sent

    async def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Answer a message with the commit; see ``Transaction.reply``."""
        destination, answering = way_back(message, properties)
        await self.send(destination, body, delivery=delivery, **answering)

    async def receive_many(self, queue: str, most: int = BATCH_MESSAGES, timeout: float | None = None) -> list[Message]:
        """Take messages with the commit, in order; see ``Transaction.receive_many``."""
        check_most(queue, most)
        check_timeout(f"receive from {queue}", timeout)
        header, content = await self._call("tx_receive_many", queue=queue, most=most, timeout=timeout)
        contents = zip(header["about"], cut(content, header["sizes"]), strict=True)
        return [message_of(about, one, ONLY_THE_TRANSACTION) for about, one in contents]

    async def receive(self, queue: str, timeout: float | None = None) -> Message:
        """Take a message with the commit; see ``Transaction.receive``."""
        check_timeout(f"receive from {queue}", timeout)
        header, content = await self._call("tx_receive", queue=queue, timeout=timeout)
        return message_of(header, content, ONLY_THE_TRANSACTION)

    def remember(self, key: str, value: bytes | None) -> Done:
        """Keep a value of the application's own with the commit; None removes it. See ``Transaction.remember``."""
        self._check_open()
        check_state(key, value)
        check_frame("tx_remember", value or b"", key=key)
        self._state[key] = value
        return DONE

    async def commit(self, *, until: Stage | str | None = None, timeout: float | None = None) -> list[ClientReceipt]:
        """Make it all durable; see ``Transaction.commit``."""
        for delivery in self._classes:
            check_until(until, delivery, timeout)
        while self._state:
            key, value = next(iter(self._state.items()))
            await self._call("tx_remember", value or b"", key=key, forget=value is None)
            if self._state.get(key) is value:
                del self._state[key]
        header, _ = await self._call("commit", ends=True)
        told = {"receipt": header["receipt"], **read_receipts(header["origin"], header["runs"])}
        receipts = [ClientReceipt(self._client, told, at) for at in range(len(told["ids"]))]
        if until is not None:
            await all_reached(receipts, until, timeout)
        return receipts

    def rollback(self, *, failed: bool = True) -> Awaitable[None]:
        """Send nothing, and put back what was received. A second call does nothing.

        From here on the transaction has ended, also if nobody waits: to await it is to know that the node has
        heard of it.
        """
        if self._ended:
            return DONE
        self._ended = True
        return begin_now(self._rollback(failed=failed))

    async def _rollback(self, *, failed: bool) -> None:
        async with self._beginning:  # perhaps for one who was cancelled
            begun = self._number is not None
        if begun:
            await self._client.call("rollback", transaction=self._number, failed=failed)
            if self._finalizer is not None:
                self._finalizer.detach()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with contextlib.suppress(NodeClosed):  # whose end has rolled it back
                await self.rollback(failed=issubclass(kind, Exception))
        elif not self._ended:
            await self.commit()


def _durable_name_of(destination: str, delivery: Delivery) -> str:
    name = name_of(destination, delivery)
    if delivery not in DURABLE:
        raise UsageError(f"send to {destination} in a transaction: {delivery.label} messages cannot be part of one")
    return name
