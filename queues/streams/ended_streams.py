"""Which streams of every origin have ended, by the ranges that their origins have named (``retirement``).

Promise: a packet of a stream that has ended, and is not known any more, begins no stream. What is known of durable ones
is on the disk, in the commit that forgets their positions. Of express ones nothing outlives this process, or the last
session with their origin: no copy of a packet comes by another session.
"""

from struct import Struct

from triack.base.commit import PositionRow
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import StoreDamaged
from triack.base.ranges import NumberSet
from triack.ordering.wire import SequenceHeader

__all__ = ["ENDED_STREAM", "RANGES_MAX", "EndedStreams"]

ENDED_STREAM = 0
"""No stream has it: in the table of positions its rows say what has ended."""
RANGES_MAX = 8_192
"""Ranges of one origin, which has at most as many as live streams, and one: more than any may have. A row has 16 bytes
for each."""

_RANGE = Struct("!QQ")


class EndedStreams:
    """What has ended, of all origins."""

    __slots__ = ("_durable", "_express")

    def __init__(self) -> None:
        self._durable: dict[bytes, NumberSet] = {}
        self._express: dict[bytes, NumberSet] = {}

    def restore(self, row: PositionRow) -> None:
        """Take a row of ``ENDED_STREAM``. Raises StoreDamaged."""
        if len(row.filter) % _RANGE.size:
            raise StoreDamaged("ended streams: wrong length")
        ranges = [(first, last) for first, last in _RANGE.iter_unpack(row.filter)]
        self._durable[row.origin] = NumberSet(row.sequence, ranges)

    def has(self, header: SequenceHeader, delivery: Delivery) -> bool:
        """Whether the stream of a packet, which is not known, has ended."""
        ended = (self._durable if delivery in DURABLE else self._express).get(header.origin)
        return ended is not None and header.sequence in ended

    def knows(self, origin: bytes) -> bool:
        """Whether any durable stream of an origin has ended."""
        return origin in self._durable

    def add(self, origin: bytes, first: int, last: int, *, durable: bool) -> bool:
        """A range has ended. Returns False when that would be one range more than any correct origin leaves."""
        ended = (self._durable if durable else self._express).setdefault(origin, NumberSet())
        if ended.gaps >= RANGES_MAX and first > ended.highest + 1:
            return False
        ended.take_run(first, last)
        return True

    def row(self, origin: bytes) -> PositionRow:
        """What is known of the durable streams of an origin, as the store keeps it."""
        ended = self._durable[origin]
        ranges = b"".join(_RANGE.pack(*each) for each in ended.ranges)
        return PositionRow(origin, ENDED_STREAM, Delivery.RECOVERABLE, "", ended.cumulative, 0, ranges)

    def handle_parted(self, origin: bytes) -> None:
        """The last session with an origin is over."""
        self._express.pop(origin, None)
