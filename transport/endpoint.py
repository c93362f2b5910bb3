"""The protocol of endpoints, and how to open one."""

from collections import Counter
from collections.abc import Awaitable
from typing import Protocol

from triack.base.errors import AddressError
from triack.base.paths import UdpSockets
from triack.base.reasons import DropReason
from triack.transport.address import SCHEMES, Address
from triack.transport.connection import NO_WAITS, Waits
from triack.transport.memory import DEFAULT_NETWORK
from triack.transport.received import Inbox, Received, Trouble
from triack.transport.tcp import TcpEndpoint, Tls
from triack.transport.turns import Burst
from triack.transport.udp import UdpEndpoint

__all__ = ["NO_WAITS", "Endpoint", "Received", "Tls", "Waits", "open_endpoint"]


class Endpoint(Protocol):
    """Sends and receives datagrams, best effort: any may be lost, come twice or late.

    Attributes:
        on_trouble: called with an address and a sentence when the system says that nothing reaches it for now.
        inbox: the arrived datagrams. The receiver sets how to find their source (``source_of``), and charges their cost
            (``charge``).
    """

    address: str
    drops: Counter[DropReason]
    on_trouble: Trouble
    inbox: Inbox

    @property
    def max_datagram_bytes(self) -> int:
        """The largest datagram it carries."""

    def send(self, datagrams: list[bytes], to: str) -> Awaitable[None]:
        """Send the datagrams to an address, in one burst.

        Trouble on the way is counted in ``drops`` and never raised. Returns ``wakeup.DONE`` when the datagrams have
        left, and what to await when the system accepts no more for now; that waits no longer than it needs for them.

        Raises:
            AddressError: ``to`` cannot be an address of this kind of endpoint.
        """

    async def receive(self) -> Burst:
        """Wait for datagrams and return those that have arrived, up to a bound, each source in its turn.

        An element with empty ``data`` says that the path to its ``sender`` is gone. One caller at a time; cancelling
        the call loses nothing.

        Raises:
            TransportError: the endpoint is closed.
        """

    def vouch(self, address: str) -> None:
        """There is a session with the peer at that address: its connection may stay."""

    def release(self, address: str) -> None:
        """The session with the peer at that address is gone: its connection may end."""

    async def close(self) -> None:
        """Free the address, and wake a caller that waits in :meth:`receive`. Closing twice is allowed."""


async def open_endpoint(
    scheme: str,
    listen: str | None,
    *,
    loopback_only: bool = True,
    tls: Tls | None = None,
    waits: Waits = NO_WAITS,
    udp: UdpSockets | None = None,
) -> Endpoint:
    """Open an endpoint."""
    address = None if listen is None else Address.parse(listen, listening=True)
    if address is not None and address.scheme != scheme:
        raise AddressError(f"cannot open a {scheme} endpoint on {listen!r}: its scheme is {address.scheme}")
    if scheme == "udp":
        return await UdpEndpoint.open(address, loopback_only=loopback_only, udp=udp)
    if scheme == "tcp":
        return await TcpEndpoint.open(address, loopback_only=loopback_only, tls=tls or Tls(), waits=waits)
    if scheme == "memory":
        return DEFAULT_NETWORK.endpoint(None if address is None else address.host)
    raise AddressError(f"cannot open a {scheme!r} endpoint: known are {', '.join(SCHEMES)}")
