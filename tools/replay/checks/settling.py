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
from triack.tools.replay.log.messages import numbers_of
from triack.tools.replay.log.ranges import RangeSet, Span


class Settling:
    """The messages of one sequence in the hands of applications, as numbers (``log/messages.py``).

    Attributes:
        done: what is settled.
        hand: what was handed out in this start, with no further event since.
        again: what was in hand when a start ended, and was not handed out since.
    """

    def __init__(self) -> None:
        self.done = RangeSet()
        self.hand = RangeSet()
        self.again = RangeSet()
        # The record with which something was handed out for the first time in this start while ``again`` was not empty,
        # the start in which the first of that was handed out, and what earlier starts have passed over.
        self._passed: Record | None = None
        self._since = 0
        self._lost: list[tuple[Record, int, int]] = []
        # The last commit that was to settle something: when it began, and what it settles.
        self._batch_ns = 0
        self._batch = RangeSet()

    def start(self, incarnation: int) -> None:
        """The node starts: messages in hand are to come again; whether the last commit succeeded is unknown."""
        self.done.cut(self._batch)
        self._batch = RangeSet()
        self._lost = list(self.lost())
        self._passed = None
        if self.hand and not self.again:
            self._since = incarnation
        self.again.join(self.hand)
        self.hand = RangeSet()

    def hand_out(self, record: Record, spans: Iterable[Span], *, fresh: bool, chosen: bool) -> list[Span]:
        """Messages are handed out. Returns those that must not be handed out any more.

        After a crash, chosen ones come again in their turn, and so behind others that were never handed out.
        """
        if fresh and not chosen and self.again and self._passed is None:
            self._passed = record
        for span in spans:
            if not chosen:
                self.hand.add(*span)
            self.again.take(*span)
        return [some for span in spans for some in self.done.overlap(*span)]

    def lost(self) -> Iterator[tuple[Record, int, int]]:
        """Yield what was passed over: the record that shows it, the start that had it in hand, and the packet."""
        yield from self._lost
        if self._passed is not None:
            for first, last in numbers_of(self.again):
                for number in range(first, last + 1):
                    yield self._passed, self._since, number

    def settle(self, spans: Iterable[Span], at_ns: int) -> bool:
        """The commit that begins settles messages; returns whether one was settled before."""
        before = any(self.done.overlap(*span) for span in spans)
        if at_ns != self._batch_ns:
            # Another commit begins: the one before it has returned.
            self._batch, self._batch_ns = RangeSet(), at_ns
        for span in spans:
            self._batch.add(*span)
            self.hand.take(*span)
            self.again.take(*span)
            self.done.add(*span)
        return before

    def are_done(self, span: Span) -> bool:
        """Whether all of these messages are settled."""
        return not self.done.missing(*span)

    def is_sure(self, span: Span) -> bool:
        """Whether some of these messages are settled, all of them by a commit that has returned."""
        return bool(self.done.overlap(*span)) and not self._batch.overlap(*span)

    def release(self, spans: Iterable[Span]) -> None:
        """Messages came back, or were taken out in another way: when they come again is unknown."""
        for span in spans:
            self.hand.take(*span)
            self.again.take(*span)
