"""Sets of numbers kept as a cumulative number and the ranges above it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

Range = tuple[int, int]
_NONE: list[int] = []
"""Shared by all sets without a gap, nearly all sets of a node; never changed."""


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

    def check_invariants(self) -> None:
        """Assert that ranges ascend, with a gap before each."""
        before = self.cumulative
        for first, last in self.ranges:
            assert before + 1 < first <= last
            before = last

    def lowest_ranges(self, most: int) -> list[Range]:
        """The ``most`` lowest ranges above ``cumulative``."""
        if not self._firsts:
            return []
        return list(zip(self._firsts[:most], self._lasts[:most], strict=True))

    def highest_ranges(self, most: int) -> list[Range]:
        """The ``most`` highest ranges above ``cumulative``."""
        if not self._firsts:
            return []
        return list(zip(self._firsts[-most:], self._lasts[-most:], strict=True))

    def ranges_up_to(self, number: int) -> list[Range]:
        """The ranges above ``cumulative`` that begin at or below ``number``."""
        return self.lowest_ranges(bisect_right(self._firsts, number))

    def add(self, number: int) -> bool:
        """Add one number. Returns False if the set had it."""
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
        if first == self.cumulative + 1 and not self._firsts:
            self.cumulative = last
        elif first == self.highest + 1:
            self._lasts[-1] = last
        else:
            self.take_run(first, last)

    def take_run(self, first: int, last: int) -> list[range]:
        """Add neighbouring numbers, ``last`` included. Returns the new ones, as ranges.

        Numbers that the set has cost nothing: only the gaps between them are walked.
        """
        if first <= self.cumulative:
            first = self.cumulative + 1
        if first > last:
            return []
        if not self._firsts and first == self.cumulative + 1:
            self.cumulative = last
            return [range(first, last + 1)]
        firsts, lasts = self._firsts, self._lasts
        begin, end = bisect_left(lasts, first - 1), bisect_right(firsts, last + 1)
        fresh: list[range] = []
        following = first
        for at in range(begin, end):
            if following < firsts[at]:
                fresh.append(range(following, min(firsts[at], last + 1)))
            following = max(following, lasts[at] + 1)
        if following <= last:
            fresh.append(range(following, last + 1))
        if begin < end:
            first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
        if first == self.cumulative + 1:
            self.cumulative = last
            del firsts[begin:end], lasts[begin:end]
        elif firsts:
            firsts[begin:end], lasts[begin:end] = [first], [last]
        else:
            self._firsts, self._lasts = [first], [last]
        return fresh

    def forget_below(self, floor: int) -> None:
        """Count every number up to ``floor`` as seen: no one wants them any more."""
        if floor <= self.cumulative:
            return
        self.cumulative = floor
        while self._firsts and self._firsts[0] <= self.cumulative + 1:
            self.cumulative = max(self.cumulative, self._lasts[0])
            del self._firsts[0], self._lasts[0]

    def below(self, limit: int) -> "NumberSet":
        """The numbers of the set that are smaller."""
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
    return [*ranges, (first, last)]


def without(ranges: Iterable[Range], others: Sequence[Range]) -> list[Range]:
    """Ascending, disjoint ranges minus others of the same kind."""
    left: list[Range] = []
    at = 0
    for first, last in ranges:
        while at < len(others) and others[at][1] < first:
            at += 1
        begin, look = first, at
        while look < len(others) and others[look][0] <= last:
            if begin < others[look][0]:
                left.append((begin, others[look][0] - 1))
            begin = others[look][1] + 1
            look += 1
        if begin <= last:
            left.append((begin, last))
    return left


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in the fewest ranges, ascending."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def within(ranges: Iterable[Range], numbers: Mapping[int, object]) -> list[int]:
    """Which of some numbers lie in ranges, in any order: wide ranges cost no more than the numbers."""
    few = joined(ranges)
    if sum([last - first + 1 for first, last in few]) <= len(numbers):
        return [number for first, last in few for number in range(first, last + 1) if number in numbers]
    firsts = [first for first, _ in few]
    found: list[int] = []
    for number in numbers:
        at = bisect_right(firsts, number) - 1
        if at >= 0 and number <= few[at][1]:
            found.append(number)
    return found
