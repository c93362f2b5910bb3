"""Handlers of queues: what calls them, and what becomes of messages that they fail with.

Promise: a message is acknowledged, or its transaction committed, when its handler has returned, and is redelivered when
the handler has raised; no exception of a handler ends the reading. Messages with the same key are handled one after the
other, in their order, also after a failure, while others are handled at the same time.

    taken --the handler returns--> done
          --it raises, retry-->      held until the wait has ended, then given back as failed
          --it raises, reject-->     held for a second, then given back without a failure
          --it raises, dead-letter-> in the dead-letter queue

With one message at a time nothing is held here: the message goes back immediately, and the queue itself waits with all
younger ones. Otherwise the message is held, so that its queue continues. When it is given back, the messages behind it
with the same key go back as well, so that the queue delivers all of them in order.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

from triack.base.checks import check_kind, check_most, check_timeout
from triack.base.errors import ConnectionLost, HandOverEnded, NodeClosed, TriackError, UsageError
from triack.base.printable import counted, printable
from triack.base.units import MS, SECOND
from triack.node.files import operator_log
from triack.node.handles.message import Message, Messages, as_messages
from triack.node.handles.transaction import DONE
from triack.node.shell.event_loop import begin, end_tasks, is_cancelled
from triack.node.shell.holding import WORKING, Working
from triack.queues.mailboxes.redelivery import wait_ms
from triack.queues.node_settings import Redelivery

HELD_MAX = 100
"""Messages that one handler holds beside those that it works on: those that wait after a failure and those behind.
When a process dies, each message that it holds counts a failure, so they must not be many."""
REJECT_WAIT_S = 1.0
"""How long a message waits that is given back without a failure: as long as after a first failure by default."""
STOP_S = 5.0
"""How long handlers may take to end by default: half of what container engines wait before they kill."""
WHY_CHARS_MAX = 200
"""Of an error, where operators see what a handler waits for: a line of a terminal or two."""


class OnError(Enum):
    """What becomes of a message whose handler raises an exception."""

    RETRY = "retry"
    """It is redelivered after a wait that doubles with each failure; after too many it is a dead letter."""
    REJECT = "reject"
    """It is redelivered after a second, and that is no failure: for outages that may last any time."""
    DEAD_LETTER = "dead-letter"
    """It goes to the dead-letter queue immediately (``reader-refused``)."""


Handler = Callable[..., Awaitable[object] | object]
"""Gets a message, or a list of messages; and the transaction, if there is one."""
H = TypeVar("H", bound=Handler)
Face = Any
"""A node, or a client of one: what has ``receive`` and ``transaction``."""


class HandlerOptions(TypedDict, total=False):
    """How a handler is called, by keyword.

    Attributes:
        concurrency: the most calls at a time, from 1. With 1, messages are handled in order, and a failed one stops all
            younger ones until its wait has ended.
        batch: call it with a list of at most that many messages, which succeed or fail together; None: with one.
        transaction: receive in a transaction, and call the handler with it: what it sends and remembers there happens
            with the acknowledgement or not at all.
        ordered_by: gives the key of a message; messages with equal keys are handled in order. Not with ``batch``. Only
            one process at a time should read such a queue.
        on_error: what becomes of a message, by the class of the exception; the nearest base class counts, and RETRY
            for all others.
        redelivery: the waits of messages that failed, instead of those of the settings.
        hand_over_timeout: as for ``receive``; not with ``transaction``.
        name: as for ``receive``; None: that of the handler.
        stop_timeout: seconds that running calls may take to end when the reading ends; then they are cancelled, and
            their messages are redelivered.
    """

    concurrency: int
    batch: int | None
    transaction: bool
    ordered_by: Callable[[Message], Hashable] | None
    on_error: Mapping[type[Exception], OnError] | None
    redelivery: Redelivery | None
    hand_over_timeout: float | None
    name: str | None
    stop_timeout: float


class _Unit:
    """What one call of the handler gets: messages, and their transaction if there is one."""

    __slots__ = ("messages", "transaction")

    def __init__(self, messages: Messages, transaction: Any) -> None:
        self.messages = messages
        self.transaction = transaction

    async def finish(self) -> None:
        """Acknowledge them, or commit."""
        if self.transaction is not None:
            await self.transaction.commit()
            return
        late: HandOverEnded | None = None
        for message in self.messages:
            try:
                message.ack()
            except HandOverEnded as error:
                late = error
        if late is not None:
            raise late

    def give_back(self, *, failed: bool, delay: float | None = None, dead: bool = False) -> Awaitable[None]:
        """Give them back, or make them dead letters, even if the caller does not wait until the node knows."""
        if self.transaction is not None:
            rolled_back: Awaitable[None] = self.transaction.rollback(failed=failed, delay=delay, dead=dead)
            return rolled_back
        for message in self.messages:
            message.reject(failed=failed, delay=delay, dead=dead)
        return DONE


class Consuming:
    """One handler of one queue.

    Raises:
        UsageError: an option is not valid.
    """

    def __init__(
        self, face: Face, queue: str, handler: Handler, options: HandlerOptions, is_back: Callable[[], Awaitable[bool]]
    ) -> None:
        self._queue = queue
        # Waits until the node can be used again after a NodeClosed; false if it never can.
        self._is_back = is_back
        self._what = f"handle {queue}"
        _check(self._what, handler, options)
        self._face = face
        self._handler = handler
        self._concurrency = options.get("concurrency", 1)
        self._batch = options.get("batch")
        self._in_transactions = options.get("transaction", False)
        self._ordered_by = options.get("ordered_by")
        self._on_error = options.get("on_error") or {}
        self._redelivery = options.get("redelivery")
        self._hand_over_timeout = options.get("hand_over_timeout")
        self._name = options.get("name") or str(getattr(handler, "__name__", type(handler).__name__))
        self._stop_s = options.get("stop_timeout", STOP_S)
        self._keeps_order = self._concurrency == 1 and self._ordered_by is None
        # Units by key: the first of each is worked on, or held after a failure.
        self._lanes: dict[Hashable, deque[_Unit]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._drawing: asyncio.Task[None] | None = None
        self._receiving: asyncio.Task[_Unit] | None = None
        # Set while no message is being taken.
        self._idle = asyncio.Event()
        self._idle.set()
        # Lanes that give back messages: until they have, none is taken.
        self._pauses = 0
        self._error: BaseException | None = None
        # Why messages are held, by key.
        self._held: dict[Hashable, str] = {}
        self._told = ""

    def stop(self) -> None:
        """Take no more messages; ``run`` returns when the calls that run have ended."""
        self._stopping.set()
        self._changed.set()
        if self._drawing is not None:
            self._drawing.cancel()

    async def run(self) -> None:
        """Call the handler until ``stop``, the end of the node, or a cancellation; then let running calls end.

        Raises:
            QueueNotFound, AddressError, UsageError: as for ``receive``.
            StoreFailed: the node's store has failed.
        """
        async with self._face.receive(
            self._queue,
            ack="manual",
            redelivery=self._redelivery,
            hand_over_timeout=self._hand_over_timeout,
            name=self._name,
        ) as reader:
            self._drawing = asyncio.create_task(self._draw(reader), name=f"triack-handler-{self._name}")
            try:
                await self._drawing
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._stopping.is_set() or (task is not None and task.cancelling()):
                    raise
            finally:
                self._stopping.set()
                await self._finish()
        if self._error is not None:
            raise self._error

    async def _may_draw(self) -> bool:
        """Wait until there may be one more call; false if the reading ends."""
        while not self._stopping.is_set() and not self._has_room():
            self._changed.clear()
            await self._changed.wait()
        return not self._stopping.is_set()

    def _has_room(self) -> bool:
        # Each lane has one call under way, but for those that wait after a failure.
        waiting = 0 if self._keeps_order else len(self._held)
        held = sum(map(len, self._lanes.values()))
        return (
            not self._pauses and len(self._lanes) - waiting < self._concurrency and held < self._concurrency + HELD_MAX
        )

    async def _draw(self, reader: Any) -> None:
        """Take messages, and have them handled, until the reading ends."""
        while await self._may_draw():
            try:
                await (self._take(reader) if self._ordered_by is None else self._take_unless_paused(reader))
            except ConnectionLost:
                continue  # nothing was received
            except NodeClosed:
                if not await self._is_back():
                    self._stopping.set()

    async def _take(self, reader: Any) -> None:
        self._begin(await self._receive(reader), reader)

    async def _take_unless_paused(self, reader: Any) -> None:
        """The same, but end it when messages go back to the queue, as they must come before those that wait there."""
        self._idle.clear()
        self._receiving = asyncio.create_task(self._receive(reader), name=f"triack-handler-{self._name}")
        try:
            await asyncio.wait([self._receiving])
            if not self._receiving.cancelled():
                self._begin(self._receiving.result(), reader)
        finally:
            self._receiving.cancel()
            self._idle.set()

    async def _receive(self, reader: Any) -> _Unit:
        most = 1 if self._batch is None else self._batch
        if not self._in_transactions:
            return _Unit(as_messages([await reader.get()]) if most == 1 else await reader.get_many(most), None)
        transaction = self._face.transaction()
        try:
            return _Unit(await transaction.receive_many(self._queue, most), transaction)
        except BaseException:
            transaction.rollback(failed=False)
            raise

    def _begin(self, unit: _Unit, reader: Any) -> None:
        """Have the messages handled, after those with the same key."""
        try:
            key: Hashable = unit if self._ordered_by is None else self._ordered_by(unit.messages[0])
            lane = self._lanes.get(key)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the application's own key may fail
            # No await is in it, so no cancellation is this task's.
            operator_log.warning(f"{self._what}: no key for message {unit.messages[0].id}: {_say(error)}")
            key, lane = unit, None
        if lane is not None:  # its task lives on, even if it has just handled the last of them
            lane.append(unit)
            return
        lane = self._lanes[key] = deque([unit])
        task = asyncio.create_task(self._work(key, lane, reader), name=f"triack-handler-{self._name}")
        self._tasks.add(task)
        task.add_done_callback(self._handle_end)

    def _handle_end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = self._error or error
            self.stop()
        self._changed.set()

    async def _work(self, key: Hashable, lane: deque[_Unit], reader: Any) -> None:
        """Handle the messages of one key, until none is left."""
        try:
            while lane and not self._stopping.is_set():
                error = await self._call(lane[0], reader)
                if error is None:
                    lane.popleft()
                else:
                    await self._handle_failure(key, lane, error, reader)
                await self._tell(reader)
            await _give_back_all(lane)
        finally:
            del self._lanes[key]
            self._held.pop(key, None)

    async def _call(self, unit: _Unit, reader: Any) -> BaseException | None:
        """Call the handler. Returns its exception, be it the cancellation of something that it has awaited."""
        given: Any = unit.messages[0] if self._batch is None else unit.messages
        arguments = (given,) if unit.transaction is None else (given, unit.transaction)
        working = Working(self._queue, len(unit.messages), partial(self._note_wait, reader), self._face)
        token = WORKING.set(working)
        try:
            waits = self._handler(*arguments)
            if inspect.isawaitable(waits):
                await waits
        except Exception as error:  # noqa: BLE001 - it is the application's, and decides what becomes of its messages
            return error
        except asyncio.CancelledError as error:
            if not self._is_ending():
                return error
            unit.give_back(failed=False)  # it does not wait for a node that may be stopped
            raise
        finally:
            working.leaving, working.owner = 0, None  # what the handler has begun may continue
            WORKING.reset(token)
        try:
            await unit.finish()
        except (ConnectionLost, HandOverEnded) as error:  # they are redelivered anyway, unless all of it happened
            operator_log.warning(f"{self._what}: {error}")
        return None

    def _note_wait(self, reader: Any, why: str) -> None:
        """A handler waits for room: operators see it until it is done."""
        self._told = f"{self._name} waits for {why}"
        begin(self._report(reader, self._told), f"triack-handler-{self._name}")

    async def _report(self, reader: Any, why: str) -> None:
        with suppress(TriackError):
            await reader.report(why)

    def _is_ending(self) -> bool:
        """Whether a cancellation ends the call. What a handler has cancelled itself, even its own task, does not."""
        task, drawing = asyncio.current_task(), self._drawing
        assert task is not None
        if is_cancelled() and (self._stopping.is_set() or drawing is None or drawing.done() or drawing.cancelling()):
            return True
        while task.cancelling():
            task.uncancel()
        return False

    async def _handle_failure(self, key: Hashable, lane: deque[_Unit], error: BaseException, reader: Any) -> None:
        first = lane[0]
        why, what_then = _say(error), self._verdict_on(error)
        operator_log.warning(f"{self._what}: message {first.messages[0].id} failed, {what_then.value}: {why}")
        if what_then is OnError.DEAD_LETTER:
            await lane.popleft().give_back(failed=True, dead=True)
            return
        self._held[key] = why
        self._changed.set()
        await self._tell(reader)
        failed = what_then is OnError.RETRY
        if self._keeps_order:
            await lane.popleft().give_back(failed=failed, delay=self._delay_s(first, failed=failed))
            return  # the queue itself waits, and says what for until a message is done
        wait_s = self._wait_s(first) if failed else REJECT_WAIT_S
        try:
            async with asyncio.timeout(wait_s):
                await self._stopping.wait()
            await lane.popleft().give_back(failed=failed)
        except TimeoutError:
            await self._give_back(lane, failed=failed)
        del self._held[key]

    async def _give_back(self, lane: deque[_Unit], *, failed: bool) -> None:
        """Give back a failed message and those behind it. Until all are back, nothing younger is taken."""
        self._pauses += 1
        try:
            if self._receiving is not None:
                self._receiving.cancel()
            await self._idle.wait()  # a message that had just been taken joins its lane
            await lane.popleft().give_back(failed=failed, delay=0)
            await _give_back_all(lane)
        finally:
            self._pauses -= 1
            self._changed.set()

    def _verdict_on(self, error: BaseException) -> OnError:
        for kind in type(error).__mro__:
            if kind in self._on_error:
                return self._on_error[kind]
        return OnError.RETRY

    def _wait_s(self, unit: _Unit) -> float:
        """How long a message waits after one more failure."""
        failures = max(message.failures for message in unit.messages) + 1
        return wait_ms(self._redelivery or Redelivery(), failures) * MS / SECOND

    def _delay_s(self, unit: _Unit, *, failed: bool) -> float | None:
        """The wait to ask the queue for; None: as its settings say."""
        if not failed:
            return REJECT_WAIT_S
        return None if self._redelivery is None else self._wait_s(unit)

    async def _tell(self, reader: Any) -> None:
        """Tell the node what messages wait for, so that operators see it."""
        why = ""
        if self._held:
            others = counted(sum(map(len, self._lanes.values())), "message")
            why = next(reversed(self._held.values())) + ("" if self._keeps_order else f" ({others} in hand)")
        if why or self._told:  # the same once more: the node may have been restarted
            self._told = why
            try:
                await reader.report(why)
            except TriackError:
                self._told = ""  # it is said again with the next failure

    async def _finish(self) -> None:
        self._changed.set()
        if not self._tasks:
            return
        late: set[asyncio.Task[None]] = set()
        try:
            late = (await asyncio.wait(self._tasks, timeout=self._stop_s))[1]
            if late:
                operator_log.warning(f"{self._what}: {counted(len(late), 'call')} cancelled after {self._stop_s:g} s")
        except asyncio.CancelledError:
            late = set(self._tasks)  # a second cancellation gives them no more time
            raise
        finally:
            await end_tasks(late)


async def _give_back_all(lane: deque[_Unit]) -> None:
    """Give back messages that were not handled, in order."""
    while lane:
        await lane.popleft().give_back(failed=False, delay=0)


def _say(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return printable(text)[:WHY_CHARS_MAX]


def _check(what: str, handler: object, options: HandlerOptions) -> None:
    unknown = options.keys() - HandlerOptions.__annotations__.keys()
    if unknown:
        valid = ", ".join(HandlerOptions.__annotations__)
        raise UsageError(f"{what}: {min(unknown)} is no option of a handler; valid are {valid}")
    if not callable(handler):
        raise UsageError(f"{what}: a handler is called, and {handler!r} cannot be")
    concurrency, batch = options.get("concurrency", 1), options.get("batch")
    if type(concurrency) is not int or concurrency < 1:
        raise UsageError(f"{what}: concurrency must be a number of calls, at least 1, not {concurrency!r}")
    if batch is not None:
        check_most(what, batch)
    check_kind(f"{what}: on_error", options.get("on_error"), Mapping | None)
    on_error: Mapping[Any, Any] = options.get("on_error") or {}
    for kind, verdict in on_error.items():
        if not (isinstance(kind, type) and issubclass(kind, Exception) and isinstance(verdict, OnError)):
            raise UsageError(f"{what}: on_error has an OnError for each class of exceptions, not {kind!r}: {verdict!r}")
    check_kind(f"{what}: redelivery", options.get("redelivery"), Redelivery | None)
    check_timeout(f"{what}: stop", options.get("stop_timeout", STOP_S))
    if options.get("ordered_by") is not None and batch is not None:
        raise UsageError(f"{what}: a batch has no key: use ordered_by or batch")
    if options.get("transaction") and options.get("hand_over_timeout") is not None:
        raise UsageError(f"{what}: a transaction has no hand_over_timeout")


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
    """The verbs of a node, or of a client of one, that have a handler called with what arrives in a queue."""

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
