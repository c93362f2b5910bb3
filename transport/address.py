"""The canonical text of addresses and destinations.

An address is the place of an endpoint: ``udp://host:port``, ``tcp://host:port`` or ``memory://name``. A destination
names a queue: ``address/queue``, ``peer/queue`` for a peer known by name, or ``queue`` for a local one. Two texts that
mean the same address parse to equal values with equal ``str``.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Self

from triack.base.errors import AddressError, NotLoopback
from triack.base.names import check_name, check_queue

SCHEMES = ("udp", "tcp", "memory")

HOST_BYTES_MAX = 253
"""RFC 1035, section 2.3.4, without the length bytes."""
PORT_MAX = 65_535
"""16 bits (RFC 768, RFC 9293)."""

# RFC 1123 host names have no underscores, but container networks use them.
_HOST_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_DIGITS_AND_DOTS = re.compile(r"[0-9.]+")
_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint is.

    Attributes:
        host: host name in lower case, IPv4 or IPv6 address without brackets; the name, for ``memory``.
        port: 1 to 65535; 0 for ``memory``, and for "any free port" when listening.
    """

    scheme: str
    host: str
    port: int = 0

    @classmethod
    def parse(cls, text: object, *, listening: bool = False) -> Self:
        """Read ``scheme://host:port``; hosts and schemes may be in any case.

        ``listening`` allows port 0, "any free port". Raises AddressError, with the text and what is wrong with it.
        """
        if not isinstance(text, str):
            raise AddressError(f"an address is text, such as udp://host:port, not {text!r}")
        scheme, separator, rest = text.partition("://")
        scheme = scheme.lower()
        if not separator or scheme not in SCHEMES:
            raise _unreadable(text, _no_scheme(scheme if separator else ""))
        try:
            if scheme == "memory":
                return cls(scheme, check_name(rest))
            host, port = _split_port(rest)
            return cls(scheme, _canonical_host(host), _port_number(port, listening=listening))
        except ValueError as error:
            raise _unreadable(text, str(error)) from None

    def __str__(self) -> str:
        if self.scheme == "memory":
            return f"memory://{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it means all addresses of a machine, so that no peer can call it: 0.0.0.0 or ::."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - nothing is bound here

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it: 127.0.0.0/8, ::1, ``localhost`` or memory."""
        if self.scheme == "memory" or self.host == "localhost":
            return True
        try:
            return plain_ip(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Destination:
    """A queue, and its node.

    Attributes:
        queue: the name of the queue, or ``topic:`` and the name of a topic.
        peer: the name of its node; ``plant-b@hub`` is plant-b through hub. Without address and peer the queue is local.
    """

    queue: str
    address: Address | None = None
    peer: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``udp://host:port/queue``, ``peer/queue`` or ``queue``. Raises AddressError, with text and fault."""
        node, separator, queue = text.rpartition("/")
        scheme, marks, _ = text.partition("://")
        if marks and scheme.lower() not in SCHEMES:
            raise _unreadable(text, _no_scheme(scheme))
        if "://" in text and (not separator or node.endswith("/")):
            raise _unreadable(text, "the queue is missing: address/queue")
        address = Address.parse(node) if "://" in node else None
        try:
            peer = "@".join(map(check_name, node.split("@"))) if separator and address is None else None
            return cls(check_queue(queue), address, peer)
        except AddressError as error:
            raise _unreadable(text, str(error)) from None

    def __str__(self) -> str:
        node = self.address or self.peer
        return f"{node}/{self.queue}" if node else self.queue


def plain_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address without a scope, and without the form of IPv4 for sockets of both families. Raises ValueError."""
    ip = ipaddress.ip_address(host.partition("%")[0])
    return getattr(ip, "ipv4_mapped", None) or ip


def check_loopback(operation: str, address: Address) -> None:
    """Raise NotLoopback for an address that may be beyond this machine: only nodes with keys may reach others.

    A name other than ``localhost`` may be anywhere.
    """
    if not address.is_loopback:
        raise NotLoopback(f"{operation} {address}: without keys (insecure) a node uses loopback addresses only")


def _no_scheme(scheme: str) -> str:
    known = f"it must start with one of {', '.join(f'{name}://' for name in SCHEMES)}"
    return f"there is no scheme {scheme}; {known}" if scheme else known


def _unreadable(text: str, why: str) -> AddressError:
    return AddressError(f"cannot read address {text!r}: {why}")


def _split_port(text: str) -> tuple[str, str]:
    """Cut ``host:port``; an IPv6 host loses its brackets."""
    host, separator, port = text.rpartition(":")
    if not separator or port.endswith("]"):
        raise ValueError("the port is missing")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1] if ":" in host else "", port
    if ":" in host:
        raise ValueError("an IPv6 address needs brackets: [::1]:7801")
    return host, port


def _port_number(text: str, *, listening: bool) -> int:
    if not text:
        raise ValueError("the port is missing")
    if not _PORT.fullmatch(text) or int(text) > PORT_MAX:
        raise ValueError(f"port {text!r} is not a number from 1 to {PORT_MAX}")
    if int(text) == 0 and not listening:
        raise ValueError("port 0 is only for listening")
    return int(text)


def _canonical_host(host: str) -> str:
    if not host:
        raise ValueError("the host is missing")
    if ":" in host:
        return str(ipaddress.IPv6Address(host))
    if _DIGITS_AND_DOTS.fullmatch(host):
        return str(ipaddress.IPv4Address(host))
    name = host.lower()
    if len(name) > HOST_BYTES_MAX or not _HOST_NAME.fullmatch(name):
        raise ValueError(f"{host!r} is not a host name")
    return name
