"""How many messages each packet completes, as runs of equal counts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from triack.tools.replay.log.ranges import Span


class Weights:
    """Numbers and their counts. Consecutive numbers with the same count are one entry."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[list[int]] = []

    def put(self, first: int, last: int, count: int) -> Sequence[Span]:
        """Note the count of each packet from first to last; of two claims the higher one counts.

        Returns:
            Those of which another count was known.
        """
        runs = self._runs
        if not runs or first > runs[-1][1]:
            if runs and first == runs[-1][1] + 1 and runs[-1][2] == count:
                runs[-1][1] = last
            else:
                self._firsts.append(first)
                runs.append([first, last, count])
            return ()
        at = bisect_right(self._firsts, first)
        if at and last <= runs[at - 1][1] and runs[at - 1][2] >= count:
            return ((first, last),) if runs[at - 1][2] > count else ()
        return self._put_inside(first, last, count)

    def _put_inside(self, first: int, last: int, count: int) -> list[Span]:
        """Cut the runs that the packets overlap, and join them again, perhaps with a neighbour."""
        low = max(bisect_right(self._firsts, first - 1) - 1, 0)
        high = bisect_right(self._firsts, last + 1)
        parts: list[list[int]] = []
        others: list[Span] = []
        at = first
        for begin, end, known in self._runs[low:high]:
            if at < begin and at <= last:
                _join(parts, at, min(begin - 1, last), count)
            _join(parts, begin, min(end, first - 1), known)
            _join(parts, max(begin, first), min(end, last), max(known, count))
            _join(parts, max(begin, last + 1), end, known)
            if known != count and begin <= last and end >= first:
                others.append((max(begin, first), min(end, last)))
            at = max(at, end + 1)
        _join(parts, at, last, count)
        self._runs[low:high] = parts
        self._firsts[low:high] = [part[0] for part in parts]
        return others

    def join(self, other: Weights) -> list[Span]:
        """Note the counts of another one, and return the same as ``put``."""
        if not self._runs:
            self._firsts, self._runs = list(other._firsts), [list(run) for run in other._runs]
            return []
        return [span for run in other._runs for span in self.put(*run)]

    def get(self, number: int) -> int | None:
        """Return a packet's count, or None."""
        at = bisect_right(self._firsts, number) - 1
        if at >= 0 and number <= self._runs[at][1]:
            return self._runs[at][2]
        return None

    def total(self, first: int, last: int) -> tuple[int, int]:
        """Return how many of the numbers from first to last are known, and the sum of their counts."""
        known = messages = 0
        for begin, end, count in self.within(first, last):
            known += end - begin + 1
            messages += (end - begin + 1) * count
        return known, messages

    def within(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield what is known of the packets from first to last: first, last, count."""
        at = max(bisect_right(self._firsts, first) - 1, 0)
        while at < len(self._runs) and self._runs[at][0] <= last:
            begin, end, count = self._runs[at]
            if end >= first:
                yield max(begin, first), min(end, last), count
            at += 1


def _join(parts: list[list[int]], first: int, last: int, count: int) -> None:
    """Append packets, if there are any."""
    if first > last:
        return
    if parts and parts[-1][1] == first - 1 and parts[-1][2] == count:
        parts[-1][1] = last
    else:
        parts.append([first, last, count])
