"""How many messages each packet completes, as runs of equal counts."""

from __future__ import annotations

from bisect import bisect_right


class Weights:
    """Numbers and their counts. Consecutive numbers with the same count are one entry."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[list[int]] = []

    def put(self, number: int, count: int) -> None:
        """Note a packet's count; of two claims the higher one counts."""
        runs = self._runs
        if runs and number == runs[-1][1] + 1 and runs[-1][2] == count:
            runs[-1][1] = number
        elif not runs or number > runs[-1][1]:
            self._firsts.append(number)
            runs.append([number, number, count])
        else:
            self._put_inside(number, count)

    def _put_inside(self, number: int, count: int) -> None:
        at = bisect_right(self._firsts, number) - 1
        if at >= 0 and number <= self._runs[at][1]:
            first, last, known = self._runs[at]
            if known >= count:
                return
            parts = [[first, number - 1, known], [number, number, count], [number + 1, last, known]]
            parts = [part for part in parts if part[0] <= part[1]]
            self._runs[at : at + 1] = parts
            self._firsts[at : at + 1] = [part[0] for part in parts]
        else:
            self._firsts.insert(at + 1, number)
            self._runs.insert(at + 1, [number, number, count])

    def get(self, number: int) -> int | None:
        """Return a packet's count, or None."""
        at = bisect_right(self._firsts, number) - 1
        if at >= 0 and number <= self._runs[at][1]:
            return self._runs[at][2]
        return None

    def total(self, first: int, last: int) -> tuple[int, int]:
        """Return how many of the numbers from first to last are known, and the sum of their counts."""
        at = max(bisect_right(self._firsts, first) - 1, 0)
        known = messages = 0
        while at < len(self._runs) and self._runs[at][0] <= last:
            begin, end, count = self._runs[at]
            have = min(end, last) - max(begin, first) + 1
            if have > 0:
                known += have
                messages += have * count
            at += 1
        return known, messages
