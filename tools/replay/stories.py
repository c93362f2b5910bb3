"""What became of the packets of one sequence, over all nodes: the counts of the verdict, and what is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from triack.tools.replay.ranges import RangeSet, Span, Tally
from triack.tools.replay.schema import CLASS_CODES, EXPRESS, RECOVERABLE, TRANSACTIONAL
from triack.tools.replay.weights import Weights

Counted = tuple[int, int, int]
"""A range and its messages."""


class Story:
    """What the records of all nodes tell of one sequence."""

    __slots__ = (
        "acked", "cls", "commits", "counted", "covered", "fresh", "queued", "recovered", "removed", "stored",
        "weights",
    )  # fmt: skip

    def __init__(self) -> None:
        self.cls = EXPRESS
        # What was queued: ranges whose packets are known to hold what was said, and the others.
        self.counted = Tally()
        self.fresh: list[Counted] = []
        self.recovered: list[Counted] = []
        self.queued = RangeSet()
        self.removed: list[Counted] = []
        # By node; and what a node found on its disk when it started.
        self.commits: defaultdict[str, Tally] = defaultdict(Tally)
        self.covered = RangeSet()
        # Highest order ack that reached the origin; recoverable packets store-acked to it.
        self.acked = 0
        self.stored = RangeSet()
        self.weights = Weights()

    def join(self, other: Story) -> None:
        """Take over what the records of other nodes tell."""
        self.cls = max(self.cls, other.cls, key=CLASS_CODES.__getitem__)
        self.counted.join(other.counted)
        self.fresh += other.fresh
        self.recovered += other.recovered
        self.removed += other.removed
        for mine, others in ((self.queued, other.queued), (self.covered, other.covered), (self.stored, other.stored)):
            mine.join(others)
        self.commits |= other.commits
        self.acked = max(self.acked, other.acked)
        self.weights.join(other.weights)

    @property
    def given_up(self) -> RangeSet:
        """What its origin removed."""
        return RangeSet((first, last) for first, last, _ in self.removed)

    def weigh(self, number: int) -> int:
        """Return a packet's messages: as its own record says, else an even share of a range that was queued."""
        known = self.weights.get(number)
        if known is not None:
            return known
        ranges = [*self.fresh, *self.recovered]
        shares = [even_share(number, *span) for span in ranges if span[0] <= number <= span[1]]
        return min(shares, default=0)

    def weigh_all(self, spans: list[Span]) -> int:
        """Return the messages of ranges."""
        messages = 0
        for first, last in spans:
            known, told = self.weights.total(first, last)
            if known == last - first + 1:
                messages += told
            else:
                messages += sum(self.weigh(number) for number in range(first, last + 1))
        return messages


def even_share(number: int, first: int, last: int, count: int) -> int:
    """Return the messages of one packet if a range's count is spread evenly; the shares add up to the count."""
    size = last - first + 1
    at = number - first
    return count * (at + 1) // size - count * at // size


@dataclass(slots=True)
class Segment:
    """Consecutive packets with one fate, where that fate is not what the counts of the ranges say already.

    Attributes:
        first, last: the packets.
        sent, delivered: what must be added to the summed counts, times each packet's messages.
        unqueued: 1 for packets delivered although no log shows them queued.
        lost: the origin forgot them and no destination has them.
    """

    first: int
    last: int
    sent: int
    delivered: int
    unqueued: int
    lost: bool


def segments(story: Story) -> Iterator[Segment]:
    """Sweep over a sequence's numbers and yield the parts whose packets must be weighed."""
    deltas: defaultdict[int, list[int]] = defaultdict(lambda: [0] * 7)

    def mark(kind: int, first: int, last: int) -> None:
        if first <= last:
            deltas[first][kind] += 1
            deltas[last + 1][kind] -= 1

    for kind, spans in enumerate((story.fresh, story.recovered, story.removed)):
        for first, last, _ in spans:
            mark(kind, first, last)
    for first, last in story.counted:
        mark(0, first, last)
    for commits in story.commits.values():
        for first, last in commits:
            mark(3, first, last)
    for first, last in story.covered:
        mark(4, first, last)
    mark(5, 1, story.acked)
    for first, last in story.stored:
        mark(6, first, last)
    state = [0] * 7
    for first, after in pairwise(sorted(deltas)):
        state = [have + delta for have, delta in zip(state, deltas[first], strict=True)]
        segment = _judge(story.cls, first, after - 1, state)
        if segment is not None:
            yield segment


def _judge(cls: str, first: int, last: int, state: list[int]) -> Segment | None:
    fresh, recovered, removed, committed, covered, acked, stored = state
    queued = fresh + recovered > 0
    waiting = queued and not removed
    there = committed > 0 or (waiting and covered > 0)
    sent = int(queued and (there or not removed)) - (fresh - removed)
    delivered = int(there) - committed
    forgotten = acked > 0 if cls == TRANSACTIONAL else stored > 0 and cls == RECOVERABLE
    lost = waiting and forgotten and not there
    unqueued = int(there and not queued)
    if sent or delivered or unqueued or lost:
        return Segment(first, last, sent, delivered, unqueued, lost)
    return None
