"""Nodes that do much with little result: they storm each other with datagrams, or wake again and again.

That breaks no promise, and no message waits, so no other judge sees it. There are two measures.

The first is of minutes without any result. Measured over 4,000 seeds with relays, a node sends some 300 datagrams in a
minute in which no disk gets or loses a message, and wakes 100 times for nothing. Where a session fails for want of
acks, all of a backlog is resent, 1,400 datagrams in one minute. A storm continues.

The second is of a whole run, in which messages do move: how many datagrams a node has sent, how many commits it has
made and how often it has woken for nothing, for each packet that it has accepted and each second of the run. Measured
over 300 plain seeds and 200 with relays, half of all nodes send at most 1.4 datagrams for each of these, make 0.5
commits and wake 0.7 times for nothing. The most were 7.7, 1.7 and 4.5: few packets, most of them refused or lost.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from triack.base.commit import Commit
from triack.base.units import SECOND

MINUTE_NS: Final = 60 * SECOND
MOST: Final = 1_000
"""Datagrams, or wakes for nothing, of one node in a minute."""
MINUTES: Final = 3

_SENT, _WOKEN, _COMMITS = "datagrams sent", "wakes for nothing", "commits"


EACH: Final = {_SENT: 24, _WOKEN: 15, _COMMITS: 6}
"""What a node may do for a packet that it accepts, or a second of the run: three times the most measured."""
BEGUN: Final = 20
"""Each run may do as much as for this many packets: sessions begin and end also for a few packets, or none."""

ACCEPTED: Final = ("queued", "committed", "transit_committed")
"""The events of packets that a node has accepted: of an application, for its queues, or to pass on."""


def accepted_in(records: Iterable[Mapping[str, Any]]) -> int:
    """The packets that a node has accepted, by its session log."""
    accepted = (record for record in records if record.get("event") in ACCEPTED and not record.get("recovered"))
    return sum(record["last"] - record["first"] + 1 for record in accepted)


class Storms:
    """What the nodes of a world do with little result."""

    def __init__(self) -> None:
        self.violations: list[tuple[str, str]] = []
        self._begun_ns = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        # The minutes in a row with more than ``MOST``.
        self._minutes: Counter[tuple[str, str]] = Counter()
        # Of the whole run, by node and what it did: to which address or of which kind, and in which second.
        self._done: dict[tuple[str, str], Counter[tuple[str, int]]] = {}

    def handle_commit(self, host: str, commit: Commit, now_ns: int) -> None:
        """A store gets a commit: if messages enter or leave with it, there is progress."""
        puts = commit.outgoing or commit.messages or commit.transit
        takes = commit.outgoing_deletes or commit.message_deletes or commit.transit_deletes
        kind = "of messages" if puts or takes else "of other rows" if commit else "of nothing"
        self._note(host, _COMMITS, kind, 1, now_ns)
        if puts or takes:
            self._begun_ns = now_ns
            self._counts.clear()
            self._minutes.clear()

    def handle_sent(self, host: str, address: str, datagrams: int, now_ns: int) -> None:
        """A node has sent something."""
        self._note(host, _SENT, f"to {address}", datagrams, now_ns)
        self._count((host, _SENT), datagrams, now_ns)

    def handle_woken(self, host: str, now_ns: int) -> None:
        """A timer of a node has ended, and the node did nothing."""
        self._note(host, _WOKEN, "by a timer", 1, now_ns)
        self._count((host, _WOKEN), 1, now_ns)

    def judge(self, host: str, accepted: int, run_ns: int) -> None:
        """A run has ended in which a node has accepted this many packets: did it do much more than these need?"""
        seconds = run_ns // SECOND
        for what, each in EACH.items():
            done = self._done.get((host, what), Counter())
            count, most = done.total(), each * (accepted + seconds + BEGUN)
            if count > most:
                sentence = f"{host}: {count} {what}, at most {most} for {accepted} packets in {seconds} s"
                self.violations.append(("effort", f"{sentence}; {_most_of(done)}"))

    def _note(self, host: str, what: str, where: str, by: int, now_ns: int) -> None:
        self._done.setdefault((host, what), Counter())[where, now_ns // SECOND] += by

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


def _most_of(done: Counter[tuple[str, int]]) -> str:
    by_place, by_second = Counter[str](), Counter[int]()
    for (where, second), count in done.items():
        by_place[where] += count
        by_second[second] += count
    (where, there), (second, then) = by_place.most_common(1)[0], by_second.most_common(1)[0]
    return f"{there} {where}, {then} in second {second}"
