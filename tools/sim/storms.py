"""Nodes that do much while nothing comes of it: they storm each other with datagrams, or wake again and again.

No promise is broken by that, and nobody waits. So no other judge sees it. Measured over 4,000 seeds with relays, a node
sends some 300 datagrams in a minute in which no disk gets or loses a message, and wakes 100 times for nothing. Where a
session fails for want of acks, all of a backlog goes out again, 1,400 datagrams in one minute. A storm goes on.
"""

from collections import Counter
from typing import Final

from triack.base.commit import Commit
from triack.base.units import SECOND

__all__ = ["MINUTES", "MOST", "Storms"]

MINUTE_NS: Final = 60 * SECOND
MOST: Final = 1_000
"""Datagrams, or wakes for nothing, of one node in a minute."""
MINUTES: Final = 3
"""Minutes with more than that, one after the other, that make a storm."""

_SENT, _WOKEN = "datagrams sent", "wakes for nothing"


class Storms:
    """What the nodes of a world do while nothing comes of it.

    Attributes:
        violations: as (rule, sentence), one of each node and kind.
    """

    def __init__(self) -> None:
        self.violations: list[tuple[str, str]] = []
        self._begun_ns = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        # The minutes in a row with more than ``MOST``.
        self._minutes: Counter[tuple[str, str]] = Counter()

    def handle_commit(self, commit: Commit, now_ns: int) -> None:
        """A store gets a commit: if messages come or go with it, there is progress."""
        puts = commit.outgoing or commit.messages or commit.transit
        takes = commit.outgoing_deletes or commit.message_deletes or commit.transit_deletes
        if puts or takes:
            self._begun_ns = now_ns
            self._counts.clear()
            self._minutes.clear()

    def handle_sent(self, host: str, datagrams: int, now_ns: int) -> None:
        """A node has sent something."""
        self._count((host, _SENT), datagrams, now_ns)

    def handle_woken(self, host: str, now_ns: int) -> None:
        """A timer of a node ran out, and the node did nothing then."""
        self._count((host, _WOKEN), 1, now_ns)

    def _count(self, key: tuple[str, str], by: int, now_ns: int) -> None:
        if now_ns >= self._begun_ns + MINUTE_NS:
            self._end_minute(now_ns)
        self._counts[key] += by

    def _end_minute(self, now_ns: int) -> None:
        high = [key for key, count in self._counts.items() if count > MOST]
        self._minutes = Counter({key: self._minutes[key] + 1 for key in high})
        for host, what in high:
            if self._minutes[host, what] == MINUTES:
                sentence = f"{host}: more than {MOST} {what} in each of {MINUTES} minutes, and no message came or went"
                self.violations.append(("storm", sentence))
        self._begun_ns = now_ns
        self._counts.clear()
