"""Large messages of which some pieces are here: which, and whether the others are still to come."""

from dataclasses import dataclass, field

from triack.base.names import StreamId
from triack.queues.mailboxes.progress import Progress
from triack.queues.mailboxes.queued_packet import QueuedPacket

__all__ = ["Partial", "Partials"]


@dataclass(slots=True)
class Partial:
    """The pieces of one message.

    Attributes:
        total_bytes: of all of it.
        begun_by: the number of the packet that came first.
        rows: the pieces that are here, by their offset.
        progress: what an earlier process did with the message; the store keeps it with the first piece.
        last_number: of its last packet, once that can be known; 0 before.
        cached_bytes: what it takes of the memory for bodies.
        overhead_bytes: what it takes beside that.
    """

    total_bytes: int
    begun_by: int
    rows: dict[int, QueuedPacket] = field(default_factory=dict)
    last_number: int = 0
    cached_bytes: int = 0
    overhead_bytes: int = 0
    progress: Progress | None = None
    _have_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all pieces are here."""
        return self._have_bytes == self.total_bytes

    def add(self, packet: QueuedPacket, offset: int, length: int, progress: Progress | None = None) -> None:
        """One more piece."""
        self.rows[offset] = packet
        self._have_bytes += length
        if offset == 0:
            self.progress = progress
            self.last_number = packet.number - 1 - (-self.total_bytes // length)
        elif offset + length == self.total_bytes:
            self.last_number = packet.number


class Partials:
    """Those of one queue, by stream and the message's ordinal there; the oldest of a stream first."""

    __slots__ = ("_by_stream",)

    def __init__(self) -> None:
        self._by_stream: dict[StreamId, dict[int, Partial]] = {}

    def of(self, stream: StreamId) -> dict[int, Partial]:
        """Those of a stream. Only to be looked at."""
        return self._by_stream.get(stream, {})

    def __len__(self) -> int:
        """How many messages are unfinished."""
        return sum(map(len, self._by_stream.values()))

    @property
    def streams(self) -> list[StreamId]:
        """Those that have any."""
        return list(self._by_stream)

    def of_origin(self, origin: bytes) -> list[StreamId]:
        """The streams of a node that have any."""
        return [stream for stream in self._by_stream if stream[0] == origin]

    def begin(self, packet: QueuedPacket, ordinal: int, total_bytes: int) -> None:
        """The first packet of a message has come; it is no piece of it before its commit."""
        partials = self._by_stream.setdefault(StreamId(packet.origin, packet.stream), {})
        partials[ordinal] = Partial(total_bytes, packet.number)

    def pop(self, stream: StreamId, ordinal: int) -> Partial:
        """It is whole, or given up."""
        partials = self._by_stream[stream]
        partial = partials.pop(ordinal)
        if not partials:
            del self._by_stream[stream]
        return partial

    def expects(self, origin: bytes, stream: int, ordinal: int) -> bool:
        """Whether a message was begun. Room for all of it was taken then."""
        return ordinal in self.of(StreamId(origin, stream))

    def awaits_beyond(self, origin: bytes, stream: int, number: int) -> bool:
        """Whether a message was begun by a packet of a higher number, and more of it is to come."""
        return any(partial.begun_by > number for partial in self.of(StreamId(origin, stream)).values())

    def overtaken(self, stream: StreamId, ordinal: int | None) -> list[int]:
        """Those that are dead when something else follows in an ordered stream, such as this one: their rest expired.

        One that has no row yet is younger: its packets wait for their commit.
        """
        return [other for other, partial in self.of(stream).items() if other != ordinal and partial.rows]

    def unsent(self, stream: StreamId, first: int, last: int) -> list[int]:
        """Those that nobody sends any more, as their last packet has one of these numbers."""
        return [ordinal for ordinal, partial in self.of(stream).items() if first <= partial.last_number <= last]
