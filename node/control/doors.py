"""How a process of a simulated machine reaches the nodes of its machine, without control sockets."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
"""Accepts the serving end of one."""


class Doors(Protocol):
    """The nodes of a simulated machine that other processes of it can use."""

    def publish(self, data: Path, accept: Accept) -> Callable[[], None]:
        """Serve a data directory by this process. Returns what ends that."""

    def dial(self, data: Path) -> Streams | None:
        """Connect to the process that serves a directory; None when none does."""


# Separate from ``PLATFORM``, as a command that finds no node loads no part of one.
DOORS: ContextVar[Doors | None] = ContextVar("triack_doors", default=None)
"""Those of the process in whose context this is; None on a real machine."""
