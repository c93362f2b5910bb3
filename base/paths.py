"""The text of a path: the address of a peer, and, where that matters, at which address of this machine it called.

``udp://192.0.2.9:7801`` is a path that leaves from whichever address the system chooses.
``udp://192.0.2.9:7801?at=198.51.100.7`` leaves from 198.51.100.7, as that is where the peer called: a firewall on its
side lets no answer through from anywhere else. A session goes by paths, and takes a peer that begins to call elsewhere
for one that has moved. Users, and code that looks for a peer, get the address alone.
"""

from typing import Literal, get_args

UdpSockets = Literal["batched", "portable"]
"""What carries UDP: ``batched``, many datagrams in one call of the system, which Linux offers alone; ``portable``,
asyncio-dgram, one datagram in a call, on every system and event loop."""
UDP_SOCKETS: tuple[UdpSockets, ...] = get_args(UdpSockets)

_AT = "?at="
"""No address has a question mark."""


def path_of(address: str, called: str) -> str:
    """The path to an address, from that address of this machine; empty for the one that the system chooses."""
    return f"{address}{_AT}{called}" if called else address


def address_in(path: str) -> str:
    """The address of the peer."""
    return path.partition(_AT)[0]


def called_in(path: str) -> str:
    """The address of this machine, without a port; empty for the one that the system chooses."""
    return path.partition(_AT)[2]
