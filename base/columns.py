"""Packets as records of one length, in blocks that are compressed by columns: neighbouring records differ in little."""

import zlib
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from struct import Struct
from typing import ClassVar, Generic, TypeVar

_LEVEL = 4  # of zlib: 0.4 microseconds for a record; the best level saves only a twentieth more
_BY_DIFFERENCES, _AS_IT_IS = b"d", b"="
"""The first byte of a compressed block."""
BLOCK_RECORDS = 512
"""Packets that come back together: few enough that their objects take little, enough that blocks are few."""
BLOCK_OVERHEAD_BYTES = 512
"""Memory of a block without its records, measured."""
_STALE_MIN = 64
"""Below this number of entries the heap of expiries is never made again: that would cost more than it frees."""
_NUMBER = Struct("<Q")

Packet = TypeVar("Packet")
AnyBlock = TypeVar("AnyBlock", bound="Block")


class Columns:
    """Compresses the blocks of one kind of record.

    Args:
        record_bytes: length of a record.
        rising_bytes: length of its first fields, which rise by little from one record to the next.
        most: the most records in a block.
    """

    __slots__ = ("_record_bytes", "_rising")

    def __init__(self, record_bytes: int, rising_bytes: int, most: int) -> None:
        self._record_bytes = record_bytes
        # The bits of these fields in a block, read as one number.
        one = b"\xff" * rising_bytes + bytes(record_bytes - rising_bytes)
        self._rising = int.from_bytes(one * most, "little")

    def pack(self, block: bytearray) -> bytes:
        """Compress a block: the first bytes of all records, then the second ones, and so on.

        The rising fields become differences to the record before, unless one falls so far that all differences
        together, as one number, are negative.
        """
        record_bytes, mask = self._record_bytes, (1 << 8 * len(block)) - 1
        whole = int.from_bytes(block, "little")
        rising = whole & self._rising
        risen = (rising - (rising << 8 * record_bytes)) & mask
        kind = _AS_IT_IS
        if not risen & ~self._rising:
            kind, block = _BY_DIFFERENCES, bytearray((whole ^ rising | risen).to_bytes(len(block), "little"))
        return kind + zlib.compress(b"".join([block[at::record_bytes] for at in range(record_bytes)]), _LEVEL)

    def unpack(self, packed: bytes) -> bytearray:
        """Restore a compressed block."""
        columns, record_bytes = zlib.decompress(memoryview(packed)[1:]), self._record_bytes
        records, block = len(columns) // record_bytes, bytearray(len(columns))
        for at in range(record_bytes):
            block[at::record_bytes] = columns[at * records : (at + 1) * records]
        if packed[:1] == _AS_IT_IS:
            return block
        whole, mask = int.from_bytes(block, "little"), (1 << 8 * len(block)) - 1
        risen = whole & self._rising
        rest, bits = whole ^ risen, 8 * record_bytes
        while bits < 8 * len(block):  # sums of 2, of 4, of 8 differences
            risen = (risen + (risen << bits)) & mask
            bits *= 2
        return bytearray((rest | risen).to_bytes(len(block), "little"))


class Block:
    """Some records whose numbers follow each other.

    Attributes:
        first, last: the least and the greatest number.
        count: how many there are; 0 before the first, and when the block is gone.
        data: the records; compressed if they are bytes.
        packed: the same compressed, while nothing has changed; None if something has.
        earliest_ms: no packet expires before that; 0 if none does.
        charged_bytes: its part of ``RecordBlocks.size_bytes``.
    """

    __slots__ = ("charged_bytes", "count", "data", "earliest_ms", "first", "last", "packed")

    def __init__(self, number: int) -> None:
        self.first = self.last = number
        self.count = self.earliest_ms = self.charged_bytes = 0
        self.data: bytearray | bytes = bytearray()
        self.packed: bytes | None = None


class RecordBlocks(ABC, Generic[Packet, AnyBlock]):
    """Packets as records, in the order of their numbers; a subclass says how a packet becomes a record.

    Promise: a packet comes back as the record describes it. Until then it takes at most the bytes of its record, and no
    object. All blocks are compressed but the last one, which grows, and the one that was looked at last. What is asked
    for costs as much as a look at a block, however many packets there are.

    Attributes:
        record: the fields of a record, little-endian.
        number_at: the offset of the number among them, eight bytes.
        columns: compresses them.
        times_of: the number of a packet, and when it expires, in ms; 0 for never.
        blocks: read-only; empty without any packets.
        size_bytes: memory that they take.
    """

    __slots__ = ("_count", "_expiring", "_firsts", "_looked_at", "_order", "blocks", "size_bytes")

    record: ClassVar[Struct]
    number_at: ClassVar[int]
    columns: ClassVar[Columns]
    times_of: ClassVar["attrgetter[tuple[int, int]]"]

    def __init__(self) -> None:
        self.size_bytes = 0
        self.blocks: list[AnyBlock] = []
        self._firsts: list[int] = []
        self._count = 0
        # The block that is not compressed besides the last.
        self._looked_at: AnyBlock | None = None
        # When blocks have to be looked at, some entries outdated; the middle tells equal times apart.
        self._expiring: list[tuple[int, int, AnyBlock]] = []
        self._order = 0

    # ---- what differs by packet

    @abstractmethod
    def _make(self, number: int) -> AnyBlock:
        """A block for a packet of that number."""

    @abstractmethod
    def _encode(self, packet: Packet) -> bytes:
        """Its record."""

    @abstractmethod
    def _decode(self, fields: tuple[int, ...]) -> Packet:
        """The packet that the fields of a record describe."""

    def _note(self, block: AnyBlock, packet: Packet) -> None:
        """A packet is about to be in a block that does not have it yet."""

    def _note_less(self, block: AnyBlock, data: bytearray) -> None:
        """A block has lost packets; these records are left."""

    # ---- packets

    def __len__(self) -> int:
        return self._count

    def add(self, packet: Packet) -> None:
        """Put a packet here that is not here yet."""
        self._put(self._block_for(self.times_of(packet)[0]), packet)

    def _put(self, block: AnyBlock, packet: Packet) -> None:
        number, expires_ms = self.times_of(packet)
        data = self._data(block)
        self._note(block, packet)
        if number > block.last or not block.count:
            data += self._encode(packet)
            block.last = number
        else:
            at = self._offset(data, number)
            data[at:at] = self._encode(packet)
            if number < block.first:
                block.first = self._firsts[0] = number
        block.count += 1
        self._count += 1
        block.packed = None
        self._charge(block)
        if expires_ms and (not block.earliest_ms or expires_ms < block.earliest_ms):
            self._expect(block, expires_ms)

    def find(self, number: int) -> Packet | None:
        """A copy of the packet of that number, or None."""
        found = self._find(number)
        return None if found is None else self._decode(self.record.unpack_from(found[1], found[2]))

    def walk(self, number: int) -> Iterator[Packet]:
        """Yield copies of the packets in order, from the block on that has a number. Some may be gone meanwhile."""
        for block in self.blocks[max(0, bisect_right(self._firsts, number) - 1) :]:
            if block.count:
                yield from self._packets(block)

    def remove(self, number: int) -> bool:
        """Remove a packet. Returns whether it was here."""
        found = self._find(number)
        if found is None:
            return False
        block, data, at = found
        del data[at : at + self.record.size]
        if not data:
            self._drop(block)
            return True
        index = self._index_of(block)
        self._count -= 1
        block.count -= 1
        block.first = self._firsts[index] = self._number(data, 0)
        block.last = self._number(data, len(data) - self.record.size)
        self._note_less(block, data)
        block.packed = None
        self._charge(block)
        return True

    def take_block(self) -> list[Packet]:
        """Take the packets of the first block, in order."""
        block = self.blocks[0]
        packets = list(self._packets(block))
        self._drop(block)
        return packets

    # ---- time

    @property
    def earliest_ms(self) -> int | None:
        """When to look for packets whose time has run out, or None."""
        expiring = self._expiring
        while expiring and expiring[0][0] != expiring[0][2].earliest_ms:
            heappop(expiring)
        return expiring[0][0] if expiring else None

    def expired(self, now_ms: int, limit: int) -> list[Packet]:
        """Copies of at most ``limit`` packets of one block whose time has run out; the caller removes them.

        There are none if the first ones to expire were removed before; then others may be due still.
        """
        at_ms = self.earliest_ms
        if at_ms is None or at_ms > now_ms:
            return []
        block = heappop(self._expiring)[2]
        packets, due, earliest_ms = self._packets(block), list[Packet](), 0
        for packet in packets:
            expires_ms = self.times_of(packet)[1]
            if 0 < expires_ms <= now_ms:
                due.append(packet)
            elif expires_ms:
                earliest_ms = min(earliest_ms or expires_ms, expires_ms)
        block.earliest_ms = 0
        if earliest_ms := now_ms if len(due) > limit else earliest_ms:
            self._expect(block, earliest_ms)
        return due[:limit]

    def _expect(self, block: AnyBlock, at_ms: int) -> None:
        """The next packet of a block expires at this time."""
        block.earliest_ms = at_ms
        self._order += 1
        heappush(self._expiring, (at_ms, self._order, block))
        if len(self._expiring) > _STALE_MIN + 2 * len(self.blocks):
            self._expiring = [(it.earliest_ms, at, it) for at, it in enumerate(self.blocks) if it.earliest_ms]
            heapify(self._expiring)
            self._order = len(self.blocks)

    # ---- blocks

    def _block_for(self, number: int) -> AnyBlock:
        """The block that takes a packet of that number."""
        blocks = self.blocks
        if not blocks or (number > blocks[-1].last and blocks[-1].count >= BLOCK_RECORDS):
            return self._begin(len(blocks), number)
        if number > blocks[-1].last:
            return blocks[-1]
        index = max(0, bisect_right(self._firsts, number) - 1)
        if blocks[index].count >= BLOCK_RECORDS:
            self._split(index)
            index += number > self._firsts[index + 1]
        return blocks[index]

    def _begin(self, index: int, number: int) -> AnyBlock:
        """A block for a packet of that number begins."""
        if index == len(self.blocks) and self.blocks:
            self._close(self.blocks[-1])
        block = self._make(number)
        self.blocks.insert(index, block)
        self._firsts.insert(index, number)
        return block

    def _split(self, index: int) -> None:
        """Make two blocks of a full one."""
        packets = list(self._packets(self.blocks[index]))
        self._drop(self.blocks[index])
        half = len(packets) // 2
        for at, some in ((index, packets[:half]), (index + 1, packets[half:])):
            block = self._begin(at, self.times_of(some[0])[0])
            for packet in some:
                self._put(block, packet)
            if block is not self.blocks[-1]:
                self._close(block)

    def _find(self, number: int) -> tuple[AnyBlock, bytearray, int] | None:
        """The block of a packet, its records and the offset among them; None if it is not here."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0 or number > self.blocks[index].last:
            return None
        data = self._data(self.blocks[index])
        at = self._offset(data, number)
        return (self.blocks[index], data, at) if self._number(data, at) == number else None

    def _index_of(self, block: AnyBlock) -> int:
        index = bisect_left(self._firsts, block.first)
        assert self.blocks[index] is block
        return index

    def _data(self, block: AnyBlock) -> bytearray:
        """The records of a block, to look at or to change."""
        data = block.data
        if not isinstance(data, bytearray):
            if self._looked_at is not None:
                self._close(self._looked_at)
            self._looked_at = block
            block.packed, block.data = data, self.columns.unpack(data)
            data = block.data
            self._charge(block)
        elif block is self.blocks[-1] and block is self._looked_at:
            self._looked_at = None
        return data

    def _close(self, block: AnyBlock) -> None:
        """Compress a block."""
        if block is self._looked_at:
            self._looked_at = None
        if isinstance(block.data, bytearray) and block.count:
            block.data = block.packed or self.columns.pack(block.data)
            block.packed = None
            self._charge(block)

    def _charge(self, block: AnyBlock) -> None:
        size_bytes = BLOCK_OVERHEAD_BYTES + len(block.data) + len(block.packed or b"") if block.count else 0
        self.size_bytes += size_bytes - block.charged_bytes
        block.charged_bytes = size_bytes

    def _drop(self, block: AnyBlock) -> None:
        index = self._index_of(block)
        del self._firsts[index], self.blocks[index]
        self._count -= block.count
        block.count = block.earliest_ms = 0
        self._charge(block)
        if self._looked_at is block:
            self._looked_at = None

    # ---- records

    def _packets(self, block: AnyBlock) -> Iterator[Packet]:
        return map(self._decode, self.record.iter_unpack(bytes(self._data(block))))

    def _number(self, data: bytearray, at: int) -> int:
        return int(_NUMBER.unpack_from(data, at + self.number_at)[0])

    def _offset(self, data: bytearray, number: int) -> int:
        """The offset of the first record whose number is not smaller."""
        places = range(0, len(data), self.record.size)
        return bisect_left(places, number, key=lambda at: self._number(data, at)) * self.record.size
