"""Sets of numbers kept as a cumulative number and the ranges above it."""

from bisect import bisect_left, bisect_right
from itertools import islice

__all__ = ["NumberSet", "Range", "as_ranges"]

Range = tuple[int, int]
"""An inclusive range ``(first, last)``."""
_NONE: list[int] = []
"""What sets without a gap have in common, and nobody adds to: nearly all of the many that a node has are such."""


class NumberSet:
    """Which numbers have been seen: all up to ``cumulative``, and the disjoint, ascending ``ranges`` above it.

    Numbers start at 1. In-order arrival costs one comparison; the list of ranges is short when traffic is healthy.
    """

    __slots__ = ("_firsts", "_lasts", "cumulative")

    def __init__(self, cumulative: int = 0, ranges: list[Range] | None = None) -> None:
        self.cumulative = cumulative
        self._firsts: list[int] = [first for first, _last in ranges] if ranges else _NONE
        self._lasts: list[int] = [last for _first, last in ranges] if ranges else _NONE

    @property
    def ranges(self) -> list[Range]:
        """The ranges above ``cumulative``, ascending and disjoint."""
        return list(zip(self._firsts, self._lasts, strict=True))

    @property
    def gaps(self) -> int:
        """How many ranges there are: each has a gap before it."""
        return len(self._firsts)

    @property
    def highest(self) -> int:
        """The highest number seen, 0 for none."""
        return self._lasts[-1] if self._lasts else self.cumulative

    def __contains__(self, number: int) -> bool:
        if number <= self.cumulative:
            return True
        at = bisect_left(self._lasts, number)
        return at < len(self._lasts) and self._firsts[at] <= number

    def lowest_ranges(self, most: int) -> list[Range]:
        """The ``most`` lowest ranges above ``cumulative``."""
        if not self._firsts:
            return []
        return list(zip(self._firsts[:most], self._lasts[:most], strict=True))

    def ranges_up_to(self, number: int) -> list[Range]:
        """The ranges above ``cumulative`` that begin no later."""
        return self.lowest_ranges(bisect_right(self._firsts, number))

    def add(self, number: int) -> bool:
        """Add one number. Returns False when it was there already."""
        if number == self.cumulative + 1:
            self.cumulative = number
            if self._firsts and self._firsts[0] == number + 1:
                self.cumulative = self._lasts[0]
                del self._firsts[0], self._lasts[0]
            return True
        if number in self:
            return False
        self._insert(number)
        return True

    def add_run(self, first: int, last: int) -> None:
        """Add neighbouring numbers, ``last`` included; those behind all others cost as much as one."""
        if first != self.highest + 1:
            for number in range(first, last + 1):
                self.add(number)
        elif self._firsts:
            self._lasts[-1] = last
        else:
            self.cumulative = last

    def add_range(self, first: int, last: int) -> None:
        """Add all numbers from the first to the last, wherever they are and whichever were seen before."""
        if first <= self.cumulative + 1:
            self.forget_below(last)
            return
        if not self._firsts:
            self._firsts, self._lasts = [first], [last]
            return
        # Those that it touches become one with it.
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end], self._lasts[begin:end] = [first], [last]

    def forget_below(self, floor: int) -> None:
        """Count every number up to ``floor`` as seen: nobody wants it any more."""
        if floor <= self.cumulative:
            return
        self.cumulative = floor
        while self._firsts and self._firsts[0] <= self.cumulative + 1:
            self.cumulative = max(self.cumulative, self._lasts[0])
            del self._firsts[0], self._lasts[0]

    def below(self, limit: int) -> "NumberSet":
        """Those of the numbers that are smaller."""
        if self.cumulative >= limit:
            return NumberSet(limit - 1)
        within = [(first, min(last, limit - 1)) for first, last in self.ranges if first < limit]
        return NumberSet(self.cumulative, within)

    def _insert(self, number: int) -> None:
        if not self._firsts:
            self._firsts, self._lasts = [number], [number]
            return
        firsts, lasts = self._firsts, self._lasts
        at = bisect_left(lasts, number)
        joins_left = at > 0 and lasts[at - 1] == number - 1
        joins_right = at < len(firsts) and firsts[at] == number + 1
        if joins_left and joins_right:
            lasts[at - 1] = lasts[at]
            del firsts[at], lasts[at]
        elif joins_left:
            lasts[at - 1] = number
        elif joins_right:
            firsts[at] = number
        else:
            firsts.insert(at, number)
            lasts.insert(at, number)


def as_ranges(numbers: list[int]) -> list[Range]:
    """Fold ascending numbers into inclusive ranges."""
    ranges: list[Range] = []
    if not numbers:
        return ranges
    first = last = numbers[0]
    for number in islice(numbers, 1, None):
        if number != last + 1:
            ranges.append((first, last))
            first = number
        last = number
    ranges.append((first, last))
    return ranges
