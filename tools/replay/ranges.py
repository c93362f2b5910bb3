"""Sets of numbers as sorted, disjoint, inclusive ranges; healthy logs keep them very short."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class RangeSet:
    """A set of integers that is made of few ranges. Appending at the end, the usual case, is constant time."""

    __slots__ = ("firsts", "lasts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self.lasts, number)
        return at < len(self.lasts) and self.firsts[at] <= number

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.firsts, self.lasts, strict=True))

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

    def overlap(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of first to last that are in the set."""
        at = bisect_left(self.lasts, first)
        while at < len(self.lasts) and self.firsts[at] <= last:
            yield max(first, self.firsts[at]), min(last, self.lasts[at])
            at += 1

    def missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of first to last that are not in the set."""
        for begin, end in self.overlap(first, last):
            if first < begin:
                yield first, begin - 1
            first = end + 1
        if first <= last:
            yield first, last
