"""The TCP endpoint: datagrams as frames over asyncio streams, with or without TLS.

The first datagram to an address opens a connection, which carries both directions; an accepted one is known by the
ephemeral address of its peer. When a connection ends, for whatever reason, the receiver learns once that the path is
gone, after all datagrams that came over it. The next datagram to a listening address opens a new connection.

A session must vouch for each connection in time. A connection that was opened here may lead nowhere although the system
accepts writes, for example if a forwarder in between has lost its other side; a new one may arrive.

Nothing grows without bound: unwritten datagrams are kept up to a cap, a full inbox stops the reading, and an accepted
connection without a session ends when others need its place (``strangers.py``).
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections import deque
from collections.abc import Awaitable

from triack.base.checks import check_kind
from triack.base.errors import AddressError, ProtocolError, UsageError
from triack.base.reasons import DropReason
from triack.transport.address import Address
from triack.transport.connection import NO_WAITS, Connection, Waits
from triack.transport.endpoint import Endpoint
from triack.transport.frames import Framer, LengthFramer
from triack.transport.resolve import (
    SocketAddress,
    address_of,
    bound,
    cannot,
    cause_of,
    family_of,
    lookup,
    lookup_numeric,
    resolve_listening,
)
from triack.transport.strangers import STRANGERS_MAX, Strangers, host_of
from triack.transport.wakeup import DONE

READ_BYTES = 256 * 1024
"""Bytes of one read: four of the largest datagrams."""
BUFFER_BYTES = 64 * 1024
"""Read ahead (at most twice this) of a connection whose datagrams are not taken: there may be hundreds of them."""
CONNECT_TIMEOUT_SECONDS = 10.0
"""As long as a session has for its connection by default: later it is useless. If a session has longer (``Waits``), so
have the connection and its vouching."""
VOUCH_TIMEOUT_SECONDS = 10.0
"""A connection without a session by then leads nowhere, or occupies the place of others."""
FRAME_TIMEOUT_SECONDS = 30.0
"""So does one that leaves a datagram unfinished; it gets as long as the system allows for unacknowledged data."""
NEXT_ADDRESS_SECONDS = 0.25
"""The wait before the next address of a host with several is tried (RFC 8305, section 5)."""
ACCEPT_PAUSE_SECONDS = 0.05
"""The pause if the system has no file descriptor left: one must become free first."""
CLOSE_TIMEOUT_SECONDS = 1.0
"""How long written bytes get to leave; another session would resend them."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Tls:
    """The TLS around connections.

    A program may replace a context while its node runs: connections that begin later use the new one.

    Attributes:
        server: for accepted connections; None: without TLS.
        client: for opened connections; None: without TLS.

    Raises:
        UsageError: the value is no context, or one for the other end.
    """

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None

    def __init__(self, server: ssl.SSLContext | None = None, client: ssl.SSLContext | None = None) -> None:
        self.server = server
        self.client = client

    def __setattr__(self, name: str, value: object) -> None:
        other = {"server": ssl.PROTOCOL_TLS_CLIENT, "client": ssl.PROTOCOL_TLS_SERVER}.get(name)
        if other is not None:
            check_kind(f"Tls: {name}", value, ssl.SSLContext | None)
            if isinstance(value, ssl.SSLContext) and value.protocol is other:
                raise UsageError(f"Tls: {name} must be a context for a {name}, and this one is for the other end")
        super().__setattr__(name, value)


class TcpEndpoint(Endpoint):
    """A listening socket, if asked for, and the connections in both directions. Make it with :meth:`open`.

    Drops are counted as ``too-large``, ``empty``, ``send-overflow``, ``connect-failed``, ``closed``, ``not-loopback``;
    ended connections as ``frame-too-large``, ``frame-timeout``, ``too-many-connections``, ``not-vouched``.
    """

    def __init__(self, address: str, *, loopback_only: bool, tls: Tls, framer: type[Framer], waits: Waits) -> None:
        super().__init__(address)
        self.max_datagram_bytes = framer.max_datagram_bytes
        self._waits = waits
        self._loopback_only = loopback_only
        self._tls = tls
        self._framer = framer
        self._connections: dict[str, Connection] = {}
        self._strangers = Strangers[Connection]()
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        listen: Address | None,
        *,
        loopback_only: bool,
        tls: Tls,
        framer: type[Framer] = LengthFramer,
        waits: Waits = NO_WAITS,
    ) -> "TcpEndpoint":
        """Listen at an address, or make an endpoint that only connects. Raises TransportError, with the cause."""
        if listen is None:  # no peer can connect to it
            address = Address("tcp", "127.0.0.1", 0)
            return cls(str(address), loopback_only=loopback_only, tls=tls, framer=framer, waits=waits)
        try:
            sock = bound(socket.SOCK_STREAM, await resolve_listening(listen))
        except OSError as error:
            raise cannot("listen on", listen, error) from error
        try:
            sock.listen(STRANGERS_MAX)
        except OSError as error:  # another socket with this address listens already
            sock.close()
            raise cannot("listen on", listen, error) from error
        address = Address("tcp", listen.host, sock.getsockname()[1])
        endpoint = cls(str(address), loopback_only=loopback_only, tls=tls, framer=framer, waits=waits)
        endpoint._listening = sock
        endpoint._accepting = asyncio.create_task(endpoint._accept_all(sock))
        return endpoint

    # ---- sending

    def send(self, datagrams: list[bytes], to: str) -> Awaitable[None]:
        """Write the datagrams to the connection to ``to``, which is opened if necessary; never waits for it.

        Raises AddressError: ``to`` is not the address of a TCP endpoint.
        """
        if self._is_closed:
            self.drops[DropReason.CLOSED] += len(datagrams)
            return DONE
        connection = self._connections.get(to) or self._connect(to)
        if connection is None:
            self.drops[DropReason.NOT_LOOPBACK] += len(datagrams)
            self.on_trouble(to, f"cannot reach {to} from {self.address}: without keys nothing leaves the machine")
            return DONE
        fitting = [datagram for datagram in datagrams if 0 < len(datagram) <= self.max_datagram_bytes]
        if len(fitting) < len(datagrams):
            self.drops[DropReason.TOO_LARGE] += sum(len(datagram) > self.max_datagram_bytes for datagram in datagrams)
        overflow_count = connection.offer(fitting)
        if overflow_count:
            self.drops[DropReason.SEND_OVERFLOW] += overflow_count
        return DONE

    def _connect(self, to: str) -> Connection | None:
        address = Address.parse(to)
        if address.scheme != "tcp":
            raise AddressError(f"cannot send to {to!r} from {self.address}: it is not a TCP address")
        if self._loopback_only and not address.is_loopback:
            return None
        connection = self._connections[to] = Connection(to, self._framer(), host=None, waits=self._waits)
        connection.task = asyncio.create_task(self._run_outgoing(connection, address))
        return connection

    async def _run_outgoing(self, connection: Connection, address: Address) -> None:
        try:
            async with asyncio.timeout(max(CONNECT_TIMEOUT_SECONDS, self._waits.connect_s)):
                name = None if self._tls.client is None else address.host
                reader, writer = await asyncio.open_connection(
                    sock=await _dial(address), limit=BUFFER_BYTES, ssl=self._tls.client, server_hostname=name
                )
        except OSError as error:  # also TimeoutError and the errors of TLS
            self.on_trouble(connection.address, _why_unreachable(address, error))
            self._forget(connection, DropReason.CONNECT_FAILED)
            return
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            # The system may choose the unused port as our own, and TCP then connects to itself (RFC 9293, 3.5).
            writer.transport.abort()
            self._forget(connection, DropReason.CONNECT_FAILED)
            return
        connection.attach(writer)
        self._doubt(connection)
        await self._read(connection, reader)

    # ---- accepting and kept_connections

    async def _accept_all(self, listening: socket.socket) -> None:
        while True:
            try:
                sock, peer = await _accepted(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._end_stranger(next(iter(self._strangers), None), DropReason.TOO_MANY_CONNECTIONS)
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            self._accept(sock, peer)
            await asyncio.sleep(0)  # other tasks have their turn, however many connections come

    def _accept(self, sock: socket.socket, peer: SocketAddress) -> None:
        address = address_of("tcp", peer)
        connection = Connection(address, self._framer(), host=host_of(peer[0]), waits=self._waits)
        self._connections[address] = connection
        connection.task = asyncio.create_task(self._run_accepted(connection, sock))
        self._doubt(connection)

    async def _run_accepted(self, connection: Connection, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(BUFFER_BYTES, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls.server)
        except BaseException as error:
            sock.close()
            self._forget(connection, DropReason.CONNECT_FAILED)
            if isinstance(error, OSError):
                return
            raise
        connection.attach(asyncio.StreamWriter(transport, protocol, reader, loop))
        await self._read(connection, reader)

    def _doubt(self, connection: Connection) -> None:
        """From now on a session must vouch for the connection in time."""
        if connection.host is not None:
            self._end_stranger(self._strangers.admit(connection, connection.host), DropReason.TOO_MANY_CONNECTIONS)
        wait_s = max(VOUCH_TIMEOUT_SECONDS, self._waits.connect_s)
        connection.deadline = asyncio.get_running_loop().call_later(
            wait_s, self._end_stranger, connection, DropReason.NOT_VOUCHED
        )

    def _end_stranger(self, connection: Connection | None, reason: DropReason) -> None:
        if connection is not None:
            self.drops[reason] += 1
            connection.abort()

    def vouch(self, address: str) -> None:
        """There is a session with the peer at that address: its connection may stay."""
        connection = self._connections.get(address)
        if connection is not None and connection.deadline is not None:
            connection.deadline.cancel()
            connection.deadline = None
            self._strangers.forget(connection)

    def release(self, address: str) -> None:
        """The session with that peer is gone: unless another one begins soon, its connection ends."""
        connection = self._connections.get(address)
        if connection is not None and connection.opened.is_set() and connection.deadline is None:
            self._doubt(connection)

    # ---- receiving

    async def _read(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        """Read frames until the connection ends; a frame that has begun must end in time."""
        loop = asyncio.get_running_loop()
        framer = connection.framer
        timer, wait_s = None, max(FRAME_TIMEOUT_SECONDS, self._waits.silence_s)
        try:
            while data := await reader.read(READ_BYTES):
                datagrams = framer.feed(data)
                if timer is not None and not datagrams:
                    continue
                if timer is not None:
                    timer.cancel()
                await self.inbox.offer_all(datagrams, connection.address)
                timer = loop.call_later(wait_s, self._time_out, connection) if framer.is_partial else None
        except ProtocolError as error:
            self.drops[error.reason] += 1
        except OSError:  # a reset ends the path like any other end
            pass
        finally:
            if timer is not None:
                timer.cancel()
            self._forget(connection, DropReason.CLOSED)

    def _time_out(self, connection: Connection) -> None:
        self.drops[DropReason.FRAME_TIMEOUT] += 1
        connection.abort()

    # ---- ending

    def _forget(self, connection: Connection, reason: DropReason) -> None:
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]
        self._strangers.forget(connection)
        if connection.unsent_count:
            self.drops[reason] += connection.unsent_count
        connection.task = None  # this task is ending
        connection.abort()
        connection.opened.set()
        self.inbox.path_gone(connection.address)

    async def close(self) -> None:
        """Stop listening, give written bytes a moment to leave, and close every connection.

        A caller that waits in :meth:`receive` gets its error.
        """
        self._is_closed = True
        self.inbox.close()
        if self._accepting is not None and self._listening is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._listening.close()
        connections = list(self._connections.values())
        tasks = [asyncio.create_task(_shut_down(connection)) for connection in connections]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT_SECONDS)
        tasks += [connection.task for connection in connections if connection.task is not None]
        for connection in connections:
            connection.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _accepted(listening: socket.socket) -> tuple[socket.socket, SocketAddress]:
    """The next connection. A cancelled call has accepted none; ``loop.sock_accept`` does not promise that.

    Raises OSError: the system cannot accept one now.
    """
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(BlockingIOError):
            sock, peer = listening.accept()
            sock.setblocking(False)
            return sock, peer
        ready = asyncio.Event()
        try:
            loop.add_reader(listening, ready.set)
        except NotImplementedError:  # on Windows
            return await loop.sock_accept(listening)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(listening)


async def _dial(address: Address) -> socket.socket:
    """Connect to the first address of a name that accepts a connection, with a moment for each before the next one.

    Raises OSError: none does; the failure of the first.
    """
    number = lookup_numeric(address)
    places = deque([number] if number is not None else await lookup(address))
    trying: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException | None = None
    try:
        while places or trying:
            if places:
                trying.add(asyncio.create_task(_dial_at(places.popleft())))
            within = NEXT_ADDRESS_SECONDS if places else None
            done, _ = await asyncio.wait(trying, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                trying.discard(task)
                if (error := task.exception()) is None:
                    return task.result()
                failure = failure or error
        assert failure is not None
        raise failure
    finally:
        for task in trying:
            task.cancel()
            task.add_done_callback(_hang_up)


async def _dial_at(place: SocketAddress) -> socket.socket:
    sock = socket.socket(family_of(place), socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # The scope of a link-local address is a number after it; asyncio would look up anything but a number.
        await asyncio.get_running_loop().sock_connect(sock, (place[0].partition("%")[0], *place[1:]))
    except BaseException:
        sock.close()
        raise
    return sock


def _hang_up(task: "asyncio.Task[socket.socket]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _why_unreachable(address: Address, error: OSError) -> str:
    """Why a connection could not be made, as a sentence that names the place."""
    if isinstance(error, socket.gaierror):
        return f"cannot resolve {address.host}: {cause_of(error)}"
    if isinstance(error, ConnectionRefusedError):
        return f"no process listens at {address}"
    if isinstance(error, TimeoutError):
        return f"no answer from {address}"
    return f"cannot connect to {address}: {cause_of(error)}"


async def _shut_down(connection: Connection) -> None:
    await connection.opened.wait()
    await connection.flushed()
    if connection.writer is not None:
        connection.writer.close()
    if connection.task is not None:
        await asyncio.wait([connection.task])
