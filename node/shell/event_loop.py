"""The event loop for callers without one: the command line, and ``triack.sync``.

uvloop's where it is installed (the extra ``triack[uvloop]``), and asyncio's otherwise. A program that awaits Triack has
its own loop, which may be uvloop's as well: nothing depends on its kind.

A handler that awaits a task of its program, or a pool that is closed, ends with ``CancelledError`` although no one has
cancelled the handler. That is an error like any other: ``is_cancelled`` tells the two apart.
"""

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Iterable
from importlib import import_module
from typing import Any, TypeVar

from triack.base.errors import UsageError

T = TypeVar("T")

_RUNNING: set["asyncio.Task[Any]"] = set()
"""The event loop has only weak references to tasks."""


def begin(work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
    """Begin a task that continues without a reference to it."""
    task = asyncio.create_task(work, name=name)
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)
    return task


async def end_tasks(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks, and wait until they have ended, however they do."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop that is not yet the current one."""
    try:
        uvloop = import_module("uvloop")  # a plain installation has none
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, in such a loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


running_loop = asyncio._get_running_loop  # noqa: SLF001 - the fast way, for frequent calls
"""The loop that runs in this thread, or None."""


def settle(future: "asyncio.Future[T]", outcome: T | Exception) -> None:
    """Give a future its result or its error, unless its waiter has gone."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def check_home(what: str, home: asyncio.AbstractEventLoop | None) -> None:
    """Raise UsageError outside the event loop that an object belongs to."""
    if running_loop() is home:
        return
    raise UsageError(
        f"{what} belongs to the event loop in which it was begun, and this is another thread, or another loop: use "
        "triack.sync, or asyncio.run_coroutine_threadsafe"
    )


def run_at_home(home: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Do something in its own loop, from any thread of the garbage collector; nothing if that loop is closed."""
    if running_loop() is home:
        work()
    elif not home.is_closed():
        home.call_soon_threadsafe(work)


def when_dropped(it: object, work: Callable[[], object]) -> "weakref.finalize[..., Any]":
    """Do something in this loop with the last reference to an object, but not at the end of the program."""
    finalizer = weakref.finalize(it, run_at_home, asyncio.get_running_loop(), work)
    finalizer.atexit = False
    return finalizer


def is_cancelled() -> bool:
    """Whether the running task is being cancelled: a ``CancelledError`` in it is its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_failure(kind: type[BaseException]) -> bool:
    """Whether an exception that has ended a block of this task says that the work in it failed.

    Not so the cancellation of the task, and what ends the program.
    """
    return issubclass(kind, Exception) or (issubclass(kind, asyncio.CancelledError) and not is_cancelled())


def may_wait(kind: type[BaseException] | None) -> bool:
    """Whether a block that this exception, or none, has ended may wait for a node, which may be stopped or away.

    Not when the task or the program is to end.
    """
    return not is_cancelled() and (kind is None or is_failure(kind))
