"""Packets of a queue that wait only on the disk, after those in memory.

Promise: packets leave the backlog in order and unchanged, but without their bodies. Until then each needs at most
``RECORD_BYTES`` of memory, and no object. Packets that no record can describe stay objects: express messages, which are
not on the disk, large messages whose rows are not successive, and messages that represent larger ones.

Records of full blocks are compressed, as neighbours differ little: packets of one sender then need about one byte each.
The last block, and the block that was changed last, are not compressed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from triack.base.columns import Columns
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.queued_packet import QueuedPacket

_RECORD = Struct("<QQQQQIIIHH")
_PLACE = Struct("<Q")
_MESSAGES = Struct("<H")
RECORD_BYTES = _RECORD.size
_MESSAGES_AT = RECORD_BYTES - _MESSAGES.size
"""Offset of the message count; 0 messages: the packet was removed."""
BLOCK_RECORDS = 512
"""Packets that leave it together: few enough that their objects are small, enough that blocks are few."""
BLOCK_BYTES = BLOCK_RECORDS * RECORD_BYTES
_RISING_BYTES = 32
"""The first fields of a record, up to ``sent_at_ms``: they rise little from one packet of a sender to the next."""
_COLUMNS = Columns(RECORD_BYTES, _RISING_BYTES, BLOCK_RECORDS)
ROWS_MAX = 0xFFFF
"""Rows that a record has room for: more than the pieces of the largest message."""


class _Record(NamedTuple):
    """The fields of a packet, in the order of the bytes: ``key`` of its first row, ``stream`` as index of a table."""

    place: int
    key: int
    number: int
    sent_at_ms: int
    receive_by_ms: int
    size_bytes: int
    charged_bytes: int
    stream: int
    rows: int
    messages: int


Stream = tuple[bytes, int, int, int, bool, int, bool, str]
"""Fields that most packets share: origin, stream, sequence, class, restored, priority, cares and topic."""


class DiskBacklog:
    """The packets of one queue after those in memory, in the order of their places. ``blocks`` is empty without any."""

    __slots__ = ("_expiring", "_kept", "_numbers", "_open", "_open_at", "_starts", "_streams", "blocks")

    def __init__(self) -> None:
        # The last one grows; the others are compressed.
        self.blocks: list[bytearray | bytes] = []
        # The uncompressed content of the block that begins at that place.
        self._open_at = 0
        self._open: bytearray | None = None
        # The places of the blocks' first packets.
        self._starts: list[int] = []
        self._kept: dict[int, QueuedPacket] = {}
        self._streams: list[Stream] = []
        self._numbers: dict[Stream, int] = {}
        self._expiring = Deadlines[int]()

    def add(self, packet: QueuedPacket) -> None:
        """Put a packet after all others. Its body is released if it is on the disk."""
        if packet.keys:
            packet.pieces = []
        if not _is_plain(packet):
            self._kept[packet.first_place] = packet
        if not self.blocks or len(self._read(-1)) == BLOCK_BYTES:
            if self.blocks:
                self.blocks[-1] = _COLUMNS.pack(self._read(-1))
            self._starts.append(packet.first_place)
            self.blocks.append(bytearray())
        self.blocks[-1] += self._encode(packet)
        if packet.receive_by_ms:
            start = self._starts[-1]
            earliest_ms = self._expiring.of(start) or packet.receive_by_ms
            self._expiring.set(start, min(packet.receive_by_ms, earliest_ms))

    def take(self) -> list[QueuedPacket]:
        """Take the packets of the first block out of the backlog, in order; all of them may have been removed."""
        records = list(_records(self._read(0)))
        start = self._starts.pop(0)
        self._expiring.set(start, None)
        del self.blocks[0]
        if start == self._open_at:
            self._open = None
        packets = [self._decode(record) for record in records]
        for packet in packets:
            self._kept.pop(packet.first_place, None)
        if not self.blocks:
            self._streams, self._numbers = [], {}
        return packets

    def walk(self, place: int) -> Iterator[QueuedPacket]:
        """Yield the packets from about a place on. Packets without an object get a temporary one."""
        for start in self._starts[max(0, bisect_right(self._starts, place) - 1) :]:
            index = self._index_of(start)
            if index is not None:
                yield from map(self._decode, _records(self._read(index)))

    def remove(self, place: int) -> bool:
        """Remove a packet. Returns whether it was stored."""
        found = self._find(place)
        if found is None:
            return False
        self._kept.pop(place, None)
        block, at = found
        _MESSAGES.pack_into(block, at + _MESSAGES_AT, 0)
        return True

    # ---- packets that leave in any order

    def block_of(self, place: int) -> int:
        """The first place of the block that has a packet."""
        return self._starts[bisect_right(self._starts, place) - 1]

    def drop_block(self, start: int) -> None:
        """Drop the block that begins at a place. All its packets were removed; it is not the last, growing block."""
        index = self._index_of(start)
        if index is None or index == len(self.blocks) - 1:
            return
        if start == self._open_at:
            self._open = None
        self._expiring.set(start, None)
        del self._starts[index], self.blocks[index]

    # ---- expiring

    @property
    def next_expiry_ms(self) -> int | None:
        """When to check for expired packets, by the wall clock, or None."""
        return self._expiring.earliest()

    def poll_expired(self, now_ms: int, limit: int) -> list[QueuedPacket]:
        """Some of the expired packets; the caller removes them."""
        expired: list[QueuedPacket] = []
        for start in self._expiring.poll_due(now_ms, 1):
            records = list(_records(self._read(bisect_left(self._starts, start))))
            due = [record for record in records if 0 < record.receive_by_ms <= now_ms]
            later_ms = [record.receive_by_ms for record in records if record.receive_by_ms > now_ms]
            expired = [self._decode(record) for record in due[:limit]]
            self._expiring.set(start, now_ms if len(due) > limit else min(later_ms, default=None))
        return expired

    # ---- records

    def _read(self, index: int) -> bytearray:
        block = self.blocks[index]
        if isinstance(block, bytearray):
            return block
        if self._open is not None and self._open_at == self._starts[index]:
            return self._open
        return _COLUMNS.unpack(block)

    def _write(self, index: int) -> bytearray:
        """The same, for changing. The block that was changed before it is compressed again."""
        block = self._read(index)
        if block is not self._open and block is not self.blocks[index]:
            if self._open is not None:
                self.blocks[bisect_left(self._starts, self._open_at)] = _COLUMNS.pack(self._open)
            self._open_at, self._open = self._starts[index], block
        return block

    def _index_of(self, start: int) -> int | None:
        index = bisect_left(self._starts, start)
        return index if index < len(self._starts) and self._starts[index] == start else None

    def _encode(self, packet: QueuedPacket) -> bytes:
        stream = (
            packet.origin,
            packet.stream,
            packet.sequence,
            packet.delivery,
            packet.restored,
            packet.priority,
            packet.cares,
            packet.topic,
        )
        number = self._numbers.setdefault(stream, len(self._streams))
        if number == len(self._streams):
            self._streams.append(stream)
        is_kept = packet.first_place in self._kept
        return _RECORD.pack(
            packet.first_place,
            0 if is_kept else packet.keys[0],
            packet.number,
            packet.sent_at_ms,
            packet.receive_by_ms,
            packet.size_bytes,
            packet.charged_bytes,
            number,
            0 if is_kept else len(packet.keys),
            packet.count,
        )

    def _decode(self, record: _Record) -> QueuedPacket:
        kept = self._kept.get(record.place)
        if kept is not None:
            return kept
        origin, stream, sequence, delivery, restored, priority, cares, topic = self._streams[record.stream]
        return QueuedPacket(
            keys=range(record.key, record.key + record.rows),
            origin=origin,
            stream=stream,
            sequence=sequence,
            number=record.number,
            delivery=delivery,
            count=record.messages,
            size_bytes=record.size_bytes,
            pieces=[],
            restored=restored,
            first_place=record.place,
            sent_at_ms=record.sent_at_ms,
            receive_by_ms=record.receive_by_ms,
            charged_bytes=record.charged_bytes,
            priority=priority,
            cares=cares,
            topic=topic,
        )

    def _find(self, place: int) -> tuple[bytearray, int] | None:
        index = bisect_right(self._starts, place) - 1
        if index < 0:
            return None
        block = self._write(index)
        places = range(0, len(block), RECORD_BYTES)
        at = bisect_left(places, place, key=lambda at: int(_PLACE.unpack_from(block, at)[0])) * RECORD_BYTES
        if at == len(block) or _PLACE.unpack_from(block, at)[0] != place:
            return None
        return (block, at) if _MESSAGES.unpack_from(block, at + _MESSAGES_AT)[0] else None


def _records(block: bytearray) -> Iterator[_Record]:
    """The records of a block that were not removed, read one at a time."""
    return (record for record in map(_Record._make, _RECORD.iter_unpack(bytes(block))) if record.messages)


def _is_plain(packet: QueuedPacket) -> bool:
    keys = packet.keys
    if not keys or len(keys) > ROWS_MAX or packet.large:
        return False
    return len(keys) == 1 or list(keys) == list(range(keys[0], keys[0] + len(keys)))
