"""Bodies of packets in transit that only the disk has: which are wanted next, and what has come."""

from collections.abc import Callable, Iterator

from triack.base.commit import Read, key_of
from triack.ordering.transit import TransitPacket, TransitState
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transit_letters import TransitLetters

__all__ = ["TransitBodies"]

FETCH_AHEAD_PACKETS = 2_048
"""Bodies fetched from the disk at once, as for outgoing queues."""
FETCH_AHEAD_BYTES = 8 * 1024 * 1024
"""The same for large packets."""


class TransitBodies:
    """The bodies of packets in transit.

    Args:
        letters: dead letters, which need bodies first.
        look_at: called with a stream whose bodies have come.
        limit_bytes: bodies beyond this stay on the disk alone.

    Attributes:
        cached_bytes: bodies of durable packets that are in memory and on the disk.
        wanting: the streams whose next bodies are only on the disk.
    """

    __slots__ = ("_fetching", "_letters", "_limit_bytes", "_look_at", "cached_bytes", "wanting")

    def __init__(self, letters: TransitLetters, look_at: Callable[[TransitStream], None], limit_bytes: int) -> None:
        self._letters = letters
        self._look_at = look_at
        self._limit_bytes = limit_bytes
        self._fetching: dict[int, tuple[TransitStream, TransitPacket]] = {}
        self.cached_bytes = 0
        self.wanting: dict[TransitStream, None] = {}

    def handle_stored(self, entries: list[TransitPacket]) -> None:
        """Packets are on the disk: their bodies stay in memory if there is room."""
        for entry in entries:
            self.cached_bytes += entry.size_bytes
            if self.cached_bytes > self._limit_bytes:
                self.release(entry)

    def release(self, entry: TransitPacket) -> None:
        """Forget a body that the disk has, or that is not needed any more."""
        if entry.body is not None:
            self.cached_bytes -= entry.size_bytes
            entry.body = None

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
            if body is not None and entry.body is None and entry.state is not TransitState.DONE:
                entry.body = body
                self.cached_bytes += entry.size_bytes
        for stream in dict.fromkeys(stream for stream, _ in fetching.values()):
            self.wanting.pop(stream, None)
            self._look_at(stream)
