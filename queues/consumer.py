"""Reading a queue."""

import asyncio
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from triack.errors import NodeClosed, UsageError, WaitTimeout
from triack.queues.mailbox import Handed, Mailbox
from triack.queues.message import Message

if TYPE_CHECKING:
    from triack.queues.node import Node

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
        self._out: dict[int, Handed] = {}
        self._last: Message | None = None
        self._turn = 0
        self._arrived = asyncio.Event()
        mailbox.listeners.append(self._arrived.set)
        # A loop that is left without closing must not keep its messages.
        self._finalizer = weakref.finalize(self, _abandon, node, mailbox, self._out, self._arrived)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return await self._next()

    async def get(self, timeout: float | None = None) -> Message:
        """The next message.

        Args:
            timeout: seconds to wait for it, None for no limit.

        Raises:
            WaitTimeout: none came in time.
            NodeClosed: the node or this consumer has ended.
        """
        if timeout is None:
            return await self._next()
        try:
            async with asyncio.timeout(timeout):
                return await self._next()
        except TimeoutError:
            raise WaitTimeout(f"no message in queue {self._mailbox.name} after {timeout} s") from None

    async def _next(self) -> Message:
        if self._auto and self._last is not None:
            self._last.ack()
            self._last = None
        self._turn += 1
        if self._turn >= TURN_MESSAGES:
            self._turn = 0
            await asyncio.sleep(0)
        while True:
            self._check_open()
            self._arrived.clear()
            handed = self._node.take(self._mailbox)
            if handed is not None:
                break
            self._node.wake()
            await self._arrived.wait()
        message = self._node.message_of(self._mailbox, handed, self._settle)
        self._out[id(handed)] = handed
        if self._auto:
            self._last = message
        return message

    def _check_open(self) -> None:
        self._node.check_alive()
        if not self._finalizer.alive:
            raise NodeClosed(f"receive from {self._mailbox.name}: the consumer is closed")

    def _settle(self, message: Message, failed: bool | None) -> None:
        handed = message._handed
        if self._out.pop(id(handed), None) is None:
            return
        if failed is None:
            self._node.acknowledge(self._mailbox, handed)
        else:
            self._node.give_back(self._mailbox, handed, failed=failed)

    def close(self) -> None:
        """Give back what is unacknowledged and take no more. A second call does nothing."""
        self._finalizer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._auto and kind is None and self._last is not None:
            self._last.ack()
        self.close()


def _abandon(node: "Node", mailbox: Mailbox, out: dict[int, Handed], arrived: asyncio.Event) -> None:
    mailbox.listeners.remove(arrived.set)
    for handed in list(out.values()):
        node.give_back(mailbox, handed, failed=False)
    out.clear()
    arrived.set()
