"""How long messages took from being queued to being committed, measured as the records of both nodes come."""

from __future__ import annotations

from bisect import bisect_left, insort

from triack.tools.replay.checks.findings import Output, Record
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.log.series import DELAY_BUCKETS_PER_DECADE, latency_bucket

Commit = tuple[int, int, int, int, int]


class Latencies:
    """Brings the ranges that were queued in one sequence together with those that were committed.

    The records of one node may be seen long before those of the other. Each commit is measured once, by the range that
    its last packet was queued in; what was committed as a whole is forgotten.

    Attributes:
        delays: narrow bucket (see ``series.latency_bucket``) -> messages that took so long.
        longest_ns: the time that the slowest of them took.
    """

    def __init__(self) -> None:
        self.delays: dict[int, int] = {}
        self.longest_ns = 0
        # (last, first, wall time, packets that were not committed yet), sorted.
        self._queued: list[tuple[int, int, int, int]] = []
        # (last, packets, messages, wall time, how many there were before) of commits of what was not queued yet.
        self._commits: list[Commit] = []
        self._committed = 0

    @property
    def waiting(self) -> int:
        """How many ranges and commits have not found each other."""
        return len(self._queued) + len(self._commits)

    def join(self, other: Latencies, out: Output) -> None:
        """Merge the ranges and commits from other nodes."""
        self.longest_ns = max(self.longest_ns, other.longest_ns)
        for bucket, messages in other.delays.items():
            self.delays[bucket] = self.delays.get(bucket, 0) + messages
        for waiting in other._queued:
            self._wait(waiting, out)
        for commit in sorted(other._commits, key=lambda it: it[-1]):
            self._measure(commit, out)

    def oldest(self, waiting: RangeSet) -> int:
        """Return the wall time at which the first of some packets was queued; 0 if no record shows it."""
        return min((since_ns for last, first, since_ns, _ in self._queued if waiting.overlap(first, last)), default=0)

    def queued(self, record: Record, out: Output) -> None:
        """Packets were queued."""
        first, last = record["first"], record["last"]
        self._wait((last, first, record["wall_ns"], last - first + 1), out)

    def _wait(self, queued: tuple[int, int, int, int], out: Output) -> None:
        insort(self._queued, queued)
        last, first, _, _ = queued
        low = bisect_left(self._commits, (first, 0, 0, 0, 0))
        high = bisect_left(self._commits, (last + 1, 0, 0, 0, 0))
        early, self._commits[low:high] = self._commits[low:high], []
        for commit in early:
            self._measure(commit, out)

    def committed(self, record: Record, out: Output) -> None:
        """Packets were committed."""
        first, last = record["first"], record["last"]
        self._committed += 1
        self._measure((last, last - first + 1, record["count"], record["wall_ns"], self._committed), out)

    def _measure(self, commit: Commit, out: Output) -> None:
        last, packets, messages, wall_ns, _ = commit
        at = bisect_left(self._queued, (last, 0, 0, 0))
        if at == len(self._queued) or self._queued[at][1] > last:
            insort(self._commits, commit)
            return
        queued_ns = self._queued[at][2]
        if wall_ns >= queued_ns:
            taken_ns = wall_ns - queued_ns
            out.chart(f"latency {latency_bucket(taken_ns)}", wall_ns, messages)
            bucket = latency_bucket(taken_ns, DELAY_BUCKETS_PER_DECADE)
            self.delays[bucket] = self.delays.get(bucket, 0) + messages
            self.longest_ns = max(self.longest_ns, taken_ns)
        self._take(at, last - packets + 1, last)

    def _take(self, at: int, first: int, last: int) -> None:
        """Forget what was committed, from the range at a place downwards."""
        while at >= 0 and self._queued[at][0] >= first:
            end, begin, queued_ns, left = self._queued[at]
            left -= min(end, last) - max(begin, first) + 1
            self._queued[at : at + 1] = [(end, begin, queued_ns, left)] if left > 0 else []
            at -= 1
