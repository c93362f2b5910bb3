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
from triack.ordering.transit import TransitPacket, TransitState
from triack.queues.admin_acks import Tell, Told, nobody_told
from triack.queues.body_head import cares_of, fragment_range, is_sealed, ordinal_of, priority_of
from triack.queues.mailboxes.expiry import LETTERS_MAX
from triack.queues.message_classes import class_on_the_way
from triack.queues.packing import DEAD_UNREAD, NO_DEAD_LETTER, Outgoing, Properties, Unpacked, unpack_pieces
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.transit_stream import TransitStream

__all__ = ["Ended", "TransitLetters"]


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
    """Packets that have ended here, and why."""

    stream: TransitStream
    entries: list[TransitPacket]
    reason: str


_BY_ITSELF = frozenset({DeadReason.REACH_QUEUE_TIMEOUT, DeadReason.PURGED})
"""Reasons of this node. A destination that refuses one fragment refuses all of them, unless it has taken some of them
before their stream ended."""

_FINAL = (RejectReason.STALE_SEQUENCE, DeadReason.PURGED)
"""Reasons for which fragments go no further. Those whose time has run out go on, as others of their message have."""


class TransitLetters:
    """The packets in transit that were given up.

    Args:
        put_dead_letter: keeps a letter with the next commit: message, origin, ordinal, turn.
        drops: counts dropped packets, by reason.

    Attributes:
        waiting: packets that wait for their bodies or their commit.
        tell: takes what happened to messages whose senders may want to know.
    """

    __slots__ = ("_drops", "_pieces", "_put_dead_letter", "tell", "waiting")

    def __init__(
        self, put_dead_letter: Callable[[Outgoing, bytes, int, Turn], None], drops: Counter[DropReason]
    ) -> None:
        self._put_dead_letter = put_dead_letter
        self._drops = drops
        self.waiting: deque[_Dead] = deque()
        self.tell: Tell = nobody_told
        # Fragments of large messages, by stream and ordinal, until all are here.
        self._pieces: dict[tuple[TransitStream, int], dict[int, _Dead]] = {}

    def add(self, stream: TransitStream, entry: TransitPacket, reason: str, *, certain: bool) -> None:
        """A packet has ended here."""
        self.waiting.append(_Dead(stream, entry, reason, certain))

    @property
    def has_work(self) -> bool:
        """Whether ``write`` and ``take_parts`` may find something: fragments may leave without a call of ``add``."""
        return bool(self.waiting or self._pieces)

    def missing(self) -> Iterator[tuple[TransitStream, TransitPacket]]:
        """The next packets whose bodies are only on the disk."""
        for dead in islice(self.waiting, LETTERS_MAX):
            if dead.entry.body is None and dead.entry.state is TransitState.DEAD:
                yield dead.stream, dead.entry

    def write(self, turn: Turn) -> list[Ended]:
        """Put messages into the dead-letter queue with the next commit, up to the first without its body.

        Returns:
            The packets that leave with this commit.
        """
        ended: list[Ended] = []
        letters = 0
        while self.waiting and letters < LETTERS_MAX and self.waiting[0].entry.body is not None:
            dead = self.waiting.popleft()
            pieces = self._whole(dead)
            if pieces:
                letters += self._write(pieces, turn)
                ended.append(Ended(dead.stream, [piece.entry for piece in pieces], dead.reason))
        return ended

    def take_parts(self) -> list[Ended]:
        """Take the fragments that make no message, as others of it have left: nothing more is about to be given up."""
        parts: list[Ended] = []
        if self.waiting:
            return parts
        for (stream, ordinal), pieces in list(self._pieces.items()):
            reasons = {piece.reason for piece in pieces.values()}
            if reasons <= _BY_ITSELF or (RejectReason.STALE_SEQUENCE in reasons and _is_over(stream)):
                del self._pieces[stream, ordinal]
                final = [reason for reason in _FINAL if reason in reasons]
                entries = [piece.entry for piece in pieces.values()]
                parts.append(Ended(stream, entries, final[0] if final else DeadReason.REACH_QUEUE_TIMEOUT))
        return parts

    def _whole(self, dead: _Dead) -> list[_Dead]:
        """The packets of the message that a packet completes; none while others of it are missing."""
        body = dead.entry.body or b""
        fragment = fragment_range(body[:HEAD_BYTES], len(body))
        if fragment is None:
            return [dead]
        ordinal, offset, _, total_bytes = fragment
        key = dead.stream, ordinal
        pieces = self._pieces.setdefault(key, {})
        pieces[offset] = dead
        lengths = [fragment_range((it.entry.body or b"")[:HEAD_BYTES], it.entry.size_bytes) for it in pieces.values()]
        if sum(it[2] for it in lengths if it is not None) < total_bytes:
            return []
        del self._pieces[key]
        return [pieces[at] for at in sorted(pieces)]

    def _write(self, pieces: list[_Dead], turn: Turn) -> int:
        """Write the letters of a packet, or of a large message. Returns how many there are."""
        first = pieces[0]
        if is_sealed(first.entry.body or b""):
            self._write_sealed(pieces, turn)
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

    def _write_sealed(self, pieces: list[_Dead], turn: Turn) -> None:
        """Write one letter of what this node cannot read: the sealed bytes, as they came.

        It does not know what their senders want to become of them, or to be told.
        """
        first, bodies = pieces[0], [piece.entry.body or b"" for piece in pieces]
        properties = first.properties | {DEAD_UNREAD: sum(piece.entry.messages for piece in pieces)}
        letter = Outgoing(b"".join(bodies), properties, priority=priority_of(bodies[0]))
        self._put_dead_letter(letter, first.stream.id.origin, ordinal_of(bodies[0]), turn)

    def _tell(self, dead: _Dead, content: Unpacked, now_ns: int) -> None:
        """Tell the origin of messages, if it wants to know, that they have ended here."""
        stream, indices, message_class = dead.stream, range(len(content.bodies)), class_on_the_way(dead.reason)
        where = *stream.id, stream.sequence.sequence, dead.entry.number
        self.tell(Told(*where, stream.delivery, stream.destination, content, indices, message_class), now_ns)


def _is_over(stream: TransitStream) -> bool:
    """Whether all that is here of a stream has been given up."""
    return all(entry.state is TransitState.DEAD for entry in stream.sequence.entries.values())


def _topic(stream: TransitStream, content: Unpacked) -> Properties:
    """What a dead letter says of the topic of its message, if it has one."""
    return {"dead_destination": f"{stream.destination}{LEVEL_END}{content.topic}"} if content.topic else {}
