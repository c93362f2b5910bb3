"""The text of a path: a peer's address, and, where that matters, the address of this machine that the peer called.

``udp://192.0.2.9:7801`` leaves from whichever address the system chooses.
``udp://192.0.2.9:7801?at=198.51.100.7`` leaves from 198.51.100.7, as the peer called there: a firewall on its side
accepts an answer from nowhere else. A session goes by paths, and assumes that a peer which begins to call elsewhere has
moved. Users, and code that looks for a peer, get the address alone.
"""

from typing import Literal, get_args

UdpSockets = Literal["batched", "portable"]
"""What carries UDP: ``batched``, many datagrams in one system call, on Linux only; ``portable``, asyncio-dgram, one
datagram in a call, on every system and event loop."""
UDP_SOCKETS: tuple[UdpSockets, ...] = get_args(UdpSockets)

_AT = "?at="
"""No address has a question mark."""


def path_of(address: str, called: str) -> str:
    """The path to an address, from that address of this machine; empty: the system chooses it."""
    return f"{address}{_AT}{called}" if called else address


def address_in(path: str) -> str:
    """The address of the peer."""
    return path.partition(_AT)[0]


def called_in(path: str) -> str:
    """The address of this machine, without a port; empty: the system chooses it."""
    return path.partition(_AT)[2]
