"""What ``send`` returns: a handle on how far a message has come."""

import asyncio
from typing import TYPE_CHECKING

from triack.base.errors import DeliveryFailed, RollbackDetected, UsageError, WaitTimeout
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.stages import STAGES, Stage

if TYPE_CHECKING:
    from triack.node.node import Node

__all__ = ["Receipt"]


class Receipt:
    """One message that was accepted for sending. It costs nothing until one of its stages is awaited.

    Each wait takes ``timeout`` in seconds (None: no limit) and raises:

    - WaitTimeout: not yet; the message is still on its way, and waiting again is fine;
    - DeliveryFailed: never; the message is in the dead-letter queue with the reason;
    - RollbackDetected: not as long as this process runs; the message stays queued;
    - UsageError: the delivery class has no such stage;
    - NodeClosed, StoreFailed: this node ended before. What was queued is sent when it is opened again.
    """

    __slots__ = ("_lane", "_node", "_ticket")

    def __init__(self, node: "Node", lane: OutgoingQueue, ticket: int) -> None:
        self._node = node
        self._lane = lane
        self._ticket = ticket

    async def queued(self, timeout: float | None = None) -> None:
        """Wait until this node has the message for good: on its disk, or in memory if it is express."""
        await self._reach(Stage.QUEUED, timeout)

    async def received(self, timeout: float | None = None) -> None:
        """Wait for the session ack: the message arrived at the next hop."""
        await self._reach(Stage.RECEIVED, timeout)

    async def stored(self, timeout: float | None = None) -> None:
        """Wait for the store ack: the message is on the next hop's disk."""
        await self._reach(Stage.STORED, timeout)

    async def ordered(self, timeout: float | None = None) -> None:
        """Wait for the order ack: accepted once, in order, and on disk at its destination."""
        await self._reach(Stage.ORDERED, timeout)

    async def reached(self, stage: Stage, timeout: float | None = None) -> None:
        """Wait for a stage given as a value."""
        await self._reach(stage, timeout)

    async def _reach(self, stage: Stage, timeout: float | None) -> None:
        lane = self._lane
        if stage > STAGES[lane.delivery]:
            raise UsageError(f"wait for {stage.name.lower()}: {lane.delivery.label} messages have no such stage")
        self._node.check_alive()
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        def waiter(reason: str | None) -> None:
            if not future.done():
                future.set_result(reason)

        self._node.await_stage(lane, self._ticket, stage, waiter)
        try:
            reason = await asyncio.wait_for(future, timeout)
        except TimeoutError:
            destination = f"{lane.address}/{lane.queue}" if lane.address else lane.queue
            raise WaitTimeout(f"message to {destination} not {stage.name.lower()} after {timeout} s") from None
        finally:
            lane.receipts.forget(self._ticket, waiter)
        if reason is not None:
            self._node.check_alive()
            self._check_halted(lane, reason)
            raise DeliveryFailed(f"message to {lane.address}/{lane.queue} not delivered: {reason}", reason=reason)

    def _check_halted(self, lane: OutgoingQueue, reason: str) -> None:
        error = lane.receipts.halted
        if error is not None and reason == str(error):
            raise RollbackDetected(
                f"message to {lane.address}/{lane.queue} not sent: {reason}",
                peer=error.peer,
                rolled_back=error.rolled_back,
            )
