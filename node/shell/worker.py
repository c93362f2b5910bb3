"""Runs the blocking jobs of a node's store: in a thread beside the event loop, or in the loop itself.

Promise: jobs run one at a time, in the order in which they were given, in either place; the caller gets the result in
the event loop.

To give a job to a thread and get it back takes longer than a short commit: both threads of Python share one
interpreter. So a job that is said to be brief runs in the loop as long as recent ones were quick (``Pace``). It must be
so short because nothing else in this process runs during it.

    THREAD --smoothed below QUICK_NS--> HERE
    HERE --smoothed above--> THREAD
    HERE, THREAD --one above LONG_NS--> PAUSED --after PAUSE_NS--> THREAD
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from triack.base.units import MS, SECOND

T = TypeVar("T")

QUICK_NS = 2 * MS
"""Brief jobs that take less on average run in the loop: a tenth of the longest time that may block it. A job takes 0.1
to 0.5 ms to go to a thread and back."""
LONG_NS = 10 * MS
"""A job that takes this long shows a disk with stalls, or a machine that is busy with much else."""
PAUSE_NS = 10 * SECOND
"""After that, no job runs in the loop for this time: if a disk stalls again and again, few stalls block the loop."""
_SHARE = 8
"""A new job counts for an eighth of the average, as a round trip does in RFC 6298: two dozen show a quick disk."""

Then = Callable[[T | None, BaseException | None], None]
"""Accepts the result of a job, or the error that it raised."""


class Worker(Protocol):
    """Runs blocking jobs of one node, one at a time and in order."""

    def work_here(self) -> bool:
        """Do the job that waits for this. Returns whether there was one. Its giver calls this soon after ``run``."""

    def start(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Begin a job off the event loop, or queue it. The future gets its result or its error."""

    def run(self, job: Callable[[], T], then: "Then[T]", *, is_brief: bool = False) -> None:
        """Begin a job, or queue it, and call ``then`` in the event loop when it is done.

        Args:
            job: the work.
            then: gets the result, never before this call has returned.
            is_brief: whether it takes no longer than a disk takes to sync a few pages.
        """

    def close(self) -> None:
        """End, after the jobs that were begun."""


class Pace:
    """How long brief jobs took lately."""

    __slots__ = ("_paused_until_ns", "_smoothed_ns")

    def __init__(self) -> None:
        self._smoothed_ns = LONG_NS
        self._paused_until_ns = 0

    def add(self, took_ns: int, now_ns: int) -> None:
        """A brief job took ``took_ns``, in either place."""
        self._smoothed_ns += (took_ns - self._smoothed_ns) // _SHARE
        if took_ns >= LONG_NS:
            self._paused_until_ns = now_ns + PAUSE_NS

    def is_quick(self, now_ns: int) -> bool:
        """Whether the next one may run in the loop."""
        return self._smoothed_ns < QUICK_NS and now_ns >= self._paused_until_ns


_Given = tuple[Callable[[], Any], Then[Any], bool]
"""A job, who hears of it, and whether it is brief."""


class ThreadWorker:
    """A worker with a thread.

    ``run`` calls ``then`` in the turn of the loop that hears of the result: a future takes one turn more, and a commit
    of one message would wait for that. A job that runs in the loop runs when its giver calls ``work_here``.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "triack-store")
        self._newest: Future[Any] | None = None
        self._here: _Given | None = None
        self.pace = Pace()

    def work_here(self) -> bool:
        """Do the job that waits for this. Returns whether there was one."""
        given = self._here
        if given is None:
            return False
        self._here = None
        self._tell(given, *_do(given[0]))
        return True

    def start(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Begin a job off the event loop, or queue it. The future gets its result or its error."""
        self._move_over()
        self._newest = future = self._thread.submit(job)
        return asyncio.wrap_future(future)

    def run(self, job: Callable[[], T], then: Then[T], *, is_brief: bool = False) -> None:
        """Begin a job, or queue it, and call ``then`` in the event loop when it is done."""
        if self._here is not None:
            self._move_over()
        given = job, then, is_brief
        if self._newest is not None and self._newest.done():
            self._newest = None
        if is_brief and self._newest is None and self.pace.is_quick(time.monotonic_ns()):
            self._here = given
        else:
            self._submit(given)

    def close(self) -> None:
        """End the thread, after the jobs that were begun."""
        self._move_over()
        self._thread.shutdown()

    def _submit(self, given: _Given) -> None:
        self._newest = self._thread.submit(self._do_there, given, asyncio.get_running_loop())

    def _move_over(self) -> None:
        """Another job follows: one that has not begun in the loop goes to the thread before it."""
        given, self._here = self._here, None
        if given is not None:
            self._submit(given)

    def _do_there(self, given: _Given, loop: asyncio.AbstractEventLoop) -> None:
        done = _do(given[0])
        with suppress(RuntimeError):  # the loop has ended, and no call waits any more
            loop.call_soon_threadsafe(self._tell, given, *done)

    def _tell(self, given: _Given, result: Any, error: BaseException | None, began_ns: int, ended_ns: int) -> None:
        _, then, is_brief = given
        if is_brief:
            self.pace.add(ended_ns - began_ns, ended_ns)
        then(result, error)


def _do(job: Callable[[], T]) -> tuple[T | None, BaseException | None, int, int]:
    """Run a job. Returns its result, its error, and when it began and ended."""
    began_ns = time.monotonic_ns()
    result: T | None = None
    failure: BaseException | None = None
    try:
        result = job()
    except BaseException as error:  # noqa: BLE001 - the waiting caller handles it
        failure = error
    return result, failure, began_ns, time.monotonic_ns()
