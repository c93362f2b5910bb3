"""Opening an endpoint by the scheme of its address."""

from triack.base.errors import AddressError
from triack.base.paths import UdpSockets
from triack.transport.address import SCHEMES, Address
from triack.transport.connection import NO_WAITS, Waits
from triack.transport.endpoint import Endpoint
from triack.transport.memory import DEFAULT_NETWORK
from triack.transport.tcp import TcpEndpoint, Tls
from triack.transport.udp import UdpEndpoint


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
