"""Packets in transit that wait on the disk alone, by their numbers: each takes a few bytes.

Promise: a packet that was put here comes back as it was, except for its body, and in the order of numbers
(``base.columns``). Neighbours differ in little, so that compressed they take from one to three bytes each.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from struct import Struct

from triack.base.columns import BLOCK_RECORDS, Block, Columns, RecordBlocks
from triack.base.ranges import Range, as_ranges
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit_packet import TransitPacket

_RECORD = Struct("<QQQqQIHHB")
RECORD_BYTES = _RECORD.size
"""Memory of an uncompressed packet, without its share of a block's overhead."""
_NUMBER_AT = 32
"""Offset of the number in a record. As the last of the rising fields it outweighs the others: in the order of numbers
the difference to the record before is never negative."""
_RISING_BYTES = 40
"""The fields that rise by little from one packet to the next: all up to the number."""
_COLUMNS = Columns(RECORD_BYTES, _RISING_BYTES, BLOCK_RECORDS)
SENDS_MAX = 0xFFFF
"""How often a packet was sent is not counted beyond this."""


class _Block(Block):
    """Some packets.

    Attributes:
        is_linked: whether nothing is missing from the first to the last; None if that is to be found out.
        before: see ``TransitPacket.before``, of the first.
        came_ns: none came before that.
    """

    __slots__ = ("before", "came_ns", "is_linked")

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.is_linked: bool | None = True
        self.before = self.came_ns = 0


class DiskBacklog(RecordBlocks[TransitPacket, _Block]):
    """The packets of one stream that wait on the disk alone."""

    __slots__ = ()

    record, number_at, columns, times_of = _RECORD, _NUMBER_AT, _COLUMNS, attrgetter("number", "reach_by_ms")

    @property
    def first(self) -> int:
        """The least number; there must be packets."""
        return self._firsts[0]

    @property
    def came_ns(self) -> int:
        """When the first of them came, or before; there must be packets."""
        return min(block.came_ns for block in self.blocks)

    def take_expired(self, now_ms: int, limit: int) -> list[TransitPacket]:
        """Take packets whose time has run out, at most ``limit``."""
        expired: list[TransitPacket] = []
        while len(expired) < limit and (earliest_ms := self.earliest_ms) is not None and earliest_ms <= now_ms:
            due = self.expired(now_ms, limit - len(expired))
            for entry in due:
                self.remove(entry.number)
            expired += due
        return expired

    def ranges(self, within: Iterable[Range] | None = None) -> list[Range]:
        """The numbers of the packets, ascending: of all, or at least of those that lie in these ranges."""
        blocks = self.blocks if within is None else self._touched(within)
        found: list[Range] = []
        for block in blocks:
            is_whole = block.last - block.first + 1 == block.count
            numbers = [] if is_whole else [record[4] for record in _RECORD.iter_unpack(bytes(self._data(block)))]
            for first, last in [(block.first, block.last)] if is_whole else as_ranges(numbers):
                if found and found[-1][1] + 1 == first:
                    first = found.pop()[0]  # noqa: PLW2901 - it continues that range
                found.append((first, last))
        return found

    def linked_after(self, number: int) -> int:
        """The number up to which nothing is missing here, if all up to ``number`` is there."""
        at = max(0, bisect_right(self._firsts, number) - 1)
        for block in islice(self.blocks, at, None):
            if block.last <= number:
                continue
            if block.first > number and block.before > number:
                break
            if block.is_linked is None:
                block.is_linked = _is_linked(self._packets(block))
            if block.is_linked:
                number = block.last
                continue
            for entry in self._packets(block):
                if entry.number > number:
                    if entry.before > number:
                        break
                    number = entry.number
            break
        return number

    def _touched(self, within: Iterable[Range]) -> list[_Block]:
        """The blocks that have numbers in these ranges, ascending."""
        found: dict[int, None] = {}
        at = 0
        for first, last in sorted(within):
            at = max(at, bisect_right(self._firsts, first) - 1)
            while at < len(self.blocks) and self._firsts[at] <= last:
                if self.blocks[at].last >= first:
                    found[at] = None
                at += 1
            at = max(0, at - 1)
        return [self.blocks[index] for index in found]

    # ---- records

    def _make(self, number: int) -> _Block:
        return _Block(number)

    def _note(self, block: _Block, packet: TransitPacket) -> None:
        if not block.count or packet.number < block.first:
            block.before = packet.before
        if not block.count:
            block.came_ns = packet.came_ns
        elif packet.number < block.last:
            block.is_linked = None
        elif block.is_linked:
            block.is_linked = packet.before <= block.last
        block.came_ns = min(block.came_ns, packet.came_ns)

    def _note_less(self, block: _Block, data: bytearray) -> None:
        block.before, block.is_linked = self._decode(_RECORD.unpack_from(data)).before, None

    def _encode(self, packet: TransitPacket) -> bytes:
        return _RECORD.pack(
            packet.place,
            packet.previous,
            packet.reach_by_ms,
            packet.came_ns,
            packet.number,
            packet.size_bytes,
            packet.messages,
            min(packet.sends, SENDS_MAX),
            packet.ack_requested,
        )

    def _decode(self, fields: tuple[int, ...]) -> TransitPacket:
        place, previous, reach_by_ms, came_ns, number, size_bytes, messages, sends, asks = fields
        return TransitPacket(
            number,
            None,
            size_bytes,
            messages,
            previous,
            came_ns,
            reach_by_ms=reach_by_ms,
            place=place,
            ack_requested=bool(asks),
            sends=sends,
            state=StreamPacketState.WAITING_TO_SEND,
        )


def _is_linked(entries: Iterator[TransitPacket]) -> bool:
    """Whether nothing is missing from the first to the last."""
    last = next(entries).number
    for entry in entries:
        if entry.before > last:
            return False
        last = entry.number
    return True
