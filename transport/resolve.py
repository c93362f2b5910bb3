"""Names to socket addresses, without stopping the event loop, and operating system errors to ours."""

import asyncio
import os
import socket
from typing import Any, TypeAlias

from triack.base.errors import TransportError
from triack.transport.address import Address

__all__ = ["SocketAddress", "address_of", "cannot", "cause_of", "lookup", "lookup_numeric", "resolve_listening"]

SocketAddress: TypeAlias = tuple[Any, ...]
"""What the socket module takes and gives for IPv4 (host, port) and IPv6 (host, port, flow, scope)."""

_IPV4_MAPPED = "::ffff:"
"""How a socket for both families writes an IPv4 address (RFC 4291, section 2.5.5.2)."""


def address_of(scheme: str, sockaddr: SocketAddress) -> str:
    """Return the canonical text of a socket address, as a peer of it would write it."""
    host, port, *flow_and_scope = sockaddr
    if host.startswith(_IPV4_MAPPED) and "." in host:
        host = host.removeprefix(_IPV4_MAPPED)  # an IPv4 peer on a socket for both families
    elif flow_and_scope and flow_and_scope[1] and "%" not in host:
        host = f"{host}%{flow_and_scope[1]}"  # a link-local peer cannot be answered without its scope
    return str(Address(scheme, host, port))


def lookup_numeric(address: Address, family: int) -> SocketAddress | None:
    """Return the socket address when the host is a number, at once; None when it is a name.

    Raises:
        OSError: the number is of another family than the socket.
    """
    if ":" not in address.host and not address.host[-1].isdigit():
        return None
    flags = socket.AI_NUMERICHOST | socket.AI_V4MAPPED
    try:
        found = socket.getaddrinfo(address.host, address.port, family=family, type=socket.SOCK_DGRAM, flags=flags)
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME and ":" not in address.host:
            return None
        raise
    return found[0][4]


async def lookup(address: Address, family: int) -> SocketAddress:
    """Ask the system's resolver, in a thread.

    Raises:
        OSError: the name does not exist, or not in this family.
    """
    loop = asyncio.get_running_loop()
    flags = socket.AI_V4MAPPED if family == socket.AF_INET6 else 0
    found = await loop.getaddrinfo(address.host, address.port, family=family, type=socket.SOCK_DGRAM, flags=flags)
    return found[0][4]


async def resolve_listening(address: Address) -> tuple[str, int]:
    """Return the one host and port to bind.

    A name with several addresses means one of them, IPv4 before IPv6: bound to all, port 0 would become several ports.

    Raises:
        OSError: the name does not exist.
    """
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    host, port, *_ = found[0][4]
    return str(host), int(port)


def cannot(operation: str, address: Address, error: OSError) -> TransportError:
    """Return the error that names the address, the operation and the cause."""
    return TransportError(f"cannot {operation} {address}: {cause_of(error)}")


def cause_of(error: OSError) -> str:
    """What the system says, as the end of a sentence."""
    # The resolver numbers its errors differently, and asyncio adds text of its own to those of bind.
    if isinstance(error, socket.gaierror) or error.errno is None:
        cause = error.strerror or str(error)
    else:
        cause = os.strerror(error.errno)
    return f"{cause[:1].lower()}{cause[1:]}"
