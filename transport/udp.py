"""The UDP endpoint: in batches if the system has them (``batched.py``), else on asyncio-dgram (``portable.py``).

Its owner may choose one of the two. Only Linux has batches.

Datagrams to a numeric address leave immediately. Those to a host name wait, bounded, for a lookup in the background, so
that a slow resolver delays no other peer (``routes.py``). A node that listens at all addresses answers from the one
that was called (``called.py``).

Datagrams that the listening socket cannot send go through another one, opened when first needed: one for each family of
addresses. So a node that listens on IPv4, on this machine alone, or not at all, reaches everyone.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from triack.base.errors import TransportError
from triack.base.paths import UdpSockets, address_in, called_in, path_of
from triack.base.reasons import DropReason
from triack.transport.address import Address
from triack.transport.batched import BatchedSocket, offers_batches
from triack.transport.called import Ancillary, Called, answer_from, offers_called
from triack.transport.endpoint import Endpoint
from triack.transport.portable import PortableSocket
from triack.transport.resolve import (
    SocketAddress,
    bound,
    cannot,
    cause_of,
    family_of,
    is_for_all,
    is_loopback,
    mapped,
    resolve_listening,
)
from triack.transport.routes import ROUTES_MAX, Routes
from triack.transport.turns import Burst
from triack.transport.wakeup import DONE

MAX_DATAGRAM_BYTES = 65_507
"""65,535 less the IPv4 and UDP headers."""
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
"""Holds several thousand datagrams while the process does something else; systems cut it to what they allow."""
WAITING_MAX = 256
"""Datagrams that wait for one lookup: a few windows; the rest is lost, and resent later."""

_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)

_ANY: dict[int, SocketAddress] = {socket.AF_INET: ("0.0.0.0", 0), socket.AF_INET6: ("::", 0, 0, 0)}  # noqa: S104
_LOOPBACK: dict[int, SocketAddress] = {socket.AF_INET: ("127.0.0.1", 0), socket.AF_INET6: ("::1", 0, 0, 0)}


_Socket: TypeAlias = BatchedSocket | PortableSocket


class _Way(NamedTuple):
    """The socket to send from, the receiver's address in its form, and the local address if that matters."""

    sock: _Socket
    sockaddr: SocketAddress
    leaving_from: tuple[Ancillary, ...] = ()


class _NoWay(NamedTuple):
    reason: DropReason
    why: str


class UdpEndpoint(Endpoint):
    """The listening socket, if there is one, and those for addresses that it cannot reach. Make it with :meth:`open`.

    Drops are counted as ``too-large``, ``unresolved``, ``wrong-family``, ``not-loopback``, ``cannot-send``,
    ``send-overflow``, ``send-error``, ``closed``, ``receive-error``, ``receive-overflow`` and ``empty``.
    """

    max_datagram_bytes = MAX_DATAGRAM_BYTES

    def __init__(self, address: str, *, loopback_only: bool, udp: UdpSockets | None = None) -> None:
        super().__init__(address)
        self._udp = udp
        self._loopback_only = loopback_only
        self._routes = Routes("udp", self._handle_lookup)
        self._waiting: dict[str, list[bytes]] = {}
        self._listening: _Socket | None = None
        self._outgoing: dict[int, _Socket] = {}
        self._ways: dict[tuple[SocketAddress, str], _Way] = {}
        self._fixed_ways: dict[str, _Way] = {}  # to paths whose address is a number
        self._called = Called()
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_batched = False

    @classmethod
    async def open(cls, listen: Address | None, *, loopback_only: bool, udp: UdpSockets | None = None) -> "UdpEndpoint":
        """Bind a socket, if there is an address to listen at. Raises TransportError, with the address and the cause."""
        check_sockets(udp)
        if listen is None:  # no peer can call it
            return cls(str(Address("udp", "127.0.0.1", 0)), loopback_only=loopback_only, udp=udp)
        try:
            sock = _bound(await resolve_listening(listen))
        except OSError as error:
            raise cannot("listen on", listen, error) from error
        endpoint = cls(str(Address("udp", listen.host, sock.getsockname()[1])), loopback_only=loopback_only, udp=udp)
        endpoint._listening = await endpoint._take_over(sock, tells_called=udp != "portable" and offers_called(sock))
        return endpoint

    async def _take_over(self, sock: socket.socket, *, tells_called: bool = False) -> _Socket:
        if self._udp != "portable" and offers_batches(sock):
            self._is_batched = True
            return BatchedSocket(sock, self.drops, self._handle_arrived)
        if tells_called:  # asyncio does not pass that on
            return BatchedSocket(sock, self.drops, self._handle_arrived, batches=False)
        return await PortableSocket.open(sock, self.drops, self._handle_arrived)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- sending

    def send(self, datagrams: list[bytes], to: str) -> Awaitable[None]:
        """Send each datagram once, best effort; count those that cannot leave in ``drops``.

        Raises AddressError: ``to`` is not the address of a UDP endpoint.
        """
        way = self._fixed_ways.get(to)
        if way is not None:
            return self._send_by(way, datagrams)
        try:
            sockaddr = self._routes.find(address_in(to))
        except OSError as error:  # an address with a scope that does not exist
            self._give_up(datagrams, to, DropReason.WRONG_FAMILY, cause_of(error))
            return DONE
        if sockaddr is not None:
            return self._send_to(datagrams, sockaddr, to)
        waiting = self._waiting.setdefault(to, [])
        room = WAITING_MAX - len(waiting)
        waiting += datagrams[:room]
        self.drops[DropReason.UNRESOLVED] += max(0, len(datagrams) - room)
        return DONE

    def _handle_lookup(self, to: str, problem: OSError | None) -> None:
        waiting = self._waiting.pop(to, [])
        if problem is not None:
            self.drops[DropReason.UNRESOLVED] += len(waiting)
            self.on_trouble(to, f"cannot resolve {Address.parse(to).host}: {cause_of(problem)}")
        elif waiting:
            self._start_task(self._send_found(waiting, to))

    async def _send_found(self, waiting: list[bytes], to: str) -> None:
        await self.send(waiting, to)

    def _give_up(self, datagrams: list[bytes], to: str, reason: DropReason, why: str) -> None:
        self.drops[reason] += len(datagrams)
        self.on_trouble(to, f"cannot reach {address_in(to)} from {self.address}: {why}")

    def _send_to(self, datagrams: list[bytes], sockaddr: SocketAddress, to: str) -> Awaitable[None]:
        way = self._ways.get((sockaddr, called_in(to)))
        if way is None:
            return self._send_by_new(datagrams, sockaddr, to)
        return self._send_by(way, datagrams)

    async def _send_by_new(self, datagrams: list[bytes], sockaddr: SocketAddress, to: str) -> None:
        way = await self._find_way(sockaddr, called_in(to))
        if isinstance(way, _NoWay):
            self._give_up(datagrams, to, way.reason, way.why)
            return
        if self._routes.is_fixed(address_in(to)):
            if len(self._fixed_ways) >= ROUTES_MAX:
                self._fixed_ways.clear()
            self._fixed_ways[to] = way
        await self._send_by(way, datagrams)

    def _send_by(self, way: _Way, datagrams: list[bytes]) -> Awaitable[None]:
        if max(map(len, datagrams), default=0) > MAX_DATAGRAM_BYTES:
            fitting = [datagram for datagram in datagrams if len(datagram) <= MAX_DATAGRAM_BYTES]
            self.drops[DropReason.TOO_LARGE] += len(datagrams) - len(fitting)
            datagrams = fitting
        return way.sock.send(datagrams, way.sockaddr, way.leaving_from)

    # ---- ways

    async def _find_way(self, sockaddr: SocketAddress, called: str) -> _Way | _NoWay:
        if self._is_closed:
            return _NoWay(DropReason.CLOSED, "the endpoint is closed")
        if self._loopback_only and not is_loopback(sockaddr):
            return _NoWay(DropReason.NOT_LOOPBACK, "without keys nothing leaves the machine")
        way = None if self._listening is None else _way_from(self._listening, sockaddr, called)
        if way is None:
            try:
                way = _Way(await self._outgoing_socket(family_of(sockaddr)), sockaddr)
            except OSError as error:
                is_missing = error.errno in _NO_SUCH_FAMILY
                return _NoWay(DropReason.WRONG_FAMILY if is_missing else DropReason.CANNOT_SEND, cause_of(error))
        if len(self._ways) >= ROUTES_MAX:
            self._ways.clear()
        self._ways[sockaddr, called] = way
        return way

    async def _outgoing_socket(self, family: int) -> _Socket:
        async with self._opening:
            if family not in self._outgoing:
                sock = _bound((_LOOPBACK if self._loopback_only else _ANY)[family])
                self._outgoing[family] = await self._take_over(sock)
            return self._outgoing[family]

    # ---- receiving

    async def receive(self) -> Burst:
        """Wait for datagrams and return the next burst. Raises TransportError: the endpoint is closed."""
        return await self.inbox.take(coalesce=not self._is_batched)

    def _handle_arrived(self, arrived: list[tuple[list[bytes], SocketAddress, bytes]]) -> None:
        for datagrams, sockaddr, called in arrived:
            sender = self._routes.name_of(sockaddr)
            if called:
                now_seconds = asyncio.get_running_loop().time()
                sender = path_of(sender, self._called.text_of(sockaddr, called, now_seconds))
            self.inbox.offer_burst(datagrams, sender)
        self.inbox.handle_read()

    async def close(self) -> None:
        """Close the sockets; a caller that waits in :meth:`receive` gets its error."""
        self._is_closed = True
        self.inbox.close()
        for sock in (self._listening, *self._outgoing.values()):
            if sock is not None:
                await sock.close()
        tasks = [*self._tasks, *self._routes.tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def check_sockets(udp: UdpSockets | None) -> None:
    """Raise TransportError for a kind of socket that this system does not have."""
    if udp != "batched":
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if not offers_batches(sock):
            why = 'this system has no batches; leave it out, or set it to "portable"'
            raise TransportError(f'cannot open a UDP endpoint with udp="batched": {why}')


def _bound(sockaddr: SocketAddress) -> socket.socket:
    sock = bound(socket.SOCK_DGRAM, sockaddr)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with contextlib.suppress(OSError):  # a smaller buffer only loses more datagrams
            sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    return sock


def _way_from(sock: _Socket, sockaddr: SocketAddress, called: str) -> _Way | None:
    """How a listening socket reaches an address, if it does, and from which local address."""
    here = sock.sockname
    leaving_from = tuple(answer_from(called, family_of(here), sockaddr))
    if family_of(here) != family_of(sockaddr):
        is_for_both = is_for_all(here) and family_of(here) == socket.AF_INET6
        return _Way(sock, mapped(sockaddr), leaving_from) if is_for_both else None
    reaches = is_loopback(sockaddr) or not is_loopback(here)
    return _Way(sock, sockaddr, leaving_from) if reaches else None
