"""Which messages of one sequence an application has in hand, and which it has settled.

A message is handed out, and then it is settled or comes back. If its node dies, the next start has it again. If a crash
may have cut off a commit, it is not known whether its messages are settled.

    WAITING --handed--> IN HAND --settled--> DONE
    IN HAND --returned, purged, expired--> WAITING
    IN HAND --start--> AGAIN --handed--> IN HAND
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from triack.tools.replay.checks.findings import Record
from triack.tools.replay.log.ranges import RangeSet, Span

Numbers = tuple[int, int, int]
"""A packet, and the first and last of its messages."""


class Messages:
    """Messages by their packets: whole ones as ranges, of the others which messages."""

    __slots__ = ("parts", "whole")

    def __init__(self) -> None:
        self.whole = RangeSet()
        self.parts: dict[int, RangeSet] = {}

    def __bool__(self) -> bool:
        return bool(self.whole or self.parts)

    def add_packets(self, first: int, last: int) -> None:
        """Add all messages of packets."""
        self._forget_parts(first, last)
        self.whole.add(first, last)

    def take_packets(self, first: int, last: int) -> None:
        """Remove all messages of packets."""
        self._forget_parts(first, last)
        self.whole.take(first, last)

    def _forget_parts(self, first: int, last: int) -> None:
        for number in [number for number in self.parts if first <= number <= last]:
            del self.parts[number]

    def add(self, number: int, first: int, last: int, count: int | None) -> None:
        """Add messages of a packet; ``count``: how many it has, if that is known."""
        if number in self.whole:
            return
        part = self.parts.setdefault(number, RangeSet())
        part.add(first, last)
        if count is not None and part.overlap(0, count - 1) == [(0, count - 1)]:
            del self.parts[number]
            self.whole.add(number, number)

    def take(self, number: int, first: int, last: int, count: int | None) -> bool:
        """Remove messages of a packet, and return whether any was there; ``count`` as in ``add``."""
        if self.whole.take(number, number):
            self.parts[number] = RangeSet([(0, (count or last + 1) - 1)])
        part = self.parts.get(number)
        taken = part is not None and bool(part.take(first, last))
        if part is not None and not part:
            del self.parts[number]
        return taken

    def missing(self, first: int, last: int) -> list[Span]:
        """Return the packets from first to last that have no message here."""
        left = RangeSet(self.whole.missing(first, last))
        for number in self.parts:
            left.take(number, number)
        return list(left)

    def numbers(self) -> Iterator[int]:
        """Yield the packets that have any message here."""
        yield from self.parts
        for first, last in self.whole:
            yield from range(first, last + 1)


class Settling:
    """The messages of one sequence in the hands of applications.

    Attributes:
        done: what is settled.
        hand: what was handed out in this start, with no further event since.
        again: what was in hand when a start ended, and was not handed out since.
    """

    __slots__ = ("_batch", "_batch_ns", "_lost", "_passed", "_since", "again", "done", "hand")

    def __init__(self) -> None:
        self.done = Messages()
        self.hand = Messages()
        self.again = Messages()
        # The record with which something was handed out for the first time in this start while ``again`` was not empty,
        # the start in which the first of that was handed out, and what earlier starts have passed over.
        self._passed: Record | None = None
        self._since = 0
        self._lost: list[tuple[Record, int, int]] = []
        # The last commit that was to settle something: when it began, and what it settles.
        self._batch_ns = 0
        self._batch: list[tuple[Span, Numbers | None, int | None]] = []

    def start(self, incarnation: int) -> None:
        """The node starts: messages in hand are to come again; whether the last commit succeeded is unknown."""
        for (first, last), numbers, count in self._batch:
            if numbers is None:
                self.done.take_packets(first, last)
            else:
                self.done.take(*numbers, count)
        self._batch.clear()
        self._lost = list(self.lost())
        self._passed = None
        if self.hand and not self.again:
            self._since = incarnation
        for span in self.hand.whole:
            self.again.add_packets(*span)
        for number, part in self.hand.parts.items():
            for first, last in part:
                self.again.add(number, first, last, None)
        self.hand = Messages()

    def hand_packets(self, record: Record, first: int, last: int, *, fresh: bool, chosen: bool) -> list[Span]:
        """Whole packets are handed out. Returns those that must not be handed out any more.

        After a crash, chosen ones come again in their turn, and so behind others that were never handed out.
        """
        if not chosen:
            self._note_passed(record, fresh=fresh)
            self.hand.add_packets(first, last)
        self.again.take_packets(first, last)
        return self.done.whole.overlap(first, last)

    def hand_messages(self, record: Record, numbers: Numbers, count: int | None, *, fresh: bool, chosen: bool) -> bool:
        """Some messages of a packet are handed out; returns whether one must not be any more. See above."""
        if not chosen:
            self._note_passed(record, fresh=fresh)
            self.hand.add(*numbers, count)
        self.again.take(*numbers, count)
        return self.is_done(numbers)

    def _note_passed(self, record: Record, *, fresh: bool) -> None:
        if fresh and self.again and self._passed is None:
            self._passed = record

    def lost(self) -> Iterator[tuple[Record, int, int]]:
        """Yield what was passed over: the record that shows it, the start that had it in hand, and the packet."""
        yield from self._lost
        if self._passed is not None:
            for number in self.again.numbers():
                yield self._passed, self._since, number

    def settle_packets(self, first: int, last: int, at_ns: int) -> bool:
        """The commit that begins settles whole packets; returns whether one was settled before."""
        before = bool(self.done.whole.overlap(first, last))
        self._begin(at_ns)
        self._batch.append(((first, last), None, None))
        self.hand.take_packets(first, last)
        self.again.take_packets(first, last)
        self.done.add_packets(first, last)
        return before

    def settle_messages(self, numbers: Numbers, count: int | None, at_ns: int) -> bool:
        """It settles some messages of a packet; returns whether one was settled before."""
        before = self.is_done(numbers)
        self._begin(at_ns)
        self._batch.append(((0, -1), numbers, count))
        self.hand.take(*numbers, count)
        self.again.take(*numbers, count)
        self.done.add(*numbers, count)
        return before

    def is_done(self, numbers: Numbers) -> bool:
        """Whether one of these messages of a packet is settled."""
        number, first, last = numbers
        part = self.done.parts.get(number)
        return number in self.done.whole or (part is not None and bool(part.overlap(first, last)))

    def are_done(self, numbers: Numbers) -> bool:
        """Whether all of these messages of a packet are settled."""
        number, first, last = numbers
        part = self.done.parts.get(number)
        return number in self.done.whole or (part is not None and part.overlap(first, last) == [(first, last)])

    def is_sure(self, numbers: Numbers) -> bool:
        """Whether these messages of a packet are settled by a commit that has returned."""
        number, first, last = numbers
        return self.is_done(numbers) and not any(
            low <= number <= high if some is None else some[0] == number and some[1] <= last and first <= some[2]
            for (low, high), some, _ in self._batch
        )

    def _begin(self, at_ns: int) -> None:
        """Another commit begins: the one before it has returned."""
        if at_ns != self._batch_ns:
            self._batch.clear()
            self._batch_ns = at_ns

    def release(self, spans: Iterable[Numbers], counts: dict[int, int | None]) -> None:
        """Messages came back, or were taken out in another way: when they come again is unknown."""
        for numbers in spans:
            for messages in (self.hand, self.again):
                messages.take(*numbers, counts.get(numbers[0]))
