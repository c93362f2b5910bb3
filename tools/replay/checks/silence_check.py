"""How long an end of a session waits for its peer, and what it does about that: the timeouts of both acknowledgements.

Anything that arrives counts for the ack timeout, an ack of something new for the store ack timeout. The arrival of
pings is not logged, so a wait is only reported as too long when the peer had nothing to ask for. Packets that an order
ack has freed need no store ack any more, so their wait is never reported.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from triack.base.units import MS
from triack.tools.replay.checks.findings import LATE_NS, Record, allowed

LEFT_MAX: Final = 4096
"""Bursts of a session whose times are known: older ones that still wait are not judged, nor are their round trips."""


@dataclass
class Silence:
    """How long something has been unacknowledged with nothing heard.

    Attributes:
        waiting: how many packets wait.
        asked: whether something else must be answered: an initiator asks as soon as its session is open.
        pinged: whether that is a ping. One of an initiator that has heard nothing yet waits for as long as a connect.
        pings: how many there were.
        since_ns: when silence began.
        counted_ns: since when it counts; what an initiator asks first may take as long as a connect.
        longest_ns: the longest silence while it counted; ``longest``: the record that ended it.
    """

    waiting: int = 0
    asked: bool = False
    pinged: bool = False
    pings: int = 0
    since_ns: int = 0
    counted_ns: int = 0
    longest_ns: int = 0
    longest: Record | None = None

    def ask(self, record: Record) -> None:
        """Something left that must be answered."""
        if not (self.waiting or self.asked):
            self.since_ns = record["at_ns"]
        self.asked = True

    def ping(self, record: Record) -> None:
        """A ping left."""
        if not self.asked:
            self._count(record)
            self.pinged = True
        self.pings += 1
        self.ask(record)

    def send(self, packets: int, record: Record) -> None:
        """Packets left for the first time."""
        if packets and not self.waiting and not self.asked:
            self.since_ns = record["at_ns"]
        if packets:
            self._count(record)
        self.waiting += packets

    def hear(self, record: Record, *, acked: int = 0) -> None:
        """The peer has spoken; ``acked`` packets wait no longer."""
        self.measure(record)
        self.since_ns = self.counted_ns = record["at_ns"]
        self.asked = self.pinged = False
        self.waiting -= acked

    @property
    def counts(self) -> bool:
        """Whether silence may last no longer than the ack timeout."""
        return self.waiting > 0 or self.pinged

    def _count(self, record: Record) -> None:
        """From now on silence counts, if it has not counted before."""
        if not self.counts:
            self.counted_ns = record["at_ns"]

    def measure(self, record: Record) -> None:
        """Silence ends, or its session does."""
        lasted_ns = record["at_ns"] - self.counted_ns
        if self.counts and lasted_ns > self.longest_ns:
            self.longest_ns, self.longest = lasted_ns, record


class Left:
    """When packets of a session left for the first time, of the newest ones, or of those that are not taken."""

    def __init__(self) -> None:
        self._bursts: list[tuple[int, int, int]] = []

    def put(self, first: int, last: int, at_ns: int) -> None:
        """Packets left; numbers rise."""
        if len(self._bursts) >= LEFT_MAX:
            del self._bursts[: LEFT_MAX // 2]
        self._bursts.append((last, first, at_ns))

    def when(self, packet: int) -> int | None:
        """When a packet left, if that is known."""
        at = bisect_left(self._bursts, (packet,))
        return self._bursts[at][2] if at < len(self._bursts) and self._bursts[at][1] <= packet else None

    def take(self, packet: int) -> int | None:
        """The same; no caller asks for packets before it any more."""
        del self._bursts[: bisect_left(self._bursts, (packet,))]
        return self.when(packet)


def judge_store_patience(silence: Silence, left_ns: int, record: Record, most_ns: int) -> str:
    """Return what is wrong with a store ack that came now, or an empty string.

    Each packet waits from the moment that it left, and every earlier store ack of something new restarted the wait.
    """
    waited_ns = record["at_ns"] - max(silence.since_ns, left_ns)
    if waited_ns <= most_ns + LATE_NS:
        return ""
    return f"open for {waited_ns // MS} ms without a store ack of what had left, {allowed(most_ns)}"


def judge_timeout(silence: Silence, closed: Record, least_ns: int, what: str) -> str:
    """Return what is wrong with a session that was closed by a timeout, or an empty string."""
    lasted_ns = closed["at_ns"] - silence.since_ns
    if not (silence.waiting or silence.asked):
        return f"closed by its {what} timeout with nothing unacknowledged"
    if lasted_ns < least_ns:
        return f"closed after {lasted_ns // MS} ms without {what}, {least_ns // MS} ms is the least"
    return ""


def judge_patience(silence: Silence, most_ns: int) -> str:
    """Return what is wrong with a session that waited, or an empty string."""
    if silence.longest_ns <= most_ns + LATE_NS:
        return ""
    return f"open for {silence.longest_ns // MS} ms with something unanswered and nothing heard, {allowed(most_ns)}"
