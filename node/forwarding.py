"""Queues that the node itself passes on, as its settings say (``Forward``): no program is needed for that.

Promise: a message leaves its queue in the same commit in which it enters the outgoing queue, so that each is passed on
once, and in order. At most ``AHEAD_BATCHES`` batches wait for their destination; all others stay in their queue, where
they count for its quota and for the peer that sent them.

    READING --a batch--> PASSING ON --committed--> READING, or WAITING while too many batches have not arrived
                                    --refused--> all of it is back in the queue, and is tried again a second later
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from triack.base.errors import DeliveryFailed, NodeClosed, TriackError, WaitTimeout
from triack.base.printable import printable
from triack.node.files import operator_log
from triack.node.handles.consuming import Face
from triack.node.handles.message import LargeMessage, Message
from triack.queues.node_settings import Forward

BATCH = 256
"""Messages of one transaction, at most: a commit of the disk costs as much as some hundred messages."""
AHEAD_BATCHES = 16
"""Enough for 4,096 messages on their way: a round trip of a second still lets some thousand pass in each."""
RETRY_S = 1.0
"""How long a batch waits that could not be passed on, as after the first failure of a handler."""
LOOK_S = 1.0
"""How long to wait for a batch before operators are told what it waits for."""


class Forwarding:
    """The queues of a node that it passes on."""

    def __init__(self, node: Face, name: str) -> None:
        self._node = node
        self._name = name
        self._running: dict[str, tuple[Forward, asyncio.Task[None]]] = {}

    async def follow(self, forwards: Mapping[str, Forward]) -> None:
        """Pass on these queues, and no others."""
        ended = []
        for queue, (forward, task) in list(self._running.items()):
            if forwards.get(queue) != forward:
                del self._running[queue]
                task.cancel()
                ended.append(task)
        await asyncio.gather(*ended, return_exceptions=True)
        for queue, forward in forwards.items():
            if queue not in self._running:
                task = asyncio.create_task(self._run(queue, forward), name=f"triack-forward-{queue}")
                self._running[queue] = forward, task

    async def _run(self, queue: str, forward: Forward) -> None:
        """Pass on one queue, until the node ends or the settings change."""
        try:
            name = f"forward to {forward.to}"
            async with self._node.receive(queue, ack="manual", name=name) as reader:
                reader.reader.is_own = True
                await _Forwarder(self._node, queue, forward, reader).run()
        except NodeClosed:
            pass  # all that was not committed is in the queue
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end it in silence
            why = error if isinstance(error, TriackError) else f"{type(error).__name__}: {error}"
            operator_log.error(f"queue {queue} is no longer passed on: {why}", node=self._name, queue=queue)


class _Forwarder:
    """Passes on one queue."""

    def __init__(self, node: Face, queue: str, forward: Forward, reader: Any) -> None:
        self._node = node
        self._queue = queue
        self._forward = forward
        self._reader = reader
        self._told = ""
        # The last receipts of each batch that may not have arrived.
        self._ahead: deque[list[Any]] = deque()

    async def run(self) -> None:
        """Pass on, until a cancellation or the end of the node."""
        while True:
            while len(self._ahead) >= AHEAD_BATCHES:
                for receipt in self._ahead[0]:
                    await self._await_arrival(receipt)
                self._ahead.popleft()
            transaction = self._node.transaction()
            try:
                messages = await transaction.receive_many(self._queue, BATCH)
                last = {await self._send(message, transaction): index for index, message in enumerate(messages)}
                receipts = await transaction.commit()
            except BaseException as error:
                transaction.rollback(failed=False, delay=RETRY_S)
                if isinstance(error, NodeClosed) or not isinstance(error, TriackError):
                    raise
                await self._tell(str(error))
                continue
            self._ahead.append([receipts[index] for index in last.values()])
            await self._tell("")

    async def _send(self, message: Message, transaction: Any) -> str:
        """Send one message on with the transaction. Returns its destination."""
        to = self._forward.destination_of(message.label)
        properties = message.forwardable()
        if isinstance(message, LargeMessage):
            await transaction.send_stream(to, message.stream(), content_length=message.size, **properties)
        else:
            await transaction.send(to, message.body, **properties)
        return to

    async def _await_arrival(self, receipt: Any) -> None:
        """Wait until a message has arrived, or is a dead letter of this node."""
        while True:
            try:
                await receipt.ordered(timeout=LOOK_S)
            except WaitTimeout as error:
                await self._tell(str(error))
            except DeliveryFailed:
                return
            else:
                return

    async def _tell(self, why: str) -> None:
        """Tell operators what messages wait for; empty for nothing."""
        if why != self._told:
            self._told = why
            await self._reader.report(printable(why))
