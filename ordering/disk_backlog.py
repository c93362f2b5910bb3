"""Packets in transit that wait on the disk alone, by their numbers: each takes a few bytes.

Promise: a packet that was put here comes back as it was, except for its body, and in the order of numbers. Until then
it takes at most ``RECORD_BYTES``, and no object. Neighbours differ in little, so that compressed they take from one to
three bytes each.

The records are in blocks, in order. All blocks are compressed but the last one, which grows, and the one that was
looked at last. What is asked for costs as much as a look at a block, however many packets there are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from struct import Struct

from triack.base.columns import Columns
from triack.base.ranges import Range, as_ranges
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit_packet import TransitPacket

_RECORD = Struct("<QQQqQIHHB")
_NUMBER = Struct("<Q")
RECORD_BYTES = _RECORD.size
"""Memory of an uncompressed packet, without its share of a block's overhead."""
_NUMBER_AT = 32
"""Offset of the number in a record. As the last of the rising fields it outweighs the others: in the order of numbers
the difference to the record before is never negative."""
_RISING_BYTES = 40
"""The fields that rise by little from one packet to the next: all up to the number."""
BLOCK_RECORDS = 512
"""Packets that come back together: few enough that their objects take little, enough that blocks are few."""
_BLOCK_BYTES = BLOCK_RECORDS * RECORD_BYTES
BLOCK_OVERHEAD_BYTES = 512
"""Memory of a block without its records, measured."""
_COLUMNS = Columns(RECORD_BYTES, _RISING_BYTES, BLOCK_RECORDS)
SENDS_MAX = 0xFFFF
"""How often a packet was sent is not counted beyond this."""
_STALE_MIN = 64
"""Below this number of entries the heap of expiries is never made again: that would cost more than it frees."""


class _Block:
    """Some packets whose numbers follow each other here.

    Attributes:
        first, last: the least and the greatest number.
        count: how many there are.
        data: the records; compressed if they are bytes.
        packed: the same compressed, while nothing has changed; None if something has.
        is_linked: whether nothing is missing from the first to the last; None if that is to be found out.
        before: see ``TransitPacket.before``, of the first.
        earliest_ms: none expires before that; 0 if none does.
        came_ns: none came before that.
        charged_bytes: its part of ``DiskBacklog.size_bytes``.
    """

    __slots__ = (
        "before",
        "came_ns",
        "charged_bytes",
        "count",
        "data",
        "earliest_ms",
        "first",
        "is_linked",
        "last",
        "packed",
    )

    def __init__(self, number: int) -> None:
        self.first = self.last = number
        self.count = 0
        self.data: bytearray | bytes = bytearray()
        self.packed: bytes | None = None
        self.is_linked: bool | None = True
        self.before = self.earliest_ms = self.came_ns = 0
        self.charged_bytes = 0

    def note(self, entry: TransitPacket) -> None:
        """One more packet is in it."""
        self.came_ns = min(self.came_ns, entry.came_ns) if self.count else entry.came_ns
        self.count += 1
        if entry.number < self.first or self.count == 1:
            self.first, self.before = entry.number, entry.before
        self.last = max(self.last, entry.number)


class DiskBacklog:
    """The packets of one stream that wait on the disk alone.

    Attributes:
        size_bytes: memory that they take.
    """

    __slots__ = ("_blocks", "_count", "_expiring", "_firsts", "_looked_at", "_order", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        self._blocks: list[_Block] = []
        self._firsts: list[int] = []
        self._count = 0
        # The block that is not compressed besides the last.
        self._looked_at: _Block | None = None
        # When blocks have to be looked at, some entries outdated; the middle tells equal times apart.
        self._expiring: list[tuple[int, int, _Block]] = []
        self._order = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> int:
        """The least number; there must be packets."""
        return self._firsts[0]

    @property
    def last(self) -> int:
        """The greatest number; there must be packets."""
        return self._blocks[-1].last

    @property
    def came_ns(self) -> int:
        """When the first of them came, or before; there must be packets."""
        return min(block.came_ns for block in self._blocks)

    def add(self, entries: Iterable[TransitPacket]) -> None:
        """Put packets here that are not here yet."""
        for entry in entries:
            block = self._block_for(entry.number)
            data, first = self._data(block), block.first
            if entry.number > block.last or not block.count:
                if block.is_linked and block.count:
                    block.is_linked = entry.before <= block.last
                data += _encode(entry)
            else:
                at = _offset(data, entry.number)
                data[at:at] = _encode(entry)
                block.is_linked = None
            block.note(entry)
            if block.first != first:
                self._firsts[0] = block.first
            self._count += 1
            self._handle_changed(block)
            if entry.reach_by_ms and (not block.earliest_ms or entry.reach_by_ms < block.earliest_ms):
                self._expect(block, entry.reach_by_ms)

    def find(self, number: int) -> TransitPacket | None:
        """A copy of the packet of that number, or None."""
        block = self._block_at(number)
        if block is None:
            return None
        data = self._data(block)
        at = _offset(data, number)
        return self._decode(data, at) if at < len(data) and _number_at(data, at) == number else None

    def since(self, number: int) -> Iterator[TransitPacket]:
        """Copies of the packets from that number on, in order. One block is open at a time; nothing may change."""
        for block in islice(self._blocks, max(0, bisect_right(self._firsts, number) - 1), None):
            yield from [entry for entry in self._entries(block) if entry.number >= number]

    def take(self, number: int) -> TransitPacket:
        """Take a packet that is here."""
        block = self._block_at(number)
        assert block is not None
        data = self._data(block)
        at = _offset(data, number)
        entry = self._decode(data, at)
        assert entry.number == number
        del data[at : at + RECORD_BYTES]
        self._handle_taken(block, 1)
        return entry

    def take_block(self) -> list[TransitPacket]:
        """Take the packets of the first block, in order."""
        block = self._blocks[0]
        entries = list(self._entries(block))
        self._drop(block)
        return entries

    def take_expired(self, now_ms: int, limit: int) -> list[TransitPacket]:
        """Take packets whose time has run out, at most ``limit``."""
        expired: list[TransitPacket] = []
        while len(expired) < limit and (earliest_ms := self.earliest_ms) is not None and earliest_ms <= now_ms:
            block = heappop(self._expiring)[2]
            due = [it for it in self._entries(block) if 0 < it.reach_by_ms <= now_ms][: limit - len(expired)]
            numbers, data = {it.number for it in due}, self._data(block)
            left = [it for it in self._entries(block) if it.number not in numbers]
            data[:] = b"".join(map(_encode, left))
            block.earliest_ms = 0
            self._handle_taken(block, len(due))
            if earliest := [it.reach_by_ms for it in left if it.reach_by_ms]:
                self._expect(block, min(earliest))
            expired += due
        return expired

    @property
    def earliest_ms(self) -> int | None:
        """When to look for packets whose time has run out, or None."""
        expiring = self._expiring
        while expiring and expiring[0][0] != expiring[0][2].earliest_ms:
            heappop(expiring)
        return expiring[0][0] if expiring else None

    def ranges(self, within: Iterable[Range] | None = None) -> list[Range]:
        """The numbers of the packets, ascending: of all, or at least of those that lie in these ranges."""
        blocks = self._blocks if within is None else self._touched(within)
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
        for block in islice(self._blocks, at, None):
            if block.last <= number:
                continue
            if block.first > number and block.before > number:
                break
            if block.is_linked is None:
                block.is_linked = _is_linked(self._entries(block))
            if block.is_linked:
                number = block.last
                continue
            for entry in self._entries(block):
                if entry.number > number:
                    if entry.before > number:
                        break
                    number = entry.number
            break
        return number

    # ---- blocks

    def _touched(self, within: Iterable[Range]) -> list[_Block]:
        """The blocks that have numbers in these ranges, ascending."""
        found: dict[int, None] = {}
        at = 0
        for first, last in sorted(within):
            at = max(at, bisect_right(self._firsts, first) - 1)
            while at < len(self._blocks) and self._firsts[at] <= last:
                if self._blocks[at].last >= first:
                    found[at] = None
                at += 1
            at = max(0, at - 1)
        return [self._blocks[index] for index in found]

    def _block_for(self, number: int) -> _Block:
        """The block that takes a packet of that number."""
        if not self._blocks or (number > self._blocks[-1].last and self._blocks[-1].count >= BLOCK_RECORDS):
            return self._begin(len(self._blocks), number)
        if number > self._blocks[-1].last:
            return self._blocks[-1]
        index = max(0, bisect_right(self._firsts, number) - 1)
        block = self._blocks[index]
        if block.count < BLOCK_RECORDS:
            return block
        self._split(index)
        return self._blocks[index + (number > self._firsts[index + 1])]

    def _begin(self, index: int, number: int) -> _Block:
        """A block for a packet of that number begins."""
        if index == len(self._blocks) and self._blocks:
            self._close(self._blocks[-1])
        block = _Block(number)
        self._blocks.insert(index, block)
        self._firsts.insert(index, number)
        return block

    def _split(self, index: int) -> None:
        """Make two blocks of a full one."""
        block = self._blocks[index]
        entries = list(self._entries(block))
        half = len(entries) // 2
        self._drop(block)
        for at, some in ((index, entries[:half]), (index + 1, entries[half:])):
            block = self._begin(at, some[0].number)
            data = self._data(block)
            for entry in some:
                data += _encode(entry)
                block.note(entry)
            block.is_linked = None
            self._count += len(some)
            self._handle_changed(block)
            if block is not self._blocks[-1]:
                self._close(block)
            if earliest := [it.reach_by_ms for it in some if it.reach_by_ms]:
                self._expect(block, min(earliest))

    def _block_at(self, number: int) -> _Block | None:
        """The block that has that number, if any has."""
        index = bisect_right(self._firsts, number) - 1
        return self._blocks[index] if index >= 0 and number <= self._blocks[index].last else None

    def _index_of(self, block: _Block) -> int:
        index = bisect_left(self._firsts, block.first)
        assert self._blocks[index] is block
        return index

    def _data(self, block: _Block) -> bytearray:
        """The records of a block, to look at or to change; ``_handle_changed`` follows a change."""
        data = block.data
        if not isinstance(data, bytearray):
            if self._looked_at is not None:
                self._close(self._looked_at)
            self._looked_at = block
            block.packed, block.data = data, _COLUMNS.unpack(data)
            data = block.data
            self._charge(block)
        elif block is self._blocks[-1] and block is self._looked_at:
            self._looked_at = None
        return data

    def _close(self, block: _Block) -> None:
        """Compress a block."""
        if block is self._looked_at:
            self._looked_at = None
        if isinstance(block.data, bytearray) and block.count:
            block.data = block.packed or _COLUMNS.pack(block.data)
            block.packed = None
            self._charge(block)

    def _charge(self, block: _Block) -> None:
        size_bytes = BLOCK_OVERHEAD_BYTES + len(block.data) + len(block.packed or b"") if block.count else 0
        self.size_bytes += size_bytes - block.charged_bytes
        block.charged_bytes = size_bytes

    def _handle_changed(self, block: _Block) -> None:
        block.packed = None
        self._charge(block)

    def _handle_taken(self, block: _Block, count: int) -> None:
        """Packets were taken from the records of a block."""
        data = self._data(block)
        if not data:
            self._drop(block)
            return
        index = self._index_of(block)
        self._count -= count
        block.count -= count
        block.last = _number_at(data, len(data) - RECORD_BYTES)
        first = self._decode(data, 0)
        block.first, block.before, block.is_linked = first.number, first.before, None
        self._firsts[index] = block.first
        self._handle_changed(block)

    def _drop(self, block: _Block) -> None:
        index = self._index_of(block)
        del self._firsts[index], self._blocks[index]
        self._count -= block.count
        block.count = block.earliest_ms = 0
        self._charge(block)
        if self._looked_at is block:
            self._looked_at = None

    def _expect(self, block: _Block, at_ms: int) -> None:
        """The next packet of a block expires at this time."""
        block.earliest_ms = at_ms
        self._order += 1
        heappush(self._expiring, (at_ms, self._order, block))
        if len(self._expiring) > _STALE_MIN + 2 * len(self._blocks):
            self._expiring = [(it.earliest_ms, at, it) for at, it in enumerate(self._blocks) if it.earliest_ms]
            heapify(self._expiring)
            self._order = len(self._blocks)

    # ---- records

    def _entries(self, block: _Block) -> Iterator[TransitPacket]:
        return map(self._packet, _RECORD.iter_unpack(bytes(self._data(block))))

    def _decode(self, data: bytearray, at: int) -> TransitPacket:
        return self._packet(_RECORD.unpack_from(data, at))

    def _packet(self, record: tuple[int, ...]) -> TransitPacket:
        place, previous, reach_by_ms, came_ns, number, size_bytes, messages, sends, asks = record
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


def _encode(entry: TransitPacket) -> bytes:
    return _RECORD.pack(
        entry.place,
        entry.previous,
        entry.reach_by_ms,
        entry.came_ns,
        entry.number,
        entry.size_bytes,
        entry.messages,
        min(entry.sends, SENDS_MAX),
        entry.ack_requested,
    )


def _number_at(data: bytearray, at: int) -> int:
    return int(_NUMBER.unpack_from(data, at + _NUMBER_AT)[0])


def _offset(data: bytearray, number: int) -> int:
    """The offset of the first record whose number is not smaller."""
    places = range(0, len(data), RECORD_BYTES)
    return bisect_left(places, number, key=lambda at: _number_at(data, at)) * RECORD_BYTES


def _is_linked(entries: Iterator[TransitPacket]) -> bool:
    """Whether nothing is missing from the first to the last."""
    last = next(entries).number
    for entry in entries:
        if entry.before > last:
            return False
        last = entry.number
    return True
