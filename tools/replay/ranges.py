"""Sets of numbers as sorted, disjoint, inclusive ranges; healthy logs keep them very short."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

Span = tuple[int, int]
"""An inclusive range."""


class RangeSet:
    """A set of integers that is made of few ranges. Appending at the end, the usual case, is constant time."""

    __slots__ = ("firsts", "lasts")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        for first, last in spans:
            self.add(first, last)

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self.lasts, number)
        return at < len(self.lasts) and self.firsts[at] <= number

    def __iter__(self) -> Iterator[Span]:
        return iter(zip(self.firsts, self.lasts, strict=True))

    def __bool__(self) -> bool:
        return bool(self.firsts)

    def __len__(self) -> int:
        return sum(self.lasts) - sum(self.firsts) + len(self.firsts)

    @property
    def lowest(self) -> int:
        """The smallest number; the set must not be empty."""
        return self.firsts[0]

    def add(self, first: int, last: int) -> None:
        """Put the numbers from first to last, if there are any, into the set; ranges that touch become one."""
        if first > last:
            return
        lasts = self.lasts
        if lasts and lasts[-1] + 1 == first:
            lasts[-1] = last
            return
        low = bisect_left(lasts, first - 1)
        high = low
        while high < len(lasts) and self.firsts[high] <= last + 1:
            first = min(first, self.firsts[high])
            last = max(last, lasts[high])
            high += 1
        self.firsts[low:high] = [first]
        lasts[low:high] = [last]

    def take(self, first: int, last: int) -> list[Span]:
        """Remove the numbers from first to last; return those that were there."""
        taken = list(self.overlap(first, last))
        if taken:
            low = bisect_left(self.lasts, first)
            high = low + len(taken)
            begin, end = self.firsts[low], self.lasts[high - 1]
            left = [(begin, first - 1)] if begin < first else []
            left += [(last + 1, end)] if end > last else []
            self.firsts[low:high] = [span[0] for span in left]
            self.lasts[low:high] = [span[1] for span in left]
        return taken

    def overlap(self, first: int, last: int) -> Iterator[Span]:
        """Yield the parts of first to last that are in the set."""
        at = bisect_left(self.lasts, first)
        while first <= last and at < len(self.lasts) and self.firsts[at] <= last:
            yield max(first, self.firsts[at]), min(last, self.lasts[at])
            at += 1

    def missing(self, first: int, last: int) -> Iterator[Span]:
        """Yield the parts of first to last that are not in the set."""
        for begin, end in self.overlap(first, last):
            if first < begin:
                yield first, begin - 1
            first = end + 1
        if first <= last:
            yield first, last


def size(spans: Iterable[Span]) -> int:
    """Return how many numbers the ranges hold."""
    return sum(last - first + 1 for first, last in spans)


class Tally:
    """Ranges and what they count for; what came more than once is told apart.

    Attributes:
        numbers: what came at all.
        again: the parts that had come before, one for each time.
        count: of all of them.
    """

    __slots__ = ("again", "count", "numbers")

    def __init__(self) -> None:
        self.numbers = RangeSet()
        self.again: list[Span] = []
        self.count = 0

    def add(self, first: int, last: int, count: int) -> None:
        """Add a range."""
        self.again += self.numbers.overlap(first, last)
        self.numbers.add(first, last)
        self.count += count

    def __iter__(self) -> Iterator[Span]:
        """Yield spans of which each number has as many as it came times."""
        yield from self.numbers
        yield from self.again
