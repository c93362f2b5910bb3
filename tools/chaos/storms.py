"""Nodes that do much while nothing comes of it: they storm each other with datagrams, or wake again and again.

No promise is broken by that, and nobody waits. So no other judge sees it. Measured over 4,000 seeds with relays, a node
sends at most 320 datagrams in a minute in which no disk gets or loses a message, and wakes 116 times for nothing. Right
after the last one all of a backlog may go out again, with a tier of 0.3 s several times.
"""

from collections import Counter
from typing import Final

from triack.base.commit import Commit
from triack.base.units import SECOND

__all__ = ["DATAGRAMS_MAX", "WAKES_MAX", "Storms"]

CALM_NS: Final = 10 * SECOND
"""After progress all of that is right for this long."""
WINDOW_NS: Final = 60 * SECOND
DATAGRAMS_MAX: Final = 1_000
WAKES_MAX: Final = 1_000
"""Of one node, in a minute without progress."""


class Storms:
    """What the nodes of a world have done since something came of it, for a minute at most.

    Attributes:
        violations: as (rule, sentence), one of each node and kind.
    """

    def __init__(self) -> None:
        self.violations: list[tuple[str, str]] = []
        self._begun_ns = 0
        self._datagrams: Counter[str] = Counter()
        self._wakes: Counter[str] = Counter()
        self._found: set[tuple[str, str]] = set()

    def handle_commit(self, commit: Commit, now_ns: int) -> None:
        """A store gets a commit: if messages come or go with it, there is progress."""
        puts = commit.outgoing or commit.messages or commit.transit
        takes = commit.outgoing_deletes or commit.message_deletes or commit.transit_deletes
        if puts or takes:
            self._begin(now_ns + CALM_NS)

    def handle_sent(self, host: str, datagrams: int, now_ns: int) -> None:
        """A node has sent something."""
        self._count(self._datagrams, host, datagrams, DATAGRAMS_MAX, "datagrams sent", now_ns)

    def handle_woken(self, host: str, now_ns: int) -> None:
        """A timer of a node ran out, and the node did nothing then."""
        self._count(self._wakes, host, 1, WAKES_MAX, "wakes for nothing", now_ns)

    def _begin(self, now_ns: int) -> None:
        self._begun_ns = now_ns
        self._datagrams.clear()
        self._wakes.clear()

    def _count(self, counts: Counter[str], host: str, by: int, most: int, what: str, now_ns: int) -> None:
        if now_ns >= self._begun_ns + WINDOW_NS:
            self._begin(now_ns)
        counts[host] += by if now_ns >= self._begun_ns else 0
        if counts[host] > most and (host, what) not in self._found:
            self._found.add((host, what))
            since_s = (now_ns - self._begun_ns) / SECOND
            sentence = f"{host}: more than {most} {what} within {since_s:.1f} s, and no message came or went"
            self.violations.append(("storm", sentence))
