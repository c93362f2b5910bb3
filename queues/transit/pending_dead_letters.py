"""Recoverable messages that ended here on their way, until their dead letters exist.

Their origins have let go of them, as this node has acknowledged that they are on its disk. So this node answers for
them. Transactional messages become dead letters at their origins, which have them still.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from triack.base.commit import HEAD_BYTES
from triack.base.names import LEVEL_END
from triack.base.reasons import DeadReason, DropReason, RejectReason
from triack.base.units import SECOND
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit import TransitPacket
from triack.queues.admin_acks import Tell, Told, nobody_told
from triack.queues.body_head import cares_of, fragment_range, is_sealed, ordinal_of, priority_of
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.expiry import LETTERS_MAX
from triack.queues.message_classes import class_on_the_way
from triack.queues.messages import DEAD_PART, DEAD_UNREAD, NO_DEAD_LETTER, Outgoing, Properties
from triack.queues.packing import Unpacked, unpack_pieces
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.transit_stream import TransitStream


@dataclass(slots=True)
class _Dead:
    """A packet that has ended here, and why; ``certain``: it was not delivered."""

    stream: TransitStream
    entry: TransitPacket
    reason: str
    certain: bool

    @property
    def properties(self) -> Properties:
        """What its dead letters say."""
        sends = self.entry.sends
        return {
            "dead_reason": self.reason,
            "dead_destination": self.stream.destination,
            "dead_attempts": sends,
            "dead_maybe_delivered": sends > 0 and not self.certain,
        }


class Ended(NamedTuple):
    """Packets that have ended here, and why; ``certain``: they were not delivered."""

    stream: TransitStream
    entries: list[TransitPacket]
    reason: str
    certain: bool


PARTS_WAIT_NS = 3_600 * SECOND
"""How long fragments wait for the others of their message, after the last of them was given up. A destination that
refuses one fragment refuses those that come after it, too, but it may have taken some before."""

_Key = tuple[TransitStream, int]
"""A stream and the ordinal of a large message in it."""


class PendingDeadLetters:
    """The packets in transit that were given up.

    Args:
        put_dead_letter: keeps a letter with the next commit: message, origin, ordinal, turn.

    Attributes:
        waiting: packets that wait for their bodies or their commit.
        pieces: fragments of large messages until all are here, by offset.
        tell: takes what happened to messages whose senders may want to know.
    """

    def __init__(
        self, put_dead_letter: Callable[[Outgoing, bytes, int, Turn], None], drops: Counter[DropReason]
    ) -> None:
        self._put_dead_letter = put_dead_letter
        self._drops = drops
        self.waiting: deque[_Dead] = deque()
        self.tell: Tell = nobody_told
        self.pieces: dict[_Key, dict[int, _Dead]] = {}
        # When they have waited long enough for the others.
        self._overdue = Deadlines[_Key]()

    def add(self, stream: TransitStream, entry: TransitPacket, reason: str, *, certain: bool) -> None:
        """A packet has ended here."""
        self.waiting.append(_Dead(stream, entry, reason, certain))

    def next_deadline(self) -> int | None:
        """When fragments will have waited long enough for the others of their message, or None."""
        return None if self.waiting else self._overdue.earliest()

    def missing(self) -> Iterator[tuple[TransitStream, TransitPacket]]:
        """The next packets whose bodies are only on the disk."""
        for dead in islice(self.waiting, LETTERS_MAX):
            if dead.entry.body is None and dead.entry.state is StreamPacketState.GIVEN_UP:
                yield dead.stream, dead.entry

    def write(self, turn: Turn) -> list[Ended]:
        """Put messages into the dead-letter queue with the next commit, up to the first without its body.

        Returns the packets that leave with this commit.
        """
        ended: list[Ended] = []
        letters = 0
        while self.waiting and letters < LETTERS_MAX and self.waiting[0].entry.body is not None:
            dead = self.waiting.popleft()
            pieces = self._whole(dead, turn.now_ns)
            if pieces:
                letters += self._write(pieces, turn)
                ended.append(_ended(pieces, dead.reason))
        if not self.waiting:
            ended += self._write_parts(turn)
        return ended

    def take_late(self) -> list[Ended]:
        """Take the fragments whose time has run out, and that make no message, as others of it have left in time."""
        late: list[Ended] = []
        for key, pieces in [] if self.waiting else list(self.pieces.items()):
            if {piece.reason for piece in pieces.values()} == {DeadReason.REACH_QUEUE_TIMEOUT}:
                late.append(_ended(self._take(key), DeadReason.REACH_QUEUE_TIMEOUT))
        return late

    def _write_parts(self, turn: Turn) -> list[Ended]:
        """Write the letters of fragments for which the others of their message will not come, as those have left."""
        ended: list[Ended] = []
        overdue = set(self._overdue.poll_due(turn.now_ns))
        for key, pieces in list(self.pieces.items()):
            since_ns = turn.now_ns - PARTS_WAIT_NS
            if key in overdue and _has_older(key[0], since_ns):
                # That may be one of the others.
                self._overdue.set(key, turn.now_ns + PARTS_WAIT_NS)
            elif key in overdue or _is_over(key[0], {piece.reason for piece in pieces.values()}):
                part = self._take(key)
                self._write_unread(part, turn)
                ended.append(_ended(part, part[0].reason))
        return ended

    def _take(self, key: _Key) -> list[_Dead]:
        """The fragments of a message that are here, in their order; they wait no longer."""
        self._overdue.set(key, None)
        pieces = self.pieces.pop(key)
        return [pieces[at] for at in sorted(pieces)]

    def _whole(self, dead: _Dead, now_ns: int) -> list[_Dead]:
        """The packets of the message that a packet completes; none while others of it are missing."""
        body = dead.entry.body or b""
        fragment = fragment_range(body[:HEAD_BYTES], len(body))
        if fragment is None:
            return [dead]
        ordinal, offset, _, total_bytes = fragment
        key = dead.stream, ordinal
        pieces = self.pieces.setdefault(key, {})
        pieces[offset] = dead
        lengths = [fragment_range((it.entry.body or b"")[:HEAD_BYTES], it.entry.size_bytes) for it in pieces.values()]
        self._overdue.set(key, now_ns + PARTS_WAIT_NS)
        if sum(it[2] for it in lengths if it is not None) < total_bytes:
            return []
        return self._take(key)

    def _write(self, pieces: list[_Dead], turn: Turn) -> int:
        """Write the letters of a packet, or of a large message. Returns how many there are."""
        first = pieces[0]
        if is_sealed(first.entry.body or b""):
            self._write_unread(pieces, turn)
            return 1
        content = unpack_pieces([piece.entry.body or b"" for piece in pieces])
        if cares_of(first.entry.body or b"\0"):
            self._tell(pieces[-1], content, turn.now_ns)
        for index, body in enumerate(content.bodies):
            own = content.properties[index] if content.properties else {}
            if NO_DEAD_LETTER in own:
                self._drops[DropReason.REQUEST_ENDED] += 1
                continue
            properties = {**own, **first.properties, **_topic(first.stream, content)}
            letter = Outgoing(body, properties, priority=content.priority)
            self._put_dead_letter(letter, first.stream.id.origin, content.first_ordinal + index, turn)
        return len(content.bodies)

    def _write_unread(self, pieces: list[_Dead], turn: Turn) -> None:
        """Write one letter of what this node cannot read, sealed messages or part of one: the bytes, as they came.

        It does not know what their senders want to become of them, or to be told.
        """
        first, bodies = pieces[0], [piece.entry.body or b"" for piece in pieces]
        properties = first.properties | {DEAD_UNREAD: max(1, sum(piece.entry.messages for piece in pieces))}
        fragments = [fragment_range(body[:HEAD_BYTES], len(body)) for body in bodies]
        if fragments[0] is not None and sum(it[2] for it in fragments if it is not None) < fragments[0][3]:
            properties[DEAD_PART] = fragments[0][3]
        letter = Outgoing(b"".join(bodies), properties, priority=priority_of(bodies[0]))
        self._put_dead_letter(letter, first.stream.id.origin, ordinal_of(bodies[0]), turn)

    def _tell(self, dead: _Dead, content: Unpacked, now_ns: int) -> None:
        """Tell the origin of messages, if it wants to know, that they have ended here."""
        stream, indices, message_class = dead.stream, range(len(content.bodies)), class_on_the_way(dead.reason)
        where = *stream.id, stream.sequence.sequence, dead.entry.number
        self.tell(Told(*where, stream.delivery, stream.destination, content, indices, message_class), now_ns)


def _ended(pieces: list[_Dead], reason: str) -> Ended:
    return Ended(pieces[0].stream, [piece.entry for piece in pieces], reason, pieces[0].certain)


def _is_over(stream: TransitStream, reasons: set[str]) -> bool:
    """Whether no more fragments come: they were purged, or all that is here of a forgotten stream was given up."""
    if reasons <= {DeadReason.REACH_QUEUE_TIMEOUT, DeadReason.PURGED}:
        return DeadReason.PURGED in reasons
    if RejectReason.STALE_SEQUENCE not in reasons or stream.sequence.on_disk:
        return False
    return all(it.state is StreamPacketState.GIVEN_UP for it in stream.sequence.entries.values())


def _has_older(stream: TransitStream, since_ns: int) -> bool:
    """Whether packets that had come by this time may be passed on still."""
    on_disk, entries = stream.sequence.on_disk, stream.sequence.entries.values()
    return (bool(on_disk) and on_disk.came_ns <= since_ns) or any(
        entry.state is not StreamPacketState.GIVEN_UP and entry.came_ns <= since_ns for entry in entries
    )


def _topic(stream: TransitStream, content: Unpacked) -> Properties:
    """What a dead letter says of the topic of its message, if it has one."""
    return {"dead_destination": f"{stream.destination}{LEVEL_END}{content.topic}"} if content.topic else {}
