"""Endpoints on the simulated network, and which of them are cut off from each other.

All machines share the loopback addresses, as the processes of one real machine do: an address belongs to one machine at
a time. ``localhost`` and the names of machines mean 127.0.0.1.
"""

from collections.abc import Awaitable, Callable, Iterator

from triack.base.errors import AddressError, TransportError
from triack.base.reasons import DropReason
from triack.tools.sim.network import Network, Port
from triack.transport.address import Address
from triack.transport.endpoint import Endpoint
from triack.transport.frames import FRAME_BYTES_MAX
from triack.transport.udp import MAX_DATAGRAM_BYTES
from triack.transport.wakeup import DONE

FIRST_FREE_PORT = 49_152
"""The first of the ports that a system assigns itself (RFC 6335, section 6)."""
LOOPBACK = "127.0.0.1"

Pair = tuple[str, str]


class Links:
    """The addresses of a world's machines, and the ways between them. ``hosts``: names that mean 127.0.0.1."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.hosts = {"localhost"}
        self._owners: dict[str, str] = {}
        self._cuts: dict[Pair, None] = {}
        self._clogs: dict[Pair, None] = {}
        self._next_port = FIRST_FREE_PORT

    # ---- addresses

    def route(self, address: Address) -> str:
        """The network's name of an address."""
        if address.host not in self.hosts:
            return str(address)
        return str(Address(address.scheme, LOOPBACK, address.port))

    def free(self, scheme: str, host: str) -> Address:
        """An address without a listener."""
        self._next_port += 1
        if scheme == "memory":
            return Address(scheme, f"unnamed-{self._next_port}")
        return Address(scheme, host, self._next_port)

    def attach(self, route: str, machine: str, port: Port) -> None:
        """Let a machine listen. Raises TransportError if another endpoint does already."""
        if route in self._owners:
            raise TransportError(f"cannot listen on {route}: address already in use on machine {self._owners[route]}")
        self._owners[route] = machine
        self.network.attach(route, port)
        for pairs, act in ((self._cuts, self.network.cut), (self._clogs, self.network.clog)):
            for pair in pairs:
                for path in self._paths(pair):
                    if route in path:
                        act(*path)

    def detach(self, route: str) -> None:
        """No machine listens there any more."""
        del self._owners[route]
        self.network.detach(route)

    def routes_of(self, machine: str) -> list[str]:
        """Where a machine listens, or sends from."""
        return [route for route, owner in self._owners.items() if owner == machine]

    def _paths(self, pair: Pair) -> Iterator[Pair]:
        sender, to = pair
        for source in self.routes_of(sender):
            for target in self.routes_of(to):
                if source.partition(":")[0] == target.partition(":")[0]:
                    yield source, target

    # ---- ways

    def cut(self, sender: str, to: str) -> None:
        """Lose everything from one machine to another, at all its addresses, later ones included."""
        if (sender, to) not in self._cuts:
            self._cuts[sender, to] = None
            for path in self._paths((sender, to)):
                self.network.cut(*path)

    def clog(self, sender: str, to: str) -> None:
        """Hold everything from one machine to another."""
        self._clogs[sender, to] = None
        for path in self._paths((sender, to)):
            self.network.clog(*path)

    def heal(self) -> None:
        """End all cuts and clogs."""
        self._cuts.clear()
        self._clogs.clear()
        self.network.heal()


class SimEndpoint(Endpoint):
    """An endpoint of a simulated process, with the queue and the limits of a real one.

    Drops are counted as ``too-large``, ``closed``, ``unresolved``, ``receive-overflow`` and ``empty``.

    Args:
        machine: the name of the one that it is on.
        scheme: the kind of address.
        listen: where to listen; None for anywhere.
        take_effect: called before each datagram; returns whether it is still sent.
    """

    def __init__(
        self, links: Links, machine: str, scheme: str, listen: Address | None, take_effect: Callable[[], bool]
    ) -> None:
        self._links = links
        address = listen or links.free(scheme, LOOPBACK)
        if not address.port and scheme != "memory":
            address = links.free(scheme, address.host)
        super().__init__(str(address))
        self.max_datagram_bytes = MAX_DATAGRAM_BYTES if scheme == "udp" else FRAME_BYTES_MAX
        self._scheme = scheme
        self._take_effect = take_effect
        self._route = links.route(address)
        self._routes: dict[str, str] = {}
        links.attach(self._route, machine, Port(self.inbox.offer, self.inbox.path_gone))

    def send(self, datagrams: list[bytes], to: str) -> Awaitable[None]:
        """Put the datagrams on the network. Raises AddressError if ``to`` is of another kind."""
        route = self._routes.get(to) or self._find_route(to)
        for datagram in datagrams:
            if self._is_closed:
                self.drops[DropReason.CLOSED] += 1
            elif len(datagram) > self.max_datagram_bytes:
                self.drops[DropReason.TOO_LARGE] += 1
            elif self._take_effect():
                self._links.network.send(datagram, self._route, route)
        return DONE

    def _find_route(self, to: str) -> str:
        address = Address.parse(to)
        if address.scheme != self._scheme:
            raise AddressError(f"cannot send to {to!r} from {self.address}: it is not a {self._scheme} address")
        route = self._routes[to] = self._links.route(address)
        return route

    async def close(self) -> None:
        """Free the address, and wake a caller that waits in ``receive``."""
        self.vanish()
        self.inbox.close()

    def vanish(self) -> None:
        """Free the address, and wake no caller."""
        if not self._is_closed:
            self._is_closed = True
            self._links.detach(self._route)
