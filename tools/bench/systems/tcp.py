"""The bare minimum over TCP: batches in one write, an acknowledgement of received messages, nothing on a disk."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from typing import Any, Self

from triack.tools.bench.application import Facts, Inlet, Outlet, Sink
from triack.tools.bench.systems.framing import POSITION, STREAM_BYTES, pack_batch, read_batch, read_position
from triack.tools.bench.work import Work

BATCH_BYTES = 64 * 1024


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection in any state of the other end."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


class TcpOutlet(Outlet):
    """Sends, and waits only for acknowledgements of messages sent long ago."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._work = Work(**options["work"])
        self._host, self._port = options["found"]["host"], options["found"]["port"]
        self._congestion = options.get("congestion", "")
        self.batch = max(1, min(Outlet.batch, BATCH_BYTES // self._work.size))
        self._sent = self._acked = 0
        self._moved = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=STREAM_BYTES)
        if self._congestion:
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._congestion.encode())
        self._follower = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._follower.cancel()
        await asyncio.gather(self._follower, return_exceptions=True)
        await close(self._writer)

    async def _follow(self) -> None:
        while True:
            position = await read_position(self._reader)
            async with self._moved:
                self._acked = position
                self._moved.notify_all()

    async def _until(self, position: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._acked >= position or self._follower.done())
        if self._follower.done():
            self._follower.result()

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Write a batch."""
        if self._sent - self._acked >= self._work.in_flight:
            await self._until(self._sent - self._work.in_flight + 1)
        self._writer.write(pack_batch(self._sent + 1, bodies))
        self._sent += len(bodies)
        await self._writer.drain()

    async def settle(self) -> None:
        """Wait for the last acknowledgement."""
        await self._until(self._sent)


class TcpInlet(Inlet):
    """Receives and acknowledges."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._host = options.get("host", "127.0.0.1")
        self._connections: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, 0, limit=STREAM_BYTES)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    def found(self) -> Facts:
        """Where it listens."""
        return {"host": self._host, "port": self._server.sockets[0].getsockname()[1]}

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.put_nowait((reader, writer))

    async def run(self, sink: Sink) -> None:
        """Serve one sender."""
        reader, writer = await self._connections.get()
        try:
            while True:
                first, bodies = await read_batch(reader)
                sink.take(bodies)
                writer.write(POSITION.pack(first + len(bodies) - 1))
        except (asyncio.IncompleteReadError, ConnectionError):
            await asyncio.Event().wait()
        finally:
            await close(writer)
