"""Transactions: receive from queues of this node and send to any queues, all of it or none."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import NodeClosed, UsageError, WaitTimeout
from triack.node.message import Message
from triack.node.receipt import Receipt
from triack.queues.mailbox import Lease, Mailbox
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.packing import Outgoing

if TYPE_CHECKING:
    from triack.node.node import Node

__all__ = ["Transaction"]


class Transaction:
    """An async context manager: leaving the block commits, an exception rolls back.

    An exception is a failure of the messages that were received, a cancellation is none.

    When ``commit`` returns, everything it sent is on this node's disk, everything it received is gone from its
    queues, and every ``remember`` holds: one disk transaction. Receiving, sending and remembering in one transaction
    is exactly-once processing across machines. If ``commit`` is cancelled or the process dies inside it, all of it
    happened or nothing.
    """

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._sends: list[tuple[OutgoingQueue, bytes | Outgoing, int]] = []
        self._taken: list[tuple[Mailbox, Lease]] = []
        self._state: dict[str, bytes | None] = {}
        self._ended = False

    async def send(
        self, destination: str, body: bytes, *, delivery: Delivery = Delivery.TRANSACTIONAL, **properties: Any
    ) -> None:
        """Send with the commit; see ``Node.send`` for the arguments.

        Raises:
            UsageError: the class is express: such messages are on no disk, so no transaction can hold them.
        """
        self._check_open()
        if delivery not in DURABLE:
            raise UsageError(f"send to {destination} in a transaction: {delivery.label} messages cannot be part of one")
        lane, message, size_bytes = self._node.prepare(destination, body, delivery, properties)
        await self._node.wait_room(lane)
        self._check_open()
        self._sends.append((lane, message, size_bytes))

    async def receive(self, queue: str, timeout: float | None = None) -> Message:
        """Take a message with the commit; a rollback puts it back and counts a failure.

        Raises:
            WaitTimeout: none came within ``timeout`` seconds.
            QueueNotFound: the node has a fixed set of queues, and this is none of them.
        """
        self._check_open()
        mailbox = self._node.mailbox(queue)
        arrived = asyncio.Event()
        mailbox.listeners.append(arrived.set)
        try:
            async with asyncio.timeout(timeout):
                while (handed := self._node.take(mailbox)) is None:
                    self._node.check_alive()
                    self._node.wake()
                    await arrived.wait()
                    arrived.clear()
        except TimeoutError:
            raise WaitTimeout(f"no message in queue {queue} after {timeout} s") from None
        finally:
            mailbox.listeners.remove(arrived.set)
        self._taken.append((mailbox, handed))
        return Message(handed.parcel.open().bodies[handed.index], queue, handed, _settled_by_transaction)

    def remember(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application's own with the commit; None removes it. ``Node.recall`` reads it."""
        self._check_open()
        _check_state(key, value)
        self._state[key] = value

    async def commit(self) -> list[Receipt]:
        """Make it all durable.

        Returns:
            A receipt for each message sent, in order.

        Raises:
            StoreFailed: the node has stopped; all of it happened or nothing, which the next start tells.
        """
        self._check_open()
        self._ended = True
        node = self._node
        node.check_alive()
        # No await from here to the commit's queueing: the engine takes all of it into one disk transaction.
        receipts = [node.submit(lane, message, size_bytes) for lane, message, size_bytes in self._sends]
        for mailbox, handed in self._taken:
            mailbox.acknowledge(handed)
        for key, value in self._state.items():
            node.set_state(key, value)
        await node.flush()
        return receipts

    def rollback(self, *, failed: bool = True) -> None:
        """Send nothing, and put back what was received.

        Args:
            failed: count this as a failure of each message received, see ``Message.reject``.
        """
        if self._ended:
            return
        self._ended = True
        for mailbox, handed in self._taken:
            self._node.give_back(mailbox, handed, failed=failed)

    def _check_open(self) -> None:
        if self._ended:
            raise NodeClosed("this transaction has ended")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.rollback(failed=issubclass(kind, Exception))
        elif not self._ended:
            await self.commit()


def _settled_by_transaction(_handed: Lease, _failed: bool | None) -> None:
    raise UsageError("a message that a transaction received is settled by the transaction")


def _check_state(key: object, value: object) -> None:
    try:
        fits = isinstance(key, str) and bool(key.encode()) and (value is None or isinstance(value, bytes))
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise UsageError(f"remember {key!r}: keys are text and values bytes or None")
