"""At which address of this machine a datagram arrived, and how an answer leaves from there.

A UDP socket that is bound to all addresses sends from the one that the system prefers for the way to the peer. If the
peer called another one, it does not get the answer: firewalls and address translators on its side know the address that
it called, and drop datagrams from elsewhere. So such a socket asks the system at which address each datagram arrived,
and names that address with the answer (IP_PKTINFO, ip(7); IPV6_PKTINFO, RFC 3542, section 6).

The path to a peer names the address only if the system prefers another one: so both ends of a session mean the same
path, whether they called or were called. The preference may change while a node runs, as interfaces come and go, so the
node asks again every few seconds.

Only Linux is asked, as the numbers and layouts below are its own. Elsewhere the system chooses.
"""

import contextlib
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from triack.transport.address import plain_ip
from triack.transport.resolve import SocketAddress, family_of, is_for_all
from triack.transport.routes import ROUTES_MAX

Ancillary = tuple[int, int, bytes]
"""A control message: level, type and content (cmsg(3))."""

_IP_PKTINFO = 8
"""Linux's ``in.h``; the ``socket`` module has no name for it before Python 3.14."""
_IPV6_RECVPKTINFO, _IPV6_PKTINFO = 49, 50
"""Linux's ``in6.h``; the ``socket`` module of Windows has no names for them."""
_PKTINFO = struct.Struct("@i4s4s")
"""``struct in_pktinfo``: interface, the address of this machine, the address in the datagram (ip(7))."""
_PKTINFO6 = struct.Struct("@16si")
"""``struct in6_pktinfo``: the address, and the interface (RFC 3542, section 6)."""
_ANY_INTERFACE = 0
"""The system chooses the interface (ip(7), ipv6(7))."""
_MAPPED = bytes(10) + b"\xff\xff"
"""The prefix of an IPv4 address on a socket for both families (RFC 4291, section 2.5.5.2)."""
ANCILLARY_BYTES = socket.CMSG_SPACE(_PKTINFO6.size) if sys.platform != "win32" else 0  # not on Windows
PREFERRED_SECONDS = 5.0
"""How long the system's preference for a peer is remembered.

To ask takes two system calls. A session whose answers leave from the wrong address for that long ends, and the next one
finds the right address.
"""


def offers_called(sock: socket.socket) -> bool:
    """Ask the system to report at which address each datagram arrives.

    Returns False, and changes nothing, if the system does not report it, or the socket has only one address.
    """
    if sys.platform != "linux" or not is_for_all(sock.getsockname()):
        return False
    try:
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        else:  # a socket for both families gets IPv4 addresses in the same way, as mapped ones
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, 1)
    except OSError:
        return False
    return True


def called_by(ancillary: Iterable[Ancillary]) -> bytes:
    """The address at which a datagram arrived: 4 or 16 bytes; empty if the system did not report it."""
    for level, kind, content in ancillary:
        if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
            return bytes(content[4:8])
        if level == socket.IPPROTO_IPV6 and kind == _IPV6_PKTINFO:
            return bytes(content[:16])
    return b""


def answer_from(called: str, family: int, sockaddr: SocketAddress) -> list[Ancillary]:
    """The control message that makes a datagram leave from an address of this machine."""
    if not called:
        return []
    ip = ipaddress.ip_address(called)
    if family == socket.AF_INET:
        return [(socket.IPPROTO_IP, _IP_PKTINFO, _PKTINFO.pack(_ANY_INTERFACE, ip.packed, bytes(4)))]
    # Several interfaces may have the same link-local address; the system finds the interface of all others.
    is_scoped = ip.is_link_local and family_of(sockaddr) == socket.AF_INET6
    interface = sockaddr[3] if is_scoped else _ANY_INTERFACE
    packed = ip.packed if isinstance(ip, ipaddress.IPv6Address) else _MAPPED + ip.packed
    return [(socket.IPPROTO_IPV6, _IPV6_PKTINFO, _PKTINFO6.pack(packed, interface))]


@dataclass(slots=True)
class _Known:
    """The local address of a path, empty if the system prefers it, and when to ask the system again."""

    text: str
    until_seconds: float


class Called:
    """Knows at which address each datagram arrived, if that is not the one that the system prefers."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[SocketAddress, bytes], _Known] = {}

    def text_of(self, sockaddr: SocketAddress, called: bytes, now_seconds: float) -> str:
        """The address of this machine that an answer has to name; empty: none."""
        known = self._known.get((sockaddr, called))
        if known is None or now_seconds >= known.until_seconds:
            known = self._look(sockaddr, called, now_seconds)
        return known.text

    def _look(self, sockaddr: SocketAddress, called: bytes, now_seconds: float) -> _Known:
        if len(self._known) >= ROUTES_MAX:
            self._known.clear()  # those in use come back with their next datagram
        text = str(plain_ip(str(ipaddress.ip_address(called))))
        is_preferred = text == _preferred(sockaddr)
        known = _Known("" if is_preferred else text, now_seconds + PREFERRED_SECONDS)
        self._known[sockaddr, called] = known
        return known


def _preferred(sockaddr: SocketAddress) -> str:
    """The address from which the system sends to another one; empty if it cannot.

    To connect a datagram socket sends nothing (udp(7)).
    """
    with contextlib.suppress(OSError), socket.socket(family_of(sockaddr), socket.SOCK_DGRAM) as probe:
        probe.connect(sockaddr)
        return str(plain_ip(probe.getsockname()[0]))
    return ""
