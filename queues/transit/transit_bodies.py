"""Packets in transit, and their bodies, that only the disk has, and those that are in memory, too.

Promise: the packets that are in memory, too, take a limited part of it, and all others a few bytes each
(``ordering.disk_backlog``). If there is no room for a packet, only the disk has it and those of its stream behind it.
"""

from triack.ordering.departing import StreamPacketState
from triack.ordering.transit import TransitPacket
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transit_room import TransitRoom

PACKET_BYTES = 400
"""Memory of a durable packet without its body: some more than the 380 that were measured."""


class TransitBodies:
    """The packets in transit that are on the disk, too.

    Args:
        room: is charged for what only the disk has.
        limit_bytes: packets and bodies beyond this stay on the disk alone.

    Attributes:
        cached_bytes: durable packets that are in memory and on the disk, with their bodies.
    """

    def __init__(self, room: TransitRoom, limit_bytes: int) -> None:
        self._room = room
        self._limit_bytes = limit_bytes
        self.cached_bytes = 0

    def handle_stored(self, stream: TransitStream, entries: list[TransitPacket]) -> None:
        """Packets are on the disk: they stay in memory if there is room, and may leave."""
        on_disk = stream.sequence.on_disk
        behind, away = on_disk.first if on_disk else None, list[TransitPacket]()
        for entry in entries:
            if entry.state is not StreamPacketState.ARRIVED:
                continue
            if self.cached_bytes < self._limit_bytes and (behind is None or entry.number < behind):
                self.count(entry)
            else:
                away.append(entry)
                behind = entry.number if behind is None else min(behind, entry.number)
        if away:
            self._put_away(stream, away)
        stream.sequence.handle_stored(entries)

    def handle_waiting(self, stream: TransitStream) -> None:
        """The next hop of a stream is away: what waits for it makes room."""
        if stream.durable and self.cached_bytes > self._limit_bytes:
            self._put_away(stream, list(stream.sequence.entries.values()))

    def bring_back(self, stream: TransitStream, limit: int) -> None:
        """Packets that only the disk has are needed."""
        for entry in stream.bring_back(limit):
            self.count(entry)
        self._room.charge(stream)

    def bring_back_expired(self, stream: TransitStream, now_ms: int, limit: int) -> list[TransitPacket]:
        """Bring packets back whose time has run out."""
        expired = stream.sequence.bring_back_expired(now_ms, limit)
        for entry in expired:
            self.count(entry)
        self._room.charge(stream)
        return expired

    def _put_away(self, stream: TransitStream, entries: list[TransitPacket]) -> None:
        for entry in stream.put_away(entries):
            self.release(entry)
        self._room.charge(stream)

    def count(self, entry: TransitPacket) -> None:
        """A packet that the disk has is in memory, too, or its body is from now on."""
        size_bytes = _memory_of(entry)
        self.cached_bytes += size_bytes - entry.cached_bytes
        entry.cached_bytes = size_bytes

    def release(self, entry: TransitPacket) -> None:
        """Forget a packet that is not needed any more, or that the disk has."""
        self.cached_bytes -= entry.cached_bytes
        entry.cached_bytes, entry.body = 0, None


def _memory_of(entry: TransitPacket) -> int:
    return PACKET_BYTES + (entry.size_bytes if entry.body is not None else 0)
