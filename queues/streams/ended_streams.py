"""The ended streams of every origin, as ranges that their origins have named (``retirement``).

Promise: a packet of an ended and forgotten stream begins no stream. The ranges of durable streams are on the disk, in
the commit that deletes their positions. Those of express streams do not outlive this process or the last session with
their origin: no copy of a packet comes by another session. If relays bring them, they live as long as the process.
"""

from struct import Struct

from triack.base.commit import PositionRow
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import StoreDamaged
from triack.base.ranges import NumberSet
from triack.ordering.wire import RelayedEnd, SequenceHeader

ENDED_STREAM = 0
"""No stream: in the table of positions its rows hold the ranges that have ended."""
RANGES_MAX = 8_192
"""Most ranges of one origin, 16 bytes each. A correct one needs at most one more than it has live streams: fewer."""

_RANGE = Struct("!QQ")


class EndedStreams:
    """The ended streams of all origins."""

    def __init__(self) -> None:
        self._durable: dict[bytes, NumberSet] = {}
        self._express: dict[bytes, NumberSet] = {}
        # By origin: the relay that brings its streams, and its name there.
        self._relays: dict[bytes, tuple[str, str]] = {}

    def restore(self, row: PositionRow) -> None:
        """Read a row of ``ENDED_STREAM``. Raises StoreDamaged."""
        if len(row.filter) % _RANGE.size:
            raise StoreDamaged("ended streams: wrong length")
        ranges = [(first, last) for first, last in _RANGE.iter_unpack(row.filter)]
        self._durable[row.origin] = NumberSet(row.sequence, ranges)
        if row.via:
            self._relays[row.origin] = row.via, row.from_name

    def handle_brought(self, origin: bytes, relay: str, from_name: str) -> None:
        """A relay brings the ends of an origin, which has a name there: as with its streams, that relay pays."""
        self._relays[origin] = relay, from_name

    def has(self, header: SequenceHeader | RelayedEnd, delivery: Delivery) -> bool:
        """Whether the unknown stream of a packet has ended."""
        ended = (self._durable if delivery in DURABLE else self._express).get(header.origin)
        return ended is not None and header.sequence in ended

    def knows(self, origin: bytes, *, durable: bool = True) -> bool:
        """Whether any durable stream of an origin has ended, or any express one."""
        return origin in (self._durable if durable else self._express)

    def is_brought(self, origin: bytes) -> bool:
        """Whether a relay has brought ends of an origin that are still known."""
        return origin in self._relays

    def add(self, origin: bytes, first: int, last: int, *, durable: bool) -> bool:
        """Add a range. Returns False when that would exceed the ranges of any correct origin."""
        ended = (self._durable if durable else self._express).setdefault(origin, NumberSet())
        if ended.gaps >= RANGES_MAX and first > ended.highest + 1:
            return False
        ended.take_run(first, last)
        return True

    def row(self, origin: bytes) -> PositionRow:
        """The ended durable streams of an origin, as the store keeps them."""
        ended = self._durable[origin]
        ranges = b"".join(_RANGE.pack(*each) for each in ended.ranges)
        way = self._relays.get(origin, ("", ""))
        return PositionRow(origin, ENDED_STREAM, Delivery.RECOVERABLE, "", ended.cumulative, 0, ranges, *way)

    def handle_parted(self, origin: bytes) -> None:
        """The last session with an origin has ended."""
        self._express.pop(origin, None)
