"""What packets carry, kept as runs: consecutive packets with consecutive numbers are one entry, however many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from triack.tools.replay.ranges import Span
from triack.tools.replay.schema import TRANSACTIONAL


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
        number = self.number + step
        # Of other classes a whole run names the packets before it.
        return self._replace(number=number, previous=number - 1 if self.cls == TRANSACTIONAL else self.previous)


class Runs:
    """Packet numbers and what they carry, in runs of equals. A number that is put twice keeps what it carried first."""

    __slots__ = ("_begins", "_runs")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._runs: list[tuple[int, int, Carried]] = []

    def __iter__(self) -> Iterator[tuple[int, int, Carried]]:
        return iter(self._runs)

    @property
    def last(self) -> int:
        """The highest packet."""
        return self._runs[-1][1] if self._runs else 0

    def get(self, packet: int) -> Carried | None:
        """What a packet carries, or None."""
        return next((carried for _, _, carried in self.within(packet, packet)), None)

    def put(self, first: int, last: int, carried: Carried) -> None:
        """Add the packets from first to last, where they are not there already.

        Args:
            first: the first packet.
            last: the last packet.
            carried: what the first of them carries.
        """
        if first > self.last:
            self._insert(first, last, carried)
            return
        for low, high in list(self.lacking(first, last)):
            self._insert(low, high, carried.plus(low - first))

    def _insert(self, first: int, last: int, carried: Carried) -> None:
        """Add packets of which none is there, as one run with those before and behind them if they fit."""
        runs = self._runs
        at = bisect_right(self._begins, first)
        end = at
        if at and runs[at - 1][1] == first - 1 and runs[at - 1][2].plus(first - runs[at - 1][0]) == carried:
            at -= 1
            first, carried = runs[at][0], runs[at][2]
        if end < len(runs) and runs[end][0] == last + 1 and carried.plus(last + 1 - first) == runs[end][2]:
            last = runs[end][1]
            end += 1
        runs[at:end] = [(first, last, carried)]
        self._begins[at:end] = [first]

    def lacking(self, first: int, last: int) -> Iterator[Span]:
        """Yield the parts of first to last that are not there."""
        for low, high, _ in self.within(first, last):
            if first < low:
                yield first, low - 1
            first = high + 1
        if first <= last:
            yield first, last

    def within(self, first: int, last: int) -> Iterator[tuple[int, int, Carried]]:
        """Yield the runs of the packets from first to last, cut to them."""
        at = max(bisect_right(self._begins, first) - 1, 0)
        while at < len(self._runs) and self._runs[at][0] <= last:
            begin, end, carried = self._runs[at]
            low, high = max(begin, first), min(end, last)
            if low <= high:
                yield low, high, carried.plus(low - begin)
            at += 1


def packets_of(record: dict[str, Any]) -> Iterator[tuple[int, int, Carried]]:
    """Yield the packets of a record in runs: first, last, and what the first one carries."""
    packet, cls = record["packet"], record["class"]
    if record.get("lane") is None:
        yield packet, packet + record["packets"] - 1, Carried(cls, "", -1, -1, 0, 0, 0)
        return
    origin, lane, sequence, number = record["origin"], record["lane"], record["sequence"], record["number"]
    previous = record["previous"]
    for packets, messages in record["counts"]:
        yield packet, packet + packets - 1, Carried(cls, origin, lane, sequence, number, previous, messages)
        packet += packets
        number += packets
        if cls == TRANSACTIONAL:
            previous = number - 1
