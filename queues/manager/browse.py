"""Browsing queues: the messages that wait in one, page by page, without changing it.

The engine finds a page in one step, and then fetches the bodies that are only on the disk. Meanwhile the queue may
change, so a page shows what waited when it was begun.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Self

from triack.base.commit import Read, key_of
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit_packet import TransitPacket
from triack.queues.admin_acks import class_of
from triack.queues.body_head import HEAD, is_sealed, large_of, ordinal_of, priority_of, receive_by_of, sent_at_of
from triack.queues.mailboxes.large_bodies import size_said
from triack.queues.mailboxes.mailbox import Mailbox, rank_of
from triack.queues.message_classes import MessageClass
from triack.queues.messages import SENT_TO
from triack.queues.packing import Unpacked, unpack_pieces
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream

PAGE_BYTES = 1024 * 1024
"""Size of the packets of one page: fits easily into one frame to another process, and outweighs the cost of asking."""

Position = tuple[int, ...]
"""Where a message is in its queue; the next one has a greater position."""
TRANSIT_RANK = 1 << 62
"""Streams of other nodes follow this node's own, whose numbers are less."""


@dataclass(frozen=True, slots=True)
class BrowsedMessage:
    """A message that waits in a queue, for browsing.

    Attributes:
        id: names the message permanently, as ``Message.id`` does.
        queue: the queue it waits in; for an outgoing message, its destination.
        body: its body.
        delivery: its class.
        sent_at: when it was sent: wall clock of the sender, seconds since 1970; of a dead letter, when it died.
        priority: its priority, 0 to 7; 7 is read first.
        attempts: how often it failed; for an outgoing message, how often it was sent. Of a dead letter: before it died.
        wait_until: when its wait ends: wall clock of this node; None when it does not wait.
        receive_by: when it must have been received: wall clock, seconds since 1970; None for any time.
        properties: everything the sender set besides the body, and in the dead-letter queue why it is there.
        position: its position in its queue.
        large_bytes: of a message that was sent in parts, the size of its body, which is not in ``body``.
        sealed: whether it came sealed by its sender.
    """

    id: str
    queue: str
    body: bytes
    delivery: Delivery
    priority: int
    sent_at: float
    attempts: int
    wait_until: float | None
    receive_by: float | None
    properties: dict[str, Any]
    position: Position
    large_bytes: int | None = None
    sealed: bool = False

    @property
    def place(self) -> int | None:
        """Its place in a queue of this node, see ``Message.place``; None for a message on its way."""
        return None if "/" in self.queue else place_of(self.position)

    @property
    def size(self) -> int:
        """Length of its body in bytes."""
        return len(self.body) if self.large_bytes is None else self.large_bytes

    @property
    def reason(self) -> str | None:
        """Why it is a dead letter (docs/reasons.md)."""
        return self._text("dead_reason")

    @property
    def maybe_delivered(self) -> bool:
        """Whether it is a dead letter that may have arrived all the same: its acknowledgement was missing."""
        return bool(self.properties.get("dead_maybe_delivered"))

    @property
    def destination(self) -> str | None:
        """The destination of a dead letter, or of a copy in ``$journal``: a queue of this node, or ``peer/queue``."""
        return self._text("dead_destination") or self._text(SENT_TO)

    @property
    def message_class(self) -> MessageClass:
        """What it is, see ``Message.message_class``."""
        return class_of(self.properties)

    def _text(self, name: str) -> str | None:
        value = self.properties.get(name)
        return value if isinstance(value, str) else None

    def describe(self) -> dict[str, Any]:
        """All but the body, for JSON."""
        described = asdict(self) | {"delivery": self.delivery.label}
        del described["body"]
        return described

    @classmethod
    def read(cls, described: dict[str, Any], body: bytes) -> Self:
        """Rebuild a message from ``describe`` and its body. Raises KeyError, TypeError."""
        delivery = Delivery[described["delivery"].upper()]
        return cls(**(described | {"body": body, "delivery": delivery, "position": tuple(described["position"])}))


@dataclass(slots=True)
class Sight:
    """One message of a page, whose body may be only on the disk.

    Attributes:
        table: the store's table of its packets, under ``keys``.
        pieces: its packets; empty while they are only on the disk.
        number: its packet's number, for its id when its packets cannot be read.
        index: its index among the messages of its packets.
    """

    position: Position
    queue: str
    origin: bytes
    number: int
    index: int
    delivery: Delivery
    attempts: int
    size_bytes: int
    table: str
    keys: Sequence[int]
    pieces: Sequence[bytes] = field(repr=False)
    wait_until_ms: int | None = None


def place_of(position: Position) -> int:
    """The place in its queue of a message of this node: its position is rank, first place of its packet, and index."""
    _, first_place, index = position
    return first_place + index


def after_rank_of(position: Position) -> Position:
    """The position before all messages whose priority is lower than that of a message of this node."""
    return position[0] + 1, 0, 0


def sights_of(mailbox: Mailbox, after: Position, now_ms: int) -> Iterator[Sight]:
    """The messages that wait in a queue of this node after a position, without those that a reader has leased."""
    for packet, index in mailbox.waiting((after[0], place_of(after)) if after else (0, 0)):
        place = packet.first_place + index
        wait = mailbox.reader.setbacks.wait_of(place, now_ms)
        yield Sight(
            position=(rank_of(packet.priority), packet.first_place, index),
            queue=mailbox.name,
            origin=packet.origin,
            number=packet.number,
            index=index,
            delivery=Delivery(packet.delivery),
            attempts=mailbox.reader.setbacks.failures.get(place, 0),
            size_bytes=packet.size_bytes,
            table="messages",
            keys=packet.keys,
            pieces=packet.pieces,
            wait_until_ms=None if wait is None else wait.until_ms,
        )


def sights_on_the_way(outgoing: OutgoingStream, origin: bytes, after: Position) -> Iterator[Sight]:
    """The unacknowledged messages of an outgoing stream after a position."""
    stream, begin = (*after, 0, 0)[:2]
    if outgoing.stream_number < stream:
        return
    numbers = list(outgoing.sequence.entries)
    seen = bisect_left(numbers, begin) if outgoing.stream_number == stream else 0
    for first in map(outgoing.sequence.entries.__getitem__, islice(numbers, seen, None)):
        entries = outgoing.sequence.message_of(first)
        if first is not entries[0] or first.state in (StreamPacketState.GIVEN_UP, StreamPacketState.REJECTED):
            continue
        whole = all(entry.body is not None for entry in entries)
        for index in range(entries[-1].messages):
            position = (outgoing.stream_number, first.number, index)
            if position > after:
                yield Sight(
                    position=position,
                    queue=outgoing.destination,
                    origin=origin,
                    number=first.number,
                    index=index,
                    delivery=outgoing.delivery,
                    attempts=max(entry.sends for entry in entries),
                    size_bytes=sum(entry.size_bytes for entry in entries),
                    table="outgoing",
                    keys=[key_of(outgoing.stream_number, entry.number) for entry in entries],
                    pieces=[entry.body or b"" for entry in entries] if whole else [],
                )


def sights_in_transit(stream: TransitStream, after: Position) -> Iterator[Sight]:
    """The messages of a stream of another node that wait here after a position, without those that end here."""
    begin = after[1] if after and after[0] == TRANSIT_RANK + stream.number else 0
    if after and after[0] > TRANSIT_RANK + stream.number:
        return
    entries: list[TransitPacket] = []
    for entry in stream.sequence.since(begin):
        if entry.state in (StreamPacketState.GIVEN_UP, StreamPacketState.DONE):
            continue
        entries.append(entry)
        if not entry.messages:
            continue  # a large message ends with a later packet
        first, whole = entries[0], all(it.body is not None for it in entries)
        for index in range(entry.messages):
            position = (TRANSIT_RANK + stream.number, first.number, index)
            if position > after:
                yield Sight(
                    position=position,
                    queue=stream.destination,
                    origin=stream.id.origin,
                    number=first.number,
                    index=index,
                    delivery=stream.delivery,
                    attempts=max(it.sends for it in entries),
                    size_bytes=sum(it.size_bytes for it in entries),
                    table="transit",
                    keys=[key_of(stream.number, it.place) for it in entries] if stream.durable else [],
                    pieces=[it.body or b"" for it in entries] if whole else [],
                )
        entries = []


def cut_page(sights: Iterable[Sight], limit: int) -> list[Sight]:
    """The first sights of one table: at most ``limit``, and no more than a frame holds."""
    page: list[Sight] = []
    size_bytes = 0
    for sight in sights:
        if page and page[-1].table != sight.table:
            break
        if not page or page[-1].position[:-1] != sight.position[:-1]:
            size_bytes += sight.size_bytes
        if len(page) == limit or (page and size_bytes > PAGE_BYTES):
            break
        page.append(sight)
    return page


def missing(page: list[Sight]) -> Read | None:
    """The bodies to fetch from the disk for a page, or None."""
    lacking = [sight for sight in page if not sight.pieces]
    keys = dict.fromkeys(key for sight in lacking for key in sight.keys)
    return Read(lacking[0].table, list(keys)) if keys else None


def see(page: list[Sight], bodies: dict[int, bytes]) -> Iterator[BrowsedMessage]:
    """The messages of a page, without those that left the queue before they were fetched."""
    position: Position = ()
    content: Unpacked | None = None
    for sight in page:
        pieces = sight.pieces or [bodies[key] for key in sight.keys if key in bodies]
        if len(pieces) < max(1, len(sight.keys)):
            continue
        if sight.position[:-1] != position:
            position, content = sight.position[:-1], _unpack(pieces)
        yield _see(sight, pieces, content)


def _unpack(pieces: Sequence[bytes]) -> Unpacked | None:
    try:
        return unpack_pieces(pieces)
    except ProtocolError:
        return None


def _unread(sight: Sight, pieces: Sequence[bytes]) -> Unpacked:
    """What can be said of messages that this node cannot read: sealed ones, and parts of large ones."""
    bodies, head = [b"".join(pieces)] * (sight.index + 1), pieces[0]
    if sight.table != "transit" or len(head) < HEAD.size:
        return Unpacked(sight.number - sight.index, 0, 0, bodies, None)
    content = Unpacked(ordinal_of(head), sent_at_of(head), receive_by_of(head), bodies, None)
    content.priority, content.sealed = priority_of(head), is_sealed(head)
    return content


def _see(sight: Sight, pieces: Sequence[bytes], content: Unpacked | None) -> BrowsedMessage:
    is_read = content is not None
    # An unreadable message is shown nevertheless, as its dead letter would be, under the same id.
    content = content or _unread(sight, pieces)
    properties = content.properties[sight.index] if content.properties else {}
    before = properties.get("dead_attempts")
    body = content.bodies[sight.index]
    is_large = is_read and bool(large_of(pieces[0]))
    return BrowsedMessage(
        id=f"{sight.origin.hex()}-{content.first_ordinal + sight.index}",
        queue=sight.queue,
        body=b"" if is_large else body,
        delivery=sight.delivery,
        priority=content.priority,
        sent_at=content.sent_at_ms / 1_000,
        attempts=before if isinstance(before, int) else sight.attempts,
        wait_until=None if sight.wait_until_ms is None else sight.wait_until_ms / 1_000,
        receive_by=content.receive_by_ms / 1_000 if content.receive_by_ms else None,
        properties=properties,
        position=sight.position,
        large_bytes=size_said(body) if is_large else None,
        sealed=content.sealed,
    )
