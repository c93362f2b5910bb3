"""A simulated machine: a disk, a clock, addresses, and services that crash with it and start again."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextvars import Token
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from triack.base.checks import check_timeout
from triack.base.errors import TriackError, UsageError, WaitTimeout
from triack.base.printable import written
from triack.node.control.control_frames import DOORS, Doors
from triack.node.shell import platform as real
from triack.stats.node_stats import NodeStats
from triack.testing.errors import MachineCrashed
from triack.testing.ground import Ground
from triack.testing.hardware import Hardware
from triack.testing.process import SimProcess
from triack.testing.service import Service, Work

T = TypeVar("T")
P = ParamSpec("P")

STOP_SECONDS = 60.0
"""Longer than any node needs to close; virtual time costs nothing."""


class Machine(Hardware):
    """One machine. Made by ``World.machine``; it runs from then on.

    ``with machine:`` lets the nodes that the test itself opens run on it.

    Args:
        world: its world.
        name: its name.
        beside: the machine of which this is a further process; None for a separate machine.

    Attributes:
        name: its name.
        disk: its disk; ``disk.faults`` says how it misbehaves.
        services: its services, in the order of their start.
        beside: its further processes, which lose power with it.
    """

    def __init__(self, world: Ground, name: str, beside: "Machine | None" = None) -> None:
        super().__init__(world, name)
        self.beside: list[Machine] = []
        if beside is not None:
            self.doors = beside.doors
            beside.beside.append(self)
        self.services: list[Service] = []
        self.processes: list[SimProcess] = []
        self.works: list[Work] = []
        self._tokens: list[tuple[Token[real.Platform], Token[Doors | None]]] = []
        self._process = self._boot()

    def _boot(self) -> SimProcess:
        process = SimProcess(self, self.crash)
        self.processes.append(process)
        return process

    def __repr__(self) -> str:
        return f"<machine {self.name}, {self.state}>"

    # ---- what it runs

    def start(self, service: Callable[P, Coroutine[Any, Any, Any]], *args: P.args, **kwargs: P.kwargs) -> Service:
        """Run an async function as a service: now, and again after every ``restart``.

        Raises:
            UsageError: the machine is down, or this is no function.
        """
        what = f"start {_name_of(service)}"
        if isinstance(service, Coroutine):
            service.close()
            raise UsageError(
                f"{what} on machine {self.name}: a coroutine cannot start again after a restart; give the function and "
                f"its arguments, start({_name_of(service)}, ...), or await machine.run(...) to run it once"
            )
        self._check_up(what)
        _check(callable(service), f"{what} on machine {self.name}: {service!r} is no async function")
        started = Service(lambda: service(*args, **kwargs), f"{_name_of(service)} on {self.name}", self._process)
        self.services.append(started)
        self.works.append(started.work)
        return started

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on this machine, and return its result.

        Raises:
            MachineCrashed: the machine crashed meanwhile.
            UsageError: the machine is down, or this is no coroutine.
            NotSimulated: it is awaited in an event loop that is not the world's.
        """
        _check(
            isinstance(coroutine, Coroutine),
            f"run {_name_of(coroutine)} on machine {self.name}: {coroutine!r} is no coroutine, as what a call of an "
            "async function gives",
        )
        what = f"run {_name_of(coroutine)}"
        try:
            self.world.loop.check_inside(f"{what} on machine {self.name}")
            self._check_up(what)
        except TriackError:
            coroutine.close()
            raise
        work = Work(self._process, coroutine, f"{_name_of(coroutine)} on {self.name}")
        self.works.append(work)
        work.noticed = True
        try:
            result: T = await asyncio.shield(work.outcome)
        except asyncio.CancelledError:
            work.task.cancel()
            raise
        return result

    async def stop(self, timeout: float = STOP_SECONDS) -> None:
        """End its services as an operator would: by their handler for SIGTERM, or else by cancelling them.

        A machine is one process: if a service has set a handler, only that handler is called.

        Args:
            timeout: seconds that they may need.

        Raises:
            WaitTimeout: they needed longer; with the names of those that still run. It is a TimeoutError.
            UsageError: the machine is down, or this is no number of seconds.
            NotSimulated: it is awaited in an event loop that is not the world's.
        """
        check_timeout(f"stop the services of machine {self.name}", timeout)
        self.world.loop.check_inside(f"stop the services of machine {self.name}")
        self._check_up("stop the services")
        self.world.tell(f"{self.name}: stop")
        running = [work for work in self.works if not work.outcome.done()]
        if not self.world.loop.raise_signal(self._process, signal.SIGTERM):
            for work in running:
                work.task.cancel()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(asyncio.shield(work.outcome) for work in running), return_exceptions=True)
        except TimeoutError:
            left = ", ".join(work.name for work in running if not work.outcome.done())
            raise WaitTimeout(f"{left}: still running {written(timeout)} s of virtual time after stop()") from None

    def __enter__(self) -> Self:
        self._check_up("open nodes")
        self._tokens.append((real.PLATFORM.set(self._process), DOORS.set(self._process)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        platform, doors = self._tokens.pop()
        real.PLATFORM.reset(platform)
        DOORS.reset(doors)

    # ---- its life

    @property
    def is_up(self) -> bool:
        """Whether it runs, or could if it were not paused."""
        return not self._process.is_dead

    @property
    def nodes(self) -> dict[str, Callable[[], NodeStats]]:
        """The nodes that were opened on it since it started, by name, each with what gives its counters."""
        return self._process.nodes

    @property
    def state(self) -> str:
        """``up``, ``paused`` or ``down``."""
        return "down" if not self.is_up else "up" if self._process.runs else "paused"

    def _check_up(self, what: str) -> None:
        if not self.is_up:
            raise UsageError(f"{what} on machine {self.name}: it is down; restart() starts it again")

    def crash(self) -> None:
        """End everything on it immediately, as ``kill -9`` does; written bytes are still on the disk.

        No line of its services' code runs any more before the test has ended, ``finally`` blocks included. If the
        machine is down, nothing happens.
        """
        if self.is_up:
            self._die("crash", self.disk.kill)

    def lose_power(self) -> None:
        """As ``crash``, and any part of the unsynced changes may be gone, in any order."""
        if self.is_up:
            self._die("power loss", self.disk.lose_power)
        else:
            self.disk.lose_power()
        for other in self.beside:
            other.lose_power()

    def crash_after(self, effects: int | None, *, power: bool = False) -> None:
        """Crash, or lose power, after this many more effects, before the next one. None cancels that.

        An effect is a datagram sent, a change of the disk or a sync, or records added to the session log; with SQLite
        also a statement that changes a database, a commit, and its answer. To try each possible moment, run the test
        with 0, 1, 2, ... until it ends with the machine still up.

        Raises:
            UsageError: the machine is down, or this is no number of effects.
        """
        self._check_up("plan a crash")
        self._process.effects.left = -1 if effects is None else self._as_count(effects)
        self._process.on_end = self.lose_power if power else self.crash

    def _as_count(self, effects: object) -> int:
        if isinstance(effects, bool) or not isinstance(effects, int) or effects < 0:
            raise UsageError(f"crash_after of machine {self.name}: effects must be a whole number, not {effects!r}")
        return effects

    def _die(self, how: str, end_disk: Callable[[], None]) -> None:
        self.world.tell(f"{self.name}: {how}")
        self._process.die(end_disk)
        for work in self.works:
            work.crash(MachineCrashed(f"{work.name} ended: {how} of machine {self.name}"))

    def restart(self) -> None:
        """Start it again, and its services. If it is up, crash it first."""
        self.crash()
        self.world.tell(f"{self.name}: start")
        self._process = self._boot()
        self.works = [work for work in self.works if work.died_unnoticed]
        for service in self.services:
            self.works.append(service.start(self._process))

    def pause(self) -> None:
        """Let it stand still; datagrams wait, and timers are late."""
        self._check_up("pause")
        self.world.tell(f"{self.name}: pause")
        self._process.runs = False

    def resume(self) -> None:
        """Let it continue."""
        if self.is_up and not self._process.runs:
            self.world.tell(f"{self.name}: resume")
            self.world.loop.release(self._process)

    def close(self) -> None:
        """The world ends: nothing that still runs here has any effect."""
        if self.is_up:
            self._process.die(self.disk.kill)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UsageError(otherwise)


def _name_of(work: object) -> str:
    return str(getattr(work, "__qualname__", type(work).__name__))
