"""Reading a queue."""

import asyncio
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from triack.base.checks import check_timeout
from triack.base.errors import NodeClosed, UsageError, WaitTimeout
from triack.node.message import Message
from triack.node.port import Port
from triack.queues.mailbox import Lease, Mailbox, Run
from triack.queues.redelivery import Redelivery, Return

__all__ = ["AckMode", "Consumer"]

AckMode = Literal["auto", "manual"]
"""Who acknowledges: ``auto`` the consumer, when the next message is asked for; ``manual`` the application."""
TURN_MESSAGES = 256
"""A reader that finds messages waiting lets others run after so many: a few milliseconds of work."""


class _Hands:
    """The messages that one consumer has handed out, and that are neither acknowledged nor given back.

    It does not refer to its consumer: a loop that is left without closing must not keep its messages, so the consumer
    ends with its last reference.
    """

    def __init__(
        self, port: Port, mailbox: Mailbox, listener: Callable[[], None], redelivery: Redelivery | None
    ) -> None:
        self._port = port
        self._mailbox = mailbox
        self._listener = listener
        self._redelivery = redelivery
        self._out: dict[tuple[int, int], Lease] = {}
        self._loop = asyncio.get_running_loop()
        mailbox.listeners.append(listener)

    def take(self, run: Run, index: int) -> Lease:
        """Take a message that was drawn from a run."""
        packet = run.packet
        lease = self._out[(packet.place, index)] = Lease(packet, index, run.redelivered)
        return lease

    def _let_go(self, lease: Lease) -> bool:
        """Whether it was still here; a message that came again is another one than before."""
        place = (lease.packet.place, lease.index)
        if self._out.get(place) is not lease:
            return False
        del self._out[place]
        return True

    def acknowledge(self, lease: Lease) -> None:
        """A message is done."""
        if self._let_go(lease):
            self._port.acknowledge(self._mailbox, lease)

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None) -> None:
        """A message comes again."""
        if self._let_go(lease):
            self._port.give_back(self._mailbox, lease, Return(failed, delay_ms, self._redelivery))

    def empty(self) -> None:
        """The consumer ends: everything goes back, and who waits with it is told."""
        self._mailbox.listeners.remove(self._listener)
        for lease in list(self._out.values()):
            self._port.give_back(self._mailbox, lease, Return(failed=False))
        self._out.clear()
        self._listener()

    def empty_at_home(self) -> None:
        """The same from wherever the garbage collector runs, which may be any thread."""
        try:
            at_home = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            at_home = False
        if at_home:
            self.empty()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.empty)


class Consumer:
    """An async iterator over the messages of one queue; also an async context manager.

    With ``ack="auto"`` a message is acknowledged when the next one is asked for: a loop body that raises leaves its
    message in the queue. With ``ack="manual"`` each message waits for ``message.ack()`` or ``message.reject()``. What
    is unacknowledged when the consumer ends comes again, before anything younger; one that failed waits before it does.
    Several consumers may share a queue; each message goes to one of them.
    """

    def __init__(self, port: Port, mailbox: Mailbox, ack: AckMode, redelivery: Redelivery | None) -> None:
        if ack not in ("auto", "manual"):
            raise UsageError(f"receive from {mailbox.name}: ack must be 'auto' or 'manual', not {ack!r}")
        self._port = port
        self._mailbox = mailbox
        self._auto = ack == "auto"
        self._run: Run | None = None
        self._last: Message | None = None
        self._turn = 0
        self._arrived = asyncio.Event()
        self._hands = _Hands(port, mailbox, self._arrived.set, redelivery)
        self._finalizer = weakref.finalize(self, self._hands.empty_at_home)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        await self._take_turns()
        return await self._next()

    async def get(self, timeout: float | None = None) -> Message:
        """The next message.

        Args:
            timeout: seconds to wait for it, None for no limit; 0 takes what is there already.

        Returns:
            The message; with ``ack="auto"`` the one before it is acknowledged.

        Raises:
            WaitTimeout: none came in time; the consumer goes on.
            NodeClosed: the node or this consumer has ended.
            StoreFailed: the node's store has failed.
        """
        check_timeout(f"receive from {self._mailbox.name}", timeout)
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
        run = self._run
        index = -1 if run is None else run.draw()
        while run is None or index < 0:
            run = await self._open_run()
            index = run.draw()
        lease = self._hands.take(run, index)
        message = Message(lease.body, self._mailbox.name, lease, self._hands, self._port.name_of)
        if self._auto:
            self._last = message
        return message

    async def _open_run(self) -> Run:
        """The run that all readers of the queue draw from."""
        while True:
            if not self._finalizer.alive:
                raise NodeClosed(f"receive from {self._mailbox.name}: the consumer is closed")
            self._arrived.clear()
            run = self._port.open_run(self._mailbox)
            if run is not None:
                self._run = run
                return run
            await self._arrived.wait()

    def close(self) -> None:
        """Give back what is unacknowledged and take no more. A second call does nothing."""
        if self._finalizer.detach() is not None:
            self._run = None
            self._hands.empty()

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
