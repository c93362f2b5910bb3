"""Finding the process that serves a data directory.

A served directory holds a note, ``node.json``: the control socket of its process, the pid, and where it listens. The
socket lies in a fresh folder of its owner alone. After ``kill -9`` both stay behind, and after a reboot the note alone;
a socket that nobody answers means that the directory is not served, and so does one that is another user's by now
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

from triack.base.errors import StoreInUse, TriackError
from triack.node.control import socket_file
from triack.node.control.control_frames import Link, call_once, dial
from triack.node.files import operator_log
from triack.node.files.notes import Note, read_note, read_signed_note, write_note
from triack.node.files.ownership import why_refused

__all__ = [
    "PASSING",
    "Served",
    "find",
    "find_soon",
    "open_claiming",
    "publish",
    "retract",
    "wait",
]

RETRY_S = 0.05
"""Between looks for a serving process: people do not notice it, nor does the processor."""
SOON_S = 1.0
"""How long a process that holds the store may take to publish its socket, or a restarted one to begin."""
CLAIM_S = 10.0
"""How long a node that gives way may take to close: its ``close_timeout_s``, and as much again."""
PASSING: ContextVar[Callable[[], None] | None] = ContextVar("triack_passing", default=None)
"""Set where a node is opened that has a directory only until a command has done its work, to what is called when
another node, which is here to stay, claims the directory. Nobody starts it again, so whoever works through it opens the
directory next."""

_Opened = TypeVar("_Opened")
Told = Callable[[str], object]
"""Takes a sentence for people."""


def _tell_nobody(_why: str) -> None:
    """Of what was told before: it is looked for again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(Note):
    """Who serves a directory.

    Attributes:
        control: path of the control socket.
        pid: the process.
        listen: where its node listens.
    """

    FILE = "node.json"

    control: str
    pid: int
    listen: str

    def is_ours(self) -> bool:
        """Whether ``make_socket_path`` may have made the socket. Raises ValueError for what no system takes."""
        path = Path(self.control)
        ours = path.name == socket_file.SOCKET_FILE and path.parent.name.startswith(socket_file.SOCKET_FOLDER_PREFIX)
        return ours and b"\0" not in os.fsencode(self.control)


def publish(data: Path, served: Served) -> None:
    """Say who serves the directory; the caller holds its store. Clears away what a killed process left."""
    stale = read_note(data, Served)
    # What is served is another node's: the process that had this directory has ended.
    if stale is not None and not socket_file.is_served(Path(stale.control)):
        socket_file.remove(Path(stale.control))
    write_note(data, served)


def retract(data: Path, served: Served) -> None:
    """The directory is no longer served."""
    if read_note(data, Served) == served:
        with contextlib.suppress(OSError):
            (data / Served.FILE).unlink()
    socket_file.remove(Path(served.control))


async def find(data: Path, told: Told = operator_log.warning) -> Link | None:
    """A connection to the process that serves the directory, or None.

    Args:
        data: the directory.
        told: called with a sentence when there is something that is not to be spoken to, as it is another user's.

    A process that was killed leaves its file behind; whoever restarts it is given a moment, as opening the directory
    ourselves would keep it out. The file stays for the next one to clear away: a process that lives may be out of our
    sight, with a ``/tmp`` of its own.
    """
    if read_note(data, Served, told) is None:
        return None
    return await _dial(data, told) or await find_soon(data)


async def _dial(data: Path, told: Told = _tell_nobody) -> Link | None:
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
        link = await _dial(data)
        if link is not None:
            return link


async def find_soon(data: Path) -> Link | None:
    """Wait a moment for a process that is about to serve the directory."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SOON_S
    link = None
    while link is None and loop.time() < end:
        await asyncio.sleep(RETRY_S)
        link = await _dial(data)
    return link


async def open_claiming(data: Path, open_node: Callable[[], Awaitable[_Opened]]) -> _Opened:
    """Open a node that is here to stay: a command that has its directory meanwhile gives way.

    Raises:
        StoreInUse: a process has it that is here to stay as well, or that does not let go.
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
    """Whether the process that has a directory gives way; None when it says nothing, as one that only looks into it."""
    try:
        async with asyncio.timeout(SOON_S):
            link = await _dial(data)
            if link is None:
                return None
            try:
                answer = await call_once(link, "claim")
            finally:
                await link.close()
    except (OSError, TriackError):
        return None
    return answer.get("passing") is True
