"""Turns names into socket addresses, without stopping the event loop, and errors of the system into ours."""

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from triack.base.errors import TransportError
from triack.transport.address import Address, plain_ip

SocketAddress: TypeAlias = tuple[Any, ...]
"""Addresses of the socket module: IPv4 (host, port) and IPv6 (host, port, flow, scope)."""

ADDRESSES_MAX = 8
"""Addresses of one name: to try more of them, one after the other, takes longer than a connect waits."""

LOOKUPS_MAX = 256
"""Threads that wait for the system's name service, which may take 20 s for each name. If more names are silent, the
network has a fault, and they wait for each other."""

_IPV4_PARTS = 2
"""Host and port."""
_IPV4_MAPPED = "::ffff:"
"""The prefix of an IPv4 address on a socket for both families (RFC 4291, section 2.5.5.2)."""


def address_of(scheme: str, sockaddr: SocketAddress) -> str:
    """Return the canonical text of a socket address, as a peer there would write it."""
    host, port, *flow_and_scope = sockaddr
    if host.startswith(_IPV4_MAPPED) and "." in host:
        host = host.removeprefix(_IPV4_MAPPED)  # an IPv4 peer on a socket for both families
    elif flow_and_scope and flow_and_scope[1] and "%" not in host:
        host = f"{host}%{flow_and_scope[1]}"  # a link-local peer cannot be answered without its scope
    return str(Address(scheme, host, port))


def family_of(sockaddr: SocketAddress) -> int:
    """IPv4 or IPv6, as the socket module numbers them."""
    return socket.AF_INET if len(sockaddr) == _IPV4_PARTS else socket.AF_INET6


def is_loopback(sockaddr: SocketAddress) -> bool:
    """Whether only this machine can be there."""
    return plain_ip(sockaddr[0]).is_loopback


def mapped(sockaddr: SocketAddress) -> SocketAddress:
    """An IPv4 address as a socket for both families writes it."""
    return (f"{_IPV4_MAPPED}{sockaddr[0]}", sockaddr[1], 0, 0)


def lookup_numeric(address: Address) -> SocketAddress | None:
    """Return the socket address if the host is a number; None if it is a name. Does not block.

    Raises OSError: an IPv6 address whose scope does not exist on this machine.
    """
    if ":" not in address.host and not address.host[-1].isdigit():
        return None
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME and ":" not in address.host:
            return None
        raise
    return found[0][4]


class _Lookups:
    """Runs look-ups in separate daemon threads, as many as names that are waited for.

    It does not use the event loop's pool of threads: the program needs those few for itself, and its end waits for
    them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0

    async def ask(self, look: Callable[[], list[Any]]) -> list[Any]:
        """What the look-up returns. Raises OSError."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()
        with self._lock:
            self._waiting.append(lambda: _answer(loop, answer, look))
            is_more = self._threads < LOOKUPS_MAX
            self._threads += is_more
        try:
            if is_more:
                threading.Thread(target=self._work, name="triack-lookup", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
            answer.cancel()
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
        return await answer

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                job = self._waiting.popleft()
            job()


_LOOKUPS = _Lookups()


def _answer(
    loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[list[Any]]", look: Callable[[], list[Any]]
) -> None:
    if answer.done():  # its caller has gone
        return
    found: list[Any] = []
    failure: OSError | None = None
    try:
        found = look()
    except OSError as error:
        failure = error
    except UnicodeError:  # no name of the network has such letters, or so many
        failure = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def give() -> None:
        if answer.done():
            return
        if failure is None:
            answer.set_result(found)
        else:
            answer.set_exception(failure)

    with suppress(RuntimeError):  # the loop has ended, and no call waits any more
        loop.call_soon_threadsafe(give)


async def lookup(address: Address) -> list[SocketAddress]:
    """Ask the system's resolver, in a thread, for all addresses: first IPv4, where nodes listen. Raises OSError."""
    found = await _LOOKUPS.ask(lambda: socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM))
    return sorted(dict.fromkeys(entry[4] for entry in found), key=family_of)[:ADDRESSES_MAX]


async def resolve_listening(address: Address) -> SocketAddress:
    """Return the one socket address to bind. Raises OSError: the name does not exist.

    A name with several addresses means one of them, IPv4 before IPv6: bound to all, port 0 would become several ports.
    """
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    found = await _LOOKUPS.ask(lambda: socket.getaddrinfo(address.host, address.port, type=kind, flags=flags))
    return min((entry[4] for entry in found), key=family_of)


def bound(kind: socket.SocketKind, sockaddr: SocketAddress) -> socket.socket:
    """Return a socket bound there. One for all IPv6 addresses accepts IPv4 too, on every system.

    Raises OSError: the address is not this machine's, or in use.
    """
    sock = socket.socket(family_of(sockaddr), kind)
    try:
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM and os.name == "posix":  # elsewhere it lets others take the address
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not is_for_all(sockaddr)))
        sock.bind(sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


def is_for_all(sockaddr: SocketAddress) -> bool:
    """Whether a socket bound there has every address of the machine."""
    return ipaddress.ip_address(sockaddr[0].partition("%")[0]).is_unspecified


def cannot(operation: str, address: Address, error: OSError) -> TransportError:
    """Return the error that names the address, the operation and the cause."""
    return TransportError(f"cannot {operation} {address}: {cause_of(error)}")


def cause_of(error: OSError) -> str:
    """The system's reason, as the end of a sentence."""
    # The resolver and TLS number their errors differently, and asyncio adds text to those of bind.
    if isinstance(error, ssl.SSLCertVerificationError):
        cause = f"its certificate was not accepted: {error.verify_message}"
    elif isinstance(error, ssl.SSLError):
        cause = f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    elif isinstance(error, socket.gaierror) or error.errno is None:
        cause = error.strerror or str(error)
    else:
        cause = os.strerror(error.errno)
    return cause if cause.startswith("TLS") else f"{cause[:1].lower()}{cause[1:]}"
