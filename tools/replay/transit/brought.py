"""What packets of a sequence have brought to a relay: how many relays they had passed, and which packet they name."""

from __future__ import annotations

from collections import defaultdict

from triack.tools.replay.checks.findings import Record
from triack.tools.replay.log.ranges import RangeSet, Span
from triack.tools.replay.log.schema import TRANSACTIONAL


class Brought:
    """The packets of one sequence that have arrived at one node.

    Attributes:
        numbers: which.
        unwanted: of other classes than transactional: the highest number up to which the origin wants nothing more.
    """

    def __init__(self) -> None:
        self.numbers = RangeSet()
        self.unwanted = 0
        # By how many relays they had passed; a packet may have come by several ways.
        self._hops: defaultdict[int, RangeSet] = defaultdict(RangeSet)
        # Those that named the number before theirs as their previous one, and what others named.
        self._plain = RangeSet()
        self._named: defaultdict[int, set[int]] = defaultdict(set)

    def take(self, record: Record) -> None:
        """Packets have arrived."""
        first, last, previous = record["number"], record["number"] + record["packets"] - 1, record["previous"]
        self.numbers.add(first, last)
        self._hops[record["hops"]].add(first, last)
        if record["class"] != TRANSACTIONAL:
            self.unwanted = max(self.unwanted, previous)
            return
        if previous == first - 1:
            self._plain.add(first, last)
            return
        self._named[first].add(previous)
        self._plain.add(first + 1, last)

    def came_by(self, hops: int, first: int, last: int) -> list[Span]:
        """Return the packets from first to last of which none came that had passed that many relays."""
        return self._hops[hops].missing(first, last) if hops in self._hops else [(first, last)]

    def named(self, first: int, last: int, previous: int) -> list[Span]:
        """Return the transactional packets that never named what they name now: all but the first the one before."""
        if previous != first - 1 and previous in self._named.get(first, ()):
            return self._plain.missing(first + 1, last)
        if previous != first - 1:
            return [(first, first), *self._plain.missing(first + 1, last)]
        return self._plain.missing(first, last)
