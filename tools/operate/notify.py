"""What a served node tells systemd: that it is ready, that it stops, and that it still works (sd_notify(3))."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import triack
from triack.node.files import operator_log
from triack.node.node import port_of, rows_read

MICROSECONDS = 1_000_000
EXTEND_S = 60
"""Without another notice within this time, a start hangs."""
TELL_S = 5


@asynccontextmanager
async def starting(node: triack.Node) -> AsyncIterator[None]:
    """Let systemd wait while a node in the block makes progress with its start, however much it has to read."""
    where = os.environ.get("NOTIFY_SOCKET", "")
    telling = asyncio.create_task(_extend(where, node), name="triack-starting") if where else None
    try:
        yield
    finally:
        if telling is not None:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)


async def _extend(where: str, node: triack.Node) -> None:
    before = -1
    while True:
        rows = rows_read(node)
        if rows != before:
            status = f"STATUS={node.name} starts: {rows:,} rows read"
            _tell(where, f"EXTEND_TIMEOUT_USEC={EXTEND_S * MICROSECONDS}\n{status}")
        before = rows
        await asyncio.sleep(TELL_S)


@asynccontextmanager
async def notifying(node: triack.Node) -> AsyncIterator[None]:
    """Say that a node is ready, and at the end of the block that it stops. Does nothing without ``NOTIFY_SOCKET``.

    With ``WatchdogSec=`` it also says, twice in that time, that the node works: its event loop has turns, and no job of
    its store lasts that long. So systemd restarts a node whose process or disk hangs.
    """
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where:
        yield
        return
    _tell(where, f"READY=1\nMAINPID={os.getpid()}\nSTATUS={node.name} listens on {node.address or 'no address'}")
    watching = asyncio.create_task(_watch(where, node, _watchdog_s()), name="triack-watchdog")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        _tell(where, "STOPPING=1")


def _watchdog_s() -> float | None:
    """The time in which systemd expects a notice of this process; None when it expects none."""
    try:
        usec, pid = int(os.environ.get("WATCHDOG_USEC", "0")), int(os.environ.get("WATCHDOG_PID", os.getpid()))
    except ValueError:
        return None
    return usec / MICROSECONDS if usec > 0 and pid == os.getpid() else None


async def _watch(where: str, node: triack.Node, within_s: float | None) -> None:
    while within_s is not None:
        why = port_of(node).why_ill(within_s)
        _tell(where, "WATCHDOG=1" if why is None else f"STATUS={why}")
        await asyncio.sleep(within_s / 2)


def _tell(where: str, state: str) -> None:
    address = f"\0{where[1:]}" if where.startswith("@") else where
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), address)
    except OSError as error:
        operator_log.warning(f"systemd was not notified at {where}: {error.strerror or error}")
