"""What endpoints are, and what all of them have."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable

from triack.base.reasons import DropReason
from triack.transport.received import Inbox, Trouble, tell_nobody
from triack.transport.turns import Burst


class Endpoint(ABC):
    """Sends and receives datagrams, best effort: any may be lost, come twice or late.

    Attributes:
        address: where it is.
        drops: datagrams that it dropped, by reason.
        on_trouble: called with an address and a sentence when the system says that nothing reaches it for now.
        inbox: the arrived datagrams. The receiver sets how to find their source (``source_of``), and charges the cost
            of each turn.
        max_datagram_bytes: the largest datagram it carries.
    """

    max_datagram_bytes: int

    def __init__(self, address: str) -> None:
        self.address = address
        self.drops: Counter[DropReason] = Counter()
        self.on_trouble: Trouble = tell_nobody
        self.inbox = Inbox(address, self.drops)
        self._is_closed = False

    @abstractmethod
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
        return await self.inbox.take()

    def vouch(self, address: str) -> None:  # noqa: B027 - most have no connections
        """There is a session with the peer at that address: its connection, if there is one, may stay."""

    def release(self, address: str) -> None:  # noqa: B027 - as above
        """The session with the peer at that address is gone: its connection may end."""

    @abstractmethod
    async def close(self) -> None:
        """Free the address, and wake a caller that waits in :meth:`receive`. Closing twice is allowed."""
