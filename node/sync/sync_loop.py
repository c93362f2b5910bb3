"""An event loop in a separate thread, for callers that wait."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Executor, Future
from contextvars import copy_context
from typing import Any, Generic, Protocol, Self, TypeVar

from triack.base.errors import NodeClosed, UsageError
from triack.node.shell.event_loop import end_tasks, new_event_loop, running_loop

T = TypeVar("T")


class _Exits(Protocol):
    async def __aexit__(self, kind: type[BaseException] | None, *how: object) -> None: ...


C = TypeVar("C", bound=_Exits)

Wrap = Callable[["LoopThread", Any], Any]

CLOSED = "the node is closed"
"""The error for a caller that comes too late."""
OWN_THREAD = (
    "this thread runs the node, and would wait for itself: what the node calls, such as a handler of its log or an "
    "iterable of bodies, cannot use it; hand that over to another thread"
)
"""The error for a caller that would wait for itself."""


def _drop(_: object) -> None:
    """Ignore a result: that of most calls needs no undoing."""


class _Call(Generic[T]):
    """Work that a thread waits for; it runs in the loop.

    If the thread no longer waits, ``unseen`` gets the result, in the loop; otherwise it gets the ``outcome``.
    """

    def __init__(self, work: Coroutine[Any, Any, T], unseen: Callable[[T], object]) -> None:
        self.outcome = Future[T]()
        self._work = work
        self._unseen = unseen
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        """Run it."""
        self._task = asyncio.create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.outcome.cancel()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())

    def give_up(self) -> None:
        """Stop: the thread no longer waits. Cancel the work, or give its result to ``unseen``."""
        if self._task is None:
            self._work.close()
        elif not self._task.done():
            self._task.cancel()
            self._task.add_done_callback(self._take_back)
        else:
            self._take_back(self._task)

    def _take_back(self, task: "asyncio.Task[T]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._unseen(task.result())


class LoopThread:
    """An event loop in a thread."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ended = threading.Lock()
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # Tasks that an interrupted caller has left release their files, and tasks that wait end.
        self._loop.run_until_complete(end_tasks(asyncio.all_tasks(self._loop)))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def wait(self, work: Coroutine[Any, Any, T], unseen: Callable[[T], object] = _drop) -> T:
        """Run work in the loop, and wait for its end.

        An exception may reach the waiting thread at any moment: Ctrl-C, or one from the handler of another signal. Then
        the work is cancelled; if it had just ended, ``unseen`` gets its result, in the loop and before any later call.
        So a caller does nothing after this but return its result.

        Raises:
            NodeClosed: the loop has ended, or ends before that.
            UsageError: this is the thread of the loop.
        """
        call = _Call(work, unseen)
        try:
            self._begin(call)
            return call.outcome.result()
        except CancelledError:
            raise NodeClosed(CLOSED) from None
        except BaseException:
            self._give_up(call)
            raise

    def _begin(self, call: _Call[T]) -> None:
        self._check_thread()
        with self._ended:
            if not self.runs:
                raise NodeClosed(CLOSED)
            self._loop.call_soon_threadsafe(call.begin)

    def _give_up(self, call: _Call[T]) -> None:
        if running_loop() is self._loop:
            call.give_up()  # as it never began
            return
        with self._ended:
            if self.runs:
                self._loop.call_soon_threadsafe(call.give_up)
                return
        call.give_up()

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller runs in the loop, which must not wait for itself."""
        return running_loop() is self._loop

    def _check_thread(self) -> None:
        if self.is_this_thread:
            raise UsageError(OWN_THREAD)

    def post(self, work: Callable[[], None]) -> None:
        """Run something in the loop, before all that is asked for later, and do not wait. Raises NodeClosed."""
        with self._ended:
            if not self.runs:
                raise NodeClosed(CLOSED)
            self._loop.call_soon_threadsafe(work)

    def tell(self, work: Callable[[], None]) -> None:
        """Run something that does not wait, and raise what it raises; in the loop's own thread without a turn."""
        if running_loop() is self._loop:
            work()
            return

        async def told() -> None:
            work()

        self.wait(told())

    async def run(self, threads: Executor, work: Callable[..., T], *arguments: object) -> T:
        """Run something in a thread, from the loop, and wait for its end. A cancellation does not end the thread."""
        context = copy_context()  # of the handler that it is for
        return await self._loop.run_in_executor(threads, lambda: context.run(work, *arguments))

    def end(self) -> None:
        """Stop the loop. A second call does nothing. Raises UsageError: this is the thread of the loop."""
        self._check_thread()
        with self._ended:
            if self.runs:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()


class OverLoop(Generic[T]):
    """Gives other threads an object that lives in the loop."""

    def __init__(self, loop: LoopThread, inner: T) -> None:
        self._loop = loop
        self._inner = inner

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._inner!r}>"

    def _perform(self, begin: Callable[[T], Coroutine[Any, Any, Any]], wrap: Wrap | None) -> Any:
        given = self._loop.wait(begin(self._inner))
        return given if wrap is None else wrap(self._loop, given)


class OverLoopUntilExit(OverLoop[C]):
    """The same for an async context manager: here it is a context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *how: object) -> None:
        self._loop.wait(self._inner.__aexit__(kind, *how))
