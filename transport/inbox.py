"""What an endpoint has received and nobody has taken yet: bounded in datagrams and in bytes."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from triack.base.errors import TransportError
from triack.base.reasons import DropReason
from triack.transport.wakeup import Wakeup

__all__ = ["Inbox", "Received", "Trouble", "tell_nobody"]

BURST_MAX = 512
"""Datagrams handed out at once, so that one busy endpoint leaves the loop to others."""
BURST_BYTES_MAX = 512 * 1024
"""The same in bytes: less than a node lets wait for its disk before it lets a burst wait."""
COALESCE_MAX = 64
"""Datagrams that are waited for when more keep coming; as many rounds of the loop take less than a millisecond."""
BACKLOG_MAX = 8_192
"""Datagrams that wait for the node: the windows of more than a hundred peers."""
BACKLOG_BYTES_MAX = 64 * 1024 * 1024
"""The same in bytes, for datagrams as large as streams carry."""


class Received(NamedTuple):
    """A datagram and where it came from; empty ``data`` says that the path to ``sender`` is gone."""

    data: bytes
    sender: str


Trouble = Callable[[str, str], None]
"""Takes an address that cannot be reached for now, and why."""


def tell_nobody(_address: str, _cause: str) -> None:
    """The trouble of an endpoint before anyone asked for it."""


class Inbox:
    """The hand-over from whoever reads the wire to whoever calls ``receive``.

    A datagram transport offers and lets the excess be dropped; a stream offers and then waits for room.
    """

    __slots__ = ("_address", "_arrived", "_closed", "_drops", "_held_bytes", "_items", "_room")

    def __init__(self, address: str, drops: Counter[DropReason]) -> None:
        self._address = address
        self._drops = drops
        self._items: deque[Received] = deque()
        self._held_bytes = 0
        self._closed = False
        self._arrived = Wakeup()
        self._room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether the next offered datagram would be dropped."""
        return len(self._items) >= BACKLOG_MAX or self._held_bytes >= BACKLOG_BYTES_MAX

    def offer(self, data: bytes, sender: str) -> None:
        """Add a datagram; count it as dropped when the backlog is full, or when it is empty and so means nothing."""
        if not data:
            self._drops[DropReason.EMPTY] += 1
        elif self.is_full:
            self._drops[DropReason.RECEIVE_OVERFLOW] += 1
        else:
            self._items.append(Received(data, sender))
            self._held_bytes += len(data)
            self._arrived.set()

    def offer_burst(self, datagrams: list[bytes], sender: str) -> None:
        """Add what came together, as ``offer`` does one by one."""
        size_bytes = sum(map(len, datagrams))
        has_room = len(self._items) + len(datagrams) <= BACKLOG_MAX
        if has_room and self._held_bytes + size_bytes <= BACKLOG_BYTES_MAX and all(datagrams):
            self._items += [Received(data, sender) for data in datagrams]
            self._held_bytes += size_bytes
            self._arrived.set()
        else:
            for data in datagrams:
                self.offer(data, sender)

    async def offer_all(self, datagrams: Iterable[bytes], sender: str) -> None:
        """Add all datagrams, waiting for room as often as it takes; for streams, which lose nothing."""
        for data in datagrams:
            while self.is_full and not self._closed:
                self._room.clear()
                await self._room.wait()
            self.offer(data, sender)

    def path_gone(self, sender: str) -> None:
        """Report that nothing more comes from ``sender``; this is never dropped."""
        self._items.append(Received(b"", sender))
        self._arrived.set()

    async def take(self, *, coalesce: bool = False) -> list[Received]:
        """Wait until there is something, and return all of it, up to ``BURST_MAX`` and ``BURST_BYTES_MAX``.

        Nothing is lost when the wait is cancelled.

        Args:
            coalesce: first let the rest of a burst come in. asyncio reads one UDP datagram in a round of the loop,
                and whoever handles a burst does much of its work once for all of it.

        Raises:
            TransportError: the endpoint is closed.
        """
        while not self._items and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        if coalesce:
            await self._coalesce()
        if self._closed:
            raise TransportError(f"cannot receive on {self._address}: the endpoint is closed")
        return self._take_burst()

    async def _coalesce(self) -> None:
        """Wait as long as every round of the loop brings another datagram."""
        before = 0
        while before < len(self._items) < COALESCE_MAX:
            before = len(self._items)
            await asyncio.sleep(0)

    def _take_burst(self) -> list[Received]:
        items = self._items
        if len(items) <= BURST_MAX and self._held_bytes <= BURST_BYTES_MAX:
            burst = list(items)
            items.clear()
            self._held_bytes = 0
        else:
            burst, size_bytes = [], 0
            while items and len(burst) < BURST_MAX and size_bytes < BURST_BYTES_MAX:
                burst.append(items.popleft())
                size_bytes += len(burst[-1].data)
            self._held_bytes -= size_bytes
        self._room.set()
        return burst

    def close(self) -> None:
        """Wake everyone who waits; what was not taken is forgotten."""
        self._closed = True
        self._items.clear()
        self._arrived.set()
        self._room.set()
