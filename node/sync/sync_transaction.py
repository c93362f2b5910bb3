"""A transaction, for callers that wait."""

from collections.abc import Callable, Coroutine
from typing import Any

from triack.node.client.client_transaction import ClientTransaction
from triack.node.handles.derived import waited
from triack.node.handles.message import Message, Messages
from triack.node.handles.transaction import Transaction
from triack.node.sync.sync_consumer import SyncMessage
from triack.node.sync.sync_loop import LoopThread, OverLoopUntilExit
from triack.node.sync.sync_receipts import SyncReceipt

Begin = Callable[[Transaction | ClientTransaction], Coroutine[Any, Any, Any]]


def _nothing(_loop: LoopThread, _given: object) -> None:
    """Return nothing: there is nothing left to wait for."""


class SyncTransaction(OverLoopUntilExit[Transaction | ClientTransaction]):
    """A context manager: leaving the block commits, an exception rolls back. See ``Transaction``."""

    send = waited(Transaction.send, perform="_step")
    send_many = waited(Transaction.send_many, perform="_step")
    send_stream = waited(Transaction.send_stream, perform="_step")
    reply = waited(Transaction.reply, perform="_step")
    receive = waited(Transaction.receive, perform="_step")
    receive_many = waited(Transaction.receive_many, perform="_step")
    receive_by_id = waited(Transaction.receive_by_id, perform="_step")
    receive_by_correlation_id = waited(Transaction.receive_by_correlation_id, perform="_step")
    remember = waited(Transaction.remember, _nothing)
    expect = waited(Transaction.expect, _nothing)
    note_bridge = waited(Transaction.note_bridge, _nothing)
    note_given = waited(Transaction.note_given, _nothing)
    commit = waited(Transaction.commit, lambda loop, receipts: [SyncReceipt(loop, receipt) for receipt in receipts])
    rollback = waited(Transaction.rollback, _nothing)

    def _step(self, begin: Begin, _wrap: None) -> Any:
        """Send or receive. An interrupted call has done neither, like a cancelled one."""
        undo: list[Callable[[], None]] = []

        async def step() -> Any:
            done = await begin(self._inner)
            undo.append(self._inner.undo_last())
            return done

        return self._faced(self._loop.wait(step(), lambda _: undo[0]()))

    def _faced(self, given: Any) -> Any:
        """Messages whose bodies are read without ``async``; anything else as it is."""
        if isinstance(given, Messages):
            return given.each(self._faced)
        return SyncMessage(self._loop, given) if isinstance(given, Message) else given
