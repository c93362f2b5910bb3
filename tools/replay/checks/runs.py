"""What packets carry, kept as runs: consecutive packets with consecutive numbers are one entry, however many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from triack.tools.replay.log.ranges import Span
from triack.tools.replay.log.schema import TRANSACTIONAL


class Carried(NamedTuple):
    """What one packet carries.

    Attributes:
        cls: its delivery class.
        origin, stream, sequence, number, previous: where in the origin's streams; empty, -1 and 0 for control packets.
        hops: how many relays it had passed; -1 for a packet that no relay passes on.
        messages: how many end in it.
    """

    cls: str
    origin: str
    stream: int
    sequence: int
    hops: int
    number: int
    previous: int
    messages: int

    def plus(self, step: int) -> Carried:
        """What the packet ``step`` places further on in the same run carries."""
        if step == 0 or self.stream < 0:
            return self
        cls, origin, stream, sequence, hops, number, previous, messages = self
        number += step
        # Of other classes a whole run names the packets before it.
        previous = number - 1 if cls == TRANSACTIONAL else previous
        return _carried((cls, origin, stream, sequence, hops, number, previous, messages))

    def leads_to(self, step: int, other: Carried) -> bool:
        """Whether the packet ``step`` places further on in the same run carries that: it may be one of the run."""
        if self.stream < 0 or step == 0:
            return self == other
        # Compare first what mostly differs, without ``plus``: nearly every record comes here.
        if self.number + step != other.number or self.messages != other.messages:
            return False
        previous = other.number - 1 if self.cls == TRANSACTIONAL else self.previous
        return previous == other.previous and self[:_STREAM_END] == other[:_STREAM_END]


_carried: Final[Callable[[tuple[str, str, int, int, int, int, int, int]], Carried]] = partial(tuple.__new__, Carried)
"""Makes one in half of the time, which matters as nearly every record needs one."""
_STREAM_END: Final = Carried._fields.index("number")
"""Before it is what all packets of a run have in common, beside how many messages end in each."""
Run = tuple[int, int, Carried]
"""The first and the last of consecutive packets, and what the first one carries."""


class Runs:
    """Packet numbers and what they carry, in runs of equals. A number that is put twice keeps what it carried first."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __getstate__(self) -> list[tuple[int, int, tuple[Any, ...]]]:
        """Plain tuples are kept several times as fast."""
        return [(first, last, tuple(carried)) for first, last, carried in self._runs]

    def __setstate__(self, runs: list[tuple[int, int, tuple[Any, ...]]]) -> None:
        """Runs are again what they were."""
        self._runs = [(first, last, Carried(*carried)) for first, last, carried in runs]
        self._begins = [first for first, _, _ in runs]

    @property
    def last(self) -> int:
        """The highest packet."""
        return self._runs[-1][1] if self._runs else 0

    def put(self, first: int, last: int, carried: Carried) -> None:
        """Add the packets from first to last, where they are not there already."""
        runs = self._runs
        if not runs or first > runs[-1][1]:
            if runs and runs[-1][1] == first - 1 and runs[-1][2].leads_to(first - runs[-1][0], carried):
                runs[-1] = (runs[-1][0], last, runs[-1][2])
            else:
                runs.append((first, last, carried))
                self._begins.append(first)
            return
        for low, high in self.lacking(first, last):
            self._insert(low, high, carried.plus(low - first))

    def _insert(self, first: int, last: int, carried: Carried) -> None:
        """Add packets that are all new, as one run with those before and after them if they fit."""
        runs = self._runs
        at = bisect_right(self._begins, first)
        end = at
        if at and runs[at - 1][1] == first - 1 and runs[at - 1][2].leads_to(first - runs[at - 1][0], carried):
            at -= 1
            first, carried = runs[at][0], runs[at][2]
        if end < len(runs) and runs[end][0] == last + 1 and carried.leads_to(last + 1 - first, runs[end][2]):
            last = runs[end][1]
            end += 1
        runs[at:end] = [(first, last, carried)]
        self._begins[at:end] = [first]

    def has(self, first: int, last: int, carried: Carried) -> bool:
        """Whether one run has all packets from first to last, and the first of them carries that."""
        at = bisect_right(self._begins, first) - 1
        if at < 0:
            return False
        begin, end, known = self._runs[at]
        return last <= end and known.leads_to(first - begin, carried)

    def lacking(self, first: int, last: int) -> list[Span]:
        """Return the parts of first to last that are not there."""
        runs, found = self._runs, list[Span]()
        at = max(bisect_right(self._begins, first) - 1, 0)
        while first <= last and at < len(runs) and runs[at][0] <= last:
            begin, end, _ = runs[at]
            if first < begin:
                found.append((first, begin - 1))
            first = max(first, end + 1)
            at += 1
        if first <= last:
            found.append((first, last))
        return found

    def within(self, first: int, last: int) -> Iterator[Run]:
        """Yield the runs of the packets from first to last, cut to them."""
        runs = self._runs
        at = max(bisect_right(self._begins, first) - 1, 0)
        while at < len(runs):
            begin, end, carried = runs[at]
            if begin > last:
                break
            if end >= first:
                high = min(end, last)
                if begin < first:
                    yield first, high, carried.plus(first - begin)
                else:
                    yield begin, high, carried
            at += 1


def packets_of(record: dict[str, Any]) -> Iterator[Run]:
    """Yield the packets of a record in runs: first, last, and what the first one carries."""
    packet, cls = record["packet"], record["class"]
    if record.get("stream") is None:
        yield packet, packet + record["packets"] - 1, Carried(cls, "", -1, -1, -1, 0, 0, 0)
        return
    origin, stream, sequence, number = record["origin"], record["stream"], record["sequence"], record["number"]
    previous, hops = record["previous"], record.get("hops", -1)
    for packets, messages in record["counts"]:
        yield packet, packet + packets - 1, _carried((cls, origin, stream, sequence, hops, number, previous, messages))
        packet += packets
        number += packets
        if cls == TRANSACTIONAL:
            previous = number - 1
