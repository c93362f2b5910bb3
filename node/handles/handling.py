"""The verbs of a node, or of a client of one, that have a handler called with what arrives in a queue."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, Unpack

from triack.base.errors import TriackError
from triack.node.files import operator_log
from triack.node.handles.consuming import Consuming, Face, Handler, HandlerOptions
from triack.node.shell.event_loop import begin

H = TypeVar("H", bound=Handler)


class Handlers:
    """The handlers of one node or client."""

    def __init__(self, face: Face, is_back: Callable[[], Awaitable[bool]]) -> None:
        self._face = face
        self._is_back = is_back
        self._running: dict[Consuming, asyncio.Future[Any]] = {}
        # Those that were declared, and run when the node does.
        self._declared: list[tuple[str, Handler, HandlerOptions]] = []
        self._started = False

    async def run(self, queue: str, handler: Handler, options: HandlerOptions) -> None:
        """Call a handler; see ``Handling.consume``."""
        consuming = Consuming(self._face, queue, handler, options, self._is_back)
        ended = self._running[consuming] = asyncio.get_running_loop().create_future()
        try:
            await consuming.run()
        finally:
            del self._running[consuming]
            ended.set_result(None)

    def declare(self, queue: str, handler: Handler, options: HandlerOptions) -> None:
        """Call a handler while the node runs. Raises UsageError for options that are not valid."""
        Consuming(self._face, queue, handler, options, self._is_back)
        self._declared.append((queue, handler, options))
        if self._started:
            self._begin(queue, handler, options)

    def start(self) -> None:
        """Run the handlers that were declared: the node runs."""
        self._started = True
        for declared in self._declared:
            self._begin(*declared)

    def _begin(self, queue: str, handler: Handler, options: HandlerOptions) -> None:
        async def work() -> None:
            try:
                await self.run(queue, handler, options)
            except TriackError as error:
                operator_log.error(f"the handler of queue {queue} has ended: {error}")

        begin(work(), f"triack-handler-{queue}")

    async def stop(self) -> None:
        """Take no more messages, and let running calls end."""
        self._started = False
        running = dict(self._running)
        for consuming in running:
            consuming.stop()
        if running:
            await asyncio.wait(running.values())


class Handling:
    """The verbs."""

    _handling: Handlers

    async def consume(self, queue: str, handler: Handler, **options: Unpack[HandlerOptions]) -> None:
        """Call a handler with each message of a queue, until the node is closed or this call is cancelled.

        When the handler returns, its message is acknowledged; when it raises an exception, the message is redelivered,
        by default after a wait that doubles with each failure. The exception ends nothing else; ``triack status`` and
        ``stats`` show it while messages wait for that. When the reading ends, no more messages are taken, and running
        calls may end (``stop_timeout``).

        Args:
            queue: its name, as for ``receive``.
            handler: gets the message; with ``batch`` a list of them, with ``transaction`` also the transaction. Its
                result is awaited if it is awaitable; in ``triack.sync`` it is called in threads.
            **options: ``concurrency``, ``batch``, ``transaction``, ``ordered_by``, ``on_error``, ``redelivery``,
                ``hand_over_timeout``, ``name``, ``stop_timeout``. See ``HandlerOptions``.

        Raises:
            UsageError: an option is not valid.
            AddressError, QueueNotFound, StoreFailed: as for ``receive``.
        """
        await self._handling.run(queue, handler, options)

    def handler(self, queue: str, **options: Unpack[HandlerOptions]) -> Callable[[H], H]:
        """Decorates a handler that is called from the start of the node to its end: ``@node.handler("orders")``.

        Queue and options are as for ``consume``.
        """

        def declare(handler: H) -> H:
            self._handling.declare(queue, handler, options)
            return handler

        return declare
