"""Endpoints in one event loop, for tests: a network that is a dictionary."""

from collections.abc import Awaitable, Callable, Iterable
from itertools import count

from triack.base.errors import TransportError
from triack.base.reasons import DropReason
from triack.transport.address import Address
from triack.transport.endpoint import Endpoint
from triack.transport.wakeup import DONE

MAX_DATAGRAM_BYTES = 65_536
"""As much as sockets carry, so that nothing works only in memory."""

Filter = Callable[[bytes, str, str], Iterable[bytes]]
"""Given a datagram, its sender's address and its receiver's, returns what arrives: nothing, itself, it twice, ..."""


class MemoryNetwork:
    """Named endpoints that reach each other. ``filter`` is called for every datagram in flight, to disturb the path."""

    def __init__(self, filter: Filter | None = None) -> None:  # noqa: A002 - the plain name
        self.filter = filter
        self._endpoints: dict[str, MemoryEndpoint] = {}
        self._unnamed = count(1)

    def endpoint(self, name: str | None = None) -> "MemoryEndpoint":
        """Open ``memory://name``, or ``memory://unnamed-1`` and so on.

        Raises:
            AddressError: the name is not one.
            TransportError: the name is in use.
        """
        if name is None:
            name = f"unnamed-{next(self._unnamed)}"
        address = str(Address.parse(f"memory://{name}"))
        if address in self._endpoints:
            raise TransportError(f"cannot listen on {address}: address already in use")
        endpoint = self._endpoints[address] = MemoryEndpoint(self, address)
        return endpoint

    def carry(self, datagram: bytes, sender: str, to: str) -> bool:
        """Bring a datagram to its receiver; return False when there is none."""
        receiver = self._endpoints.get(to)
        if receiver is None:
            return False
        for arriving in (datagram,) if self.filter is None else self.filter(datagram, sender, to):
            receiver.inbox.offer(arriving, sender)
        return True

    def forget(self, address: str) -> None:
        """Free the address of a closed endpoint."""
        self._endpoints.pop(address, None)


class MemoryEndpoint(Endpoint):
    """One end on a :class:`MemoryNetwork`, which makes it.

    Drops are counted as ``too-large``, ``unreachable``, ``closed``, ``receive-overflow`` and ``empty``.
    """

    max_datagram_bytes = MAX_DATAGRAM_BYTES

    def __init__(self, network: MemoryNetwork, address: str) -> None:
        super().__init__(address)
        self._network = network

    def send(self, datagrams: list[bytes], to: str) -> Awaitable[None]:
        """Give each datagram to its receiver immediately; count lost ones in ``drops``."""
        for datagram in datagrams:
            if self._is_closed:
                self.drops[DropReason.CLOSED] += 1
            elif len(datagram) > MAX_DATAGRAM_BYTES:
                self.drops[DropReason.TOO_LARGE] += 1
            elif not self._network.carry(datagram, self.address, to):
                self.drops[DropReason.UNREACHABLE] += 1
                self.on_trouble(to, f"no process listens at {to}")
        return DONE

    async def close(self) -> None:
        """Leave the network; a caller that waits in :meth:`receive` gets its error."""
        if not self._is_closed:
            self._is_closed = True
            self.inbox.close()
            self._network.forget(self.address)


DEFAULT_NETWORK = MemoryNetwork()
