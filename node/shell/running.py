"""Running a service: an event loop that ends in good order when the process is asked to."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from triack.base.errors import UsageError
from triack.node.files import operator_log
from triack.node.shell.event_loop import new_event_loop, running_loop

T = TypeVar("T")

STOPPING = (signal.SIGTERM, signal.SIGINT)
"""What service managers and container engines send, and Ctrl-C."""


def run(main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]]) -> T | None:
    """Run a service until it ends, or until SIGTERM or SIGINT: as ``asyncio.run``, for programs that others stop.

    A signal cancels ``main``: its ``async with`` blocks close their nodes, which lets handlers end and messages leave.
    A second signal ends the process immediately. Without it, SIGTERM ends Python in the middle of its work, and as
    process 1 of a container it does nothing at all.

    Args:
        main: the coroutine, or a function that makes it.

    Returns:
        Its result; None when a signal has ended it.

    Raises:
        UsageError: this is not the main thread, which alone gets signals, or an event loop runs already.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("run a service: only the main thread gets signals; use asyncio.run in others")
    if running_loop() is not None:
        raise UsageError("run a service: this thread runs an event loop already; await the coroutine instead")
    work = main() if callable(main) else main
    stopped: list[int] = []

    async def serve() -> T | None:
        task = asyncio.create_task(_as_coroutine(work), name="triack-main")
        before = _handle_signals(asyncio.get_running_loop(), task, stopped)
        try:
            return await task
        except asyncio.CancelledError:
            if not stopped:
                raise
            return None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(serve())


async def _as_coroutine(work: Coroutine[Any, Any, T]) -> T:
    return await work


def _handle_signals(
    loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]", stopped: list[int]
) -> dict[signal.Signals, Any]:
    """Cancel the task with the first signal, and leave the second to Python. Returns the handlers of before."""
    before = {number: signal.getsignal(number) for number in STOPPING}

    def stop(number: signal.Signals) -> None:
        operator_log.info(f"{number.name}: closing")
        stopped.append(number)
        for each in STOPPING:
            signal.signal(each, signal.SIG_DFL)
        task.cancel()

    # Not ``loop.add_signal_handler``, which Windows lacks: a handler of Python's wakes the loop just as well.
    for number in STOPPING:
        signal.signal(number, lambda got, _frame: loop.call_soon_threadsafe(stop, signal.Signals(got)))
    return before
