"""Large messages of which only some pieces have arrived, and whether the others are still to come."""

from dataclasses import dataclass, field

from triack.base.names import StreamId
from triack.queues.mailboxes.priority_queue import CACHE_BYTES, Share
from triack.queues.mailboxes.progress import Progress
from triack.queues.mailboxes.queued_packet import QueuedPacket

UNFINISHED_BYTES = CACHE_BYTES
"""The part of the cache for durable pieces of unfinished messages: readable messages have precedence."""


@dataclass(slots=True)
class Partial:
    """The pieces of one message.

    Attributes:
        begun_by: the number of the packet that came first.
        progress: what an earlier process did with the message; the store keeps it with the first piece.
        more_bytes: what it was charged beside its own size, as it represents a larger message.
        last_number: number of its last packet; 0 before any piece has arrived.
        place: its place, if its last piece has one; else 0.
    """

    total_bytes: int
    begun_by: int
    rows: dict[int, QueuedPacket] = field(default_factory=dict)
    last_number: int = 0
    cached_bytes: int = 0
    overhead_bytes: int = 0
    progress: Progress | None = None
    more_bytes: int = 0
    place: int = 0
    _charged_bytes: int = 0
    _have_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all pieces have arrived."""
        return self._have_bytes == self.total_bytes

    def charge(self, length: int) -> bool:
        """A piece is about to be added. Returns whether none is missing behind it."""
        self._charged_bytes += length
        ends = self._charged_bytes >= self.total_bytes
        if ends:
            self._charged_bytes = 0
        return ends

    def add(self, packet: QueuedPacket, offset: int, length: int, progress: Progress | None = None) -> None:
        """Add a piece."""
        self.rows[offset] = packet
        self._have_bytes += length
        self.place = packet.first_place or self.place
        if offset == 0:
            self.progress = progress
        if offset + length == self.total_bytes:
            self.last_number = packet.number
        else:
            # All pieces but the last are of one length.
            self.last_number = packet.number - offset // length - 1 - (-self.total_bytes // length)

    def keep(self, packet: QueuedPacket, share: Share) -> None:
        """Keep the body of a piece in memory, unless it is also on the disk and there is no room."""
        if packet.keys and (share.is_full or share.cache.unfinished_bytes > UNFINISHED_BYTES):
            packet.pieces = []
        size_bytes = packet.size_bytes if packet.pieces else 0
        share.count(size_bytes)
        self.cached_bytes += size_bytes
        share.cache.unfinished_bytes += size_bytes if packet.keys else 0

    def forget(self, share: Share) -> None:
        """Release the memory of the pieces: they are one message now, or were dropped."""
        share.count(-self.cached_bytes)
        if any(row.keys for row in self.rows.values()):
            share.cache.unfinished_bytes -= self.cached_bytes


class Partials:
    """The incomplete messages of one queue, by stream and ordinal; the oldest of a stream first."""

    __slots__ = ("by_stream",)

    def __init__(self) -> None:
        self.by_stream: dict[StreamId, dict[int, Partial]] = {}

    def of(self, stream: StreamId) -> dict[int, Partial]:
        """The incomplete messages of a stream, read-only."""
        return self.by_stream.get(stream, {})

    def __len__(self) -> int:
        """Number of incomplete messages."""
        return sum(map(len, self.by_stream.values()))

    @property
    def streams(self) -> list[StreamId]:
        """The streams that have any."""
        return list(self.by_stream)

    def of_origin(self, origin: bytes) -> list[StreamId]:
        """The streams of a node that have any."""
        return [stream for stream in self.by_stream if stream[0] == origin]

    def begin(self, packet: QueuedPacket, ordinal: int, total_bytes: int, more_bytes: int = 0) -> None:
        """The first packet of a message has come; it is added as a piece after its commit."""
        partials = self.by_stream.setdefault(StreamId(packet.origin, packet.stream), {})
        partials[ordinal] = Partial(total_bytes, packet.number, more_bytes=more_bytes)

    def pop(self, stream: StreamId, ordinal: int) -> Partial:
        """Remove a message that is whole, or given up."""
        partials = self.by_stream[stream]
        partial = partials.pop(ordinal)
        if not partials:
            del self.by_stream[stream]
        return partial

    def expects(self, origin: bytes, stream: int, ordinal: int) -> bool:
        """Whether a message was begun: it was charged as a whole then."""
        return ordinal in self.of(StreamId(origin, stream))

    def awaits_beyond(self, origin: bytes, stream: int, number: int) -> bool:
        """Whether a message was begun by a packet of a higher number, and more of it is to come."""
        return any(partial.begun_by > number for partial in self.of(StreamId(origin, stream)).values())
