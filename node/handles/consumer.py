"""Reading a queue."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, Self, TypeVar

from triack.base.checks import check_kind, check_life, check_most, check_timeout
from triack.base.errors import NodeClosed, UsageError, WaitTimeout
from triack.base.units import in_ns
from triack.node.handles.choosing import choose
from triack.node.handles.in_flight import InFlight
from triack.node.handles.message import Keeper, Message, Messages
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.event_loop import is_failure
from triack.queues.mailboxes.lookup import Wanted
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.node_settings import Redelivery
from triack.stats.holding import Reader

T = TypeVar("T")

Draw = Callable[[], Message | None]
"""Gives the next message of a run; None: ask the queue again."""
AckMode = Literal["auto", "manual"]
"""With ``auto`` the consumer acknowledges when the next message is asked for; with ``manual`` the application does."""
TURN_MESSAGES = 256
"""After this many messages a reader that finds more lets other tasks run: a few milliseconds of work."""
BATCH_MESSAGES = 1_000
"""As many as a chunk of input lines (``tools.commands.pipes``): a commit and a screen handle them easily."""
BATCH_BYTES = 1024 * 1024
"""A list of messages is one frame of the control socket, or one write: large enough that each message costs little, and
small enough for a frame even with a message of the largest size at its end, and the fields of a thousand."""


class Consumer:
    """An async iterator over the messages of one queue; also an async context manager.

    With ``ack="auto"`` a message, or a list of them, is acknowledged when the next is asked for: a loop body that
    raises leaves it in the queue. With ``ack="manual"`` each message waits for ``message.ack()`` or
    ``message.reject()``, and keeps the consumer until then: ``await node.receive("q", ack="manual").get()`` is enough.
    When the consumer ends, its unacknowledged messages are redelivered before any younger one; one that failed waits
    first. Several consumers may share a queue; each message goes to one of them.
    """

    def __init__(
        self,
        port: EngineHandle,
        mailbox: Mailbox,
        ack: AckMode,
        redelivery: Redelivery | None,
        hand_over_timeout: float | None = None,
        *,
        reader: Reader | None = None,
    ) -> None:
        check_reading(f"receive from {mailbox.name}", ack, redelivery)
        self._port = port
        self._mailbox = mailbox
        self._auto = ack == "auto"
        self._commits = port.settings.blocking.acknowledge
        self._keeper = None if self._auto else Keeper()
        self._draw: Draw = draw_nothing
        self._turn = 0
        self._arrived = asyncio.Event()
        timeout_ns = check_hand_over(mailbox.name, hand_over_timeout)
        listener = self._arrived.set
        self._in_flight = InFlight(port, mailbox, listener, redelivery, reader=reader, timeout_ns=timeout_ns)
        self._finalizer = weakref.finalize(self._keeper or self, self._in_flight.empty_at_home)

    def __repr__(self) -> str:
        return f"<Consumer of queue {self._mailbox.name} of node {self._port.name}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        self._turn += 1
        if self._turn >= TURN_MESSAGES or self._commits:
            await self._end_turn()
        elif self._auto:
            self._in_flight.acknowledge_all()
        return self._draw() or await self._next()

    async def get(self, timeout: float | None = None) -> Message:
        """The next message.

        Args:
            timeout: seconds to wait for it, None for no limit; 0 accepts only a message that waits already.

        Returns:
            The message; with ``ack="auto"`` the one before it is acknowledged.

        Raises:
            WaitTimeout: none came in time; the consumer continues.
            HandOverEnded: with ``ack="auto"``, the message before it had been taken back; the consumer continues.
            NodeClosed: the node or this consumer has ended.
            StoreFailed: the node's store has failed.
        """
        if timeout is None:
            return await self.__anext__()
        check_timeout(f"receive from {self._mailbox.name}", timeout)
        self._turn += 1
        await self._end_turn()
        return await in_time(timeout, self._mailbox, self._arrived, self._next)

    async def get_many(self, most: int = BATCH_MESSAGES, timeout: float | None = None) -> Messages:
        """The next messages, in order: wait for the first, and take with it those that wait already.

        Args:
            most: the most messages to take. A list also ends with about a mebibyte of bodies and properties.
            timeout: seconds to wait for the first, None for no limit; 0 accepts only messages that wait already.

        Returns:
            At least one message; if the bodies are enough, ``bodies`` is quicker than a look at each. With
            ``ack="auto"`` all messages received before are acknowledged together; an exception that leaves the
            ``async with`` block is a failure of each message that is not settled by then.

        Raises:
            UsageError: ``most`` is no number of messages.
            WaitTimeout: none came in time; the consumer continues.
            NodeClosed: the node or this consumer has ended.
            StoreFailed: the node's store has failed.
        """
        check_most(self._mailbox.name, most)
        check_timeout(f"receive from {self._mailbox.name}", timeout)
        self._turn += 1
        await self._end_turn()
        return await in_time(timeout, self._mailbox, self._arrived, partial(self._next_many, most))

    async def get_by_id(self, id: str, timeout: float | None = 0) -> Message:  # noqa: A002 - as users name it
        """Take the message with an id, whatever waits before it.

        Args:
            id: its ``Message.id``.
            timeout: seconds to wait for it, None for no limit.

        Returns:
            The message, as from ``get``.

        Raises:
            WaitTimeout: it did not wait there in that time: it never came, has left, has expired, or a reader has it.
            UsageError: that is no id of a message, or the timeout is no number of seconds.
            HandOverEnded: with ``ack="auto"``, the message before it had been taken back; the consumer continues.
            NodeClosed, StoreFailed: the node or this consumer has ended.
        """
        return await self._get_chosen(Wanted.by_id(id), timeout)

    async def get_by_correlation_id(self, correlation_id: str, timeout: float | None = 0) -> Message:
        """Take the first message with a correlation id, whatever waits before it; see ``get_by_id``.

        The first such call reads the queue; later ones use an index in memory.
        """
        return await self._get_chosen(Wanted.by_correlation_id(correlation_id), timeout)

    async def _get_chosen(self, wanted: Wanted, timeout: float | None) -> Message:
        check_timeout(f"receive from {self._mailbox.name}", timeout)
        self._turn += 1
        await self._end_turn()
        run = await choose(self._port, self._mailbox, wanted, timeout, self._check_open)
        self._draw = draw_nothing  # messages drawn one by one later are behind it
        return self._in_flight.take_chosen(run, self._keeper)

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise NodeClosed(f"receive from {self._mailbox.name}: the consumer is closed")

    async def _end_turn(self) -> None:
        """Acknowledge the messages received before, and let other tasks run from time to time."""
        if self._turn >= TURN_MESSAGES:
            self._turn = 0
            await asyncio.sleep(0)
        if self._auto:
            self._in_flight.acknowledge_all()
        if self._commits:
            await self._port.commit()

    async def _next(self) -> Message:
        message = self._draw()
        while message is None:
            message = (await self._wait_for(self._try_run))()
        return message

    async def _next_many(self, most: int) -> Messages:
        self._draw = draw_nothing  # messages drawn one by one later are behind the list
        # A caller that is cancelled while it waits holds nothing.
        batch = await self._wait_for(lambda: self._in_flight.draw(most, BATCH_BYTES, self._keeper))
        self._turn += len(batch) - 1
        return batch

    async def _wait_for(self, take: Callable[[], T | None]) -> T:
        while True:
            self._check_open()
            self._arrived.clear()
            taken = take()
            if taken is not None:
                return taken
            await self._arrived.wait()

    def _try_run(self) -> Draw | None:
        """A call that draws from the run that all readers of the queue share; None: no run."""
        run = self._port.open_run(self._mailbox)
        if run is None:
            return None
        held = self._in_flight.hold(run)
        self._draw = partial(held.draw, held.drawn(self._keeper))
        return self._draw

    @property
    def reader(self) -> Reader:
        """The reader, as operators see it."""
        return self._in_flight.reader

    async def report(self, why: str) -> None:
        """Report what messages wait for after a handler has failed with them; empty: nothing. For handlers."""
        self._in_flight.reader.waits_for = why

    def close(self) -> None:
        """Give back unacknowledged messages, and receive no more. A second call does nothing."""
        if self._finalizer.detach() is not None:
            self._draw = draw_nothing
            self._in_flight.empty()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._auto and kind is None:
                self._in_flight.acknowledge_all()
            elif self._auto:
                self._in_flight.give_back_all(failed=kind is not None and is_failure(kind))
        finally:
            self.close()


async def in_time(
    timeout: float | None, mailbox: Mailbox, arrived: asyncio.Event, take: Callable[[], Awaitable[T]]
) -> T:
    """Take from a queue within a time. A message counts as there while its body comes from the disk.

    ``take`` waits until there is something. It may be called again after a cancellation. Raises WaitTimeout.
    """
    if timeout is None:
        return await take()
    given = timeout
    while True:
        try:
            async with asyncio.timeout(timeout):
                return await take()
        except TimeoutError:
            # A message that came just as the time ended has not been looked at.
            if not (mailbox.awaits_disk or arrived.is_set()):
                raise WaitTimeout(f"no message in queue {mailbox.name} after {given} s") from None
        # This lasts no longer than the store's next job, unless other readers take everything.
        await arrived.wait()
        timeout = 0


def check_reading(what: str, ack: object, redelivery: object) -> None:
    """Check how messages are read. Raises UsageError."""
    if ack not in ("auto", "manual"):
        raise UsageError(f"{what}: ack must be 'auto' or 'manual', not {ack!r}")
    check_kind(f"{what}: redelivery", redelivery, Redelivery | None)


def check_hand_over(queue: str, timeout: Any) -> int:
    """Nanoseconds that a reader may keep a message, 0: no limit. Raises UsageError for a timeout that is not valid."""
    if timeout is None:
        return 0
    check_life(f"receive from {queue}: hand_over_timeout", timeout)
    return in_ns(timeout)


def draw_nothing() -> None:
    """Draw from no run."""
