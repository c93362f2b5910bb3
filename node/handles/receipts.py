"""The receipts that ``send_many`` returns: a handle on how far a list of messages has come."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar, overload

from triack.base.errors import DeliveryFailed, WaitTimeout
from triack.base.printable import counted
from triack.node.handles.receipt import NodeReceipt, Receipt, Waits, check_stage
from triack.node.shell.engine_handle import EngineHandle
from triack.queues.stages import Stage, StageName
from triack.queues.streams.outgoing_stream import OutgoingStream, Row
from triack.stats.causes import cause_of

R = TypeVar("R")


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
