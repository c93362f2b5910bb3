"""Finding the process that serves a data directory, and telling it that its keys or its peers have changed.

A served directory holds a note, ``node.json``: the control socket of its process, the pid, and where it listens. The
socket lies in a fresh folder of its owner alone. After ``kill -9`` both stay behind, and after a reboot the note alone.
If no process answers at the socket, or it belongs to another user by now, the directory is not served
(``socket_file.py``).
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from triack.base.errors import StoreInUse, TriackError, WaitTimeout
from triack.node.control import socket_file
from triack.node.control.control_frames import DOORS, Link, call_once, dial
from triack.node.files import operator_log
from triack.node.files.notes import Note, read_note, read_signed_note, write_note
from triack.node.files.ownership import why_refused

RETRY_S = 0.05
"""Time between looks for a serving process: people do not notice it, nor does the processor."""
SOON_S = 1.0
"""How long a process that holds the store may take to publish its socket, or a restarted one to begin."""
CLAIM_S = 10.0
"""How long a node that gives way may take to close: its ``close_timeout_s``, and as much again."""
REREAD_S = 10.0
"""A running node answers within milliseconds; one that takes this long is stopped, or stuck."""
PASSING: ContextVar[Callable[[], None] | None] = ContextVar("triack_passing", default=None)
"""Set if a command opens a node that has a directory only until the command's work is done; called when a permanent
node claims the directory. The command's node does not start again, so a process that works through it opens the
directory next."""

_Opened = TypeVar("_Opened")
Told = Callable[[str], object]


def _tell_nobody(_why: str) -> None:
    """Drop a sentence that was reported before: the search is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(Note):
    """The process that serves a directory."""

    FILE = "node.json"

    control: str
    pid: int
    listen: str

    def is_ours(self) -> bool:
        """Whether ``make_socket_path`` may have made the socket. Raises ValueError for a path of no system."""
        path = Path(self.control)
        ours = path.name == socket_file.SOCKET_FILE and path.parent.name.startswith(socket_file.SOCKET_FOLDER_PREFIX)
        return ours and b"\0" not in os.fsencode(self.control)


def publish(data: Path, served: Served) -> None:
    """Publish who serves the directory; the caller holds its store. Removes the socket of a killed process."""
    stale = read_note(data, Served)
    # A socket that is served is another node's: the process that had this directory has ended.
    if stale is not None and not socket_file.is_served(Path(stale.control)):
        socket_file.remove(Path(stale.control))
    write_note(data, served)


def retract(data: Path, served: Served) -> None:
    """Remove the note and the socket: the directory is no longer served."""
    if read_note(data, Served) == served:
        with contextlib.suppress(OSError):
            (data / Served.FILE).unlink()
    socket_file.remove(Path(served.control))


async def find(data: Path, told: Told = operator_log.warning) -> Link | None:
    """A connection to the process that serves the directory, or None; ``told`` hears why a socket is not used.

    A process that was killed leaves its file behind. This waits a moment for its restart, as opening the directory here
    would keep it out. The next process removes the file: a live process may be out of our sight, with a separate
    ``/tmp``.
    """
    if DOORS.get() is None and read_note(data, Served, told) is None:
        return None
    return await attempt(data, told) or await find_soon(data)


async def attempt(data: Path, told: Told = _tell_nobody) -> Link | None:
    """A connection to the process that serves the directory at this moment, or None; see ``find``.

    Raises TriackError: a process serves it, and does not accept.
    """
    doors = DOORS.get()
    if doors is not None:
        streams = doors.dial(data)
        return None if streams is None else Link(*streams)
    found = read_signed_note(data, Served)
    try:
        return None if found is None else await dial(Path(found[0].control), found[1])
    except PermissionError as error:
        told(f"control socket of {data} not used: {why_refused(error)}")
    except OSError:
        pass
    return None


async def wait(data: Path) -> Link:
    """Wait for a process that serves the directory."""
    while True:
        await asyncio.sleep(RETRY_S)
        link = await attempt(data)
        if link is not None:
            return link


async def find_soon(data: Path) -> Link | None:
    """Wait a moment for a process that is about to serve the directory."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SOON_S
    link = None
    while link is None and loop.time() < end:
        await asyncio.sleep(RETRY_S)
        link = await attempt(data)
    return link


async def open_claiming(data: Path, open_node: Callable[[], Awaitable[_Opened]]) -> _Opened:
    """Open a permanent node: a command that holds its directory gives way.

    Raises StoreInUse: the process that has it is permanent as well, or does not release it.
    """
    loop = asyncio.get_running_loop()
    end, claimed = loop.time() + SOON_S, False
    while True:
        try:
            return await open_node()
        except StoreInUse:
            gives_way = await _claim(data)
            if gives_way and not claimed:
                end, claimed = loop.time() + CLAIM_S, True
            if gives_way is False or loop.time() >= end:
                raise
        await asyncio.sleep(RETRY_S)


async def _claim(data: Path) -> bool | None:
    """Whether the process that has a directory gives way; None without an answer, as from one that only looks in it."""
    try:
        async with asyncio.timeout(SOON_S):
            link = await attempt(data)
            if link is None:
                return None
            try:
                answer = await call_once(link, "claim")
            finally:
                await link.close()
    except (OSError, TriackError):
        return None
    return answer.get("passing") is True


async def reread(data: Path) -> bool:
    """Have the node that runs on a directory read its files again, and wait until they are in force.

    The node notices by itself within half a second; an operator who has withdrawn trust wants to know that it has. When
    this returns, sessions of peers that are no longer trusted have ended. Returns whether a node runs there; if not,
    the next one starts with the files.

    Raises:
        WaitTimeout: it runs, and has not answered for ``REREAD_S`` seconds.
        TriackError: it cannot use the files.
    """
    link = await find(data)
    if link is None:
        return False
    try:
        async with asyncio.timeout(REREAD_S):
            answer = await call_once(link, "reread")
    except TimeoutError:
        raise WaitTimeout(
            f"the change is written down, but the node that runs on {data} has not answered for {REREAD_S:g} s"
        ) from None
    except ConnectionError:
        return False  # it has just ended
    finally:
        await link.close()
    if answer["op"] != "done":
        raise TriackError(f"the change is written down, but not in force: {answer.get('message')}")
    return True
