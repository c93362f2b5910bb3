"""Bodies of large messages. They arrive in parts, before the messages that represent them.

Promise: a message that represents a body enters a queue only when the whole body is on the disk. The body stays until
the last such message has left this node. From its first packet on, a body reserves room for all of itself in the quota
of its queue and on the disk: no two bodies wait for each other's room.

The parts for a queue arrive in another queue, ``large_queue`` of its name, in the order of one stream. Each body begins
with an announcement of the ordinal of the large message and its size. An announcement, or a packet that says that no
more parts follow, ends the unfinished body before it.

    (none) --announced--> COMING --its last part--> WHOLE --a message represents it--> CLAIMED
    COMING | WHOLE --its sender has given it up, or its stream has ended while it was coming--> FREED
    CLAIMED --the last message that represents it has left--> FREED

The parts of a freed body are deleted little by little. Its announcement goes first, in the commit that frees it: the
next start deletes parts without one.
"""

from array import array
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from triack.base.commit import HEAD_BYTES
from triack.base.names import StreamId
from triack.base.ranges import Range, as_ranges
from triack.base.reasons import DropReason
from triack.queues.body_head import fragment_range
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.quotas import NO_LIMIT, Account, Fill
from triack.queues.node_settings import PART_MIN_BYTES
from triack.queues.packing import part_bytes, unpack_pieces

DELETED_BYTES = 16 * 1024 * 1024
"""Parts that one commit deletes: the store reads their pages, which takes some ten milliseconds."""
MERGED_BYTES = 256 * 1024
"""Successive parts are merged, in the store's reads and in memory, up to this size: that of a part by default."""
BODY_BYTES = 1_024
"""Memory of a body with one part, measured, and a fifth more."""
_SPAN_MAX = 0xFFFF
"""The most that a number of ``Part`` can hold."""
ANNOUNCED_BYTES = 6
"""Length of the size in an announcement: the first bytes of the packet, which a start reads, hold all of it."""


SIZE_BYTES = 8
"""Length of the size of a body in the message that represents it."""


def size_said(body: bytes) -> int:
    """The size of a large body, as the message that represents it says."""
    return int.from_bytes(body[:SIZE_BYTES])


class BodyState(IntEnum):
    """How far a body is."""

    COMING = 0
    WHOLE = 1
    CLAIMED = 2
    FREED = 3


class BodyEvent(IntEnum):
    """An event of a body."""

    COMPLETED = 0
    """Its last part is on the disk."""
    CLAIMED = 1
    """A message that represents it is about to enter a queue."""
    GIVEN_UP = 2
    """Its sender sends no more of it, or no message that represents it."""
    LEFT = 3
    """The last message that represents it has left."""


TRANSITIONS: dict[BodyState, dict[BodyEvent, BodyState]] = {
    BodyState.COMING: {
        BodyEvent.COMPLETED: BodyState.WHOLE,
        # Only a faulty sender does that: no reader gets such a message.
        BodyEvent.CLAIMED: BodyState.COMING,
        BodyEvent.GIVEN_UP: BodyState.FREED,
        BodyEvent.LEFT: BodyState.COMING,
    },
    BodyState.WHOLE: {
        BodyEvent.CLAIMED: BodyState.CLAIMED,
        BodyEvent.GIVEN_UP: BodyState.FREED,
        BodyEvent.LEFT: BodyState.WHOLE,
    },
    BodyState.CLAIMED: {
        BodyEvent.CLAIMED: BodyState.CLAIMED,
        BodyEvent.GIVEN_UP: BodyState.CLAIMED,
        BodyEvent.LEFT: BodyState.FREED,
    },
    BodyState.FREED: dict.fromkeys(BodyEvent, BodyState.FREED),
}
"""The next state by state and event. A body that is whole gets no further part."""

BodyId = tuple[bytes, int]
"""A large message: the node that sent it, and its ordinal there."""


class Part:
    """A part of a body, or several that follow each other.

    Each range of store keys costs four bytes: a sender of small parts, whose rows lie between those of others, cannot
    fill the memory with them.

    Args:
        keys: the store keys of the packets that hold it.
    """

    __slots__ = ("_first", "_next", "_spans", "size_bytes")

    def __init__(self, size_bytes: int, keys: list[Range]) -> None:
        self.size_bytes = 0
        self._first = self._next = keys[0][0]
        # How many keys are left out, and how many follow that belong to it, by turns.
        self._spans = array("H")
        self.add(size_bytes, keys)

    def add(self, size_bytes: int, keys: list[Range]) -> None:
        """Add a part that follows."""
        self.size_bytes += size_bytes
        spans = self._spans
        for first, last in keys:
            left_out, count = first - self._next, last - first + 1
            if not left_out and spans and spans[-1] + count <= _SPAN_MAX:
                spans[-1] += count
                left_out = count = 0
            while left_out or count:
                step = min(left_out, _SPAN_MAX)
                left_out -= step
                taken = 0 if left_out else min(count, _SPAN_MAX)
                count -= taken
                spans.extend((step, taken))
            self._next = last + 1

    @property
    def keys(self) -> list[Range]:
        """The store keys of the packets that hold it."""
        found: list[Range] = []
        at = self._first
        for left_out, count in zip(self._spans[::2], self._spans[1::2], strict=True):
            at += left_out + count
            if count:
                found.append((at - count, at - 1))
        return found


def open_part(rows: Iterable[bytes]) -> bytes:
    """The bytes of a part, by the packets that hold it. Raises ProtocolError ``bad-body``."""
    opened: list[bytes] = []
    pieces: list[bytes] = []
    for row in rows:
        pieces.append(row)
        fragment = fragment_range(row[:HEAD_BYTES], len(row))
        if fragment is None or fragment[1] + fragment[2] == fragment[3]:
            opened += unpack_pieces(pieces).bodies
            pieces = []
    if pieces:
        opened += unpack_pieces(pieces).bodies
    return b"".join(opened)


@dataclass(slots=True, eq=False)
class Body:
    """One body.

    Attributes:
        stream: the number of the stream that brings it.
        fill: the reserved part of the quota of its queue.
        is_over: whether a part has come that is so small that only the last one may be.
    """

    id: BodyId
    stream: int
    total_bytes: int
    announcement: Range
    fill: Fill
    state: BodyState = BodyState.COMING
    parts: list[Part] = field(default_factory=list)
    have_bytes: int = 0
    claims: int = 0
    is_over: bool = False


class Bodies:
    """The bodies on one node.

    Args:
        held: bytes of bodies that no message represents yet, by the peer that they come from.
        unclaimed: the memory of these bodies, by that peer.

    Attributes:
        unseen_bytes: what has come since the last look at the room on the disk.
        left: bodies whose messages leave their queues with the next commit.
        at_once: store keys of announcements of freed bodies, which the commit that begins next deletes.
        dying: parts of freed bodies, of which each commit deletes some.
    """

    def __init__(
        self, held: Account, unclaimed: Account | None = None, drops: Counter[DropReason] | None = None
    ) -> None:
        self.held = held
        self.unclaimed = unclaimed or Account(NO_LIMIT, NO_LIMIT)
        self._drops: Counter[DropReason] = Counter() if drops is None else drops
        self.coming_bytes = self.unseen_bytes = 0
        self.by_id: dict[BodyId, Body] = {}
        # How many bodies each queue has, and how many whole ones of a node for it no message represents.
        self._of_queue = Counter[Fill]()
        self._whole = Counter[tuple[bytes, Fill]]()
        # The body that each stream has brought last.
        self._current: dict[StreamId, Body] = {}
        self.left: list[BodyId] = []
        self.at_once: list[Range] = []
        self.dying: deque[Part] = deque()

    # ---- arriving

    def reserve(self, origin: bytes, fill: Fill, total_bytes: int) -> None:
        """A body is about to be announced: reserve its room, and count it as a message."""
        fill.bytes.add(total_bytes)
        fill.messages.add(1)
        self.held.add(origin, total_bytes)
        self.unclaimed.add(origin, BODY_BYTES)
        self.coming_bytes += total_bytes

    def announce(self, packet: QueuedPacket, ordinal: int, total_bytes: int, fill: Fill) -> bool:
        """An announcement with room for its body is on the disk. Returns False if the body is stored already."""
        stream, body_id = StreamId(packet.origin, packet.stream), (packet.origin, ordinal)
        self.handle_end(stream)
        if body_id in self.by_id:
            self._unreserve(packet.origin, fill, total_bytes)
            self.coming_bytes -= total_bytes
            return False
        (key,) = packet.keys
        body = Body(body_id, packet.stream, total_bytes, (key, key), fill)
        self._current[stream] = self.by_id[body_id] = body
        _count(self._of_queue, fill, 1)
        return True

    def add(self, packet: QueuedPacket) -> bool:
        """A part is on the disk. Returns False if it belongs to no body: its rows are to be deleted."""
        body = self._current.get(StreamId(packet.origin, packet.stream))
        size_bytes = part_bytes(packet.size_bytes, len(packet.keys), packet.count)
        if body is None or body.state is not BodyState.COMING:
            return False
        if size_bytes <= 0 or body.have_bytes + size_bytes > body.total_bytes:
            return False
        if body.is_over and not packet.restored:  # what is on the disk was accepted, perhaps by an older version
            self._drops[DropReason.SMALL_PART] += 1
            return False
        body.is_over = size_bytes < PART_MIN_BYTES
        keys, last = as_ranges(sorted(packet.keys)), body.parts[-1] if body.parts else None
        if last is not None and last.size_bytes + size_bytes <= MERGED_BYTES:
            last.add(size_bytes, keys)
        else:
            body.parts.append(Part(size_bytes, keys))
        body.have_bytes += size_bytes
        self.coming_bytes -= size_bytes
        self.unseen_bytes += 0 if packet.restored else packet.size_bytes
        if body.have_bytes == body.total_bytes:
            self._move(body, BodyEvent.COMPLETED)
        return True

    def handle_end(self, stream: StreamId) -> None:
        """A stream has continued with another body, or has ended: its unfinished body never becomes whole."""
        body = self._current.pop(stream, None)
        if body is not None and body.state is BodyState.COMING:
            self._move(body, BodyEvent.GIVEN_UP)

    def streams_of(self, fill: Fill) -> list[StreamId]:
        """The streams whose last body counts for a queue."""
        return [stream for stream, body in self._current.items() if body.fill is fill]

    def give_up(self, body_id: BodyId) -> None:
        """The sender of a body has given it up: no message will represent it."""
        body = self.by_id.get(body_id)
        if body is not None:
            self._move(body, BodyEvent.GIVEN_UP)

    def purge(self, fill: Fill) -> int:
        """Free the bodies of a queue that no message represents. Returns how many there were."""
        freed = [body for body in self.by_id.values() if body.fill is fill and body.state is not BodyState.CLAIMED]
        for body in freed:
            self._move(body, BodyEvent.GIVEN_UP)
        return len(freed)

    def is_full(self, origin: bytes) -> bool:
        """Whether a peer has as many bodies coming as it may."""
        return self.held.is_full(origin) or self.unclaimed.is_full(origin)

    def is_coming(self, stream: StreamId) -> bool:
        """Whether a stream brings a body that is not whole yet."""
        body = self._current.get(stream)
        return body is not None and body.state is BodyState.COMING

    def is_over(self, stream: StreamId) -> bool:
        """Whether a stream has brought so small a part of its body that no other may follow."""
        body = self._current.get(stream)
        return body is not None and body.state is BodyState.COMING and body.is_over

    def keeps_any(self, fill: Fill) -> bool:
        """Whether any body of a queue is stored."""
        return fill in self._of_queue

    # ---- messages that stand for bodies

    def claim(self, origin: bytes, ordinal: int) -> int:
        """A message that represents a body is about to enter a queue. Returns what it counts for beside itself."""
        body = self.by_id.get((origin, ordinal))
        if body is None or body.state is BodyState.COMING:
            return 0
        body.claims += 1
        if body.state is BodyState.WHOLE:
            self._unreserve(origin, body.fill, body.total_bytes)
        self._move(body, BodyEvent.CLAIMED)
        return body.total_bytes

    def fits(self, packet: QueuedPacket) -> bool:
        """Whether the body that a message represents is stored, and as long as it says."""
        body = self.by_id.get((packet.origin, packet.large))
        if body is None or body.state is BodyState.COMING:
            return False
        return body.total_bytes == size_said(packet.open().bodies[0])

    def is_whole(self, origin: bytes, ordinal: int) -> bool:
        """Whether all of a body is stored."""
        body = self.by_id.get((origin, ordinal))
        return body is not None and body.state is not BodyState.COMING

    def awaiting(self, origin: bytes, fill: Fill) -> int:
        """How many stored bodies of a node for a queue wait for the messages that represent them."""
        return self._whole[origin, fill]

    def note_left(self, origin: bytes, ordinal: int) -> None:
        """A message that represents a body leaves its queue, with the next commit."""
        self.left.append((origin, ordinal))

    def free_left(self, turn: Any) -> None:
        """A commit begins. Free the bodies that no message represents any more, in a queue or in this commit."""
        left = list(self.left)
        self.left.clear()
        for body_id in left:
            body = self.by_id.get(body_id)
            if body is not None and body.claims:
                body.claims -= 1
                if not body.claims:
                    self._move(body, BodyEvent.LEFT)
        turn.commit.message_deletes += self.poll_announcements()

    # ---- deleting

    @property
    def deletes_any(self) -> bool:
        """Whether there is more to delete."""
        return bool(self.at_once or self.dying)

    def poll_announcements(self) -> list[Range]:
        """Store keys of announcements of freed bodies, which the commit that begins now deletes."""
        deletes = list(self.at_once)
        self.at_once.clear()
        return deletes

    def poll_deletes(self) -> list[Range]:
        """Store keys of some parts of freed bodies, which the next commit deletes."""
        deletes = self.poll_announcements()
        size_bytes = 0
        while self.dying and size_bytes < DELETED_BYTES:
            part = self.dying.popleft()
            size_bytes += part.size_bytes
            deletes += part.keys
        return deletes

    def _unreserve(self, origin: bytes, fill: Fill, total_bytes: int) -> None:
        fill.bytes.add(-total_bytes)
        fill.messages.add(-1)
        self.held.add(origin, -total_bytes)
        self.unclaimed.add(origin, -BODY_BYTES)

    def _move(self, body: Body, event: BodyEvent) -> None:
        before, body.state = body.state, TRANSITIONS[body.state][event]
        if (before is BodyState.WHOLE) is not (body.state is BodyState.WHOLE):
            _count(self._whole, (body.id[0], body.fill), -1 if before is BodyState.WHOLE else 1)
        if body.state is not BodyState.FREED or before is BodyState.FREED:
            return
        if before is not BodyState.CLAIMED:
            self._unreserve(body.id[0], body.fill, body.total_bytes)
            self.coming_bytes -= body.total_bytes - body.have_bytes
        del self.by_id[body.id]
        _count(self._of_queue, body.fill, -1)
        stream = StreamId(body.id[0], body.stream)
        if self._current.get(stream) is body:
            del self._current[stream]
        self.at_once.append(body.announcement)
        self.dying += body.parts


def _count(counts: Counter[Any], key: object, by: int) -> None:
    """Count one more or one less. A count of 0 is not kept."""
    counts[key] += by
    if not counts[key]:
        del counts[key]
