"""Which logs may lack their end, and how much of a node's deeds is known all the same.

A log ends with ``node_stopped``, or its process was killed. A killed process loses no record that it acted upon, as
records reach the operating system first. But a loss of power takes what the system had not written yet, and a log may
be cut when it is copied. So the log of a start that did not stop is whole only if the next start says that the machine
has run on since, and that its store knows of no more records.

The records of such a log are true. Missing ones may have been in its end. A peer's log shows how far it is complete:
when that log shows an effect of something that the peer did, everything that caused the peer's earlier records happened
before that, and is in the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from triack.tools.replay.checks.findings import EVER, Due, Opening
from triack.tools.replay.judges.journal import Segment
from triack.tools.replay.judges.starts import Starts

Start = tuple[str, int]
"""A node, and which of its starts."""
Place = tuple[int, int]
"""Where in a node's log: start, and serial of the record."""


class _Met(NamedTuple):
    """A session of a node with a peer: with which starts of the peer it may have been, and when it opened.

    ``reached`` is the place of the last record of the node of which the peer's log shows an effect.
    """

    first: int
    last: int
    opened: Place
    reached: Place


class Endings:
    """The ends of all logs."""

    def __init__(self, lives: Mapping[Start, Segment], openings: Iterable[Opening], starts: Starts) -> None:
        self._lives, self._starts = lives, starts
        self._last: dict[str, int] = {}
        # By node, its starts whose logs may lack their end, in order.
        self._open: defaultdict[str, list[int]] = defaultdict(list)
        for node, start in sorted(lives):
            self._last[node] = start
            if not self._is_whole(lives[(node, start)]):
                self._open[node].append(start)
        # By node and peer, each session that the node had with it.
        self._met: defaultdict[tuple[str, str], list[_Met]] = defaultdict(list)
        if self._open:
            self._note(list(openings))

    def _note(self, openings: list[Opening]) -> None:
        started = {(it.node, it.session): it.incarnation for it in openings}
        for it in openings:
            start = started.get((it.peer, it.session))
            first, last = (start, start) if start is not None else self._within(it.peer, it.session)
            met = _Met(first, last, (it.incarnation, it.n), (it.incarnation, it.reached))
            self._met[(it.node, it.peer)].append(met)

    def _is_whole(self, life: Segment) -> bool:
        if life.stops:
            return True
        after = self._lives.get((life.node, life.incarnation + 1))
        return after is not None and life.boot != "" and life.boot == after.boot and after.known <= life.last_n

    def known_of(self, node: str, start: int) -> int:
        """Return how many records the log of a start had, as the next start knows; 0 if it does not."""
        after = self._lives.get((node, start + 1))
        return 0 if after is None else after.known

    def short(self) -> list[Start]:
        """Return the starts whose logs surely lack records, as the next start knows of more."""
        return [key for key, life in sorted(self._lives.items()) if self.known_of(*key) > life.last_n]

    def lacking(self, due: Due) -> set[Start]:
        """Return the starts whose logs may lack what a due is about, at their ends; none if that does not matter."""
        node, starts, place = due.node, self._open.get(due.node, ()), (due.begin_ns, due.end_ns)
        lacking: list[int] = []
        match due.kind:
            case "settled":
                until = min(due.end_ns, self._last.get(node, 0))
                lacking = [start for start in starts if due.incarnation <= start < until]
            case "whole":
                # If it met its peer only over relays, what that did shows nothing of it.
                is_met, later = (due.peer, node) in self._met, [start for start in starts if start >= due.incarnation]
                lacking = [start for start in later if not (is_met and self._is_beyond(node, start, due.peer, place))]
            case "told":
                first, last = self._within(node, due.peer)
                lacking = [start for start in starts if first <= start <= last]
            case "seen" if not self._is_known(node, due.incarnation, due.peer, place):
                lacking = [start for start in starts if start == due.incarnation]
        return {(node, start) for start in lacking}

    def _within(self, node: str, session: str) -> tuple[int, int]:
        """Return which starts of a node a session known only from its peer may be of."""
        return self._starts.within(node, session) or (1, EVER)

    def _is_known(self, node: str, start: int, peer: str, place: Place) -> bool:
        """Whether a start's log shows an effect of what its peer did at a place of its own log, or later."""
        return any(met.first == start == met.last and met.reached >= place for met in self._met.get((peer, node), ()))

    def _is_beyond(self, node: str, start: int, peer: str, place: Place) -> bool:
        """The same, or whether a later start had a session by then, or the start itself had none yet."""
        before = [met for met in self._met.get((peer, node), ()) if met.opened <= place]
        is_over = any(met.first > start for met in before)
        may_have_met = any(met.first <= start <= met.last for met in before)
        return is_over or not may_have_met or self._is_known(node, start, peer, place)
