"""Synchronous links: which packets of a stream are not known to be stored behind the next hop, and since when.

Promise: over a synchronous link a packet counts as passed on only when the next hop has said so. If the oldest one has
waited for longer than the link allows, the link is asynchronous: the store ack of the next hop is enough. It is
synchronous again when the oldest has waited for less than half of that, or as configured.

    SYNC --the oldest has waited for longer than downgrade_after--> ASYNC
    ASYNC --the oldest has waited for less than upgrade_below, or none waits--> SYNC

All moves are in ``TRANSITIONS``. The rules are those of AMPS for its replication links: the age has no default, and a
link that is configured as asynchronous never changes. The difference between the two is when a sender lets go of a
packet, and when its application hears; what is written, sent and visible is the same.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter

from triack.base.ranges import Range

MARKS_MAX = 1_024
"""Times kept of one stream: the oldest of two neighbours stands for both when there are more. A link that is
asynchronous for days costs some 100 KB."""

_first_of, _last_of = itemgetter(0), itemgetter(1)


class LinkMode(StrEnum):
    """How a link frees packets, and when receipts hear of it."""

    SYNC = "sync"
    """When the next hop has passed them on."""
    ASYNC = "async"
    """When the next hop has stored them."""


class LinkEvent(StrEnum):
    """An event of a synchronous link."""

    TOO_OLD = "too-old"
    """The oldest packet has waited for too long."""
    YOUNG = "young"
    """The oldest packet has waited for less than the bound, or none waits."""


TRANSITIONS: dict[LinkMode, dict[LinkEvent, LinkMode]] = {
    LinkMode.SYNC: {LinkEvent.TOO_OLD: LinkMode.ASYNC, LinkEvent.YOUNG: LinkMode.SYNC},
    LinkMode.ASYNC: {LinkEvent.TOO_OLD: LinkMode.ASYNC, LinkEvent.YOUNG: LinkMode.SYNC},
}
"""The next mode by mode and event. An age between the two bounds is no event, so that a link does not flap."""


@dataclass(frozen=True, slots=True)
class OnwardSettings:
    """What is configured for a synchronous link.

    Attributes:
        downgrade_after_ns: the oldest packet may wait for that long.
        upgrade_below_ns: the link is synchronous again when the oldest has waited for less.
        grace_ns: no downgrade before this time after the start of the node.
    """

    downgrade_after_ns: int
    upgrade_below_ns: int
    grace_ns: int


class SyncLink:
    """The mode of one synchronous link.

    Args:
        settings: its bounds.
        start_ns: when the node started.

    Attributes:
        mode: as it is now.
    """

    __slots__ = ("_start_ns", "mode", "settings")

    def __init__(self, settings: OnwardSettings, start_ns: int) -> None:
        self.settings = settings
        self._start_ns = start_ns
        self.mode = LinkMode.SYNC

    def handle_oldest(self, since_ns: int | None, now_ns: int) -> bool:
        """The oldest packet waits since then, or none waits. Returns whether the mode has changed."""
        event, before = self._event(since_ns, now_ns), self.mode
        if event is not None:
            self.mode = TRANSITIONS[before][event]
        return self.mode is not before

    def _event(self, since_ns: int | None, now_ns: int) -> LinkEvent | None:
        settings = self.settings
        if since_ns is None or now_ns - since_ns < settings.upgrade_below_ns:
            return LinkEvent.YOUNG
        is_old = now_ns - since_ns > settings.downgrade_after_ns
        return LinkEvent.TOO_OLD if is_old and now_ns >= self._start_ns + settings.grace_ns else None

    def deadline_ns(self, since_ns: int | None) -> int | None:
        """When ``handle_oldest`` must be called if nothing else happens, or None."""
        if since_ns is None or self.mode is LinkMode.ASYNC:
            return None
        # The age must be more than the bound.
        return max(since_ns + self.settings.downgrade_after_ns + 1, self._start_ns + self.settings.grace_ns)


class Awaited:
    """The packets of one stream that are not known to be stored behind the next hop, as runs with their times."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        # First, last, and since when: disjoint, in the order of their times.
        self._runs: deque[tuple[int, int, int]] = deque()

    def add(self, first: int, last: int, now_ns: int) -> None:
        """Packets wait from now on."""
        runs = self._runs
        if runs and runs[-1][1] + 1 == first and runs[-1][2] == now_ns:
            first = runs.pop()[0]
        runs.append((first, last, now_ns))
        if len(runs) > MARKS_MAX:
            self._merge()

    def remove(self, ranges: Iterable[Range]) -> list[Range]:
        """Packets wait no longer. Returns those that did."""
        return [waited for first, last in ranges for waited in self._remove(first, last)]

    def keep(self, ranges: list[Range]) -> None:
        """Of all others nothing will be heard any more.

        Args:
            ranges: those that still wait, ascending.
        """
        kept: deque[tuple[int, int, int]] = deque()
        for begin, end, since_ns in self._runs:
            overlap = slice(bisect_left(ranges, begin, key=_last_of), bisect_right(ranges, end, key=_first_of))
            kept.extend((max(begin, first), min(end, last), since_ns) for first, last in ranges[overlap])
        self._runs = kept

    @property
    def since_ns(self) -> int | None:
        """Since when the oldest waits; None if none does."""
        return self._runs[0][2] if self._runs else None

    @property
    def packets(self) -> int:
        """How many wait; a few more when there are many gaps between them."""
        return sum([last - first + 1 for first, last, _ in self._runs])

    def _remove(self, first: int, last: int) -> list[Range]:
        runs, waited = self._runs, list[Range]()
        # Usually they are the oldest ones.
        while runs and first <= runs[0][0] and runs[0][1] <= last:
            begin, end, _ = runs.popleft()
            waited.append((begin, end))
        others = [(max(begin, first), min(end, last)) for begin, end, _ in runs if begin <= last and first <= end]
        if others:
            self._runs = deque(part for run in runs for part in _without(run, first, last))
        return waited + others

    def _merge(self) -> None:
        """Let two neighbours be one run, if their numbers follow each other."""
        merged: deque[tuple[int, int, int]] = deque()
        single = False
        for first, last, since_ns in self._runs:
            if single and merged[-1][1] + 1 == first:
                begin, _, oldest_ns = merged.pop()
                merged.append((begin, last, oldest_ns))
                single = False
            else:
                merged.append((first, last, since_ns))
                single = True
        self._runs = merged


def _without(run: tuple[int, int, int], first: int, last: int) -> list[tuple[int, int, int]]:
    """What is left of a run without some numbers."""
    begin, end, since_ns = run
    if last < begin or end < first:
        return [run]
    before, behind = (begin, first - 1, since_ns), (last + 1, end, since_ns)
    return [part for part in (before, behind) if part[0] <= part[1]]
