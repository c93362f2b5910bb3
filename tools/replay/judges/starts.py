"""Which starts of nodes have logs, and which starts may lack one.

Starts count from 1, so a gap in their numbers is visible, but not a missing start after the last one: only a peer shows
that, if it heard of that start in a session that no log of the node mentions. Which start such a session was with
follows from the sessions before and after it that both ends mention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from triack.tools.replay.checks.findings import EVER, Opening
from triack.tools.replay.log.ranges import Span


class Starts:
    """The starts of all nodes."""

    def __init__(
        self,
        known: Iterable[tuple[str, int]],
        openings: Iterable[Opening],
        headless: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        by_node: defaultdict[str, list[int]] = defaultdict(list)
        for node, start in sorted(known):
            by_node[node].append(start)
        self._last = {node: starts[-1] for node, starts in by_node.items()}
        self._lacking = {
            node: [(before + 1, after - 1) for before, after in pairwise([0, *starts]) if after > before + 1]
            for node, starts in by_node.items()
        }
        self._headless = headless or {}
        for node, start in self._headless:
            self._lacking[node].append((start, start))
        # By node and session, for sessions that only the peer mentions: the starts of the node they may have been with.
        self._within: dict[tuple[str, str], Span] = {}
        # Nodes that a peer heard from, perhaps after the last start that has a log; and surely so.
        self._beyond: set[str] = set()
        self._surely_beyond: set[str] = set()
        self._place(sorted(openings, key=lambda it: (it.incarnation, it.opened_ns)))

    def _place(self, openings: list[Opening]) -> None:
        started = {(opening.node, opening.session): opening.incarnation for opening in openings}
        pairs: defaultdict[tuple[str, str], list[Opening]] = defaultdict(list)
        for opening in openings:
            if opening.peer in self._last:
                pairs[(opening.node, opening.peer)].append(opening)
        for (_, peer), ends in pairs.items():
            until = EVER
            latest = {}
            for end in reversed(ends):
                until = latest[end.session] = started.get((peer, end.session), until)
            since = 1
            for end in ends:
                start = started.get((peer, end.session))
                if start is not None:
                    since = start
                    continue
                # Only this end mentions the session.
                self._within[(peer, end.session)] = since, latest[end.session]
                if end.heard and latest[end.session] == EVER:
                    self._beyond.add(peer)
                    if self.are_given(peer, since, self._last[peer]):
                        self._surely_beyond.add(peer)

    def are_given(self, node: str, first: int, last: int) -> bool:
        """Whether there is a log of each start that a node had from the first to the last of these."""
        if node not in self._last or (last > self._last[node] and node in self._beyond):
            return False
        return not any(low <= last and high >= first for low, high in self._lacking[node])

    def within(self, node: str, session: str) -> Span | None:
        """Return which starts of a node a session known only from its peer may have been in; None if any."""
        return self._within.get((node, session))

    def would_tell(self, node: str, session: str) -> bool:
        """Whether the logs of a node would mention a session that its peer had with it."""
        within = self._within.get((node, session))
        if within is None:
            return node in self._last
        return within[1] != EVER and self.are_given(node, *within)

    def missing(self) -> list[str]:
        """Name the starts of nodes that have no log."""
        told = []
        for node in sorted(self._last):
            # A damaged log may claim very many starts, so they are named as ranges.
            for low, high in self._lacking[node]:
                if low == high and (first := self._headless.get((node, low))):
                    told.append(f"the begin, before record {first:,}, of start {low} of node {node}")
                    continue
                told.append(f"{f'start {low}' if low == high else f'starts {low} to {high}'} of node {node}")
            if node in self._surely_beyond:
                told.append(f"a start after start {self._last[node]} of node {node}")
        return told
