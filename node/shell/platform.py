"""The machine that a node runs on: clocks, randomness, a disk, a network and a thread for the disk.

``Platform`` is the real one. A simulation derives from it and sets ``PLATFORM`` in the context in which nodes are made:
code that opens nodes through the public API then runs, unchanged, on simulated machines.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from triack.base.clock import BOOT_BYTES, ClockReading, sane_wall_ns
from triack.base.paths import UdpSockets
from triack.node.files import operator_log
from triack.node.files.keys import IDENTITY_FILE
from triack.node.files.log_file import LogFile, note_log
from triack.node.files.ownership import close_to_group
from triack.node.files.private_files import Files, MemoryFiles, PrivateFiles
from triack.node.files.trust import TRUST_FILE
from triack.node.shell.log_keeper import prune_log
from triack.node.shell.worker import ThreadWorker, Worker
from triack.stats.node_stats import NodeStats
from triack.store.boot import boot_id
from triack.store.store import PAGE_BYTES, STORE_FILES, Store
from triack.transport.connection import NO_WAITS, Waits
from triack.transport.endpoint import Endpoint
from triack.transport.opening import open_endpoint
from triack.transport.tcp import Tls


class Log(Protocol):
    """Accepts the records of a session log."""

    def append(self, records: bytes) -> None:
        """Append whole records; never raises."""

    def close(self) -> None:
        """Finish the log."""


class Platform:
    """The machine that this process runs on."""

    monotonic_ns = staticmethod(
        partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
    )
    """It runs on while the machine is suspended, as the time of day does: a node reads that at its start, and later
    computes it from this clock. Linux's CLOCK_MONOTONIC stands still: next morning it would be yesterday evening."""
    wall_ns = staticmethod(time.time_ns)
    entropy = staticmethod(os.urandom)
    prune_log = staticmethod(prune_log)
    control_sockets = hasattr(asyncio, "start_unix_server")
    """Whether other processes of the machine can reach a node: by sockets of the file system, which Windows lacks."""

    def uptime(self) -> tuple[bytes, int]:
        """An id of the machine's boot, 16 bytes, zeros when unknown; and nanoseconds since then."""
        return _boot(), self.monotonic_ns()

    def boot(self) -> str:
        """A unique name of this boot of the machine; empty when unknown."""
        return boot_id().hex()

    def read_clock(self, node_ns: int | None = None) -> ClockReading:
        """Read the clocks; ``node_ns`` is the node's time of day, by default the system's, as at its start."""
        system_ns = sane_wall_ns(self.wall_ns())
        return ClockReading(*self.uptime(), system_ns, system_ns if node_ns is None else node_ns)

    def worker(self) -> Worker:
        """A new worker."""
        return ThreadWorker()

    async def open_endpoint(
        self,
        scheme: str,
        listen: str | None,
        *,
        loopback_only: bool,
        tls: Tls | None = None,
        waits: Waits = NO_WAITS,
        udp: UdpSockets | None = None,
    ) -> Endpoint:
        """Open an endpoint; see ``triack.transport.opening``."""
        return await open_endpoint(scheme, listen, loopback_only=loopback_only, tls=tls, waits=waits, udp=udp)

    def open_files(self, data: Path | None, name: str) -> Files:  # noqa: ARG002 - a simulation knows nodes by their names
        """The files with a node's keys and peers."""
        return MemoryFiles() if data is None else PrivateFiles(data)

    def introduce(self, files: Files, name: str, address: str) -> None:
        """A node with keys opens, and listens at that address, if any: a simulation tells others of it."""

    def open_store(self, data: Path | None, log_bytes: int | None = None, *, torn: bool = False) -> Store:
        """Open the store in a data directory, or one in memory. Blocks; raises what ``Store`` raises."""
        names = (*STORE_FILES, IDENTITY_FILE, TRUST_FILE)
        closed = [] if data is None else close_to_group(data, names)
        if closed:
            why = "their group could use them, as fsGroup of Kubernetes has it; they are their owner's alone again"
            operator_log.warning(f"files in {data}: {why}: {', '.join(closed)}")
        if log_bytes is None:
            return Store(data, torn=torn)
        return Store(data, checkpoint_pages=log_bytes // PAGE_BYTES, torn=torn)

    def open_log(self, folder: Path | None, name: str, incarnation: int, note_in: Path | None) -> Log | None:
        """Open the session log of a node, or None if it has none, and note its place in a data directory.

        Raises StoreError: the log cannot be written.
        """
        log = None if folder is None else LogFile(folder, name, incarnation)
        if note_in is not None:
            note_log(note_in, folder, name)
        return log

    def note_node(self, name: str, look: Callable[[], NodeStats]) -> None:
        """A node was opened; ``look`` gives its counters. A platform that reports on its nodes keeps it."""


@cache
def _boot() -> bytes:
    """The id of the machine's boot, at its full length."""
    boot = boot_id() if hasattr(time, "CLOCK_BOOTTIME") else b""
    return boot.ljust(BOOT_BYTES, b"\0")


PLATFORM: ContextVar[Platform] = ContextVar("triack_platform", default=Platform())  # noqa: B039 - it has no state
