"""Packets in transit, and their bodies, that only the disk has: which are wanted next, and what has come.

Promise: the packets that are in memory, too, take a limited part of it, and all others a few bytes each
(``ordering.disk_backlog``). If there is no room for a packet, only the disk has it and those of its stream behind it.
"""

from collections.abc import Callable, Iterator

from triack.base.commit import Read, key_of
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit import TransitPacket
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transit_letters import TransitLetters
from triack.queues.transit.transit_room import TransitRoom

__all__ = ["TransitBodies"]

FETCH_AHEAD_PACKETS = 2_048
"""Bodies fetched from the disk at once, as for outgoing queues."""
FETCH_AHEAD_BYTES = 8 * 1024 * 1024
"""The same for large packets."""
PACKET_BYTES = 400
"""Memory of a durable packet without its body: some more than the 380 that were measured."""


class TransitBodies:
    """The packets in transit that are on the disk, too.

    Args:
        letters: dead letters, which need bodies first.
        look_at: called with a stream whose bodies have come.
        room: is charged for what only the disk has.
        limit_bytes: packets and bodies beyond this stay on the disk alone.

    Attributes:
        cached_bytes: durable packets that are in memory and on the disk, with their bodies.
        wanting: the streams whose next bodies are only on the disk.
    """

    __slots__ = ("_fetching", "_letters", "_limit_bytes", "_look_at", "_room", "cached_bytes", "wanting")

    def __init__(
        self,
        letters: TransitLetters,
        look_at: Callable[[TransitStream], None],
        room: TransitRoom,
        limit_bytes: int,
    ) -> None:
        self._letters = letters
        self._look_at = look_at
        self._room = room
        self._limit_bytes = limit_bytes
        self._fetching: dict[int, tuple[TransitStream, TransitPacket]] = {}
        self.cached_bytes = 0
        self.wanting: dict[TransitStream, None] = {}

    def handle_stored(self, stream: TransitStream, entries: list[TransitPacket]) -> None:
        """Packets are on the disk: they stay in memory if there is room, and may leave."""
        on_disk = stream.sequence.on_disk
        behind, away = on_disk.first if on_disk else None, list[TransitPacket]()
        for entry in entries:
            if entry.state is not StreamPacketState.ARRIVED:
                continue
            if self.cached_bytes < self._limit_bytes and (behind is None or entry.number < behind):
                self._count(entry)
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
            self._count(entry)
        self._room.charge(stream)

    def bring_back_expired(self, stream: TransitStream, now_ms: int, limit: int) -> list[TransitPacket]:
        """Bring packets back whose time has run out."""
        expired = stream.sequence.bring_back_expired(now_ms, limit)
        for entry in expired:
            self._count(entry)
        self._room.charge(stream)
        return expired

    def _put_away(self, stream: TransitStream, entries: list[TransitPacket]) -> None:
        for entry in stream.put_away(entries):
            self.release(entry)
        self._room.charge(stream)

    def _count(self, entry: TransitPacket) -> None:
        size_bytes = _memory_of(entry)
        self.cached_bytes += size_bytes - entry.cached_bytes
        entry.cached_bytes = size_bytes

    def release(self, entry: TransitPacket) -> None:
        """Forget a packet that is not needed any more, or that the disk has."""
        self.cached_bytes -= entry.cached_bytes
        entry.cached_bytes, entry.body = 0, None

    def poll_fetch(self) -> Read | None:
        """Which bodies to fetch next, or None."""
        if not self.wanting and not self._letters.waiting:
            return None
        keys: dict[int, tuple[TransitStream, TransitPacket]] = {}
        size_bytes = 0
        for stream, entry in self._missing():
            keys[key_of(stream.number, entry.place)] = stream, entry
            size_bytes += entry.size_bytes
            if len(keys) == FETCH_AHEAD_PACKETS or size_bytes >= FETCH_AHEAD_BYTES:
                break
        self._fetching = keys
        return Read("transit", list(keys)) if keys else None

    def _missing(self) -> Iterator[tuple[TransitStream, TransitPacket]]:
        """Packets whose bodies are needed next: for dead letters, then of the streams that want some."""
        yield from self._letters.missing()
        for stream in list(self.wanting):
            self.bring_back(stream, FETCH_AHEAD_PACKETS)
            missing = [entry for entry in stream.sequence.upcoming(FETCH_AHEAD_PACKETS) if entry.body is None]
            yield from ((stream, entry) for entry in missing)
            if not missing:
                del self.wanting[stream]
                self._look_at(stream)

    def handle_fetched(self, read: Read) -> None:
        """Bodies have come from the disk."""
        fetching, self._fetching = self._fetching, {}
        for key, (stream, entry) in fetching.items():
            body = read.bodies.get(key)
            if key != key_of(stream.number, entry.place):
                continue  # it has moved, with another body
            if body is not None and entry.body is None and entry.state is not StreamPacketState.DONE:
                entry.body = body
                self._count(entry)
        for stream in dict.fromkeys(stream for stream, _ in fetching.values()):
            self.wanting.pop(stream, None)
            self._look_at(stream)


def _memory_of(entry: TransitPacket) -> int:
    return PACKET_BYTES + (entry.size_bytes if entry.body is not None else 0)
