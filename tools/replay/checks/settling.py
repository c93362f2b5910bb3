"""What an application has in its hands of one sequence, and what it is done with.

A message is handed out, and then it is settled, or comes back; or its node dies, and the next start has it again. What
a commit was to take out that a crash may have cut off is known of neither.

    WAITING --handed--> IN HAND --settled--> DONE
    IN HAND --returned, purged, expired--> WAITING
    IN HAND --start--> AGAIN --handed--> IN HAND
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from triack.tools.replay.checks.findings import Record
from triack.tools.replay.log.ranges import RangeSet, Span

__all__ = ["Messages", "Settling"]

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
        """Add messages of a packet that has so many, if that is known."""
        if number in self.whole:
            return
        part = self.parts.setdefault(number, RangeSet())
        part.add(first, last)
        if count is not None and part.overlap(0, count - 1) == [(0, count - 1)]:
            del self.parts[number]
            self.whole.add(number, number)

    def take(self, number: int, first: int, last: int, count: int | None) -> bool:
        """Remove messages of a packet that has so many, and return whether any was there."""
        if self.whole.take(number, number):
            self.parts[number] = RangeSet([(0, (count or last + 1) - 1)])
        part = self.parts.get(number)
        taken = part is not None and bool(part.take(first, last))
        if part is not None and not part:
            del self.parts[number]
        return taken

    def numbers(self) -> Iterator[int]:
        """Yield the packets of which there is something."""
        yield from self.parts
        for first, last in self.whole:
            yield from range(first, last + 1)


class Settling:
    """The messages of one sequence in the hands of applications.

    Attributes:
        done: what is settled.
        hand: what was handed out in this start, and nothing else happened to it.
        again: what was in the hand when a start ended, and was not handed out since.
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
        # The last commit that was to settle something: when it began, and what.
        self._batch_ns = 0
        self._batch: list[tuple[Span, Numbers | None, int | None]] = []

    def start(self, incarnation: int) -> None:
        """The node starts: what was in hands is to come again; of the last commit nobody knows."""
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

    def hand_packets(self, record: Record, first: int, last: int, *, fresh: bool) -> list[Span]:
        """Whole packets are handed out. Returns those of which nothing may be handed out any more."""
        self._note_passed(record, fresh=fresh)
        self.hand.add_packets(first, last)
        self.again.take_packets(first, last)
        return self.done.whole.overlap(first, last)

    def hand_messages(self, record: Record, numbers: Numbers, count: int | None, *, fresh: bool) -> bool:
        """Some messages of a packet are; returns whether one may not be any more."""
        self._note_passed(record, fresh=fresh)
        self.hand.add(*numbers, count)
        self.again.take(*numbers, count)
        return self.is_done(numbers)

    def _note_passed(self, record: Record, *, fresh: bool) -> None:
        if fresh and self.again and self._passed is None:
            self._passed = record

    def lost(self) -> Iterator[tuple[Record, int, int]]:
        """Yield what was passed over: the record with which it was, the start that had it, and the packet."""
        yield from self._lost
        if self._passed is not None:
            for number in self.again.numbers():
                yield self._passed, self._since, number

    def settle_packets(self, first: int, last: int, at_ns: int) -> bool:
        """Whole packets are done with, by the commit that begins then; returns whether one was before."""
        before = bool(self.done.whole.overlap(first, last))
        self._begin(at_ns)
        self._batch.append(((first, last), None, None))
        self.hand.take_packets(first, last)
        self.again.take_packets(first, last)
        self.done.add_packets(first, last)
        return before

    def settle_messages(self, numbers: Numbers, count: int | None, at_ns: int) -> bool:
        """Some messages of a packet are; returns whether one was before."""
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

    def _begin(self, at_ns: int) -> None:
        """Another commit begins: the one before it has returned."""
        if at_ns != self._batch_ns:
            self._batch.clear()
            self._batch_ns = at_ns

    def release(self, spans: Iterable[Numbers], counts: dict[int, int | None]) -> None:
        """Messages came back, or were taken out in another way: nothing is known of when they come again."""
        for numbers in spans:
            for messages in (self.hand, self.again):
                messages.take(*numbers, counts.get(numbers[0]))
