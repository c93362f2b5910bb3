"""How the processes of a simulated machine reach its nodes: ``triack.connect``, without sockets.

A connection is two ends, one in each process. What one writes, the other reads in that order, also what a process wrote
before it died; then it learns that the connection has ended. Each write is an effect of its process.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVarTuple

from triack.node.control.control_frames import Accept, Streams
from triack.testing.loop import VirtualLoop
from triack.testing.threads import Process

Ts = TypeVarTuple("Ts")

HOP_S = 0.000_05
"""How long a write travels: as a switch from one process to another lasts."""
HIGH_BYTES, LOW_BYTES = 65_536, 16_384
"""With this much unread the writer waits, and continues at this little: the limits of asyncio's own transports."""


class _End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, process: Process, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self.reader = asyncio.StreamReader(loop=loop)
        self._protocol = asyncio.StreamReaderProtocol(self.reader, loop=loop)
        self.process = process
        self.other: _End | None = None
        self._under_way_bytes = 0  # written, and not read at the other end
        self._unread: list[bytes] = []
        self._is_read, self._is_closing, self._has_ended, self._waits = True, False, False, False
        process.belongings.add(self)
        self._protocol.connection_made(self)
        self.writer = asyncio.StreamWriter(self, self._protocol, self.reader, loop)

    # ---- the side that writes

    def write(self, data: Any) -> None:
        if self._is_closing or not self.process.take_effect():
            return
        self._under_way_bytes += len(data)
        if self.other is not None:
            self.other.later(self.other.hear, bytes(data))
        if self._under_way_bytes > HIGH_BYTES and not self._waits:
            self._waits = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self._under_way_bytes

    def handle_read(self, size_bytes: int) -> None:
        """The other end has read something."""
        self._under_way_bytes -= size_bytes
        if self._waits and self._under_way_bytes <= LOW_BYTES and not self._has_ended:
            self._waits = False
            self._protocol.resume_writing()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self.end()
        self._loop.call_soon(self._lose, context=self.process.context)

    abort = close

    def end(self) -> None:
        """Its process has died, or closes it: the other end learns it."""
        self._is_closing = True
        if self.other is not None and not self._has_ended:
            self.other.later(self.other.hear_end)

    # ---- the side that reads

    def later(self, what: Callable[[*Ts], None], *args: *Ts) -> None:
        """Let something happen here, in its process, after all that was sent before."""
        self._loop.call_later(HOP_S, what, *args, context=self.process.context)

    def hear(self, data: bytes) -> None:
        """Data has arrived."""
        self._unread.append(data)
        self._read()

    def _read(self) -> None:
        while self._unread and self._is_read and not self._is_closing:
            data = self._unread.pop(0)
            self._protocol.data_received(data)
            if self.other is not None:
                self.other.later(self.other.handle_read, len(data))

    def pause_reading(self) -> None:
        self._is_read = False

    def resume_reading(self) -> None:
        self._is_read = True
        self._read()

    def is_reading(self) -> bool:
        return self._is_read

    def hear_end(self) -> None:
        """The other end is closed, or its process is dead."""
        self._is_read = True
        self._read()
        self._is_closing = True
        self._lose()

    def _lose(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._protocol.connection_lost(None)


class Doors:
    """The nodes that the processes of one machine can reach, by their data directories."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._served: dict[Path, tuple[Process, Accept]] = {}

    def publish(self, process: Process, data: Path, accept: Accept) -> Callable[[], None]:
        """A process serves a directory. Returns what ends that."""
        served = self._served[data] = process, accept

        def retract() -> None:
            if self._served.get(data) is served:
                del self._served[data]

        return retract

    def dial(self, process: Process, data: Path) -> Streams | None:
        """Connect a process to the one that serves a directory; None when none does."""
        served, accept = self._served.get(data, (None, None))
        if served is None or accept is None or served.is_dead:
            return None
        here, there = _End(process, self._loop), _End(served, self._loop)
        here.other, there.other = there, here
        there.later(accept, there.reader, there.writer)
        return here.reader, here.writer
