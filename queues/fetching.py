"""Bodies that only the disk has: which of them are fetched next, and for whom.

Promise: ``poll`` gives one fetch at a time. What a caller has asked for is first, in order; then each source in its
turn, and only while one of its containers holds something. A fetch has the bodies that its source needs next: at least
one packet's, and no further ones when they have ``FETCH_BYTES``. Its bodies go to ``take`` in one call, without those
whose rows were deleted meanwhile. A source keeps no note of what it has asked for: while a body is still missing, it
asks again. If a fetch never returns, as the node ends, ``fail`` is called.

    only on the disk --the next that its source needs--> in a fetch --read--> taken: in memory, or its row is gone
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple, Protocol, TypeVar

from triack.base.commit import Read

FETCH_BYTES = 2 * 1024 * 1024
"""Bodies of one fetch: enough that reading outweighs the request, and much less than the memory for bodies."""
FETCH_ROWS = 2_048
"""The same for small packets: many windows, as a fetch costs more than reading them."""


def _no_waiter(_error: Exception) -> None:
    """For a source: it ends with the node."""


@dataclass(slots=True, eq=False)
class Fetch(Read):
    """A fetch of bodies.

    Attributes:
        take: gets those that were found, by their keys.
        fail: called instead with the error, when the store fails or the node ends.
    """

    take: Callable[[dict[int, bytes]], None] = field(kw_only=True)
    fail: Callable[[Exception], None] = field(kw_only=True, default=_no_waiter)


class Source(NamedTuple):
    """It needs bodies. ``poll`` gives its next fetch, or None; it is called only while ``needs`` is not empty."""

    needs: Collection[object]
    poll: Callable[[], Fetch | None]


class Fetches:
    """The fetches of a node, with its ``sources``: the one that was served last comes last."""

    def __init__(self, *sources: Source) -> None:
        self.sources = list(sources)
        self._asked: deque[Fetch] = deque()

    def ask(self, fetch: Fetch) -> None:
        """A caller waits for bodies."""
        self._asked.append(fetch)

    def poll(self) -> Fetch | None:
        """The next fetch, or None."""
        if self._asked:
            return self._asked.popleft()
        for at, (needs, poll) in enumerate(self.sources):
            if needs and (fetch := poll()) is not None:
                # The others come first the next time.
                self.sources.append(self.sources.pop(at))
                return fetch
        return None

    def drop_asked(self) -> list[Callable[[Exception], None]]:
        """No caller gets anything any more. Returns their ``fail``."""
        asked, self._asked = self._asked, deque()
        return [fetch.fail for fetch in asked]


def next_fetch(
    table: str,
    needed: Iterable[tuple[Sequence[int], int]],
    take: Callable[[dict[int, bytes]], None],
    most_bytes: int = FETCH_BYTES,
) -> Fetch | None:
    """A fetch of the bodies that are needed next, or None.

    ``needed``: keys and size of each packet; what exceeds the fetch is not drawn. Once the packets before it have
    ``most_bytes``, no further one follows.
    """
    keys: list[int] = []
    for rows, size_bytes in needed:
        keys += rows
        most_bytes -= size_bytes
        if most_bytes <= 0 or len(keys) >= FETCH_ROWS:
            break
    return Fetch(table, keys, take=take) if keys else None


class _Packet(Protocol):
    """A packet of a queue: the keys of its rows, their size, and their bodies; none while only the disk has them."""

    keys: Sequence[int]
    size_bytes: int
    pieces: Sequence[bytes]


_P = TypeVar("_P", bound=_Packet)


def fetch_packets(
    packets: Iterable[_Packet], take: Callable[[dict[int, bytes]], None], most_bytes: int = FETCH_BYTES
) -> Fetch | None:
    """A fetch of the bodies of the first packets of queues, up to one that has its body; or None."""
    lacking = takewhile(lambda packet: not packet.pieces, packets)
    return next_fetch("messages", ((packet.keys, packet.size_bytes) for packet in lacking), take, most_bytes)


def arrived(packets: Iterable[_P], bodies: dict[int, bytes]) -> Iterator[tuple[_P, list[bytes]]]:
    """Yield packets that lack their bodies with what was fetched of them, in order, up to one that still lacks it."""
    for packet in packets:
        if packet.keys and not packet.pieces:
            if any(key not in bodies for key in packet.keys):
                return
            yield packet, [bodies[key] for key in packet.keys]
