"""The receipts that ``send`` returns: handles on how far messages have come."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar, overload

from triack.base.checks import check_timeout
from triack.base.delivery import Delivery
from triack.base.errors import DeliveryFailed, UsageError, WaitTimeout
from triack.base.printable import counted
from triack.base.reasons import DeadReason
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.event_loop import settle
from triack.node.shell.prepared import Prepared
from triack.queues.messages import Outgoing
from triack.queues.stages import LAST_STAGES, Stage, StageName, as_stage
from triack.queues.streams.accepted_keys import Accepted
from triack.queues.streams.outgoing_stream import OutgoingStream, Row
from triack.stats.causes import cause_of

R = TypeVar("R")


class Waits(ABC):
    """How far a message has come, or a list of them; ``Receipt`` says what the waits accept and raise."""

    __slots__ = ()

    async def queued(self, timeout: float | None = None) -> None:
        """Wait until this node has the message for good: on its disk, or in memory if it is express."""
        await self.reached(Stage.QUEUED, timeout)

    async def received(self, timeout: float | None = None) -> None:
        """Wait for the session ack, [MS-MQQB] 2.2.6: the message arrived at the next hop."""
        await self.reached(Stage.RECEIVED, timeout)

    async def stored(self, timeout: float | None = None) -> None:
        """Wait for the store ack: the message is on the next hop's disk.

        ``SessionStats.survives`` says what that node's store survives: its owner may have chosen less than a loss of
        power. MSMQ has the recoverable bits of its session ack for that ([MS-MQMQ] 2.2.20.4).
        """
        await self.reached(Stage.STORED, timeout)

    async def onward(self, timeout: float | None = None) -> None:
        """Wait until the message is also on the disk behind the next hop, if the link to that is synchronous.

        ``Route(link="sync")`` makes it so; with relays whose links are synchronous as well, it is on the disk at the
        end of their chain. Over any other link, and while one is downgraded, this is as ``stored``. AMPS calls it
        ``persisted``.
        """
        await self.reached(Stage.ONWARD, timeout)

    async def ordered(self, timeout: float | None = None) -> None:
        """Wait for the order ack, [MS-MQQB] 2.2.4: accepted once, in order, and on disk at its destination."""
        await self.reached(Stage.ORDERED, timeout)

    @abstractmethod
    async def reached(self, stage: Stage | StageName, timeout: float | None = None) -> None:
        """Wait for a stage given as a value; see ``Receipt``."""


class Receipt(Waits):
    """One message that was accepted for sending. It costs nothing until one of its stages is awaited.

    Each wait takes ``timeout`` in seconds (None: no limit) and raises:

    - WaitTimeout: not yet; the message is still on its way, and waiting again is fine;
    - DeliveryFailed: never; the message is in the dead-letter queue with the reason;
    - RollbackDetected: not as long as this process runs; the message stays queued;
    - GapDetected: the same, as another node answers for the peer, and ``Reconnect(gap="error")`` is set;
    - UsageError: the delivery class has no such stage;
    - NodeClosed, StoreFailed: this node ended before. Queued messages are sent when it is opened again.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def id(self) -> str:
        """The message's permanent name, which ``Message.id`` has where it arrives."""

    @property
    @abstractmethod
    def number(self) -> int | None:
        """Its place in its outgoing queue, from 1 at the start of the node, as an ``AckEvent`` has it.

        None for a message that was accepted with its key, and finished, before that.
        """


class NodeReceipt(Receipt):
    """The receipt of a message that a node of this process accepted."""

    __slots__ = ("_accepted", "_ordinal", "_outgoing", "_port", "_ticket")

    def __init__(
        self,
        port: EngineHandle,
        outgoing: OutgoingStream,
        ticket: int | None,
        ordinal: int,
        accepted: Accepted | None = None,
    ) -> None:
        self._port = port
        self._outgoing = outgoing
        self._ticket = ticket
        self._ordinal = ordinal
        self._accepted = accepted

    def __repr__(self) -> str:
        return f"<Receipt of message {self.id} to {self._outgoing.destination}, {self._outgoing.delivery.label}>"

    @property
    def id(self) -> str:
        """See ``Receipt.id``."""
        return f"{self._port.node_id}-{self._ordinal}"

    @property
    def number(self) -> int | None:
        """See ``Receipt.number``."""
        return None if self._ticket is None else self._ticket + 1

    async def reached(self, stage: Stage | StageName, timeout: float | None = None) -> None:
        """Wait for a stage given as a value.

        Args:
            stage: how far the message is to come: a ``Stage``, or its name, such as ``ordered``.
            timeout: seconds to wait, None for no limit.
        """
        outgoing, port = self._outgoing, self._port
        stage = check_stage(stage, outgoing.delivery, timeout)
        port.check_alive()
        if self._ticket is None:
            # It had finished before this start of the node; its key remembers the outcome.
            assert self._accepted is not None
            reason = self._accepted.reason or None
        else:
            reason = await self._outcome(self._ticket, stage, timeout)
        if reason is not None:
            self._raise_failure(reason)

    async def _outcome(self, ticket: int, stage: Stage, timeout: float | None) -> str | None:
        outgoing, port = self._outgoing, self._port
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        waiter = partial(settle, future)
        port.await_stage(outgoing, ticket, stage, waiter)
        try:
            if timeout is None:
                return await future
            # Not ``wait_for``: before Python 3.12 that forgets a cancellation when the end comes in the same turn.
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            late = f"message to {outgoing.destination} not {stage.name.lower()} after {timeout} s"
            raise WaitTimeout(late, cause=cause_of(port.engine, outgoing)) from None
        finally:
            outgoing.stages.forget(ticket, waiter)

    def _raise_failure(self, reason: str) -> None:
        outgoing = self._outgoing
        self._port.check_alive()
        error = outgoing.stages.suspended
        if error is not None and reason == str(error):
            raise error.anew(f"message to {outgoing.destination} not sent: ")
        cause = cause_of(self._port.engine, outgoing) if reason == DeadReason.REACH_QUEUE_TIMEOUT else ""
        raise DeliveryFailed(f"message to {outgoing.destination} not delivered: {reason}", reason=reason, cause=cause)


def accept(port: EngineHandle, prepared: Prepared) -> Receipt:
    """Accept a message that was checked, or find the one that was accepted before with the same key."""
    outgoing, message, size_bytes = prepared
    outgoing = port.current(outgoing)
    if isinstance(message, Outgoing) and message.key:
        accepted = port.submit_once(outgoing, message, size_bytes)
        return NodeReceipt(port, accepted.outgoing or outgoing, accepted.ticket, accepted.ordinal, accepted)
    ticket = port.submit((outgoing, message, size_bytes))
    return NodeReceipt(port, outgoing, ticket, outgoing.ordinal_of(ticket))


def find_kept(port: EngineHandle, ordinal: int) -> Receipt | None:
    """The receipt of a message that was accepted with a key, in this life of the node or before; None if unknown."""
    port.check_alive()
    accepted = port.outbox.keys.of_ordinal(ordinal, port.wall_ms())
    if accepted is None:
        return None
    outgoing = accepted.outgoing or port.outgoing_stream(accepted.destination, Delivery.TRANSACTIONAL)
    return NodeReceipt(port, outgoing, accepted.ticket, accepted.ordinal, accepted)


def stage_to_wait_for(
    port: EngineHandle, until: Stage | StageName | None, delivery: Delivery, timeout: float | None
) -> Stage | None:
    """The stage that a sending call waits for. Raises UsageError for a stage that its messages never reach."""
    wanted = port.settings.blocking.stage_of(delivery) if until is None else until
    return None if wanted is None and timeout is None else check_until(wanted, delivery, timeout)


def check_until(until: Stage | StageName | None, delivery: Delivery, timeout: float | None) -> Stage | None:
    """The same for a caller that says it. Raises UsageError."""
    check_bounded(until, timeout)
    return None if until is None else check_stage(until, delivery, timeout)


def check_bounded(until: Stage | StageName | None, timeout: object) -> None:
    """Raise UsageError for a timeout without a stage: its caller believes that the call ends by then."""
    if until is None and timeout is not None:
        raise UsageError(f"timeout={timeout!r} is how long to wait for a stage, and until= names none")


def check_stage(stage: object, delivery: Delivery, timeout: float | None) -> Stage:
    """The stage to wait for. Raises UsageError: the class has no such stage, or the timeout is not valid."""
    wanted = as_stage(stage)
    if timeout is not None:
        check_timeout(f"wait for {wanted.name.lower()}", timeout)
    if wanted > LAST_STAGES[delivery]:
        raise UsageError(f"wait for {wanted.name.lower()}: {delivery.label} messages have no such stage")
    return wanted


class Listed(Sequence[R]):
    """A sequence of receipts, each made on access."""

    __slots__ = ()

    @overload
    def __getitem__(self, at: int) -> R: ...

    @overload
    def __getitem__(self, at: slice) -> list[R]: ...

    def __getitem__(self, at: int | slice) -> R | list[R]:
        places = range(len(self))[at]
        return self._receipt_of(places) if isinstance(places, int) else [self._receipt_of(place) for place in places]

    @abstractmethod
    def _receipt_of(self, index: int) -> R:
        """The receipt at a place, from 0."""


class Receipts(Waits, Listed[Receipt]):
    """Messages that were accepted for sending as a list. Each wait is for all of them; see ``Receipt``.

    It is also a sequence of receipts, one for each message, made on access: ``receipts[3].id``.
    """

    __slots__ = ()


class NodeReceipts(Receipts):
    """The receipts of messages that a node of this process accepted."""

    __slots__ = ("_count", "_outgoing", "_port", "_rows")

    def __init__(self, port: EngineHandle, outgoing: OutgoingStream, rows: list[Row]) -> None:
        self._port = port
        self._outgoing = outgoing
        self._rows = rows
        self._count = sum(row.messages for row in rows)

    def __repr__(self) -> str:
        return f"<Receipts of {counted(self._count, 'message')} to {self._outgoing.destination}>"

    def __len__(self) -> int:
        return self._count

    def _receipt_of(self, index: int) -> Receipt:
        for row in self._rows:
            if index < row.messages:
                return self._of(row, index)
            index -= row.messages
        raise AssertionError("the rows have fewer messages than the list")

    def _of(self, row: Row, index: int) -> Receipt:
        return NodeReceipt(self._port, self._outgoing, row.ticket + index, row.ordinal + index)

    async def reached(self, stage: Stage | StageName, timeout: float | None = None) -> None:
        """Wait until every message has reached a stage given as a value; see ``Receipt``.

        If some never will, DeliveryFailed is about the first of them; ``receipts[i]`` has the outcome of each.
        """
        outgoing = self._outgoing
        stage = check_stage(stage, outgoing.delivery, timeout)
        self._port.check_alive()
        if timeout is None:
            await self._all_reached(stage)
            return
        try:
            async with asyncio.timeout(timeout):
                await self._all_reached(stage)
        except TimeoutError:
            what = f"{counted(self._count, 'message')} to {outgoing.destination}"
            late = f"{what} not all {stage.name.lower()} after {timeout} s"
            raise WaitTimeout(late, cause=cause_of(self._port.engine, outgoing)) from None

    async def _all_reached(self, stage: Stage) -> None:
        for row in self._rows:
            await self._row_reached(row, stage)

    async def _row_reached(self, row: Row, stage: Stage) -> None:
        # The last one first: most of the others are there before it, and need no wait.
        with suppress(DeliveryFailed):
            await self._of(row, row.messages - 1).reached(stage)
        end = row.ticket + row.messages
        at = row.ticket
        while (at := self._outgoing.stages.reached_until(range(at, end), stage)) < end:
            await self._of(row, at - row.ticket).reached(stage)


class KeyedReceipts(NodeReceipts):
    """The receipts of a list that was sent with keys: some of its messages may have been accepted long before."""

    __slots__ = ("_receipts",)

    def __init__(self, port: EngineHandle, outgoing: OutgoingStream, receipts: list[Receipt]) -> None:
        super().__init__(port, outgoing, [])
        self._receipts = receipts
        self._count = len(receipts)

    def _receipt_of(self, index: int) -> Receipt:
        return self._receipts[index]

    async def _all_reached(self, stage: Stage) -> None:
        for receipt in self._receipts:
            await receipt.reached(stage)
