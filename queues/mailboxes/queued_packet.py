"""A packet of messages in a queue of this node. ``reader_state`` has what was done with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from triack.queues.packing import Unpacked, unpack_pieces


@dataclass(slots=True, eq=False)
class QueuedPacket:
    """One packet of messages, or one large message of several packets.

    Once it is in a queue, only the presence of its body in memory changes.

    Attributes:
        keys: store keys of its rows; empty for express.
        pieces: bodies of its rows; empty while they are only on the disk.
        restored: whether it was in the store at the start: an earlier process may have handed out its messages.
        first_place: the place in the queue of its first message, see ``reader_state``; 0 before it has one.
        receive_by_ms: wall clock at which its waiting messages expire; 0 for never.
        charged_bytes: its charge against quotas; 0 before it is charged.
        priority: the level that it waits in, see ``priority_queue``.
        cares: whether what happens to its messages has consequences that its body tells, see ``base.commit.CARES``.
        large: the ordinal of the large message that its one message represents, see ``large_bodies``; 0 for none.
    """

    keys: Sequence[int]
    origin: bytes
    stream: int
    sequence: int
    number: int
    delivery: int
    count: int
    size_bytes: int
    pieces: Sequence[bytes]
    restored: bool = False
    first_place: int = 0
    content: Unpacked | None = None
    sent_at_ms: int = 0
    receive_by_ms: int = 0
    charged_bytes: int = 0
    priority: int = 0
    cares: bool = False
    topic: str = ""
    large: int = 0

    @property
    def last_place(self) -> int:
        """The place in the queue of its last message."""
        return self.first_place + self.count - 1

    @property
    def places(self) -> range:
        """The places of its messages."""
        return range(self.first_place, self.first_place + self.count)

    def has_expired(self, now_ms: int) -> bool:
        """Whether its messages must not be handed out any more."""
        return 0 < self.receive_by_ms <= now_ms

    def open(self) -> Unpacked:
        """The messages. Raises ProtocolError when pieces do not make a message."""
        if self.content is None:
            self.content = unpack_pieces(self.pieces)
        return self.content


SIZE_OF = attrgetter("size_bytes")
"""The size of a packet."""


@dataclass(slots=True)
class Lease:
    """One message that the application has leased. ``redelivered``: it may have been handed out before."""

    packet: QueuedPacket
    index: int
    redelivered: bool

    @property
    def place(self) -> int:
        """The message's place in its queue."""
        return self.packet.first_place + self.index

    @property
    def body(self) -> bytes:
        """The message's body. Raises ProtocolError when pieces do not make a message."""
        return self.packet.open().bodies[self.index]


def bits_of(indices: range) -> int:
    """Neighbouring messages of a packet as bits, one for each index."""
    return (1 << indices.stop) - (1 << indices.start)


def indices_of(bits: int) -> list[int]:
    """The indices whose bits are set, ascending."""
    return [index for index in range(bits.bit_length()) if bits >> index & 1]


def merge(rows: list[QueuedPacket], charged_bytes: int) -> QueuedPacket:
    """Join the packets of a large message, ascending, into one; ``charged_bytes`` is its charge as a whole."""
    first = rows[0]
    whole = all(row.pieces for row in rows)
    return QueuedPacket(
        keys=[key for row in rows for key in row.keys],
        origin=first.origin,
        stream=first.stream,
        sequence=first.sequence,
        number=rows[-1].number,
        delivery=first.delivery,
        count=1,
        size_bytes=sum(row.size_bytes for row in rows),
        pieces=[piece for row in rows for piece in row.pieces] if whole else [],
        restored=first.restored,
        sent_at_ms=first.sent_at_ms,
        receive_by_ms=first.receive_by_ms,
        charged_bytes=charged_bytes,
        priority=first.priority,
        cares=first.cares,
        topic=first.topic,
        large=first.large,
    )
