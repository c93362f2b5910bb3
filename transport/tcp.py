"""The TCP endpoint: datagrams as frames over asyncio streams.

A connection is opened by the first datagram to an address and carries both directions; an accepted one is known by
the ephemeral address of its peer. When it ends, for whatever reason, the receiver is told once that the path is gone,
after all that came over it; the next datagram to a listening address opens a new connection.

Nothing grows without bound: what cannot be written is kept up to a cap, and a full inbox stops the reading.
"""

import asyncio
import contextlib
import socket
from asyncio.trsock import TransportSocket
from collections import Counter

from triack.base.errors import AddressError, ProtocolError
from triack.base.reasons import DropReason
from triack.transport.address import Address
from triack.transport.frames import FRAME_BYTES_MAX, FrameBuffer, frame
from triack.transport.inbox import Inbox, Received, Trouble, tell_nobody
from triack.transport.resolve import address_of, cannot, cause_of, resolve_listening

__all__ = ["TcpEndpoint"]

READ_BYTES = 256 * 1024
"""Read at once: four of the largest datagrams."""
UNSENT_BYTES_MAX = 16 * 1024 * 1024
"""For each connection: a few windows of the largest datagrams; beyond that its reader has stopped reading."""
ENTRY_BYTES = 64
"""What keeping a datagram costs besides its bytes."""
ACCEPTED_MAX = 1_024
"""Anyone can open a connection, so there must be an end to it."""
CONNECT_TIMEOUT_SECONDS = 10.0
"""As long as a session has for its connection (``SessionSettings.connect_timeout_ns``): later nobody wants it."""
FIRST_FRAME_TIMEOUT_SECONDS = 5.0
"""An accepted connection that says nothing takes a place from others."""
FRAME_TIMEOUT_SECONDS = 30.0
"""So does one that leaves a datagram unfinished; it gets as long as the system has for what is sent (below)."""
CLOSE_TIMEOUT_SECONDS = 1.0
"""What was written gets so long to leave; it would come again in another session."""
USER_TIMEOUT_MS = 30_000
"""RFC 5482: a host that vanished is noticed before the system's 15 minutes."""
KEEPALIVE_IDLE_SECONDS = 60
"""An idle connection is looked at every minute: by default it would be every two hours (RFC 9293 section 3.8.4)."""


class _Connection:
    """One connection, from the wish to have it to its end. Writes; the reading is the endpoint's."""

    __slots__ = ("_flusher", "_unsent", "_unsent_bytes", "address", "is_accepted", "opened", "task", "writer")

    def __init__(self, address: str, *, is_accepted: bool) -> None:
        self.address = address
        self.is_accepted = is_accepted
        self.writer: asyncio.StreamWriter | None = None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # or failed to be
        self.task: asyncio.Task[None] | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0  # those in `_unsent` and those the transport still holds
        self._flusher: asyncio.Task[None] | None = None

    @property
    def unsent_count(self) -> int:
        """The number of datagrams that were never handed to the system."""
        return len(self._unsent)

    def attach(self, writer: asyncio.StreamWriter) -> None:
        """Start writing."""
        transport = writer.transport
        # No write-behind in the transport: it is this class that counts what is not sent.
        transport.set_write_buffer_limits(high=0)
        _set_options(transport.get_extra_info("socket"))
        self.writer = writer
        self.opened.set_result(None)
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
        """Wait until everything offered was handed to the system, or the connection has ended."""
        if self._flusher is not None:
            await asyncio.wait([self._flusher])

    def abort(self) -> None:
        """End the connection without flushing."""
        if self.writer is not None:
            self.writer.transport.abort()

    def _flush(self) -> None:
        if self.writer is not None and self._unsent and self._flusher is None:
            written_bytes = self._write_unsent(self.writer)
            if self.writer.transport.get_write_buffer_size() == 0:
                self._unsent_bytes -= written_bytes
            else:
                self._flusher = asyncio.create_task(self._flush_slowly(self.writer, written_bytes))

    async def _flush_slowly(self, writer: asyncio.StreamWriter, written_bytes: int) -> None:
        """Write what has gathered, each time the transport is empty."""
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
        writer.write(frame(self._unsent))
        self._unsent.clear()
        return written_bytes


class TcpEndpoint:
    """A listening socket, if asked for, and the connections in both directions. Make it with :meth:`open`.

    Drops are counted as ``too-large``, ``empty``, ``send-overflow``, ``connect-failed``, ``closed``; ended or refused
    connections as ``frame-too-large``, ``frame-timeout``, ``too-many-connections``.
    """

    max_datagram_bytes = FRAME_BYTES_MAX

    def __init__(self) -> None:
        self.address = str(Address("tcp", "127.0.0.1", 0))  # until it listens, nobody can connect to it
        self.drops: Counter[DropReason] = Counter()
        self.on_trouble: Trouble = tell_nobody
        self._inbox = Inbox(self.address, self.drops)
        self._connections: dict[str, _Connection] = {}
        self._accepted_count = 0
        self._server: asyncio.Server | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, listen: Address | None) -> "TcpEndpoint":
        """Listen at an address, or make an endpoint that only connects.

        Raises:
            TransportError: with the address and the cause.
        """
        endpoint = cls()
        if listen is not None:
            await endpoint._listen(listen)
        return endpoint

    async def _listen(self, listen: Address) -> None:
        try:
            host, port = await resolve_listening(listen)
            # It begins to listen below: a cancellation in here would leave it listening, with nobody to close it.
            self._server = await asyncio.start_server(self._accept, host, port, limit=READ_BYTES, start_serving=False)
            port = self._server.sockets[0].getsockname()[1]
            self.address = str(Address("tcp", listen.host, port))
            self._inbox = Inbox(self.address, self.drops)
            await self._server.start_serving()
        except OSError as error:
            self._stop_listening()
            raise cannot("listen on", listen, error) from error
        except asyncio.CancelledError:
            self._stop_listening()
            raise

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()

    # ---- sending

    async def send(self, datagrams: list[bytes], to: str) -> None:
        """Write the datagrams to the connection to ``to``, which is opened if need be; never waits for it.

        Raises:
            AddressError: ``to`` is not the address of a TCP endpoint.
        """
        if self._is_closed:
            self.drops[DropReason.CLOSED] += len(datagrams)
            return
        fitting = [datagram for datagram in datagrams if 0 < len(datagram) <= FRAME_BYTES_MAX]
        if len(fitting) < len(datagrams):
            self.drops[DropReason.TOO_LARGE] += sum(len(datagram) > FRAME_BYTES_MAX for datagram in datagrams)
        connection = self._connections.get(to) or self._connect(to)
        overflow_count = connection.offer(fitting)
        if overflow_count:
            self.drops[DropReason.SEND_OVERFLOW] += overflow_count

    def _connect(self, to: str) -> _Connection:
        address = Address.parse(to)
        if address.scheme != "tcp":
            raise AddressError(f"cannot send to {to!r} from {self.address}: it is not a TCP address")
        connection = self._connections[to] = _Connection(to, is_accepted=False)
        connection.task = asyncio.create_task(self._run_outgoing(connection, address))
        return connection

    async def _run_outgoing(self, connection: _Connection, address: Address) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                reader, writer = await asyncio.open_connection(address.host, address.port, limit=READ_BYTES)
        except OSError as error:  # TimeoutError is one
            self.on_trouble(connection.address, _why_unreachable(address, error))
            self._forget(connection, DropReason.CONNECT_FAILED)
            return
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            # A port that nobody listens on may be chosen as our own, and TCP then connects to itself (RFC 9293, 3.5).
            writer.transport.abort()
            self._forget(connection, DropReason.CONNECT_FAILED)
            return
        connection.attach(writer)
        await self._read(connection, reader)

    # ---- receiving

    async def receive(self) -> list[Received]:
        """Wait for datagrams or the end of a path, and return all that is there.

        Raises:
            TransportError: the endpoint is closed.
        """
        return await self._inbox.take()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        if peer is None or self._is_closed or self._accepted_count >= ACCEPTED_MAX:
            self.drops[DropReason.TOO_MANY_CONNECTIONS] += self._accepted_count >= ACCEPTED_MAX
            writer.transport.abort()
            return
        self._accepted_count += 1
        address = address_of("tcp", peer)
        connection = self._connections[address] = _Connection(address, is_accepted=True)
        connection.attach(writer)
        connection.task = asyncio.create_task(self._read(connection, reader))

    async def _read(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        """Read frames until the connection ends; a frame that has begun must end in time."""
        loop = asyncio.get_running_loop()
        frames = FrameBuffer()
        timer = None
        if connection.is_accepted:
            timer = loop.call_later(FIRST_FRAME_TIMEOUT_SECONDS, self._time_out, connection)
        try:
            while data := await reader.read(READ_BYTES):
                datagrams = frames.feed(data)
                if timer is not None and not datagrams:
                    continue
                if timer is not None:
                    timer.cancel()
                await self._inbox.offer_all(datagrams, connection.address)
                timer = (
                    loop.call_later(FRAME_TIMEOUT_SECONDS, self._time_out, connection) if frames.is_partial else None
                )
        except ProtocolError as error:
            self.drops[error.reason] += 1
        except OSError:  # a reset ends the path like any other end
            pass
        finally:
            if timer is not None:
                timer.cancel()
            self._forget(connection, DropReason.CLOSED)

    def _time_out(self, connection: _Connection) -> None:
        self.drops[DropReason.FRAME_TIMEOUT] += 1
        connection.abort()

    # ---- ending

    def _forget(self, connection: _Connection, reason: DropReason) -> None:
        """Remove a connection that has ended, and report it."""
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]
        self._accepted_count -= connection.is_accepted
        if connection.unsent_count:
            self.drops[reason] += connection.unsent_count
        connection.abort()
        if not connection.opened.done():
            connection.opened.set_result(None)
        self._inbox.path_gone(connection.address)

    async def close(self) -> None:
        """Stop listening, give what was sent a moment to leave, and close every connection.

        Whoever waits in :meth:`receive` gets its error.
        """
        self._is_closed = True
        self._inbox.close()
        if self._server is not None:
            self._server.close()
        connections = list(self._connections.values())
        tasks = [asyncio.create_task(_shut_down(connection)) for connection in connections]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT_SECONDS)
        for connection in connections:
            connection.abort()
        tasks += [connection.task for connection in connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _why_unreachable(address: Address, error: OSError) -> str:
    """Why a connection could not be made, as a sentence that names the place."""
    if isinstance(error, socket.gaierror):
        return f"cannot resolve {address.host}: {cause_of(error)}"
    if isinstance(error, ConnectionRefusedError):
        return f"nobody listens at {address}"
    if isinstance(error, TimeoutError):
        return f"no answer from {address}"
    return f"cannot connect to {address}: {cause_of(error)}"


async def _shut_down(connection: _Connection) -> None:
    """Flush and close one connection, and wait for its reader to see that."""
    await connection.opened
    await connection.flushed()
    if connection.writer is not None:
        connection.writer.close()
    if connection.task is not None:
        await asyncio.wait([connection.task])


def _set_options(sock: TransportSocket) -> None:
    """No waiting for more to send, and no waiting for a host that is gone; best effort where the system differs."""
    options = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", USER_TIMEOUT_MS),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
    ]
    for level, name, value in options:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                sock.setsockopt(level, getattr(socket, name), value)
