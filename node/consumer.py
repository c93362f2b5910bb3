"""Reading a queue."""

import asyncio
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from triack.base.errors import NodeClosed, UsageError, WaitTimeout
from triack.node.message import Message, Settle
from triack.queues.mailbox import Lease, Mailbox, QueuedPacket

if TYPE_CHECKING:
    from triack.node.node import Node

__all__ = ["AckMode", "Consumer"]

AckMode = Literal["auto", "manual"]
TURN_MESSAGES = 256
"""A reader that finds messages waiting lets others run after so many."""


class Consumer:
    """An async iterator over the messages of one queue; also an async context manager.

    With ``ack="auto"`` a message is acknowledged when the next one is asked for: a loop body that raises leaves its
    message in the queue. With ``ack="manual"`` each message waits for ``message.ack()`` or ``message.reject()``. What
    is unacknowledged when the consumer ends comes again, before anything younger. Several consumers may share a queue;
    each message goes to one of them.
    """

    def __init__(self, node: "Node", mailbox: Mailbox, ack: AckMode) -> None:
        if ack not in ("auto", "manual"):
            raise UsageError(f"receive from {mailbox.name}: ack must be 'auto' or 'manual', not {ack!r}")
        self._node = node
        self._mailbox = mailbox
        self._auto = ack == "auto"
        self._out: dict[int, Lease] = {}
        self._parcel: QueuedPacket | None = None
        self._last: Message | None = None
        self._turn = 0
        self._arrived = asyncio.Event()
        self._settle = _settler(node, mailbox, self._out)
        mailbox.listeners.append(self._arrived.set)
        loop = asyncio.get_running_loop()
        # A loop that is left without closing must not keep its messages. Nothing here refers back to the consumer, so
        # that it ends with its last reference; should the garbage collector end it, that may be in any thread.
        self._finalizer = weakref.finalize(self, _abandon_at_home, loop, node, mailbox, self._out, self._arrived.set)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        await self._take_turns()
        return await self._next()

    async def get(self, timeout: float | None = None) -> Message:
        """The next message.

        Args:
            timeout: seconds to wait for it, None for no limit.

        Raises:
            WaitTimeout: none came in time.
            NodeClosed: the node or this consumer has ended.
        """
        await self._take_turns()
        try:
            async with asyncio.timeout(timeout):
                return await self._next()
        except TimeoutError:
            raise WaitTimeout(f"no message in queue {self._mailbox.name} after {timeout} s") from None

    async def _take_turns(self) -> None:
        self._turn += 1
        if self._turn >= TURN_MESSAGES:
            self._turn = 0
            await asyncio.sleep(0)

    async def _next(self) -> Message:
        if self._auto and self._last is not None:
            self._last.ack()
            self._last = None
        handed = self._take_next() or await self._take()
        self._out[id(handed)] = handed
        message = Message(handed.parcel.open().bodies[handed.index], self._mailbox.name, handed, self._settle)
        if self._auto:
            self._last = message
        return message

    def _take_next(self) -> Lease | None:
        """The message after the last one, if it is in the same packet: the short way, without the engine."""
        parcel = self._parcel
        if parcel is None:
            return None
        self._check_open()
        index = self._mailbox.take_next(parcel)
        return Lease(parcel, index, parcel.redelivered) if index >= 0 else None

    async def _take(self) -> Lease:
        while True:
            self._check_open()
            self._arrived.clear()
            handed = self._node.take(self._mailbox)
            if handed is not None:
                break
            self._node.wake()
            await self._arrived.wait()
        # Messages with properties may have expired, which the engine must see.
        plain = handed.parcel.open().properties is None
        self._parcel = handed.parcel if plain else None
        return handed

    def _check_open(self) -> None:
        self._node.check_alive()
        if not self._finalizer.alive:
            raise NodeClosed(f"receive from {self._mailbox.name}: the consumer is closed")

    def close(self) -> None:
        """Give back what is unacknowledged and take no more. A second call does nothing."""
        if self._finalizer.detach() is not None:
            _abandon(self._node, self._mailbox, self._out, self._arrived.set)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._auto and self._last is not None:
            if kind is None:
                self._last.ack()
            else:
                self._last.reject(failed=issubclass(kind, Exception))
        self.close()


def _settler(node: "Node", mailbox: Mailbox, out: dict[int, Lease]) -> Settle:
    def settle(handed: Lease, failed: bool | None) -> None:
        if out.pop(id(handed), None) is None:
            return
        if failed is None:
            node.acknowledge(mailbox, handed)
        else:
            node.give_back(mailbox, handed, failed=failed)

    return settle


def _abandon(node: "Node", mailbox: Mailbox, out: dict[int, Lease], listener: Callable[[], None]) -> None:
    mailbox.listeners.remove(listener)
    for handed in list(out.values()):
        node.give_back(mailbox, handed, failed=False)
    out.clear()
    listener()


def _abandon_at_home(
    loop: asyncio.AbstractEventLoop,
    node: "Node",
    mailbox: Mailbox,
    out: dict[int, Lease],
    listener: Callable[[], None],
) -> None:
    try:
        at_home = asyncio.get_running_loop() is loop
    except RuntimeError:
        at_home = False
    if at_home:
        _abandon(node, mailbox, out, listener)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(_abandon, node, mailbox, out, listener)
