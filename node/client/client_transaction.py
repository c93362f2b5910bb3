"""A transaction of a node in another process."""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self

from triack.base.delivery import Delivery
from triack.base.errors import ConnectionLost, NodeClosed, TransactionLost
from triack.node.client.asking import Asking, ask, asked, begin_now
from triack.node.client.client_receipts import ClientReceipt
from triack.node.client.client_uploads import send_whole_or_parts
from triack.node.control.client_messages import frames_of, message_of, name_of
from triack.node.control.codec import read_receipts
from triack.node.control.control_frames import Caller, Header, check_frame, cut
from triack.node.handles.derived import Said, as_on
from triack.node.handles.message import Message, Messages, as_messages, delay_ms_of, way_back
from triack.node.handles.receipt import check_until
from triack.node.handles.transaction import (
    DONE,
    Done,
    Transaction,
    add_listed,
    all_reached,
    check_durable,
    check_state,
    only_the_transaction,
)
from triack.node.shell.event_loop import is_failure, may_wait, when_dropped
from triack.node.shell.holding import task_name


def _read_message(transaction: "ClientTransaction", header: Header, content: bytes) -> Message:
    return message_of(header, content, only_the_transaction, transaction._client)  # noqa: SLF001 - for its own verbs


def _read_messages(transaction: "ClientTransaction", header: Header, content: bytes) -> Messages:
    contents = zip(header["about"], cut(content, header["sizes"]), strict=True)
    return as_messages([_read_message(transaction, about, one) for about, one in contents])


class ClientTransaction(Asking):
    """A transaction of the node: leaving the block commits, an exception rolls back. See ``Transaction``.

    If the process of the node ends before the commit, every call raises TransactionLost: nothing of the transaction has
    happened, and it may be run again. If it ends during the commit, ConnectionLost says that the commit may have
    happened. After 131,072 sends and receives it refuses further sends with a UsageError: a commit is answered in one
    frame.
    """

    def __init__(self, client: Caller) -> None:
        self._client = client
        self._number: int | None = None
        # The connection that it began on.
        self._epoch: int | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._beginning = asyncio.Lock()
        self._classes: set[Delivery] = set()
        self._listed_bytes = 0
        # To remember with the commit.
        self._state: dict[str, bytes | None] = {}
        # What must not have changed.
        self._expected: dict[str, bytes | None] = {}
        # The calls of the last step that sent or received.
        self._last: list[int] = []
        self._ended = False

    def __repr__(self) -> str:
        return f"<ClientTransaction, {'ended' if self._ended else 'open'}>"

    async def _call(self, do: str, body: bytes = b"", *, ends: bool = False, **fields: Any) -> tuple[Header, bytes]:
        await self._begin(task_name())
        self._check_open()
        self._ended = ends
        try:
            header, content = await self._client.call(do, body, epoch=self._epoch, transaction=self._number, **fields)
        except ConnectionLost as lost:
            raise self._end_by_loss(lost, do) from None
        self._last = [header["n"]]
        if ends and self._finalizer is not None:
            self._finalizer.detach()
        return header, content

    def _end_by_loss(self, lost: ConnectionLost, do: str) -> ConnectionLost:
        """The connection ended: the node has rolled the transaction back, unless it got the commit before."""
        self._ended = True
        if do == "commit" and lost.maybe_done:
            why = (
                "the process of the node went away before it had answered: all of the transaction happened, or nothing"
            )
            return ConnectionLost(f"commit: {why}", maybe_done=True)
        why = "the process of the node went away, and nothing of the transaction has happened; run it again"
        return TransactionLost(f"{do}: {why}", maybe_done=False)

    def _check_open(self) -> None:
        if self._ended:
            raise NodeClosed("this transaction has ended")

    def undo_last(self) -> Callable[[], None]:
        """A call that takes back the last step, at any later time; see ``Transaction.undo``."""
        return partial(self._undo, self._last)

    def _undo(self, calls: list[int]) -> None:
        for number in calls:
            self._client.post("cancel", epoch=self._epoch, n=number)

    async def _begin(self, name: str) -> None:
        async with self._beginning:  # concurrent first calls share one transaction
            if self._number is None and not self._ended:
                header, _ = await self._client.call("begin", name=name)
                if self._ended:  # rolled back during the call, which waits for nothing
                    self._client.post("leave", epoch=header["epoch"], transaction=header["transaction"])
                    return
                self._number, self._epoch = header["transaction"], header["epoch"]
                leave = partial(self._client.post, "leave", epoch=self._epoch, transaction=self._number)
                self._finalizer = when_dropped(self, leave)

    @as_on(Transaction.send)
    async def send(self, said: Said) -> None:
        """Have the node send it with the commit."""
        name_of(said["destination"], said["delivery"])
        check_durable(said["destination"], said["delivery"])
        await ask(self, Transaction.send, said)
        self._classes.add(said["delivery"])

    @as_on(Transaction.send_many)
    async def send_many(self, said: Said) -> None:
        """Have the node send them with the commit, by the frame: all of them or none."""
        destination = said["destination"]
        name_of(destination, said["delivery"])
        check_durable(destination, said["delivery"])
        frames = frames_of(destination, said["bodies"], said["keys"], said["each"])
        sizes = [len(body) for frame in frames for body in frame["bodies"]]
        self._listed_bytes = add_listed(destination, self._listed_bytes, sizes)
        self._classes.add(said["delivery"])
        sent: list[int] = []
        try:
            for frame in frames:
                header, _ = await ask(self, Transaction.send_many, {**said, **frame})
                sent.append(header["n"])
        except BaseException:
            self._undo(sent)
            raise
        self._last = sent

    @as_on(Transaction.send_stream)
    async def send_stream(self, said: Said) -> None:
        """Give the node the body a piece at a time."""
        check_durable(said["destination"], said["delivery"])

        async def send_whole(body: bytes) -> None:
            await self.send(said["destination"], body, delivery=said["delivery"], **said["properties"])

        async def end(begun: Header, call: Callable[..., Awaitable[Header]]) -> None:
            await self._begin(task_name())
            self._check_open()
            if begun["epoch"] != self._epoch:
                self._check_open()
                raise self._end_by_loss(ConnectionLost("send a stream", maybe_done=False), "send_stream")
            self._last = [(await call("upload_end", transaction=self._number))["n"]]
            self._classes.add(said["delivery"])

        await send_whole_or_parts(self._client, said, send_whole, end)

    @as_on(Transaction.reply)
    async def reply(self, said: Said) -> None:
        """Send to the ``reply_to`` of the message."""
        destination, answering = way_back(said["message"], said["properties"])
        await self.send(destination, said["body"], delivery=said["delivery"], **answering)

    receive = asked(Transaction.receive, _read_message)
    receive_many = asked(Transaction.receive_many, _read_messages)
    receive_by_id = asked(Transaction.receive_by_id, _read_message)
    receive_by_correlation_id = asked(Transaction.receive_by_correlation_id, _read_message)

    note_bridge = asked(Transaction.note_bridge)
    note_given = asked(Transaction.note_given)

    @as_on(Transaction.remember)
    def remember(self, said: Said) -> Done:
        """Keep it until the commit, which sends it to the node."""
        return self._keep("tx_remember", self._state, said)

    @as_on(Transaction.expect)
    def expect(self, said: Said) -> Done:
        """Keep it until the commit, which sends it to the node."""
        return self._keep("tx_expect", self._expected, said)

    def _keep(self, verb: str, values: dict[str, bytes | None], said: Said) -> Done:
        key, value = said["key"], said["value"]
        self._check_open()
        check_state(key, value)
        check_frame(verb, value or b"", key=key)
        values[key] = value
        return DONE

    @as_on(Transaction.commit)
    async def commit(self, said: Said) -> list[ClientReceipt]:
        """Send the node the values to remember, commit, and wait by the receipts."""
        until, timeout = said["until"], said["timeout"]
        for delivery in self._classes:
            check_until(until, delivery, timeout)
        for key, value in self._expected.items():
            await ask(self, Transaction.expect, {"key": key, "value": value})
        while self._state:
            key, value = next(iter(self._state.items()))
            await ask(self, Transaction.remember, {"key": key, "value": value})
            if self._state.get(key) is value:
                del self._state[key]
        header, _ = await self._call("commit", ends=True)
        told = {
            "receipt": header["receipt"],
            "epoch": header["epoch"],
            **read_receipts(header["origin"], header["runs"]),
        }
        receipts = [ClientReceipt(self._client, told, at) for at in range(len(told["ids"]))]
        if until is not None:
            await all_reached(receipts, until, timeout)
        return receipts

    @as_on(Transaction.rollback)
    def rollback(self, said: Said) -> Awaitable[None]:
        """End it now, even if the caller does not wait; awaiting it means that the node knows."""
        delay = said["delay"]
        if delay is not None:
            delay_ms_of(delay)
        if self._ended:
            return DONE
        self._ended = True
        return begin_now(self._rollback(failed=said["failed"], delay=delay, dead=said["dead"]))

    async def _rollback(self, **how: Any) -> None:
        if self._number is not None:
            with contextlib.suppress(ConnectionLost):  # which has rolled it back
                await self._client.call("rollback", epoch=self._epoch, transaction=self._number, **how)
            if self._finalizer is not None:
                self._finalizer.detach()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            rolled_back = self.rollback(failed=is_failure(kind))
            if may_wait(kind):
                with contextlib.suppress(NodeClosed):  # the node's end has rolled it back
                    await rolled_back
        elif not self._ended:
            await self.commit()
