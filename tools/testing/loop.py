"""An asyncio event loop in virtual time.

Nothing sleeps: when no task can continue, the next event of the world happens, or time jumps to the next timer. All
runs in one order, which depends only on the world's seed: timers are integer nanoseconds, ties are broken by the order
of planning, sets of tasks iterate in the order in which the tasks were made, and work for other threads is another
event. The real threads of libraries work while time stands still, see ``threads``.

A task belongs to the process in whose context it was made. A process that is paused or dead does nothing: its due
events are held until it continues.

Real sockets, pipes and processes are refused.
"""

# ruff: noqa: SLF001 - asyncio's own names, which every event loop has to call, have an underscore

import asyncio
import contextvars
import gc
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from triack.base.units import SECOND
from triack.node.shell.platform import PLATFORM
from triack.testing.errors import NotSimulated, TooMuchHappens
from triack.testing.threads import PROCESS, Process, Threads
from triack.tools.sim.disk import ProcessCrashed
from triack.tools.sim.world import Livelock
from triack.tools.sim.world import World as Time

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Context = dict[str, Any]

TURNS_PER_INSTANT = 100_000
"""Far more than any service needs at one instant."""
EVENTS_PER_COLLECTION = 50_000
"""Garbage collection must not depend on other objects in memory, so it runs at fixed moments."""
THREAD_NS = 1_000_000
"""The longest that a job for another thread lasts."""
CANCELS_MAX = 100
"""A task that continues after this many cancellations is left alone."""


class _Handle(asyncio.Handle):
    __slots__ = ("process",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        context = context or contextvars.copy_context()
        super().__init__(callback, args, loop, context)
        self.process = context.get(PROCESS)

    def happen(self) -> None:
        self._run()


class _Timer(asyncio.TimerHandle):
    __slots__ = ("event", "process")

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        context = context or contextvars.copy_context()
        super().__init__(when, callback, list(args), loop, context)
        self.process = context.get(PROCESS)
        # The number of the world's event at which it is due; 0 when it was.
        self.event = 0

    def happen(self) -> None:
        self._run()


class Task(asyncio.Task[Any]):
    """A task whose place in a set depends on when it was made, not on where it is in memory."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is a world's.

    Args:
        max_events: after this many the world counts as endless.

    Attributes:
        on_stuck: called when nothing will ever happen.
        on_too_much: called with the reason when too much happens.
        reports: unhandled errors, as given to ``call_exception_handler``.
        tasks: those that have not ended, in the order in which they were made.
        threads: the real threads that its tasks have started.
    """

    # Of its base, which has no types for them.
    _check_closed: Callable[[], None]
    _ready: deque[_Handle | _Timer]

    def __init__(self, time: Time, max_events: int) -> None:
        super().__init__()
        self.set_debug(False)  # not by a variable of the environment: it changes what there is in memory
        self.on_stuck: Callable[[], None] = self.stop
        self.on_too_much: Callable[[TooMuchHappens], None] = lambda _error: self.stop()
        self.reports: list[Context] = []
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.threads = Threads(self.call_later)
        self._time = time
        self._time.events_max = self._max_events = max_events
        self._turns = (0, 0)
        self._watching: list[tuple[int, asyncio.Future[None]]] = []
        self._signals: dict[tuple[Process | None, int], _Handle] = {}
        self._numbers = itertools.count()
        self._random = time.chance("threads")
        self._ending = False

    # ---- running

    def run_forever(self) -> None:
        """Run until ``stop`` is called."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            with self.threads.watching():
                super().run_forever()
        finally:
            if collecting:
                gc.enable()

    def close(self) -> None:
        """End for good."""
        super().close()
        self.threads.close()

    def wind_down(self, processes: Iterable[Process]) -> None:
        """Cancel all tasks at this instant, those of dead processes too, until none is left; then close."""
        self._ending = True
        self.set_exception_handler(lambda _loop, _context: None)
        for process in processes:
            self.release(process)
        for _ in range(CANCELS_MAX):
            if not self.tasks:
                break
            for task in self.tasks:
                task.cancel()
            self.run_forever()
        self.close()

    # ---- the order of things

    def _run_once(self) -> None:
        self._ready.extend(self.threads.settle())
        if self._ready:
            self._check_progress()
        else:
            self._advance()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            process = handle.process
            if handle.cancelled():
                continue
            if process is None or process.runs:
                handle.happen()
            else:
                process.held.append(handle)

    def _check_progress(self) -> None:
        now_ns = self._time.now_ns
        self._turns = (now_ns, self._turns[1] + 1 if self._turns[0] == now_ns else 1)
        if self._turns[1] > TURNS_PER_INSTANT:
            self._turns = (now_ns, 0)
            self.on_too_much(
                TooMuchHappens(f"time stands still: {TURNS_PER_INSTANT:,} turns of the loop in one instant")
            )

    def _advance(self) -> None:
        """Nothing can continue at this instant: wake those that wait for that, or run the next event."""
        if self._ending:
            self.stop()
            return
        if self._watching and self._tell_progress():
            return
        time = self._time
        if time.next_event_ns() is None:
            if not self.threads.outlast():
                self.on_stuck()
            return
        try:
            time.step()
        except Livelock:
            time.events_max = time.events + self._max_events
            self.on_too_much(TooMuchHappens(f"{self._max_events:,} events, and no end; max_events= allows more"))
            return
        if time.events % EVENTS_PER_COLLECTION == 0:
            gc.collect()

    def _tell_progress(self) -> bool:
        due = [future for events, future in self._watching if events < self._time.events]
        self._watching = [waiting for waiting in self._watching if waiting[0] >= self._time.events]
        for future in due:
            if not future.done():
                future.set_result(None)
        return bool(due)

    def check_inside(self, what: str) -> None:
        """Raises NotSimulated in any other event loop: there, real time passes, and the world stands still."""
        if asyncio._get_running_loop() is not self:
            raise NotSimulated(
                f"{what}: this code runs in a real event loop, as that of triack.sync, of asyncio.run or of a plugin's "
                "asynchronous fixtures is; the simulated world has one of its own, in which coroutine tests with "
                "triack_world run, and what world.run(...) is given"
            )

    async def progress(self) -> None:
        """Wait until one more event has happened, and all its consequences at the same instant."""
        future = self.create_future()
        self._watching.append((self._time.events, future))
        await future

    def release(self, process: Process) -> None:
        """A process continues: its held events happen now."""
        process.runs = True
        self._ready.extend(process.held)
        process.held.clear()

    # ---- planning

    def time(self) -> float:
        """The virtual clock in seconds."""
        return self._time.now_ns / SECOND

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> _Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Plan for this instant; calls of other threads come when all of them wait, in the order of their threads."""
        place = self.threads.place_of(args)
        if place is None:
            return self.call_soon(callback, *args, context=context)
        handle = _Handle(callback, args, self, context)
        if not self.is_closed():  # the threads of a world that has ended are not heard
            self.threads.call(place, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Plan for ``delay`` seconds from now, never less."""
        delay_ns = max(0, round(delay * SECOND))
        if delay_ns / SECOND < delay:
            delay_ns += 1
        return self._plan(self._time.now_ns + delay_ns, callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Plan for the first instant at which ``time()`` is not less than ``when``."""
        at_ns = round(when * SECOND)
        while at_ns / SECOND < when:
            at_ns += 1
        return self._plan(at_ns, callback, args, context)

    def _plan(
        self, at_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        self._check_closed()
        timer = _Timer(at_ns / SECOND, callback, args, self, context)

        def be_due() -> None:
            timer.event = 0
            self._ready.append(timer)

        timer.event = self._time.at(at_ns - self._time.now_ns, be_due)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, _Timer) and handle.event:
            self._time.cancel(handle.event)
            handle.event = 0

    # ---- futures, tasks and work for other threads

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None, **options: Any
    ) -> "asyncio.Task[Any]":
        """Run a coroutine as a task of the current process."""
        self._check_closed()
        if context is None:
            context = contextvars.copy_context()
            machine = PLATFORM.get()
            if isinstance(machine, Process):
                context.run(PROCESS.set, machine)
        factory: Any = self.get_task_factory()
        if factory is not None:
            task: asyncio.Task[Any] = factory(self, coro, context=context)
        else:
            task = Task(next(self._numbers), coro, loop=self, context=context, **options)
        if name is not None:
            task.set_name(str(name))
        self.tasks[task] = None
        task.add_done_callback(self._forget, context=contextvars.Context())
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def run_in_executor(  # type: ignore[override]  # typeshed wants what asyncio does not promise
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Do blocking work in another thread: one of ``executor`` if that is a pool of threads, or else a new one.

        It begins up to a millisecond from now, and time stands still while it works.
        """
        future: asyncio.Future[T] = self.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                tell = partial(future.set_result, context.run(func, *args))
            except BaseException as error:  # noqa: BLE001 - the waiting caller handles it
                tell = partial(future.set_exception, error)
            self.call_soon_threadsafe(lambda: None if future.done() else tell(), context=context)

        def begin() -> None:
            if future.cancelled():
                return
            try:
                if isinstance(executor, ThreadPoolExecutor):
                    executor.submit(work)
                else:
                    threading.Thread(target=work, name="executor").start()
            except RuntimeError as error:  # the pool is closed
                future.set_exception(error)

        self.call_later(self._random.randrange(THREAD_NS) / SECOND, begin)
        return future

    # ---- signals

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Let a process handle a signal, which only ``raise_signal`` sends."""
        self._signals[PROCESS.get(), sig] = _Handle(callback, args, self, None)

    def remove_signal_handler(self, sig: int) -> bool:
        """Whether there was one."""
        return self._signals.pop((PROCESS.get(), sig), None) is not None

    def raise_signal(self, process: Process, sig: int) -> bool:
        """Whether the process has a handler for the signal, which then runs."""
        handle = self._signals.get((process, sig))
        if handle is not None:
            self._ready.append(handle)
        return handle is not None

    # ---- errors

    def default_exception_handler(self, context: Context) -> None:
        """Keep it for the end of the test."""
        self.reports.append(context)

    def call_exception_handler(self, context: Context) -> None:
        """An error occurred that no task awaits."""
        if isinstance(context.get("exception"), ProcessCrashed):
            return  # a task of a process that died in the middle of its step
        super().call_exception_handler(context)


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        __tracebackhide__ = True
        raise NotSimulated(
            f"loop.{name}: the simulated world has no real sockets, pipes or processes; in it, services talk through "
            "triack, and what they use besides has to be replaced for the test"
        )

    refuse.__name__ = name
    refuse.__doc__ = "Refused: raises NotSimulated."
    return refuse


_REFUSED = (
    "add_reader", "add_writer", "connect_accepted_socket", "connect_read_pipe", "connect_write_pipe",
    "create_connection", "create_datagram_endpoint", "create_server", "create_unix_connection", "create_unix_server",
    "getaddrinfo", "getnameinfo", "remove_reader", "remove_writer", "sendfile", "sock_accept", "sock_connect",
    "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendfile",
    "sock_sendto", "start_tls", "subprocess_exec", "subprocess_shell",
)  # fmt: skip
for _name in _REFUSED:
    setattr(VirtualLoop, _name, _refuse(_name))
