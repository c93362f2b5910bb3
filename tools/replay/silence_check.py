"""How long an end of a session waits for its peer, and what it does about that: the timeouts of both acknowledgements.

Any sign of life counts for the ack timeout, an ack of something new for the store ack timeout. Pings are in no log, so
that an end waited for too long is only said when its peer had nothing to ask for. Packets that an order ack has freed
wait for no store ack any more, so nothing is said of waiting too long for these.
"""

from __future__ import annotations

from typing import Final

from triack.tools.replay.findings import LATE_NS, Record

MS: Final = 1_000_000
"""Nanoseconds; evidence is told in milliseconds."""


class Silence:
    """How long something has been unacknowledged with nothing heard.

    Attributes:
        waiting: how many packets wait.
        asked: whether something else must be answered: an initiator asks as soon as its session is open.
        since_ns: when silence began.
        longest_ns: the longest silence while some did, and ``longest`` the record that ended it.
    """

    __slots__ = ("asked", "longest", "longest_ns", "since_ns", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.asked = False
        self.since_ns = 0
        self.longest_ns = 0
        self.longest: Record | None = None

    def ask(self, record: Record) -> None:
        """Something left that must be answered."""
        self.since_ns = record["at_ns"]
        self.asked = True

    def send(self, packets: int, record: Record) -> None:
        """Packets left for the first time."""
        if packets and not self.waiting and not self.asked:
            self.since_ns = record["at_ns"]
        self.waiting += packets

    def hear(self, record: Record, *, acked: int = 0) -> None:
        """The peer has spoken; so many packets do not wait any more."""
        self._measure(record)
        self.since_ns = record["at_ns"]
        self.asked = False
        self.waiting -= acked

    def _measure(self, record: Record) -> None:
        if self.waiting and self.lasted_ns(record) > self.longest_ns:
            self.longest_ns, self.longest = self.lasted_ns(record), record

    def end(self, record: Record) -> None:
        """The session is over."""
        self._measure(record)

    def lasted_ns(self, record: Record) -> int:
        """How long it has been silent."""
        return int(record["at_ns"]) - self.since_ns


def judge_timeout(silence: Silence, closed: Record, least_ns: int, what: str) -> str:
    """Return what is wrong with a session that was closed by a timeout, or an empty string.

    Args:
        silence: of the acks that it is about.
        closed: the record of its end.
        least_ns: the shortest timeout in force.
        what: the acks, in words.
    """
    lasted_ns = silence.lasted_ns(closed)
    if not (silence.waiting or silence.asked):
        return f"closed by its {what} timeout with nothing unacknowledged"
    if lasted_ns < least_ns:
        return f"closed after {lasted_ns // MS} ms without {what}, {least_ns // MS} ms is the least"
    return ""


def judge_patience(silence: Silence, most_ns: int) -> str:
    """Return what is wrong with a session that waited, or an empty string.

    Args:
        silence: of its acks.
        most_ns: the longest timeout in force.
    """
    if silence.longest_ns <= most_ns + LATE_NS:
        return ""
    allowed = f"{most_ns // MS} ms and {LATE_NS // MS} ms for a busy machine are allowed"
    return f"open for {silence.longest_ns // MS} ms with packets unacknowledged and nothing heard, {allowed}"
