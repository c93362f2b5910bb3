"""A transaction, for callers that wait."""

from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from triack.base.delivery import Delivery
from triack.node.control.client_transaction import ClientTransaction
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.handles.message import Message
from triack.node.handles.receipt import MessageWaits
from triack.node.handles.transaction import Transaction
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.sync.sync_loop import LoopThread
from triack.node.sync.sync_receipts import SyncReceipt
from triack.queues.stages import Stage

__all__ = ["SyncTransaction"]

T = TypeVar("T")


class SyncTransaction:
    """A context manager: leaving the block commits, an exception rolls back. See ``Transaction``."""

    def __init__(self, loop: LoopThread, transaction: Transaction | ClientTransaction) -> None:
        self._loop = loop
        self._transaction = transaction

    def __repr__(self) -> str:
        return f"<SyncTransaction: {self._transaction!r}>"

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send with the commit; see ``Transaction.send``."""
        self._step(lambda: self._transaction.send(destination, body, delivery=delivery, **properties))

    def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Send a list with the commit, in order; see ``Transaction.send_many``."""
        self._step(lambda: self._transaction.send_many(destination, bodies, delivery=delivery, **properties))

    def reply(
        self,
        message: Message,
        body: bytes,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> None:
        """Answer a message with the commit; see ``Transaction.reply``."""
        self._step(lambda: self._transaction.reply(message, body, delivery=delivery, **properties))

    def receive_many(self, queue: str, most: int = BATCH_MESSAGES, timeout: float | None = None) -> list[Message]:
        """Take messages with the commit, in order; see ``Transaction.receive_many``."""
        return self._step(lambda: self._transaction.receive_many(queue, most, timeout))

    def receive(self, queue: str, timeout: float | None = None) -> Message:
        """Take a message with the commit; see ``Transaction.receive``."""
        return self._step(lambda: self._transaction.receive(queue, timeout))

    def _step(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Send or receive. Whoever is interrupted has done neither, as one who is cancelled."""
        undo: list[Callable[[], None]] = []

        async def step() -> T:
            done = await begin()
            undo.append(self._transaction.undo_last())
            return done

        return self._loop.wait(step(), lambda _: undo[0]())

    def remember(self, key: str, value: bytes | None) -> None:
        """Keep a value of the application's own with the commit; None removes it."""

        async def remember() -> None:
            told = self._transaction.remember(key, value)
            if told is not None:
                await told

        self._loop.wait(remember())

    def commit(self, *, until: Stage | str | None = None, timeout: float | None = None) -> list[SyncReceipt]:
        """Make it all durable; see ``Transaction.commit``. Returns a receipt for each message sent, in order."""

        async def commit() -> list[MessageWaits]:
            return [*await self._transaction.commit(until=until, timeout=timeout)]

        return [SyncReceipt(self._loop, receipt) for receipt in self._loop.wait(commit())]

    def rollback(self, *, failed: bool = True) -> None:
        """Send nothing, and put back what was received. A second call does nothing."""

        async def rollback() -> None:
            told = self._transaction.rollback(failed=failed)
            if told is not None:
                await told

        self._loop.wait(rollback())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.wait(self._transaction.__aexit__(kind, error, trace))
