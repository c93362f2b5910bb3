"""Sets of numbers as sorted, disjoint, inclusive ranges; healthy logs keep them very short."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

Span = tuple[int, int]
"""An inclusive range."""


class RangeSet:
    """A set of integers as a few ranges. Appending at the end, the usual case, takes constant time."""

    __slots__ = ("firsts", "lasts")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.join(spans)

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self.lasts, number)
        return at < len(self.lasts) and self.firsts[at] <= number

    def __iter__(self) -> Iterator[Span]:
        return iter(zip(self.firsts, self.lasts, strict=True))

    def __bool__(self) -> bool:
        return bool(self.firsts)

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

    def put(self, first: int, last: int) -> list[Span]:
        """Add the numbers from first to last; return those that were not there. Fast where they belong to the end."""
        lasts = self.lasts
        if first > last:
            return []
        if not lasts or first > lasts[-1]:
            self.add(first, last)
            return [(first, last)]
        if self.firsts[-1] <= first:
            end = lasts[-1]
            if last <= end:
                return []
            lasts[-1] = last
            return [(end + 1, last)]
        news = self.missing(first, last)
        if news:
            self.add(first, last)
        return news

    def take(self, first: int, last: int) -> list[Span]:
        """Remove the numbers from first to last; return those that were there."""
        taken = self.overlap(first, last)
        if taken:
            low = bisect_left(self.lasts, first)
            high = low + len(taken)
            begin, end = self.firsts[low], self.lasts[high - 1]
            left = [(begin, first - 1)] if begin < first else []
            left += [(last + 1, end)] if end > last else []
            self.firsts[low:high] = [span[0] for span in left]
            self.lasts[low:high] = [span[1] for span in left]
        return taken

    def overlap(self, first: int, last: int) -> list[Span]:
        """Return the parts of first to last that are in the set."""
        firsts, lasts = self.firsts, self.lasts
        if not lasts or first > lasts[-1] or first > last:
            return []
        at = bisect_left(lasts, first)
        found: list[Span] = []
        while at < len(lasts) and firsts[at] <= last:
            found.append((max(first, firsts[at]), min(last, lasts[at])))
            at += 1
        return found

    def next(self, number: int) -> int | None:
        """Return the lowest number of the set from one on, None if there is none."""
        at = bisect_left(self.lasts, number)
        return max(number, self.firsts[at]) if at < len(self.lasts) else None

    def missing(self, first: int, last: int) -> list[Span]:
        """Return the parts of first to last that are not in the set."""
        if first > last:
            return []
        at = bisect_left(self.lasts, first)
        if at == len(self.lasts) or self.firsts[at] > last:
            return [(first, last)]
        if self.firsts[at] <= first and last <= self.lasts[at]:
            return []
        there = self.overlap(first, last)
        found: list[Span] = []
        for begin, end in there:
            if first < begin:
                found.append((first, begin - 1))
            first = end + 1
        if first <= last:
            found.append((first, last))
        return found

    def join(self, spans: Iterable[Span]) -> None:
        """Add the numbers of ranges, such as those of another set."""
        for first, last in spans:
            self.add(first, last)

    def cut(self, spans: Iterable[Span]) -> None:
        """Remove the numbers of ranges."""
        for first, last in spans:
            self.take(first, last)


def size(spans: Iterable[Span]) -> int:
    """Return how many numbers the ranges hold."""
    return sum(last - first + 1 for first, last in spans)


class Tally:
    """Ranges and their counts; ranges that came more than once are kept separately.

    Attributes:
        numbers: all numbers that came.
        again: the parts that had come before, one for each repetition.
        count: the sum of all counts.
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

    def join(self, other: Tally) -> None:
        """Add what another one counts."""
        for first, last in other:
            self.add(first, last, 0)
        self.count += other.count

    def __iter__(self) -> Iterator[Span]:
        """Yield spans that contain each number as often as it came."""
        yield from self.numbers
        yield from self.again
