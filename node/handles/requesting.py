"""Requests and answers: a request waits for its answer, which comes into the node's own queue for that.

Promise: a request ends with its answer, with a named error, or with its time, and leaves nothing behind. A request that
is not delivered by then is never delivered and is no dead letter. An answer that no call waits for is removed from the
queue and counted. Answers reach the node by any session with it, so that it need not listen.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Unpack

from triack.base.checks import check_life
from triack.base.delivery import Delivery
from triack.base.errors import DeliveryFailed, NodeClosed, RequestTimeout, TriackError, UsageError
from triack.base.reasons import DeadReason, DropReason
from triack.node.handles.consumer import Consumer
from triack.node.handles.message import Message
from triack.node.handles.receipt import Receipt, accept
from triack.node.shell.driver import Driver
from triack.node.shell.engine_handle import EngineHandle, OnPort
from triack.node.shell.event_loop import settle
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.mailboxes.system_queues import REPLY_QUEUE
from triack.queues.messages import NO_DEAD_LETTER, Outgoing
from triack.queues.stages import STAGES
from triack.stats.causes import cause_of
from triack.stats.holding import Reader

REQUEST_TIMEOUT_S = 60.0
"""How long a request waits by default: longer than a peer takes to restart."""
NUMBER_BYTES = 16
"""Length of a request's name: as of a UUID, so that no peer guesses the name of a request to another."""
_OWN = ("correlation_id", "reply_to", "key", "time_to_reach_queue", "dead_letter")


class Requests:
    """The requests of a running node that wait for their answers."""

    def __init__(
        self,
        port: EngineHandle,
        driver: Driver,
        entropy: Callable[[int], bytes],
        drops: Counter[DropReason],
        address: str,
    ) -> None:
        self._port = port
        self._driver = driver
        self._entropy = entropy
        self._drops = drops
        self._reply_to = f"{address}/{REPLY_QUEUE}" if address else REPLY_QUEUE
        self._open: dict[str, asyncio.Future[Message]] = {}
        self._started = False

    def resume(self) -> None:
        """Receive answers to requests from before a restart of the node, if there were any."""
        if REPLY_QUEUE in self._port.queue_lengths():
            self.start()

    def start(self) -> None:
        """Receive answers from now on. A second call does nothing."""
        if not self._started:
            self._started = True
            # No application handles an answer here, so none is at fault when the process dies.
            reader = Reader("answers", is_here=False)
            answers = Consumer(self._port, self._port.engine.make_queue(REPLY_QUEUE), "auto", None, reader=reader)
            self._driver.start_task(self._take(answers), "triack-answers")

    async def _take(self, answers: Consumer) -> None:
        ended: TriackError = NodeClosed("request: the node was closed")
        try:
            async for answer in answers:
                waiting = self._open.get(answer.correlation_id or "")
                if waiting is None or waiting.done():
                    self._drops[DropReason.LATE_ANSWER] += 1
                else:
                    waiting.set_result(answer)
        except TriackError as error:
            ended = error
        finally:
            for waiting in self._open.values():
                settle(waiting, ended)

    async def ask(
        self, destination: str, body: bytes, delivery: Delivery, timeout: float, properties: MessageProperties
    ) -> Message:
        """See ``Requesting.request``."""
        own = next((name for name in _OWN if properties.get(name) is not None), None)
        if own is not None:
            raise UsageError(f"request to {destination}: a request sets {own} itself")
        check_life(f"request to {destination}: timeout", timeout)
        number = self._entropy(NUMBER_BYTES).hex()
        asked = properties | {"reply_to": self._reply_to, "correlation_id": number, "time_to_reach_queue": timeout}
        prepared = self._port.prepare(destination, body, delivery, asked)
        outgoing, message, _ = prepared
        assert isinstance(message, Outgoing)
        assert message.properties is not None
        message.properties[NO_DEAD_LETTER] = True
        self.start()
        waiting = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                if not self._port.may_go_on(outgoing):
                    await self._port.wait_room(prepared)
                return await _answer(waiting, accept(self._port, prepared), delivery)
        except TimeoutError:
            late = f"no answer to a request to {destination} after {timeout} s"
            raise RequestTimeout(late, cause=cause_of(self._port.engine, outgoing)) from None
        except DeliveryFailed as error:
            if error.reason != DeadReason.REACH_QUEUE_TIMEOUT:
                raise
            late = f"a request did not reach {destination} in {timeout} s"
            raise RequestTimeout(late, cause=cause_of(self._port.engine, outgoing)) from None
        finally:
            del self._open[number]


async def _answer(waiting: "asyncio.Future[Message]", receipt: Receipt, delivery: Delivery) -> Message:
    """The answer; or raises the error that says why there will be none."""

    async def follow() -> None:
        try:
            await receipt.reached(STAGES[delivery])
        except TriackError as error:
            settle(waiting, error)

    following = asyncio.create_task(follow(), name="triack-request")
    try:
        return await waiting
    finally:
        following.cancel()


class Requesting(OnPort):
    """The verbs of a ``Node`` for requests and replies."""

    _asking: Requests | None

    async def request(
        self,
        destination: str,
        body: bytes,
        *,
        timeout: float = REQUEST_TIMEOUT_S,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **properties: Unpack[MessageProperties],
    ) -> Message:
        """Send a message and wait for the answer, which its receiver sends with ``reply``.

        This node need not listen: the answer comes by a session that it has opened itself. When the time of a request
        has ended, it is no longer sent, even if the call was cancelled or its process died, and is no dead letter; but
        it may have arrived, and a later answer is dropped (``late-answer`` in ``stats().drops``). Do not repeat a
        request for something that must not be done twice.

        Args:
            destination: as for ``send``.
            body: at most 4 MiB.
            timeout: seconds until there must be an answer.
            delivery: of the request; the answer has its own.
            **properties: ``label``, ``headers`` and ``time_to_be_received``, as for ``send``; the request sets the
                others itself.

        Returns:
            The answer, already acknowledged.

        Raises:
            RequestTimeout: no answer came in time.
            DeliveryFailed: the destination rejects the request, for the reason in the error.
            RollbackDetected: nothing is exchanged with that peer as long as this process runs.
            UsageError: a timeout that is not valid, or a property that the request sets itself.
            AddressError, NotLoopback, MessageTooLarge, QueueNotFound, QueueFull, NoRoom, NodeClosed, StoreFailed: as
                for ``send``.
        """
        self._port.check_alive()
        assert self._asking is not None
        return await self._asking.ask(destination, body, delivery, timeout, properties)
