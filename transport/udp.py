"""The portable UDP endpoint, on asyncio-dgram.

Datagrams to a numeric address leave at once. Those to a host name wait, bounded, for a lookup in the background,
so that a slow resolver stops nobody; the answer is kept, and refreshed while the old one stays in use.
"""

import asyncio
import contextlib
import math
import socket
from collections import Counter
from dataclasses import dataclass

import asyncio_dgram

from triack.base.errors import AddressError
from triack.base.reasons import DropReason
from triack.transport.address import Address
from triack.transport.inbox import Inbox, Received, Trouble, tell_nobody
from triack.transport.resolve import (
    SocketAddress,
    address_of,
    cannot,
    cause_of,
    lookup,
    lookup_numeric,
    resolve_listening,
)

__all__ = ["UdpEndpoint"]

MAX_DATAGRAM_BYTES = 65_507
"""65,535 less the IPv4 and UDP headers."""
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
"""Holds several thousand datagrams while the process does something else; systems cut it to what they allow."""
RECEIVE_BYTES = 64 * 1024
"""Room for any datagram. asyncio makes a buffer for each that comes; its own size, 256 KiB, is so large that the C
library of Linux gets it from the system, and gives it back, each time: two page faults a datagram."""
ROUTES_MAX = 4_096
"""Remembered addresses, each way: anyone can send from any address, so there must be an end to it."""
NAME_LIFETIME_SECONDS = 60.0
"""After so long a name is looked up again, as its host may have moved; resolvers do not tell us its TTL."""
WAITING_MAX = 256
"""Datagrams that wait for one lookup: a few windows; the rest is lost, and comes again."""
STALE_ERRORS_MAX = 64
"""Errors of earlier datagrams that are passed over before one is sent; more do not pile up between two sendings."""


@dataclass(slots=True)
class _Route:
    sockaddr: SocketAddress
    expires_at_seconds: float


class UdpEndpoint:
    """One bound UDP socket. Make it with :meth:`open`.

    Drops are counted as ``too-large``, ``unresolved``, ``wrong-family``, ``send-error``, ``closed``,
    ``receive-error``, ``receive-overflow`` and ``empty``.
    """

    max_datagram_bytes = MAX_DATAGRAM_BYTES

    def __init__(self, stream: asyncio_dgram.aio.DatagramServer, address: str) -> None:
        self.address = address
        self.drops: Counter[DropReason] = Counter()
        self.on_trouble: Trouble = tell_nobody
        self._stream = stream
        self._family = stream.socket.family
        self._inbox = Inbox(address, self.drops)
        self._routes: dict[str, _Route] = {}
        self._names: dict[SocketAddress, str] = {}
        self._waiting: dict[str, list[bytes]] = {}
        self._lookups: set[asyncio.Task[None]] = set()
        self._pump_task = asyncio.create_task(self._pump())

    @classmethod
    async def open(cls, listen: Address) -> "UdpEndpoint":
        """Bind a socket.

        Raises:
            TransportError: with the address and the cause.
        """
        try:
            stream = await asyncio_dgram.bind(await resolve_listening(listen))
        except OSError as error:
            raise cannot("listen on", listen, error) from error
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):  # a smaller buffer only loses more
                stream.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
        with contextlib.suppress(AttributeError):  # the transports of other event loops have no such limit
            # asyncio-dgram shows no other way to its transport.
            stream._transport.max_size = RECEIVE_BYTES  # type: ignore[attr-defined]  # noqa: SLF001
        return cls(stream, str(Address("udp", listen.host, stream.sockname[1])))

    # ---- sending

    async def send(self, datagrams: list[bytes], to: str) -> None:
        """Send each datagram once, best effort; what cannot leave is counted in ``drops``.

        Raises:
            AddressError: ``to`` is not the address of a UDP endpoint.
        """
        sockaddr = self._find_route(to)
        if sockaddr is not None:
            await self._send_all(datagrams, sockaddr)
        elif to in self._waiting:
            waiting = self._waiting[to]
            room = WAITING_MAX - len(waiting)
            waiting += datagrams[:room]
            self.drops[DropReason.UNRESOLVED] += max(0, len(datagrams) - room)
        else:
            self.drops[DropReason.WRONG_FAMILY] += len(datagrams)
            self.on_trouble(to, f"cannot reach {to} from {self.address}: one is IPv4 and the other is IPv6")

    async def _send_all(self, datagrams: list[bytes], sockaddr: SocketAddress) -> None:
        for datagram in datagrams:
            if len(datagram) > MAX_DATAGRAM_BYTES:
                self.drops[DropReason.TOO_LARGE] += 1
            else:
                await self._send_one(datagram, sockaddr)

    async def _send_one(self, datagram: bytes, sockaddr: SocketAddress) -> None:
        # asyncio-dgram raises the errors of earlier datagrams before it sends this one: try again after each.
        for _ in range(STALE_ERRORS_MAX):
            try:
                await self._stream.send(datagram, sockaddr)
            except asyncio_dgram.TransportClosed:
                self.drops[DropReason.CLOSED] += 1
            except OSError:
                self.drops[DropReason.SEND_ERROR] += 1
                continue
            return

    # ---- routes

    def _find_route(self, to: str) -> SocketAddress | None:
        """Return where ``to`` is; None when a lookup has been started, or cannot help."""
        route = self._routes.get(to)
        if route is None:
            return self._new_route(to)
        if route.expires_at_seconds < asyncio.get_running_loop().time():
            route.expires_at_seconds = math.inf  # until the lookup ends
            self._start_lookup(to)
        return route.sockaddr

    def _new_route(self, to: str) -> SocketAddress | None:
        if to in self._waiting:
            return None
        address = Address.parse(to)
        if address.scheme != "udp":
            raise AddressError(f"cannot send to {to!r} from {self.address}: it is not a UDP address")
        try:
            sockaddr = lookup_numeric(address, self._family)
        except OSError:
            return None
        if sockaddr is None:
            self._waiting[to] = []
            self._start_lookup(to)
            return None
        self._remember(to, sockaddr, math.inf)
        return sockaddr

    def _remember(self, to: str, sockaddr: SocketAddress, expires_at_seconds: float) -> None:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()  # those in use come back with their next datagram
        self._routes[to] = _Route(sockaddr, expires_at_seconds)

    def _start_lookup(self, to: str) -> None:
        task = asyncio.create_task(self._look_up(to))
        self._lookups.add(task)
        task.add_done_callback(self._lookups.discard)

    async def _look_up(self, to: str) -> None:
        expires_at_seconds = asyncio.get_running_loop().time() + NAME_LIFETIME_SECONDS
        address = Address.parse(to)
        try:
            sockaddr = await lookup(address, self._family)
        except OSError as error:
            self.on_trouble(to, f"cannot resolve {address.host}: {cause_of(error)}")
            self.drops[DropReason.UNRESOLVED] += len(self._waiting.pop(to, ()))
            if to in self._routes:
                self._routes[to].expires_at_seconds = expires_at_seconds
            return
        self._remember(to, sockaddr, expires_at_seconds)
        await self._send_all(self._waiting.pop(to, []), sockaddr)

    # ---- receiving

    async def receive(self) -> list[Received]:
        """Wait for datagrams and return the burst that is there.

        Raises:
            TransportError: the endpoint is closed.
        """
        return await self._inbox.take(coalesce=True)

    async def _pump(self) -> None:
        """Move datagrams from asyncio-dgram's queue, which has no bound, to the inbox, which has one."""
        while True:
            try:
                data, sockaddr = await self._stream.recv()
            except asyncio_dgram.TransportClosed:
                self._inbox.close()
                return
            except OSError:  # such as an ICMP answer to something sent earlier
                self.drops[DropReason.RECEIVE_ERROR] += 1
                continue
            assert isinstance(sockaddr, tuple)  # a str only for AF_UNIX
            self._inbox.offer(data, self._names.get(sockaddr) or self._name(sockaddr))

    def _name(self, sockaddr: SocketAddress) -> str:
        if len(self._names) >= ROUTES_MAX:
            self._names.clear()
        name = self._names[sockaddr] = address_of("udp", sockaddr)
        return name

    async def close(self) -> None:
        """Close the socket; whoever waits in :meth:`receive` gets its error."""
        self._inbox.close()
        self._stream.close()
        tasks = [self._pump_task, *self._lookups]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
