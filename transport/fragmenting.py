"""Which datagrams the network may cut into fragments: those that every path should carry, and no longer ones.

A longer datagram has a proved size, or is a probe of one, and a probe that arrives in fragments proves nothing (RFC
8899, section 3). It leaves with the don't-fragment bit, regardless of the system's own path MTU, and a system whose
link is narrower refuses it. Others may be cut, so that narrow old links work.
"""

import contextlib
import socket
import sys

from triack.base.checks import DATAGRAM_BASE_BYTES

IP_MTU_DISCOVER = 10
"""Linux's ``in.h``; the ``socket`` module has names for none of these four."""
IPV6_MTU_DISCOVER = 23
"""Linux's ``in6.h``."""
PMTUDISC_DONT = 0
"""Without the bit, in fragments if needed; the same for both families (ip(7), ipv6(7))."""
PMTUDISC_PROBE = 3
"""With the bit, and regardless of the system's own path MTU."""


class Fragmenting:
    """A UDP socket's don't-fragment bit. On other systems than Linux it stays as it is."""

    __slots__ = ("_is_whole", "_options", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._options: list[tuple[int, int]] = []
        if sys.platform == "linux":
            # A socket for both families follows both rules.
            self._options.append((socket.IPPROTO_IP, IP_MTU_DISCOVER))
            if sock.family == socket.AF_INET6:
                self._options.append((socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER))
        self._is_whole: bool | None = None

    def choose(self, longest_bytes: int) -> None:
        """Set the bit for a datagram of that length."""
        is_whole = longest_bytes > DATAGRAM_BASE_BYTES
        if is_whole is self._is_whole:
            return
        self._is_whole = is_whole
        for level, option in self._options:
            with contextlib.suppress(OSError):  # then the system decides, as it did before
                self._sock.setsockopt(level, option, PMTUDISC_PROBE if is_whole else PMTUDISC_DONT)
