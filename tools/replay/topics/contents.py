"""The messages of one topic: the place and the name of each, when it was dispatched, and whether it is there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from triack.tools.replay.log.ranges import RangeSet, Span
from triack.tools.replay.log.schema import EXPRESS

Named = tuple[int, int, str, bool]
"""Messages with places in a row: the first and the last place, the levels below the topic, whether they are express."""
Dated = tuple[int, int, int]
"""Messages that were dispatched at one moment: the first and the last place, and the monotonic clock."""


class Contents:
    """The messages of a topic by their places.

    Attributes:
        next: the place of the next message that arrives; 0 before it is known.
        dispatched: the last place that was dispatched.
        kept: the places of the messages that are there.
    """

    def __init__(self) -> None:
        self.next = 0
        self.dispatched = 0
        self.kept = RangeSet()
        self._runs: list[Named] = []
        self._firsts: list[int] = []
        self._dates: list[Dated] = []

    def put(self, first: int, last: int, below: str, cls: str) -> None:
        """Messages of one name have arrived; some may be known from the start before."""
        self.kept.add(first, last)
        known = RangeSet((low, high) for low, high, _ in self.named(first, last))
        for low, high in known.missing(first, last):
            self._put(low, high, below, express=cls == EXPRESS)

    def _put(self, first: int, last: int, below: str, *, express: bool) -> None:
        runs, at = self._runs, bisect_right(self._firsts, first)
        if at and runs[at - 1][1] == first - 1 and runs[at - 1][2:] == (below, express):
            runs[at - 1] = runs[at - 1][0], last, below, express
        else:
            runs.insert(at, (first, last, below, express))
            self._firsts.insert(at, first)

    def named(self, first: int, last: int) -> Iterator[tuple[int, int, str]]:
        """Yield what is known of the messages from first to last: first, last, and the levels below the topic."""
        for low, high, below, _ in _within(self._runs, bisect_right(self._firsts, first), first, last):
            yield low, high, below

    def express(self, first: int, last: int) -> list[Span]:
        """Return which of the messages from first to last are express."""
        found = _within(self._runs, bisect_right(self._firsts, first), first, last)
        return [(low, high) for low, high, _, is_express in found if is_express]

    def dispatch(self, first: int, last: int, at_ns: int) -> None:
        """Messages were dispatched."""
        self.dispatched = max(self.dispatched, last)
        dates = self._dates
        if dates and dates[-1][2] == at_ns and dates[-1][1] == first - 1:
            dates[-1] = dates[-1][0], last, at_ns
        else:
            dates.append((first, last, at_ns))

    def dates(self, first: int, last: int) -> Iterator[Dated]:
        """Yield when the messages from first to last were dispatched."""
        yield from _within(self._dates, bisect_right(self._dates, (first, 1 << 62, 0)), first, last)

    def free(self, first: int, last: int) -> list[Span]:
        """Messages are there no longer. Returns those that were not there before, either."""
        missing = self.kept.missing(first, last)
        self.kept.take(first, last)
        lowest = self.kept.lowest if self.kept else self.next
        done = _done(self._runs, lowest)
        del self._runs[:done], self._firsts[:done], self._dates[: _done(self._dates, lowest)]
        return missing

    def cut(self, first: int) -> None:
        """The places from one on are given anew."""
        self.kept.take(first, self.next)
        at = bisect_right(self._firsts, first - 1)
        del self._runs[at:], self._firsts[at:]
        if at and self._runs[at - 1][1] >= first:
            self._runs[at - 1] = self._runs[at - 1][0], first - 1, *self._runs[at - 1][2:]
        self.next = first

    def restart(self) -> list[Span]:
        """The process is gone, and its express messages with it. Returns these."""
        express = [(first, last) for first, last, _, is_express in self._runs if is_express]
        self.kept.cut(express)
        self._dates.clear()
        return express


def _within(rows: Sequence[tuple[Any, ...]], behind: int, first: int, last: int) -> Iterator[Any]:
    """Yield the rows with places from first to last, cut to these; all from one on begin behind the first place."""
    for at in range(max(behind - 1, 0), len(rows)):
        begin, end, *more = rows[at]
        if begin > last:
            return
        if end >= first:
            yield max(begin, first), min(end, last), *more


def _done(rows: Sequence[tuple[Any, ...]], lowest: int) -> int:
    """Return how many rows are of places before the lowest alone."""
    return next((at for at, row in enumerate(rows) if row[1] >= lowest), len(rows))
