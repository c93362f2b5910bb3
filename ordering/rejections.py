"""The packets of a stream that its destination has refused, until the origin knows.

Promise: a packet that was refused once is refused for good. Its number counts as handled: it is never accepted later,
whatever changes meanwhile, and each copy gets the same answer. The caller commits this with the stream's position
before it sends the rejection; so neither end can be wrong about a packet, whichever of them dies, and whichever of
their datagrams are lost.

A rejection is remembered until a packet shows that its origin has given that number up: the message is then in the
origin's dead-letter queue.
"""

from bisect import bisect_left
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from triack.base.errors import StoreDamaged
from triack.ordering.wire import SequenceHeader

_HEAD = Struct("!Q")
_SPAN = Struct("!QQB")
SPANS_MAX = 256
"""Runs of neighbours that one stream remembers.

A destination that refuses a queue refuses runs, and an origin confirms them within a round trip; until it does, it gets
no new ones. A row of the store has some 30 bytes for each.
"""


class _Span(NamedTuple):
    """Neighbours that were refused for the same reason."""

    first: int
    last: int
    reason: str


class Rejections:
    """The refused packets of one stream."""

    __slots__ = ("_sequence", "refused")

    def __init__(self) -> None:
        self._sequence = 0
        self.refused: list[_Span] = []

    def __len__(self) -> int:
        return len(self.refused)

    @property
    def full(self) -> bool:
        """Whether the origin must confirm some rejections before more packets can be refused."""
        return len(self.refused) >= SPANS_MAX

    @property
    def lowest(self) -> int | None:
        """The lowest refused number, or None. No cumulative ack may cover it, or a later one."""
        return self.refused[0].first if self.refused else None

    def add(self, header: SequenceHeader, reason: str) -> None:
        """Refuse a packet that was not refused before. The caller has looked at ``full``."""
        if header.sequence != self._sequence:
            self._sequence, self.refused = header.sequence, []
        spans, number = self.refused, header.number
        at = bisect_left(spans, (number,))
        first = last = number
        if at < len(spans) and spans[at].first == number + 1 and spans[at].reason == reason:
            last = spans.pop(at).last
        if at and spans[at - 1].last == number - 1 and spans[at - 1].reason == reason:
            at -= 1
            first = spans.pop(at).first
        spans.insert(at, _Span(first, last, reason))

    def reason_of(self, header: SequenceHeader) -> str | None:
        """Why a packet was refused, or None."""
        if header.sequence != self._sequence:
            return None
        at = bisect_left(self.refused, (header.number + 1,)) - 1
        return self.refused[at].reason if at >= 0 and header.number <= self.refused[at].last else None

    def forget_unwanted(self, sequence: int, first: int, last: int) -> bool:
        """Forget these numbers, as their origin has given them up. Returns whether anything was forgotten."""
        if not self.refused or sequence < self._sequence or (sequence == self._sequence and first > last):
            return False
        if sequence > self._sequence:
            self.refused = []
            return True
        left = []
        for span in self.refused:
            if span.last < first or span.first > last:
                left.append(span)
                continue
            if span.first < first:
                left.append(span._replace(last=first - 1))
            if span.last > last:
                left.append(span._replace(first=last + 1))
        changed, self.refused = left != self.refused, left
        return changed

    def encode(self) -> bytes:
        """As bytes for the disk; nothing when there is nothing."""
        if not self.refused:
            return b""
        pieces = [_HEAD.pack(self._sequence)]
        for first, last, reason in self.refused:
            name = reason.encode()
            pieces += (_SPAN.pack(first, last, len(name)), name)
        return b"".join(pieces)

    @classmethod
    def decode(cls, data: bytes) -> "Rejections":
        """Read the result of ``encode``. Raises StoreDamaged."""
        found = cls()
        if not data:
            return found
        try:
            (found._sequence,) = _HEAD.unpack_from(data)
            at = _HEAD.size
            while at < len(data):
                first, last, length = _SPAN.unpack_from(data, at)
                at += _SPAN.size + length
                found.refused.append(_Span(first, last, data[at - length : at].decode()))
        except (StructError, UnicodeDecodeError) as cause:
            raise StoreDamaged("rejections: not what was written") from cause
        if at != len(data):
            raise StoreDamaged("rejections: wrong length")
        return found
