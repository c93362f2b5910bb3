"""Packets of a queue that wait only on the disk, after those in memory.

Promise: packets leave the backlog in order and unchanged, but without their bodies (``base.columns``): packets of one
sender need about one byte each until then. Packets that no record can describe stay objects: express messages, which
are not on the disk, large messages whose rows are not successive, and messages that represent larger ones.
"""

from operator import attrgetter
from struct import Struct

from triack.base.columns import BLOCK_RECORDS, Block, Columns, RecordBlocks
from triack.queues.mailboxes.queued_packet import QueuedPacket

_RECORD = Struct("<QQQQQIIIHH")
RECORD_BYTES = _RECORD.size
BLOCK_BYTES = BLOCK_RECORDS * RECORD_BYTES
_RISING_BYTES = 32
"""The first fields of a record, up to ``sent_at_ms``: they rise little from one packet of a sender to the next."""
_COLUMNS = Columns(RECORD_BYTES, _RISING_BYTES, BLOCK_RECORDS)
ROWS_MAX = 0xFFFF
"""Rows that a record has room for: more than the pieces of the largest message."""

Stream = tuple[bytes, int, int, int, bool, int, bool, str]
"""Fields that most packets share: origin, stream, sequence, class, restored, priority, cares and topic."""


class DiskBacklog(RecordBlocks[QueuedPacket, Block]):
    """The packets of one queue after those in memory, by the places of their first messages."""

    __slots__ = ("_kept", "_numbers", "_streams")

    record, number_at, columns, times_of = _RECORD, 0, _COLUMNS, attrgetter("first_place", "receive_by_ms")

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, QueuedPacket] = {}
        self._streams: list[Stream] = []
        self._numbers: dict[Stream, int] = {}

    def add(self, packet: QueuedPacket) -> None:
        """Put a packet here. Its body is released if it is on the disk."""
        if packet.keys:
            packet.pieces = []
        if not _is_plain(packet):
            self._kept[packet.first_place] = packet
        super().add(packet)

    def remove(self, number: int) -> bool:
        """Remove the packet of a place. Returns whether it was here."""
        self._kept.pop(number, None)
        return super().remove(number)

    def take_block(self) -> list[QueuedPacket]:
        """Take the packets of the first block, in order."""
        packets = super().take_block()
        for packet in packets:
            self._kept.pop(packet.first_place, None)
        return packets

    # ---- records

    def _make(self, number: int) -> Block:
        return Block(number)

    def _drop(self, block: Block) -> None:
        super()._drop(block)
        if not self.blocks:
            self._streams, self._numbers = [], {}

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

    def _decode(self, fields: tuple[int, ...]) -> QueuedPacket:
        place, key, number, sent_at_ms, receive_by_ms, size_bytes, charged_bytes, stream_at, rows, messages = fields
        kept = self._kept.get(place)
        if kept is not None:
            return kept
        origin, stream, sequence, delivery, restored, priority, cares, topic = self._streams[stream_at]
        return QueuedPacket(
            keys=range(key, key + rows),
            origin=origin,
            stream=stream,
            sequence=sequence,
            number=number,
            delivery=delivery,
            count=messages,
            size_bytes=size_bytes,
            pieces=[],
            restored=restored,
            first_place=place,
            sent_at_ms=sent_at_ms,
            receive_by_ms=receive_by_ms,
            charged_bytes=charged_bytes,
            priority=priority,
            cares=cares,
            topic=topic,
        )


def _is_plain(packet: QueuedPacket) -> bool:
    keys = packet.keys
    if not keys or len(keys) > ROWS_MAX or packet.large:
        return False
    return len(keys) == 1 or list(keys) == list(range(keys[0], keys[0] + len(keys)))
