"""What packets carry, kept as runs: consecutive packets with consecutive numbers are one entry, however many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple


class Carried(NamedTuple):
    """What one packet carries.

    Attributes:
        cls: its delivery class.
        origin, lane, sequence, number, previous: where in the origin's streams; empty, -1 and 0 for control packets.
        messages: how many end in it.
    """

    cls: str
    origin: str
    lane: int
    sequence: int
    number: int
    previous: int
    messages: int

    @property
    def stream(self) -> tuple[str, int, int]:
        """Origin, lane and sequence."""
        return self.origin, self.lane, self.sequence

    def plus(self, step: int) -> Carried:
        """What the packet so many places further on in the same run carries."""
        if step == 0 or self.lane < 0:
            return self
        return self._replace(number=self.number + step, previous=self.previous + step)


class Runs:
    """Packet numbers and what they carry, in runs of equals. A number that is put twice keeps what it carried first."""

    __slots__ = ("_begins", "_runs")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._runs: list[tuple[int, int, Carried]] = []

    def __contains__(self, packet: int) -> bool:
        return self.get(packet) is not None

    def __iter__(self) -> Iterator[tuple[int, int, Carried]]:
        return iter(self._runs)

    @property
    def last(self) -> int:
        """The highest packet."""
        return self._runs[-1][1] if self._runs else 0

    def get(self, packet: int) -> Carried | None:
        """What a packet carries, or None."""
        at = bisect_right(self._begins, packet) - 1
        if at < 0:
            return None
        first, last, carried = self._runs[at]
        return carried.plus(packet - first) if packet <= last else None

    def put(self, packet: int, carried: Carried) -> bool:
        """Add a packet; return False when it is there already."""
        runs = self._runs
        if runs and packet == runs[-1][1] + 1:
            first, _, begun = runs[-1]
            if begun.plus(packet - first) == carried:
                runs[-1] = (first, packet, begun)
                return True
        elif runs and packet <= runs[-1][1]:
            if packet in self:
                return False
            at = bisect_right(self._begins, packet)
            self._begins.insert(at, packet)
            runs.insert(at, (packet, packet, carried))
            return True
        self._begins.append(packet)
        runs.append((packet, packet, carried))
        return True

    def within(self, first: int, last: int) -> Iterator[tuple[int, int, Carried]]:
        """Yield the runs of the packets from first to last, cut to them."""
        at = max(bisect_right(self._begins, first) - 1, 0)
        while at < len(self._runs) and self._runs[at][0] <= last:
            begin, end, carried = self._runs[at]
            low, high = max(begin, first), min(end, last)
            if low <= high:
                yield low, high, carried.plus(low - begin)
            at += 1


def packets_of(record: dict[str, Any]) -> Iterator[tuple[int, Carried]]:
    """Yield the packets of a record and what they carry."""
    packet, cls = record["packet"], record["class"]
    if record.get("lane") is None:
        yield packet, Carried(cls, "", -1, -1, 0, 0, 0)
        return
    origin, lane, sequence, number = record["origin"], record["lane"], record["sequence"], record["number"]
    yield packet, Carried(cls, origin, lane, sequence, number, record["previous"], record["count"])
