"""One connection of the TCP endpoint: a bounded backlog of datagrams, written as fast as the peer reads them."""

import asyncio
import contextlib
import socket
from asyncio.trsock import TransportSocket
from typing import NamedTuple

from triack.transport.frames import Framer

UNSENT_BYTES_MAX = 16 * 1024 * 1024
"""For each connection: a few windows of the largest datagrams. Beyond that, its reader has stopped reading."""
ENTRY_BYTES = 64
"""The memory of a kept datagram besides its bytes."""
USER_TIMEOUT_MS = 30_000
"""RFC 5482: a host that vanished, or reads nothing, is noticed before the system's 15 minutes."""
USER_TIMEOUT_MAX_MS = 0x7FFFFFFF
"""The option is a C integer: 24 days."""
KEEPALIVE_IDLE_SECONDS = 60
"""Probe an idle connection every minute; the default is two hours (RFC 9293 section 3.8.4)."""


class Waits(NamedTuple):
    """How long the sessions of an endpoint wait, in seconds: no connection ends before its session would."""

    connect_s: float = 0.0
    silence_s: float = 0.0


NO_WAITS = Waits()


class Connection:
    """One connection, from before it is open to its end. It writes; the endpoint reads.

    Attributes:
        deadline: the timer that ends it unless a session vouches for it; None once one has.
        writer: its stream while it is open.
    """

    __slots__ = (
        "_flusher",
        "_unsent",
        "_unsent_bytes",
        "_waits",
        "address",
        "deadline",
        "framer",
        "host",
        "opened",
        "task",
        "writer",
    )

    def __init__(self, address: str, framer: Framer, *, host: str | None, waits: Waits = NO_WAITS) -> None:
        self.address = address
        self._waits = waits
        self.framer = framer
        self.host = host
        self.deadline: asyncio.TimerHandle | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.opened = asyncio.Event()  # or failed to be
        self.task: asyncio.Task[None] | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0  # those in `_unsent` and those the transport still holds
        self._flusher: asyncio.Task[None] | None = None

    @property
    def unsent_count(self) -> int:
        """How many datagrams were never given to the system."""
        return len(self._unsent)

    def attach(self, writer: asyncio.StreamWriter) -> None:
        """Start writing."""
        transport = writer.transport
        # No buffer in the transport: this class counts the unsent datagrams.
        transport.set_write_buffer_limits(high=0)
        _set_options(transport.get_extra_info("socket"), self._waits.silence_s)
        self.writer = writer
        self.opened.set()
        self._flush()

    def offer(self, datagrams: list[bytes]) -> int:
        """Write or keep the datagrams; return how many found no room."""
        kept = 0
        for datagram in datagrams:
            if self._unsent_bytes + len(datagram) + ENTRY_BYTES > UNSENT_BYTES_MAX:
                break
            self._unsent_bytes += len(datagram) + ENTRY_BYTES
            self._unsent.append(datagram)
            kept += 1
        self._flush()
        return len(datagrams) - kept

    async def flushed(self) -> None:
        """Wait until everything offered was given to the system, or the connection has ended."""
        if self._flusher is not None:
            await asyncio.wait([self._flusher])

    def abort(self) -> None:
        """End the connection without flushing, also while it is being opened."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        if self.writer is not None:
            self.writer.transport.abort()
        elif self.task is not None:
            self.task.cancel()

    def _flush(self) -> None:
        if self.writer is not None and self._unsent and self._flusher is None:
            written_bytes = self._write_unsent(self.writer)
            if self.writer.transport.get_write_buffer_size() == 0:
                self._unsent_bytes -= written_bytes
            else:
                self._flusher = asyncio.create_task(self._flush_slowly(self.writer, written_bytes))

    async def _flush_slowly(self, writer: asyncio.StreamWriter, written_bytes: int) -> None:
        with contextlib.suppress(OSError):  # the reader sees the end of the connection too
            await writer.drain()
            self._unsent_bytes -= written_bytes
            while self._unsent:
                written_bytes = self._write_unsent(writer)
                await writer.drain()
                self._unsent_bytes -= written_bytes
        self._flusher = None

    def _write_unsent(self, writer: asyncio.StreamWriter) -> int:
        written_bytes = sum(map(len, self._unsent)) + ENTRY_BYTES * len(self._unsent)
        writer.write(self.framer.frame(self._unsent))
        self._unsent.clear()
        return written_bytes


def _set_options(sock: TransportSocket, silence_s: float) -> None:
    """Send without delay, and notice a lost host, but not before its session does; best effort on other systems."""
    user_timeout_ms = max(USER_TIMEOUT_MS, min(round(1_000 * silence_s), USER_TIMEOUT_MAX_MS))
    options = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", user_timeout_ms),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
    ]
    for level, name, value in options:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                sock.setsockopt(level, getattr(socket, name), value)
