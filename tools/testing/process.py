"""One process of a simulated machine, from its start to its crash: platform of its nodes, owner of its tasks.

When it dies, all its effects end together: no datagram leaves, nothing reaches the disk, no record reaches the session
log, no task continues. The disk's current job is done by then, or not, or in part.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import apsw

from triack.base.errors import TriackError, UsageError
from triack.base.paths import UdpSockets
from triack.node.control.control_frames import DOORS, Accept, Streams
from triack.node.files.private_files import Files, MemoryFiles
from triack.node.shell import platform as real
from triack.node.shell.worker import Then, Worker
from triack.stats.node_stats import NodeStats
from triack.store.store import Store
from triack.testing.endpoint import SimEndpoint
from triack.testing.hardware import Hardware
from triack.testing.threads import PROCESS, Process
from triack.tools.sim.disk import ProcessCrashed
from triack.tools.sim.effects import Effects
from triack.transport.address import Address
from triack.transport.connection import NO_WAITS, Waits
from triack.transport.tcp import Tls

T = TypeVar("T")

CHECKPOINT_PAGES = 100
EFFECTS_OF_A_JOB = 24
"""A commit that is interrupted has at most this many effects."""


class SimStore(Store):
    """A store whose process may die."""

    def abandon(self) -> None:
        """Release the files of a dead process; SQLite must not find its file system gone when it ends by itself."""
        with suppress(apsw.Error, ProcessCrashed):
            self._db.close(True)


class SimLog:
    """The session log of one start of a node, kept in memory."""

    def __init__(self, process: "SimProcess", name: str, incarnation: int) -> None:
        machine = process.machine
        machine.logs_begun += 1
        self.name = f"{machine.name}-{name}-{incarnation:06d}-{machine.logs_begun:06d}"
        self.process = process
        self.records = bytearray()

    def append(self, records: bytes) -> None:
        """Append whole records."""
        if records and self.process.take_effect():
            self.records += records
            self.process.note(records)

    def close(self) -> None:
        """No more records come."""


class SimWorker:
    """Does the jobs of one node, each in the time that the machine's disk needs."""

    def __init__(self, process: "SimProcess") -> None:
        self._process = process
        self._loop = process.machine.world.loop
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._is_closed = False

    def work_here(self) -> bool:
        """Do no job out of turn: each needs its time."""
        return False

    def start(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Begin a job, or queue it; a dead process finishes none."""
        if self._is_closed:
            raise RuntimeError("cannot start a job after the worker was closed")
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._process.is_dead:
            self._jobs.append((job, future))
            if len(self._jobs) == 1:
                self._begin()
        return future

    def run(self, job: Callable[[], T], then: Then[T], *, is_brief: bool = False) -> None:  # noqa: ARG002 - no thread here
        """Begin a job, or queue it, and call ``then`` when it is done."""

        def tell(done: asyncio.Future[T]) -> None:
            error = done.exception()
            then(done.result() if error is None else None, error)

        self.start(job).add_done_callback(tell)

    def _begin(self) -> None:
        self._loop.call_later(self._process.machine.draw_disk_delay(), self._end, context=self._process.context)

    def _end(self) -> None:
        if not self._jobs:
            return
        self._do_first()
        while self._jobs and self._jobs[0][1].cancelled():
            self._jobs.popleft()
        if self._jobs:
            self._begin()

    def _do_first(self) -> None:
        job, future = self._jobs[0]
        try:
            result = job()
        except ProcessCrashed:
            self._jobs.clear()
            self._process.on_end()
            return
        except Exception as error:  # noqa: BLE001 - the waiting caller handles it
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)
        self._jobs.popleft()

    def die(self) -> None:
        """The process dies: the current job is done, or not, or in part."""
        process, disk = self._process, self._process.machine.disk
        fate = process.machine.random.randrange(3)
        left = process.machine.random.randrange(EFFECTS_OF_A_JOB)

        def crash_soon(_effect: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ProcessCrashed

        if self._jobs and fate:
            disk.on_effect = crash_soon if fate == 1 else None
            with suppress(ProcessCrashed, TriackError):
                self._jobs[0][0]()
        self._jobs.clear()

    def close(self) -> None:
        """End after the jobs that were begun."""
        self._is_closed = True
        while self._jobs and not self._process.is_dead:
            self._do_first()


class SimProcess(Process, real.Platform):
    """The platform of the nodes of a simulated machine.

    Args:
        on_end: called when its effects end; it ends the process. May be replaced.

    Attributes:
        effects: its effects on the outside, until one of them ends it.
        logs: the session logs of its nodes.
        nodes: its nodes by name, each with what gives its counters.
    """

    control_sockets = True

    def __init__(self, machine: Hardware, on_end: Callable[[], None]) -> None:
        super().__init__()
        self.machine = machine
        self.effects = Effects()
        self.on_end = on_end
        self.logs: list[SimLog] = []
        self.nodes: dict[str, Callable[[], NodeStats]] = {}
        self.context = contextvars.copy_context()
        self.context.run(real.PLATFORM.set, self)
        self.context.run(DOORS.set, self)
        self.context.run(PROCESS.set, self)
        self._endpoints: list[SimEndpoint] = []
        self._workers: list[SimWorker] = []
        self._stores: list[SimStore] = []
        machine.disk.on_effect = self._before_disk_effect

    # ---- the platform of a node

    def monotonic_ns(self) -> int:
        """The world's clock."""
        return self.machine.world.time.now_ns

    def wall_ns(self) -> int:
        """The machine's clock, which may be set wrong."""
        return self.machine.wall_ns()

    def uptime(self) -> tuple[bytes, int]:
        """Since the machine was started, a loss of power ago."""
        return self.machine.uptime()

    def entropy(self, size: int) -> bytes:
        """Bytes from the world's seed."""
        return self.machine.random.randbytes(size)

    def worker(self) -> SimWorker:
        """A new worker. Raises NotSimulated in a real event loop, as those of ``triack.sync`` are."""
        self.machine.world.loop.check_inside(f"open a node on machine {self.machine.name}")
        self._workers.append(SimWorker(self))
        return self._workers[-1]

    async def open_endpoint(
        self,
        scheme: str,
        listen: str | None,
        *,
        loopback_only: bool,  # noqa: ARG002 - all addresses are somewhere in the simulated world
        tls: Tls | None = None,  # noqa: ARG002 - and no stranger reads along
        waits: Waits = NO_WAITS,  # noqa: ARG002 - no connection ends by itself
        udp: UdpSockets | None = None,  # noqa: ARG002 - there are no sockets
    ) -> SimEndpoint:
        """Open an endpoint on the simulated network."""
        address = None if listen is None else Address.parse(listen, listening=True)
        endpoint = SimEndpoint(self.machine.world.links, self.machine.name, scheme, address, self.take_effect)
        self._endpoints.append(endpoint)
        return endpoint

    def boot(self) -> str:
        """The id of this boot: session logs survive every loss of power, so that it is always the same."""
        return "simulated"

    def open_store(
        self,
        data: Path | None,
        log_bytes: int | None = None,  # noqa: ARG002 - a small one
        *,
        torn: bool = False,
    ) -> Store:
        """Open a store on the machine's disk."""
        store = SimStore(
            data,
            vfs=self.machine.disk.vfs,
            checkpoint_pages=CHECKPOINT_PAGES,
            free=lambda _folder: self.machine.disk.free_bytes,
            size=lambda _folder: self.machine.disk.size_bytes,
            lease_words=self.machine.disk.leases_of(data),
            torn=torn,
        )
        self._stores.append(store)
        return store

    def open_files(self, data: Path | None, name: str) -> MemoryFiles:
        """Where a node keeps its keys and its peers: they survive every crash."""
        return self.machine.world.keyring.files(self.machine.name, data, name)

    def introduce(self, files: Files, _name: str, address: str) -> None:
        """Let the nodes of the world know each other."""
        assert isinstance(files, MemoryFiles)
        self.machine.world.keyring.introduce(files, address)

    def open_log(self, folder: Path | None, name: str, incarnation: int, note_in: Path | None) -> SimLog:  # noqa: ARG002
        """Keep a session log, whether the node wants one or not: the world checks it at its end."""
        self.logs.append(SimLog(self, name, incarnation))
        return self.logs[-1]

    async def prune_log(self, folder: Path, node: str, keep_s: float) -> str:  # noqa: ARG002
        """Do nothing: the world judges the whole log at its end."""
        return ""

    def note_node(self, name: str, look: Callable[[], NodeStats]) -> None:
        """Keep it for descriptions of the world; a node that was opened again replaces itself."""
        self.nodes[name] = look

    # ---- nodes for other processes

    def publish(self, data: Path, accept: Accept) -> Callable[[], None]:
        """This process serves a data directory. Returns what ends that."""
        return self.machine.doors.publish(self, data, accept)

    def dial(self, data: Path) -> Streams | None:
        """Connect to the process of this machine that serves a directory; None when none does."""
        self.machine.world.loop.check_inside(f"connect to the node of {data}")
        return self.machine.doors.dial(self, data)

    # ---- effects

    def note(self, what: bytes) -> None:
        """Add to the world's trace."""
        self.machine.world.time.note(self.machine.name, what)

    def take_effect(self) -> bool:
        """Whether an effect of this process happens: not when it is dead, nor when it dies just before it."""
        if not self.is_dead and self.effects.end_process():
            self.on_end()
        return not self.is_dead

    def _before_disk_effect(self, effect: str) -> None:
        self.note(effect.encode())
        if self.effects.end_process():
            raise ProcessCrashed

    def die(self, end_disk: Callable[[], None]) -> None:
        """End all effects, now and for good; ``end_disk`` changes the disk, after its current job."""
        self.runs, self.is_dead = False, True
        for endpoint in self._endpoints:
            endpoint.vanish()
        for worker in self._workers:
            worker.die()
        end_disk()
        for store in self._stores:
            store.abandon()
        for belonging in list(self.belongings):
            belonging.end()


class Nowhere(real.Platform):
    """The machine of code that runs in a simulated world, but on none of its machines."""

    def publish(self, data: Path, accept: Accept) -> NoReturn:  # noqa: ARG002 - as the doors of a machine
        """Refused: raises UsageError."""
        self.dial(data)

    def dial(self, data: Path) -> NoReturn:
        """Refused: raises UsageError."""
        raise UsageError(
            f"connect to the node of {data}: this code runs on no machine of the simulated world; start it with "
            "machine.start(...) or machine.run(...)"
        )

    def worker(self) -> Worker:
        """Refused, before any other call: raises UsageError."""
        raise UsageError(
            "open a node: this code runs on no machine of the simulated world; start it with machine.start(...) or "
            "machine.run(...), or open the node inside `with machine:`"
        )
