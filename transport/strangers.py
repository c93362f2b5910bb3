"""Accepted connections that no session has vouched for: limited for one host and in all, and the newest stay.

A new connection is always accepted, and stays until as many newer ones have come as there are places. If a host's
share is full, its own oldest goes; if all places are full, the oldest of the host that has the most.
"""

from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import Generic, TypeVar

from triack.transport.address import plain_ip

STRANGERS_MAX = 256
"""Far more nodes than call for the first time within the second that a handshake takes; a quarter of the file
descriptors that systems usually give to a process."""
STRANGERS_PER_HOST_MAX = 32
"""One machine has that many nodes at most; and to fill all places takes eight machines."""
IPV6_HOST_BITS = 64
"""One host has as many IPv6 addresses of one such network as it likes (RFC 4291, section 2.5.1)."""

T = TypeVar("T")


class Strangers(Generic[T]):
    """Connections that wait for a session to vouch for them, the oldest first."""

    __slots__ = ("_by_host", "_host_of")

    def __init__(self) -> None:
        self._host_of: dict[T, str] = {}
        self._by_host: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._host_of)

    def __iter__(self) -> Iterator[T]:
        return iter(self._host_of)

    def __contains__(self, stranger: T) -> bool:
        return stranger in self._host_of

    def admit(self, stranger: T, host: str) -> T | None:
        """Add one. Returns the connection that must end for it; that one is already forgotten."""
        self._host_of[stranger] = host
        neighbours = self._by_host.setdefault(host, {})
        neighbours[stranger] = None
        if len(neighbours) <= STRANGERS_PER_HOST_MAX:
            if len(self._host_of) <= STRANGERS_MAX:
                return None
            neighbours = max(self._by_host.values(), key=len)
        oldest = next(iter(neighbours))
        self.forget(oldest)
        return oldest

    def forget(self, stranger: T) -> None:
        """A session vouched for it, or it has ended. Does nothing if it is unknown."""
        host = self._host_of.pop(stranger, None)
        if host is not None:
            neighbours = self._by_host[host]
            del neighbours[stranger]
            if not neighbours:
                del self._by_host[host]


def host_of(address: str) -> str:
    """The key of one host: an IPv4 address, or the network of an IPv6 address."""
    ip = plain_ip(address)
    return f"{int(ip) >> IPV6_HOST_BITS:x}" if isinstance(ip, IPv6Address) else str(ip)
