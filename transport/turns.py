"""Which source's datagrams come next when many wait: each source has its turn of processor time.

Promise: while others wait, a source that has had ``AHEAD_NS`` more of the processor than the one with least is not
served, and each burst has only one turn of a source. So a source whose datagrams cost much, or come without end, waits
for its own datagrams, and the others hardly do. This is fair queueing by measured cost, as Linux schedules processes
(virtual run time) and routers schedule flows (RFC 8290, section 4.2, deficit round robin).

The promise also covers a source that waits alone, if others were served just before and the process is busy, usually
with their datagrams: it then gets one share of the time among them. If the process has nothing else to do, no source
waits.

A source that returns after a rest begins where the one with least is, so that no source saves up time.
"""

from bisect import bisect_left
from collections.abc import Hashable
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from triack.base.units import MS

BURST_MAX = 512
"""Most datagrams in a burst, so that one busy endpoint leaves the loop to others."""
BURST_BYTES_MAX = 512 * 1024
"""The same in bytes: less than what a node lets wait for its disk before it lets a burst wait."""
TURN_DATAGRAMS = 64
"""Of one source in a burst, if there are others: a window, and the result of one system call."""
TURN_BYTES = 128 * 1024
"""The same in bytes: a few of the largest datagrams, so that large ones do not go one by one."""
AHEAD_NS = 1 * MS
"""How far a source may be ahead of the one with least: about the cost of a turn of small datagrams."""
IDLE_NS = MS // 5
"""A round of the event loop that takes no longer had nothing else to do."""
LATELY_NS = 100 * MS
"""A source that was served since then is likely to send more soon: longer than most round trips."""
SOURCES_MAX = 1_024
"""Sources at rest that are remembered: a rest clears their account anyway."""


class Received(NamedTuple):
    """A datagram and where it came from; empty ``data`` says that the path to ``sender`` is gone."""

    data: bytes
    sender: str


_DATA_OF = attrgetter("data")


class Burst(list[Received]):
    """Datagrams that are given out together. ``turns``: in order, each source and how many of the datagrams are its."""

    def __init__(self) -> None:  # it begins empty: a list needs no other preparation
        self.turns: list[tuple[Hashable, int]] = []
        self.size_bytes = 0


class _Source:
    __slots__ = ("held_bytes", "items", "served_ns", "spent_ns")

    def __init__(self) -> None:
        self.items: list[Received] = []
        self.held_bytes = 0
        self.spent_ns = 0
        self.served_ns = -LATELY_NS


class Turns:
    """The datagrams that wait."""

    __slots__ = ("_floor_ns", "_known", "_waiting", "count", "held_bytes")

    def __init__(self) -> None:
        self._known: dict[Hashable, _Source] = {}
        self._waiting: dict[Hashable, _Source] = {}
        self._floor_ns = 0
        self.count = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        """How many sources are remembered."""
        return len(self._known)

    def waiting_of(self, source: Hashable) -> tuple[int, int]:
        """How many datagrams of a source wait, and how long they are together."""
        its = self._waiting.get(source)
        return (0, 0) if its is None else (len(its.items), its.held_bytes)

    def add(self, source: Hashable, items: list[Received], size_bytes: int) -> None:
        """Add datagrams of a source."""
        its = self._waiting.get(source)
        if its is None:
            its = self._waiting[source] = self._enter(source)
        its.items += items
        its.held_bytes += size_bytes
        self.count += len(items)
        self.held_bytes += size_bytes

    def _enter(self, source: Hashable) -> _Source:
        its = self._known.get(source)
        if its is None:
            if len(self._known) >= SOURCES_MAX + len(self._waiting):
                self._known = dict(self._waiting)
            its = self._known[source] = _Source()
        if its.spent_ns < self._floor_ns:
            its.spent_ns = self._floor_ns
        return its

    def drop_longest(self, than: Hashable) -> bool:
        """Forget the newest datagram of the source that has most of them. Returns False if that is ``than``."""
        if 2 * self.waiting_of(than)[0] >= self.count:
            return False
        longest = max(self._waiting, key=lambda source: len(self._waiting[source].items))
        its = self._waiting[longest]
        if longest == than or len(its.items) <= self.waiting_of(than)[0] + 1:
            return False
        size_bytes = len(its.items.pop().data)
        its.held_bytes -= size_bytes
        self.count -= 1
        self.held_bytes -= size_bytes
        return True

    def add_behind(self, last: Received) -> None:
        """Add an element that must come after all datagrams of its sender."""
        sources = [
            source for source, its in self._waiting.items() if any(item.sender == last.sender for item in its.items)
        ]
        self.add(sources[-1] if sources else None, [last], 0)

    def take(self, now_ns: int, busy_ns: int = 0) -> Burst:
        """The next burst; there must be datagrams. A source that had a turn and has more comes last in the next one.

        ``busy_ns`` is how long everything else in the process has used the processor since the last call. Returns an
        empty
        burst if the waiting source is ahead, and others wanted the processor: ask again after those.
        """
        burst, waiting = Burst(), self._waiting
        if len(waiting) == 1 and busy_ns < IDLE_NS and self.count <= TURN_DATAGRAMS and self.held_bytes <= TURN_BYTES:
            # One source waits, with no more than it gets in any case: it is not ahead of itself.
            ((source, its),) = waiting.items()
            if its.spent_ns > self._floor_ns:
                self._floor_ns = its.spent_ns
            self._take_turn(burst, source, its, TURN_DATAGRAMS, TURN_BYTES)
            its.served_ns = now_ns
            return burst
        floor_ns = self._raise_floor(now_ns, busy_ns)
        alone = len(waiting) == 1 and self._others(now_ns, waiting) == 0
        limit, most_bytes = (BURST_MAX, BURST_BYTES_MAX) if alone else (TURN_DATAGRAMS, TURN_BYTES)
        for source, its in list(waiting.items()):
            if its.spent_ns > floor_ns + AHEAD_NS:
                continue
            if len(burst) >= BURST_MAX or burst.size_bytes >= BURST_BYTES_MAX:
                break
            self._take_turn(burst, source, its, limit, most_bytes)
            its.served_ns = now_ns
        # The source with least gets the remaining room: many cheap datagrams may cost as little as few expensive ones.
        for source, its in list(waiting.items()):
            if its.spent_ns == floor_ns and len(burst) < BURST_MAX and burst.size_bytes < BURST_BYTES_MAX:
                self._take_turn(burst, source, its, BURST_MAX - len(burst), BURST_BYTES_MAX - burst.size_bytes)
        return burst

    def _raise_floor(self, now_ns: int, busy_ns: int) -> int:
        """How much of the processor each source may have had by now."""
        waiting = self._waiting
        if busy_ns >= IDLE_NS and len(waiting) == 1 and (others := self._others(now_ns, waiting)):
            # Other work is for sources that wait for nothing at this moment, and will return.
            self._floor_ns += busy_ns // others
        else:
            self._floor_ns = max(self._floor_ns, min([its.spent_ns for its in waiting.values()]))
        return self._floor_ns

    def _others(self, now_ns: int, waiting: dict[Hashable, _Source]) -> int:
        """How many sources were served lately, and wait for nothing now."""
        since_ns = now_ns - LATELY_NS
        return sum(its.served_ns > since_ns and source not in waiting for source, its in self._known.items())

    def _take_turn(self, burst: Burst, source: Hashable, its: _Source, limit: int, most_bytes: int) -> None:
        items, size_bytes, taken = its.items, its.held_bytes, len(its.items)
        if taken <= limit and size_bytes <= most_bytes:
            burst += items
            items.clear()
        else:
            # Up to the one that reaches the limit of bytes.
            ends_bytes = list(accumulate(map(len, map(_DATA_OF, items[:limit]))))
            taken = min(bisect_left(ends_bytes, most_bytes) + 1, len(ends_bytes))
            size_bytes = ends_bytes[taken - 1]
            burst += items[:taken]
            del items[:taken]
        its.held_bytes -= size_bytes
        burst.size_bytes += size_bytes
        burst.turns += [(source, taken)]
        self.held_bytes -= size_bytes
        self.count -= taken
        del self._waiting[source]
        if items:
            self._waiting[source] = its

    def charge(self, source: Hashable, cost_ns: int) -> None:
        """Charge a source for the processor time of a turn."""
        its = self._known.get(source)
        if its is not None:
            its.spent_ns += cost_ns

    def clear(self) -> None:
        """Forget all waiting datagrams."""
        self._known.clear()
        self._waiting.clear()
        self.count = self.held_bytes = 0
