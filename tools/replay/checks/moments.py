"""When packets left, arrived or were acknowledged at one end of a session, in a few thousand entries at most."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Any, Final, NamedTuple

from triack.tools.replay.log.packed import Rows

MOMENTS_MAX: Final = 4_096
"""The most entries, each of 32 bytes. A longer session keeps every second, fourth, ... one, evenly spread."""


class Moment(NamedTuple):
    """Packets of a session, the serial of the record that mentions them, and the monotonic clock of its node."""

    first: int
    last: int
    n: int
    at_ns: int


class Moments(Rows[Moment]):
    """What happened to packets for the first time, in the order in which it happened."""

    KIND = Moment

    def __init__(self) -> None:
        super().__init__()
        self._step = 1
        self._seen = 0

    def __getstate__(self) -> Any:
        """The state for a file."""
        return super().__getstate__(), self._seen, self._step

    def __setstate__(self, state: Any) -> None:
        """Moments are again what they were."""
        steps, self._seen, self._step = state
        super().__setstate__(steps)

    def put(self, first: int, last: int, n: int, at_ns: int) -> None:
        """Add one."""
        self._seen += 1
        if self._seen % self._step:
            return
        self._fields.extend((first, last, n, at_ns))
        self.thin(MOMENTS_MAX)

    def thin(self, most: int) -> None:
        """Leave out every second one, as often as it takes, until there are no more than that."""
        while len(self) > most:
            kept = list(self)[1::2]
            self._fields = array("q", [number for moment in kept for number in moment])
            self._step *= 2

    def sorted(self) -> Sorted:
        """Return them by packet."""
        return Sorted(self)


class Sorted:
    """Moments by packet, at most one for each."""

    def __init__(self, moments: Moments) -> None:
        self._moments = sorted(moments)
        self._firsts = [moment.first for moment in self._moments]

    def of(self, packet: int) -> Moment | None:
        """Return when something happened to a packet, if that is known."""
        at = bisect_right(self._firsts, packet) - 1
        return self._moments[at] if at >= 0 and packet <= self._moments[at].last else None

    def before(self, packet: int) -> Moment | None:
        """Return the same for that packet, or for the next lower one with a known moment."""
        at = bisect_left(self._firsts, packet + 1) - 1
        return self._moments[at] if at >= 0 else None
