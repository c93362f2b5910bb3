"""The real threads that code in a simulated world starts: when they have paused, and the order of their calls.

Threads of pools, of anyio and of aiosqlite work while the world's time stands still. The event loop continues when each
of them has ended or waits for the loop. It then handles what they have called back, in the order in which their threads
were started, or their jobs were given to a pool. So a run does not depend on how fast they were.

Whether a thread waits is seen exactly: a profile function notes when it enters and leaves a function of C, and a lock
or a queue shows whether it would let a thread continue. While threads are watched, Python changes from one to another
only where one waits, so that none is seen halfway.
"""

import contextlib
import contextvars
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import FrameType
from typing import Any, Protocol

PATIENCE_S = 30.0
"""Seconds of real time that a world waits for a thread: far more than one that computes needs in a test."""
POLL_S = 0.000_05
"""How often it checks, in seconds: less than a thread needs to start."""
LOOKS = 3
"""How often a thread at a lock must look idle: one that has the lock continues as soon as a processor is free."""
LOOK_AGAIN_S = 0.000_2
NO_SWITCH_S = 1.0
"""While threads are watched, Python interrupts a thread that computes only after this time. Without such a time, a
thread that computes without end would stop the world."""
LAST = sys.maxsize
"""Calls of unwatched threads come after all others."""
OWN = "triack-"
"""Triack's own threads have such names; their event loops need no help."""
_EVENT_LOOPS = ("select", "uvloop", "uvloop.loop")
"""Where threads wait that have their own event loop."""

_LOCK = type(threading.Lock())
_WAIT = threading.Condition.wait.__code__


class Belonging(Protocol):
    """Something of a process that ends with it."""

    def end(self) -> None:
        """The process has died."""


class Process:
    """The owner of tasks and threads, which may stand still.

    Attributes:
        runs: whether they continue.
        is_dead: whether they never will.
        held: due events of the event loop that wait for it.
        context: its tasks are made in this context.
    """

    context: contextvars.Context

    def __init__(self) -> None:
        self.runs = True
        self.is_dead = False
        self.held: list[Any] = []
        self.belongings = weakref.WeakSet[Belonging]()

    def take_effect(self) -> bool:
        """Whether an effect that it is about to have happens."""
        return not self.is_dead


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("triack_process", default=None)
"""The process of tasks and events that are made in this context, and in a thread the process of that thread."""


class WatchedThread:
    """One thread.

    Attributes:
        order: the place of its calls among those of others.
        ended: whether its work has ended.
        is_given_up: whether the world no longer waits for it.
    """

    def __init__(self, thread: threading.Thread, order: int) -> None:
        self.thread = thread
        self.order = order
        self.ended = False
        self.is_given_up = False
        # The function of C that it is in.
        self._inside: Any = None

    def note(self, _frame: FrameType, event: str, arg: Any) -> None:
        """Python's profile function of the thread."""
        self._inside = arg if event == "c_call" else None
        if self.is_given_up:  # its world has ended
            sys.setprofile(None)
            _HERE.owner = None

    @property
    def is_busy(self) -> bool:
        """Whether it will do something by itself: it neither waits for others nor has ended."""
        inside = self._inside
        if self.ended or self.is_given_up or not self.thread.is_alive():
            return False
        owner: Any = getattr(inside, "__self__", None)
        name = getattr(inside, "__name__", "")
        if isinstance(owner, SimpleQueue) and name == "get":
            return not owner.empty()
        if isinstance(owner, _LOCK) and name == "acquire":
            return not owner.locked()
        if name == "join" and hasattr(owner, "is_done"):  # how Python waits for a thread from 3.13 on
            return bool(owner.is_done())
        return type(owner).__module__ not in _EVENT_LOOPS

    @property
    def is_at_a_lock(self) -> bool:
        """Whether it waits for a lock, or has taken it and waits for its turn in Python."""
        return not self.ended and isinstance(getattr(self._inside, "__self__", None), _LOCK)

    @property
    def goes_on_by_itself(self) -> bool:
        """Whether it waits with a time limit, which is of real time."""
        frames = [] if self.ended or self.is_given_up or self.is_busy else self.frames[-1:]
        return any(it.f_code is _WAIT and it.f_locals.get("timeout") is not None for it in frames)

    @property
    def frames(self) -> list[FrameType]:
        """Where it is, the outermost frame first."""
        frame = sys._current_frames().get(self.thread.ident or 0)  # noqa: SLF001 - Python has no other way
        found: list[FrameType] = []
        while frame is not None:
            found.append(frame)
            frame = frame.f_back
        return found[::-1]


class Threads:
    """The threads of one event loop.

    Attributes:
        on_late: called with the threads that do not come to an end.
        plan: plans a call in the loop, some seconds of virtual time from now.
    """

    def __init__(self, plan: Callable[[float, Callable[[], None]], object]) -> None:
        self.on_late: Callable[[list[WatchedThread]], None] = lambda _late: None
        self.plan = plan
        self._numbers = itertools.count()
        self._live: dict[WatchedThread, None] = {}
        # Jobs of pools that the last settling did not see done: their pool, and the place of their calls.
        self._jobs: dict[Future[Any], tuple[ThreadPoolExecutor, int]] = {}
        self._calls: list[tuple[int, Any]] = []
        # Threads that wait for the loop's: their places, whether one of them may continue, and the lock at which it
        # waits.
        self._asking: list[tuple[int, Callable[[], bool], threading.Lock]] = []
        self._is_closed = False
        self._settled = 0
        self._home = 0
        self._interval: float | None = None

    @property
    def live(self) -> list[WatchedThread]:
        """Those that have not ended, in the order of their start."""
        return [it for it in self._live if not it.ended and it.thread.is_alive()]

    # ---- around a run of the loop

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what this thread, in which the loop runs, and those that it starts begin."""
        self._home = threading.get_ident()
        _HERE.owner = self
        try:
            with _begin_watching():
                yield
        finally:
            _HERE.owner = None
            if self._interval is not None:
                sys.setswitchinterval(self._interval)
                self._interval = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the running thread is another one than that in which the loop ran last."""
        return self._home not in (0, threading.get_ident())

    def place_of(self, args: tuple[Any, ...]) -> int | None:
        """The place of a call among those of other threads; None if it is the loop's own.

        A job that is done before its caller asks for it calls from the loop's thread, and keeps its place.
        """
        if self.is_elsewhere:
            return LAST if _HERE.watched is None else _HERE.watched.order
        jobs = (self._jobs.get(it) for it in args if isinstance(it, Future))
        return next((job[1] for job in jobs if job is not None), None)

    def call(self, place: int, handle: Any) -> None:
        """Something is to be done in the loop, once all threads have paused."""
        self._calls.append((place, handle))

    def settle(self) -> list[Any]:
        """Wait until no thread is busy. Returns what they have called, in order."""
        self._settled += 1
        if self._live or self._jobs:
            self.rest()
            self._live = {it: None for it in self._live if not it.ended}
            self._jobs = {job: given for job, given in self._jobs.items() if not job.done()}
        if not self._calls:
            return []
        calls, self._calls = self._calls, []
        return [handle for _, handle in sorted(calls, key=lambda call: call[0])]

    def rest(self) -> None:
        """Wait until no thread is busy, or may continue that has asked for that."""
        self._wait()
        while self._let_one_go_on():
            self._wait()

    def _let_one_go_on(self) -> bool:
        for asking in sorted(self._asking, key=lambda it: it[0]):
            _, may_go_on, gate = asking
            if may_go_on():
                self._asking.remove(asking)
                gate.release()
                return True
        return False

    def ask(self, place: int, process: Process | None, may_go_on: Callable[[], bool]) -> bool:
        """In a thread: wait until ``may_go_on()``, which the loop's thread calls when no other thread is busy.

        Of several threads that may continue, one does at a time, in the order of their places. Returns False when the
        loop stands still, as its thread waits for this one.
        """
        gate = threading.Lock()
        gate.acquire()
        asking = (place, lambda: (process is None or process.runs) and may_go_on(), gate)
        settled = self._settled
        if not self._is_closed:
            self._asking.append(asking)
            while not gate.acquire(timeout=PATIENCE_S):
                if settled == self._settled and (process is None or process.runs):
                    self._asking.remove(asking)
                    return False
                settled = self._settled
        if self._is_closed:
            raise SystemExit  # Python ends a thread by it silently
        return True

    def _busy(self) -> list[WatchedThread] | bool:
        """The threads that are busy. A lock that a thread has just acquired looks as if it waits for it: look again."""
        for look in range(LOOKS):
            if look:
                time.sleep(LOOK_AGAIN_S)
            late = [it for it in self._live if it.is_busy] or self._has_unseen_job()
            if late or not any(it.is_at_a_lock for it in self._live):
                return late
        return False

    def _wait(self) -> None:
        end_s = 0.0
        while late := self._busy():
            now_s = time.monotonic()
            end_s = end_s or now_s + PATIENCE_S
            if now_s > end_s:
                for watched in late if isinstance(late, list) else []:
                    watched.is_given_up = True
                self._jobs.clear()
                self.on_late(late if isinstance(late, list) else [])
                return
            time.sleep(POLL_S)

    def outlast(self) -> bool:
        """Nothing else can happen: wait for threads that wait with a time limit. Returns whether one has called."""
        end_s = time.monotonic() + PATIENCE_S
        while not self._calls and time.monotonic() < end_s and any(it.goes_on_by_itself for it in self._live):
            time.sleep(POLL_S)
            self._wait()
        return bool(self._calls)

    def _has_unseen_job(self) -> bool:
        """Whether a thread that is not watched yet may be about to begin a job of ours."""
        seen = {it.thread for it in self._live}
        return any(
            not job.done() and not job.running() and not seen.issuperset(pool._threads)  # noqa: SLF001
            for job, (pool, _) in self._jobs.items()
        )

    def close(self) -> None:
        """The loop ends: it no longer waits for these threads."""
        self._is_closed = True
        for watched in self._live:
            watched.is_given_up = True
        for _, _, gate in self._asking:
            gate.release()  # Python waits for the threads of pools at its end
        self._live.clear()
        self._jobs.clear()
        self._calls.clear()
        self._asking.clear()

    # ---- threads and jobs

    def watch(self, thread: threading.Thread) -> None:
        """Watch a thread that is about to start."""
        run, process = thread.run, PROCESS.get()
        watched = self._add(thread)

        def watched_run() -> None:
            _HERE.owner, _HERE.watched = self, watched
            PROCESS.set(process)
            sys.setprofile(watched.note)
            try:
                run()
            finally:
                sys.setprofile(None)
                watched.ended = True

        thread.run = watched_run  # type: ignore[method-assign]
        # A thread that waits in a crashed machine never ends; Python must not wait for it at its end.
        thread.daemon = True

    def _add(self, thread: threading.Thread) -> WatchedThread:
        if self._interval is None:
            self._interval = sys.getswitchinterval()
            sys.setswitchinterval(NO_SWITCH_S)
        watched = WatchedThread(thread, next(self._numbers))
        self._live[watched] = None
        return watched

    def give(self, pool: ThreadPoolExecutor, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Give a job to a pool."""
        order, process = next(self._numbers), PROCESS.get()

        def run() -> Any:
            self._begin_job(order)
            outer = PROCESS.set(process)
            try:
                return work(*args, **kwargs)
            finally:
                PROCESS.reset(outer)

        job: Future[Any] = _SUBMIT(pool, run)
        self._jobs[job] = pool, order
        return job

    def _begin_job(self, order: int) -> None:
        watched = _HERE.watched
        if watched is None or watched not in self._live:
            watched = self._add(threading.current_thread())
            _HERE.owner, _HERE.watched = self, watched
            sys.setprofile(watched.note)
        watched.order = order


class _Here(threading.local):
    """What is known of the running thread.

    ``owner``: the threads of the loop of its world. ``watched``: it, if it is not the one in which the loop runs.
    """

    owner: Threads | None = None
    watched: WatchedThread | None = None


_HERE = _Here()


def find_watcher() -> tuple[Threads | None, WatchedThread | None]:
    """The threads of the loop to which the running one belongs, and itself among them if it is not the loop's own."""
    return _HERE.owner, _HERE.watched


_START = threading.Thread.start
_SUBMIT = ThreadPoolExecutor.submit
_runs = 0


def _start(thread: threading.Thread) -> None:
    owner = _HERE.owner
    if owner is not None and thread.ident is None and not thread.name.startswith(OWN):
        owner.watch(thread)
    _START(thread)


def _submit(pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    owner = _HERE.owner
    return _SUBMIT(pool, fn, *args, **kwargs) if owner is None else owner.give(pool, fn, *args, **kwargs)


@contextlib.contextmanager
def _begin_watching() -> Iterator[None]:
    """Learn of each thread and job while any loop runs; for other threads nothing changes."""
    global _runs  # noqa: PLW0603 - there is one class of threads for all loops
    _runs += 1
    threading.Thread.start, ThreadPoolExecutor.submit = _start, _submit  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        _runs -= 1
        if not _runs:
            threading.Thread.start, ThreadPoolExecutor.submit = _START, _SUBMIT  # type: ignore[method-assign]
