"""A simulated world for tests of services: machines, a bad network, and time that passes immediately."""

import asyncio
import gc
import inspect
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from triack.base.checks import LONGEST_LIFE_S, check_between, check_timeout
from triack.base.errors import UsageError, WaitTimeout
from triack.base.log_lines import segments_in
from triack.base.names import check_name, what_else
from triack.base.printable import written
from triack.base.units import SECOND
from triack.node.control.control_frames import DOORS
from triack.node.shell.platform import PLATFORM
from triack.testing.check import check_logs
from triack.testing.databases import watching_databases
from triack.testing.errors import NothingHappens, ServiceDied, TooMuchHappens
from triack.testing.ground import Ground
from triack.testing.machine import Machine
from triack.testing.places import is_in_users_code, place_of, place_of_thread, stack_of
from triack.testing.process import Nowhere, SimLog
from triack.testing.sight import describe_nodes
from triack.testing.threads import PATIENCE_S, WatchedThread
from triack.tools.sim.faults import Faults

T = TypeVar("T")

MAX_EVENTS = 200_000
"""Far more than a test of services needs: a test with more, after a minute of a core, does not end."""
TOLD_MAX = 50
"""The end of a long story explains a failure."""
UNTIL_SECONDS = 60.0
"""Twice the time in which everything arrives after the last fault (promise L5)."""
YOUNG = 1
"""The garbage collector's generations with a world's objects: none was promoted while the world ran."""


class World(Ground):
    """Machines, the network between them, and virtual time.

    Args:
        seed: of all randomness; the same seed and the same test give the same run.
        max_events: after this many the test counts as endless.
        trust: whether its nodes trust each other from the start: the first of each machine by the machine's name, other
            ones by their own. False leaves that to them.

    Attributes:
        seed: the seed of the world.
        loop: the event loop of everything in it.
        network: carries the datagrams; ``network.counts`` counts what happens to them.
    """

    def __init__(self, seed: int = 0, *, max_events: int = MAX_EVENTS, trust: bool = True) -> None:
        _check_whole("seed", seed, least=0)
        _check_whole("max_events", max_events, least=1)
        super().__init__(seed, max_events)
        self.keyring.shares = trust
        self.loop.on_stuck = self._be_stuck
        self.loop.on_too_much = self._end_test
        self.loop.threads.on_late = self._be_late
        nowhere = Nowhere()
        self.context.run(PLATFORM.set, nowhere)
        self.context.run(DOORS.set, nowhere)
        self._machines: dict[str, Machine] = {}
        self._test: asyncio.Task[Any] | None = None
        self._verdict: Exception | None = None
        self._is_checked = False

    # ---- running

    def run(self, test: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this world's time, and return its result.

        Raises:
            NothingHappens: it waits for an event that will never happen.
            TooMuchHappens: it does not come to an end.
        """
        __tracebackhide__ = True
        self._test = self.loop.create_task(test, name="the test", context=self.context.copy())
        try:
            with watching_databases():
                result: T = self.loop.run_until_complete(self._test)
        except asyncio.CancelledError as cancelled:
            if self._verdict is None:
                raise
            raise self._verdict from cancelled
        if self._verdict is not None:
            raise self._verdict
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.check()
            elif died := self._deaths():  # which may be why
                error.add_note("\n".join(died))
        finally:
            self.close()

    def machine(self, name: str, beside: Machine | None = None) -> Machine:
        """The machine of that name; this call alone makes it, when it is first asked for.

        Args:
            name: its name.
            beside: a machine. The new one represents a further process of it: ``triack.connect`` reaches the nodes of
                that one by their data directories. It crashes and restarts by itself, and loses power with it.

        Raises:
            AddressError: others could not name it as a peer.
            UsageError: it was made before, and beside no machine or another one.
        """
        if beside is not None:
            known = self._machines.get(name)
            _check_beside(name, beside, known is None or known in beside.beside)
        if check_name(name) not in self._machines:
            self.links.hosts.add(name)
            self.keyring.add_machine(name)
            self._machines[name] = Machine(self, name, beside)
        return self._machines[name]

    @property
    def machines(self) -> list[Machine]:
        """All machines so far."""
        return list(self._machines.values())

    def chance(self, name: str) -> Random:
        """Another random stream, from the world's seed, for the random choices of a test."""
        return self.time.chance(f"user {name}")

    # ---- time

    async def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            UsageError: that is no time.
            NotSimulated: it is awaited in an event loop that is not the world's; so does ``until``.
        """
        check_between("advance: seconds", seconds, 0, LONGEST_LIFE_S)
        self.loop.check_inside("advance")
        await asyncio.sleep(seconds)

    async def until(self, holds: Callable[[], object], timeout: float = UNTIL_SECONDS) -> None:
        """Wait until ``holds()`` is true; it is called after every event.

        Args:
            holds: the condition.
            timeout: the longest wait, in seconds.

        Raises:
            WaitTimeout: it is still not true; with the state of each node.
            UsageError: the timeout is no number of seconds, or this is no function, or an async one.
        """
        check_timeout("until", timeout)
        function: Any = holds
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise UsageError(f"until: {holds!r} is no function that says yes or no, as `lambda: ...` is")
        self.loop.check_inside("until")
        __tracebackhide__ = True
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    await self.loop.progress()
        except TimeoutError:
            died = "".join(f"; {line}" for line in self._deaths())
            seen = "".join(f"\n  {line}" for line in (*describe_nodes(self.machines), *self._waiting()))
            raise WaitTimeout(f"still not true after {written(timeout)} s of virtual time{died}{seen}") from None

    # ---- the network

    @property
    def faults(self) -> Faults:
        """How bad the network is, in full; the methods below set the most used parts of it."""
        return self.network.faults

    def set_loss(self, share: float) -> None:
        """Lose this share of all datagrams, 0 to 1. A TCP connection loses nothing, but is late.

        Raises:
            UsageError: the share is not between 0 and 1; so do the methods below for invalid values.
        """
        self._set(loss=share)

    def set_duplicate(self, share: float) -> None:
        """Let this share of the datagrams arrive twice."""
        self._set(duplicate=share)

    def set_reorder(self, share: float) -> None:
        """Delay this share of the datagrams past others."""
        self._set(reorder=share)

    def set_delay(self, seconds: float, *, jitter: float = 0.0) -> None:
        """How long a datagram takes, one way, and up to how much more."""
        check_between("set_delay: seconds", seconds, 0, LONGEST_LIFE_S)
        check_between("set_delay: jitter, in seconds,", jitter, 0, LONGEST_LIFE_S)
        self._set(delay_ns=round(seconds * SECOND), jitter_ns=round(jitter * SECOND))

    def _set(self, **faults: float) -> None:
        for name, value in faults.items():
            setattr(self.network.faults, name, value)
            self.tell(f"network: {name} {value:g}")

    def cut(self, one: Machine | str, *others: Machine | str, one_way: bool = False) -> None:
        """Part a machine from others, or from all: nothing arrives. ``one_way``: only its own datagrams are lost.

        Raises:
            UsageError: there is no machine of that name.
        """
        for sender, to in self._ways(one, others, one_way=one_way):
            self.tell(f"network: cut {sender} -> {to}")
            self.links.cut(sender, to)

    def clog(self, one: Machine | str, *others: Machine | str, one_way: bool = False) -> None:
        """As ``cut``, but datagrams are held, and all arrive together after ``heal``. Raises UsageError, too."""
        for sender, to in self._ways(one, others, one_way=one_way):
            self.tell(f"network: clog {sender} -> {to}")
            self.links.clog(sender, to)

    def heal(self) -> None:
        """End all cuts and clogs; loss and the like stay as they are."""
        self.tell("network: heal")
        self.links.heal()

    def calm(self) -> None:
        """Stop every fault of the network."""
        self.network.faults = Faults()
        self.heal()

    def _ways(self, one: Machine | str, others: tuple[Machine | str, ...], *, one_way: bool) -> list[tuple[str, str]]:
        name = _name(one)
        targets = [_name(other) for other in others] or [machine for machine in self._machines if machine != name]
        for machine in (name, *targets):
            if machine not in self._machines:
                raise UsageError(f"there is no machine {machine}; {what_else(str(machine), self._machines)}")
        there = [(name, target) for target in targets]
        return there if one_way else there + [(target, name) for target in targets]

    # ---- the end

    def check(self) -> None:
        """Raise if a service died unnoticed, or if the session logs show a broken promise.

        Raises:
            ServiceDied: with the error as its cause.
            PromiseBroken: with the findings.
        """
        __tracebackhide__ = True
        self._is_checked = True
        for death, error in self._died():
            raise ServiceDied(death) from error
        check_logs({log.name: bytes(log.records) for log in self.logs})

    @property
    def logs(self) -> list[SimLog]:
        """The session logs of all starts of all nodes, those of one node in the order of its starts."""
        processes = [process for machine in self.machines for process in machine.processes]
        return [log for process in processes for log in process.logs]

    def write_logs(self, folder: Path | str) -> None:
        """Write the session logs into a directory, for ``triack replay``; it is made if it is not there."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for log in self.logs:
            for number, segment in enumerate(segments_in(bytes(log.records))):
                more = f"-{number:06d}" if number else ""
                (Path(folder) / f"{log.name}{more}.jsonl").write_bytes(segment)

    @property
    def is_checked(self) -> bool:
        """Whether ``check`` was called."""
        return self._is_checked

    def close(self) -> None:
        """End everything. Running tasks are cancelled in a world in which nothing has any effect."""
        for machine in self.machines:
            machine.close()
        with warnings.catch_warnings(), watching_databases():
            # Coroutines that never ran are no mistake of the test's.
            warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)
            self.loop.wind_down(process for machine in self.machines for process in machine.processes)
            gc.collect(YOUNG)
        for machine in self.machines:
            machine.disk.close()

    @property
    def trace(self) -> str:
        """32 hex digits over all that machines did to the network and to their disks: equal for equal runs."""
        return self.time.trace

    def story(self) -> str:
        """The changes to the world, for a test that failed."""
        lines = self.told[-TOLD_MAX:]
        lines += [f"at the end: {line}" for line in (*self._deaths(), *describe_nodes(self.machines))]
        return "\n".join([f"seed {self.seed}, {self.now:.3f} s of virtual time, trace {self.trace}", *lines])

    def _died(self) -> Iterator[tuple[str, BaseException | None]]:
        """What died unnoticed, services first, each with its error."""
        gc.collect(YOUNG)
        for machine in self.machines:
            for work in machine.works:
                if work.died_unnoticed:
                    yield f"{work.name} died: {_describe(work.error)}", work.error
        for report in self.loop.reports:
            error = report.get("exception")
            where = report.get("task") or report.get("future") or report.get("handle")
            yield f"{report.get('message')}: {_describe(error)} ({where!r})", error

    def _deaths(self) -> list[str]:
        return [death for death, _ in self._died()]

    def _waiting(self) -> list[str]:
        """What each task waits for, and each thread that is in code of the user's."""
        tasks = [f"{task.get_name()} waits {place_of(task)}" for task in self.loop.tasks if _is_users(task)]
        threads = [
            f"thread {watched.thread.name!r} waits {place_of_thread(watched)}"
            for watched in self.loop.threads.live
            if is_in_users_code(watched)
        ]
        return tasks + threads

    def _be_stuck(self) -> None:
        waiting = [f"  {line}" for line in self._waiting()]
        down = [f"  machine {machine.name} is {machine.state}" for machine in self.machines if machine.state != "up"]
        deaths = [f"  {line}" for line in (*self._deaths(), *describe_nodes(self.machines))]
        self._end_test(NothingHappens("\n".join(["nothing will ever happen:", *waiting, *down, *deaths])))

    def _be_late(self, late: list[WatchedThread]) -> None:
        """Real threads do not come to an end."""
        stacks = ["\n    ".join([f"  thread {watched.thread.name!r} is", *stack_of(watched)]) for watched in late] or [
            "  a job of a pool of threads was not begun"
        ]
        waiting = [f"  {line}" for line in self._waiting()]
        what = f"a thread has worked for {PATIENCE_S:g} s of real time, and neither ends nor waits for the event loop:"
        self._end_test(NothingHappens("\n".join([what, *stacks, *waiting])))

    def _end_test(self, verdict: NothingHappens | TooMuchHappens) -> None:
        """Let the test end at the place where it waits."""
        if isinstance(verdict, TooMuchHappens):
            waiting = [f"  {task.get_name()} is {place_of(task)}" for task in self.loop.tasks if _is_users(task)]
            verdict = TooMuchHappens("\n".join([f"{verdict} ({self.now:.3f} s of virtual time):", *waiting]))
        if self._verdict is not None or self._test is None:
            raise verdict
        self._verdict = verdict
        self._test.cancel()


def _check_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"World: {name} must be a whole number of at least {least}, not {value!r}")


def _name(machine: Machine | str) -> str:
    return machine.name if isinstance(machine, Machine) else machine


def _describe(error: object) -> str:
    return f"{type(error).__name__}: {error}"


def _is_users(task: "asyncio.Task[Any]") -> bool:
    return not task.get_name().startswith("triack-")


def _check_beside(name: str, beside: object, fits: bool) -> None:
    if not isinstance(beside, Machine):
        raise UsageError(f"machine {name}: beside must be a machine of this world, not {beside!r}")
    if not fits:
        raise UsageError(f"machine {name}: it was made before, and not beside machine {beside.name}")
