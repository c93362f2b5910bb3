"""What became of the packets of one sequence, over all nodes: the counts of the verdict, and what is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from typing import Final

from triack.tools.replay.checks.findings import EVER, Record
from triack.tools.replay.log.ranges import RangeSet, Span, Tally
from triack.tools.replay.log.schema import CLASS_CODES, EXPRESS, RECOVERABLE, TRANSACTIONAL
from triack.tools.replay.log.weights import Weights

Counted = tuple[int, int, int]
"""A range and its messages."""
UNDONE: Final = "undone"
"""A field that a record of a removal gets here: the ranges of it that a later start has found again."""
ACKS_MAX: Final = 64
"""Order acks whose records are kept; above that every second one is dropped, so the next known one is never far."""


class Story:
    """What the records of all nodes say about one sequence."""

    def __init__(self) -> None:
        self.cls = EXPRESS
        # The first start of its origin that mentions it: what was queued then or later was not removed before.
        self.since = 0
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
        # Some of these order acks, and the last of those store acks: the number, and start and serial of the record.
        self.acks: list[tuple[int, int, int]] = []
        self.stored_at = (0, 0)
        self.weights = Weights()
        # What relays have, and what goes no further from one of them; as of the last look at all of them.
        self.in_transit = RangeSet()
        self.stopped = RangeSet()
        # Packets of which two records do not say the same number of messages.
        self.raised = RangeSet()

    def forget(self, number: int, incarnation: int, n: int) -> None:
        """An order ack reached the origin, with that record."""
        if number > self.acked:
            self.acked = number
            self.acks.append((number, incarnation, n))
            if len(self.acks) > ACKS_MAX:
                del self.acks[::2]

    def store(self, record: Record) -> None:
        """A store ack of recoverable packets reached the origin."""
        self.stored.add(record["first"], record["last"])
        self.stored_at = record["incarnation"], record["n"]

    def forgotten_at(self, number: int) -> tuple[int, int]:
        """Return the start and serial of the record by which its origin had forgotten a packet at the latest."""
        if self.cls == RECOVERABLE:
            return self.stored_at
        return next(((start, n) for acked, start, n in self.acks if acked >= number), (EVER, EVER))

    def part(self, node: str, *, common: bool) -> Story:
        """Return what a node has committed, and perhaps all else but what other nodes have committed."""
        part = Story()
        part.cls = self.cls
        for name in vars(self) if common else ():
            setattr(part, name, getattr(self, name))
        part.commits = defaultdict(Tally, {node: self.commits[node]} if node in self.commits else {})
        return part

    def join(self, other: Story) -> None:
        """Merge what the records of other nodes say."""
        self.cls = max(self.cls, other.cls, key=CLASS_CODES.__getitem__)
        self.since = self.since or other.since
        self.counted.join(other.counted)
        self.fresh += other.fresh
        self.recovered += other.recovered
        self.removed += other.removed
        for mine, others in ((self.queued, other.queued), (self.covered, other.covered), (self.stored, other.stored)):
            mine.join(others)
        self.commits |= other.commits
        if other.acked > self.acked:
            self.acked, self.acks = other.acked, other.acks
        self.stored_at = max(self.stored_at, other.stored_at)
        self.raised.join(other.raised)
        self.raised.join(self.weights.join(other.weights))

    @property
    def given_up(self) -> RangeSet:
        """What its origin removed."""
        return RangeSet((first, last) for first, last, _ in self.removed)

    def weigh_all(self, spans: list[Span]) -> int:
        """Return the messages of ranges: for a packet with a record as that says, else its share of what was queued."""
        messages = 0
        for first, last in spans:
            at = first
            for begin, end, count in self.weights.within(first, last):
                messages += self._shared(at, begin - 1) + (end - begin + 1) * count
                at = end + 1
            messages += self._shared(at, last)
        return messages

    def _shared(self, first: int, last: int) -> int:
        """Return the messages of packets without records. A range may be too long to count one by one."""
        if first > last:
            return 0
        met = [span for span in (*self.fresh, *self.recovered) if span[0] <= last and span[1] >= first]
        cuts = {first, last + 1, *(at for begin, end, _ in met for at in (begin, end + 1) if first < at <= last)}
        return sum(_share_of_least(begin, after - 1, met) for begin, after in pairwise(sorted(cuts)))


def _share_of_least(first: int, last: int, ranges: list[Counted]) -> int:
    """Return the share of packets in the range with the fewest messages a packet, of those that contain all of them."""
    within = [span for span in ranges if span[0] <= first and span[1] >= last]
    least = min(within, key=lambda span: Fraction(span[2], span[1] - span[0] + 1), default=None)
    return 0 if least is None else even_share(first, last, least)


def even_share(first: int, last: int, whole: Counted) -> int:
    """Return the messages of packets if a range's count is spread evenly; the shares add up to the count."""
    begin, end, count = whole
    size = end - begin + 1
    return count * (last - begin + 1) // size - count * (first - begin) // size


def left_of(removal: Record) -> list[Counted]:
    """Return what its origin gave up for good: not what a later start has found again, as the process died before."""
    whole = removal["first"], removal["last"], removal["count"]
    left = RangeSet([whole[:2]])
    left.cut(removal.get(UNDONE, ()))
    return [(first, last, even_share(first, last, whole)) for first, last in left]


@dataclass(slots=True)
class Segment:
    """Consecutive packets with one fate, where that fate is not what the counts of the ranges say already.

    Attributes:
        sent, delivered: what must be added to the summed counts, times each packet's messages.
        unqueued: 1 for packets delivered although no log shows them queued.
        stopped: a relay gave them up, and their origin has forgotten them.
        lost: the origin forgot them and no destination has them.
    """

    first: int
    last: int
    sent: int
    delivered: int
    unqueued: int
    stopped: bool
    lost: bool


def given_up_and_delivered(story: Story, removed: RangeSet) -> int:
    """Return the messages that their origin gave up and that a destination has all the same.

    The range of a commit passes numbers that the origin gave up. Only the commit's count of messages tells whether such
    a packet is in the commit, so the messages of all other packets are subtracted from that count.
    """
    if not removed:
        return 0
    messages = 0
    for commits in story.commits.values():
        spans = list(commits)
        wanted = [part for first, last in spans for part in removed.missing(first, last)]
        unwanted = [part for first, last in commits.numbers for part in removed.overlap(first, last)]
        left = commits.count - story.weigh_all(wanted)
        messages += min(max(left, 0), story.weigh_all(unwanted))
    return messages


def waiting(story: Story, removed: RangeSet, lost: RangeSet) -> RangeSet:
    """Return the packets that are neither at a destination nor given up nor lost."""
    left = RangeSet(story.queued)
    delivered = (span for commits in story.commits.values() for span in commits)
    left.cut(chain(delivered, removed, story.covered, lost))
    return left


def segments(story: Story, removed: list[Counted]) -> Iterator[Segment]:
    """Sweep over a sequence's numbers and yield the parts whose packets must be weighed."""
    deltas: defaultdict[int, list[int]] = defaultdict(lambda: [0] * 10)
    kinds: list[tuple[int, Iterable[tuple[int, ...]]]] = [
        (0, story.fresh), (0, story.counted), (1, story.recovered), (2, removed),
        *((3, commits) for commits in story.commits.values()), (4, story.covered), (5, [(1, story.acked)]),
        (6, story.stored), (7, story.in_transit), (8, story.stopped), (9, story.removed),
    ]  # fmt: skip
    for kind, spans in kinds:
        for first, last, *_ in spans:
            if first <= last:
                deltas[first][kind] += 1
                deltas[last + 1][kind] -= 1
    state = [0] * 10
    for first, after in pairwise(sorted(deltas)):
        state = [have + delta for have, delta in zip(state, deltas[first], strict=True)]
        segment = _judge(story.cls, first, after - 1, state)
        if segment is not None:
            yield segment


def _judge(cls: str, first: int, last: int, state: list[int]) -> Segment | None:
    fresh, recovered, removed, committed, covered, acked, stored, in_transit, stopped, given_up = state
    queued = fresh + recovered > 0
    waiting = queued and not removed
    there = committed > 0 or (waiting and covered > 0)
    # Its origin has forgotten it, and the relay that answered for it has given it up.
    gone = cls == EXPRESS or (cls == RECOVERABLE and stored > 0 and not in_transit)
    is_stopped = waiting and stopped > 0 and not there and gone
    sent = int(queued) - fresh
    # `given_up_and_delivered` counts what was given up and is in a commit all the same.
    delivered = int(there) - committed
    forgotten = acked > 0 if cls == TRANSACTIONAL else stored > 0 and cls == RECOVERABLE
    # What was given up once may have been passed over, though a later start has found it again.
    lost = queued and not (given_up or is_stopped or there) and forgotten and not (in_transit and cls == RECOVERABLE)
    unqueued = int(there and not queued and not removed)
    if sent or delivered or unqueued or is_stopped or lost:
        return Segment(first, last, sent, delivered, unqueued, is_stopped, lost)
    return None
