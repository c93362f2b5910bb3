"""The duplicate filter of express and recoverable streams: each packet once, in any order.

Promise: a number is fresh once. The sender no longer sends numbers up to its ``previous`` field, so the sender's
unacknowledged packets bound the memory of the filter, and no time limit is needed. The caller keeps recoverable filters
on disk, in the commit of the packet; express ones live as long as the process. [MS-MQQB] 3.1.2.8 keeps message ids for
half an hour instead, and takes a later copy for new.
"""

from struct import Struct

from triack.base.errors import StoreDamaged
from triack.base.ranges import NumberSet, Range
from triack.ordering.incoming import SKIPS_MAX
from triack.ordering.wire import SequenceHeader

_HEAD = Struct("!QQ")
_RANGE = Struct("!QQ")
MAX_RANGES = 8_192
"""Gaps remembered for one stream; a sender that leaves more is not ours. A row of the store has 16 bytes for each."""


class DuplicateFilter:
    """Which packets of one stream have been seen."""

    __slots__ = ("_seen", "_skips", "sequence")

    def __init__(self) -> None:
        self.sequence = 0
        self._seen = NumberSet()
        self._skips: list[Range] = []

    def handle_packet(self, header: SequenceHeader) -> bool:
        """Whether the packet is seen for the first time. A newer sequence id starts a new stream."""
        if header.sequence < self.sequence:
            return False
        if header.sequence > self.sequence:
            self.sequence = header.sequence
            self._seen = NumberSet()
            self._skips.clear()
        if header.previous > self._seen.cumulative:
            self._skip_to(header.previous)
        return self._seen.add(header.number)

    def handle_run(self, header: SequenceHeader, packets: int) -> bool:
        """Take consecutive packets of the stream that come after all others so far, perhaps behind a gap.

        Args:
            header: of the first.
            packets: how many there are.

        Returns:
            False when they have to be looked at one by one, and nothing has changed.
        """
        if header.sequence != self.sequence or header.number <= self._seen.highest:
            return False
        if header.previous > self._seen.cumulative:
            self._skip_to(header.previous)
        self._seen.add_run(header.number, header.number + packets - 1)
        return True

    def is_fresh(self, header: SequenceHeader) -> bool:
        """Whether ``handle_packet`` would say so; nothing changes."""
        if header.sequence != self.sequence:
            return header.sequence > self.sequence
        return header.number not in self._seen

    def has_skipped(self, header: SequenceHeader) -> bool:
        """Whether a packet that is not fresh may never have been seen: its sender gave it up before it came.

        That is so of all packets of an older sequence. Only copies that were under way can be such packets, so this
        need not be known after a restart.
        """
        return header.sequence < self.sequence or any(first <= header.number <= last for first, last in self._skips)

    def _skip_to(self, floor: int) -> None:
        """Numbers up to this one are not waited for any more."""
        first = self._seen.cumulative + 1
        for start, end in self._seen.ranges_up_to(floor):
            if first < start:
                self._skips.append((first, start - 1))
            first = end + 1
        if first <= floor:
            self._skips.append((first, floor))
        del self._skips[:-SKIPS_MAX]
        self._seen.forget_below(floor)

    def opens_gap(self, header: SequenceHeader) -> bool:
        """Whether a fresh packet of this sequence has no seen neighbour."""
        seen, number = self._seen, header.number
        joins = number - 1 in seen or number + 1 in seen or number - 1 <= header.previous
        return header.sequence == self.sequence and not joins

    def forget_oldest(self) -> None:
        """Take the older half of the gaps for numbers that will not come: copies of them are duplicates from now on."""
        ranges = self._seen.ranges
        if ranges:
            self._skip_to(ranges[len(ranges) // 2][0])

    @property
    def cumulative(self) -> int:
        """Every number up to this one was seen, or is not wanted any more."""
        return self._seen.cumulative

    @property
    def gaps(self) -> int:
        """How many gaps there are between seen numbers."""
        return self._seen.gaps

    @property
    def full(self) -> bool:
        """Whether the stream has more gaps than any correct sender leaves."""
        return self.gaps >= MAX_RANGES

    @property
    def ranges(self) -> list[Range]:
        """The numbers that were seen, or that the origin no longer sends."""
        first = [(1, self._seen.cumulative)] if self._seen.cumulative else []
        return first + self._seen.ranges

    def encode(self) -> bytes:
        """The filter as bytes for the disk."""
        head = _HEAD.pack(self.sequence, self._seen.cumulative)
        return head + b"".join(_RANGE.pack(first, last) for first, last in self._seen.ranges)

    @classmethod
    def decode(cls, data: bytes) -> "DuplicateFilter":
        """Read the result of ``encode``. Raises StoreDamaged."""
        if len(data) < _HEAD.size or (len(data) - _HEAD.size) % _RANGE.size:
            raise StoreDamaged("duplicate filter: wrong length")
        found = cls()
        found.sequence, cumulative = _HEAD.unpack_from(data)
        found._seen = NumberSet(cumulative, [(first, last) for first, last in _RANGE.iter_unpack(data[_HEAD.size :])])
        return found
