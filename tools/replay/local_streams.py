"""What a sequence promises over all sessions: order, no gaps, no loss, no repetition; over ranges of packets.

Everything a stream - one (origin, lane, sequence) - went through is kept as ranges, so that single packets need not be
looked at. Message counts of whole ranges are exact; single packets are weighed only where a range is split by a fault,
a removal or a crash.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from triack.tools.replay.files import Record
from triack.tools.replay.local_sessions import Packet
from triack.tools.replay.ranges import RangeSet
from triack.tools.replay.schema import CLASS_CODES, EXPRESS, RECOVERABLE, TRANSACTIONAL, Verdict, Violation

Stream = tuple[str, int, int]
"""Origin, lane and sequence."""


class Story:
    """What happened to one stream."""

    __slots__ = ("acked", "cls", "commits", "covered", "fresh", "queued", "recovered", "removed", "stored", "weights")

    def __init__(self) -> None:
        self.cls = ""
        self.fresh: list[tuple[int, int, int]] = []
        self.recovered: list[tuple[int, int, int]] = []
        self.queued = RangeSet()
        self.removed: list[tuple[int, int, int]] = []
        # (node, first, last, count); what a node found on its disk when it started.
        self.commits: list[tuple[str, int, int, int]] = []
        self.covered = RangeSet()
        # Highest order ack that reached the origin; numbers of recoverable packets store-acked to it.
        self.acked = 0
        self.stored: set[int] = set()
        # number -> messages, from the packet's own records.
        self.weights: dict[int, int] = {}

    def weigh(self, number: int) -> int:
        """Return a packet's messages: as its own record says, else an even share of a range that has it."""
        known = self.weights.get(number)
        if known is not None:
            return known
        ranges = [*self.fresh, *self.recovered, *(commit[1:] for commit in self.commits)]
        shares = [even_share(number, *span) for span in ranges if span[0] <= number <= span[1]]
        return min(shares, default=0)


def even_share(number: int, first: int, last: int, count: int) -> int:
    """Return the messages of one packet if a range's count is spread evenly; the shares add up to the count."""
    size = last - first + 1
    at = number - first
    return count * (at + 1) // size - count * at // size


class Streams:
    """The checks of sequences and the message counts of the verdict.

    Args:
        report: called with each violation.
    """

    def __init__(self, report: Callable[[Violation], None]) -> None:
        self._report = report
        self.stories: defaultdict[Stream, Story] = defaultdict(Story)
        self._settled: defaultdict[tuple[str, Stream], RangeSet] = defaultdict(RangeSet)
        # (node, origin, lane) of nodes that sent packets of others on: what they have on disk, no record tells.
        self.forwarders: set[tuple[str, str, int]] = set()
        # (kind, sequence, first, last, count) in node order; judged when everything queued is known.
        self._arrivals: defaultdict[tuple[str, str, int], list[tuple[str, int, int, int, int]]] = defaultdict(list)
        self._handed_at: dict[tuple[str, str, str, int], tuple[int, int, int]] = {}
        self._handed: defaultdict[tuple[str, Stream, int], list[tuple[int, int]]] = defaultdict(list)
        self.out_of_order = 0
        self.duplicates = 0

    def settled(self, node: str, packet: Packet) -> bool:
        """Say whether the node has committed, recovered or refused the packet so far."""
        numbers = self._settled.get((node, packet[1:4]))
        return numbers is not None and packet[4] in numbers

    def handle_refused(self, record: Record) -> None:
        """Note a packet that its origin knows not to be here, so that store acks may pass it."""
        self._settle(record, record["number"], record["number"])

    def handle_queued(self, record: Record) -> None:
        """Note outgoing packets."""
        if record["class"] == EXPRESS:
            return
        story = self._story(record)
        span = (record["first"], record["last"], record["count"])
        (story.recovered if record.get("recovered") else story.fresh).append(span)
        story.queued.add(record["first"], record["last"])

    def handle_removed(self, record: Record) -> None:
        """Note packets that the origin gave up."""
        if record["class"] == EXPRESS:
            return
        self._story(record).removed.append((record["first"], record["last"], record["count"]))

    def handle_committed(self, record: Record) -> None:
        """Note packets that are on disk at this node."""
        if record["class"] == EXPRESS:
            return
        story = self._story(record)
        first, last, count = record["first"], record["last"], record["count"]
        story.commits.append((record["node"], first, last, count))
        self._settle(record, first, last)
        if record["class"] == TRANSACTIONAL:
            self._arrive("committed", record, first, last, count)

    def handle_recovered(self, record: Record) -> None:
        """Note what the node had on disk when it started."""
        story = self._story(record)
        ordered = record["class"] == TRANSACTIONAL
        for first, last in [[1, record["number"]]] if ordered else record["ranges"]:
            if first <= last:
                story.covered.add(first, last)
                self._settle(record, first, last)
        if ordered:
            self._arrive("recovered", record, 1, record["number"], 0)

    def handle_order_ack_sent(self, record: Record) -> None:
        """Note the claim, in the order of the commits."""
        self._arrive("acked", record, 0, record["number"], 0)

    def handle_order_ack_received(self, record: Record) -> None:
        """The origin forgets everything up to the number."""
        if record["node"] == record["origin"]:
            story = self.stories[(record["origin"], record["lane"], record["sequence"])]
            story.acked = max(story.acked, record["number"])

    def handle_freed(self, node: str, packet: Packet) -> None:
        """The origin forgets a recoverable packet."""
        if packet[0] == RECOVERABLE and packet[1] == node:
            self.stories[packet[1:4]].stored.add(packet[4])

    def handle_handed(self, record: Record) -> None:
        """Messages reach the application: in order, and once unless marked."""
        if record["class"] == EXPRESS:
            return
        node, queue, origin, lane = record["node"], record["queue"], record["origin"], record["lane"]
        marked = record.get("redelivered")
        if not marked:
            packet = (node, (origin, lane, record["sequence"]), record["number"])
            self._handed[packet].append((record["first"], record["last"]))
        if record["class"] != TRANSACTIONAL:
            return
        key = (node, queue, origin, lane)
        before = self._handed_at.get(key)
        here = (record["sequence"], record["number"], record["first"])
        end = (record["sequence"], record["number"], record["last"])
        if before is not None and here <= before and not marked:
            self.out_of_order += record["last"] - record["first"] + 1
            evidence = f"messages {here[2]}..{end[2]} handed out after {before[0]}/{before[1]} message {before[2]}"
            self._report(Violation("order", node, "", origin, lane, here[0], here[1], evidence))
        if before is None or end > before:
            self._handed_at[key] = end

    def finish(self, verdict: Verdict) -> None:
        """Judge the streams as wholes and fill in the verdict's message counts."""
        for (node, origin, lane), arrivals in self._arrivals.items():
            self._judge_arrivals(node, origin, lane, arrivals)
        self._judge_handed()
        passed_on = {(origin, lane) for _, origin, lane in self.forwarders}
        for stream, story in self.stories.items():
            if story.cls in (RECOVERABLE, TRANSACTIONAL):
                self._judge_story(stream, story, verdict, passed_on=stream[:2] in passed_on)
        verdict.pending += verdict.sent - verdict.delivered - verdict.lost
        verdict.duplicates_delivered = self.duplicates
        verdict.out_of_order = self.out_of_order

    def _story(self, record: Record) -> Story:
        story = self.stories[(record["origin"], record["lane"], record["sequence"])]
        if story.cls != record["class"]:
            # A stream has one class; if records disagree, the one that promises most.
            story.cls = max(story.cls or EXPRESS, record["class"], key=CLASS_CODES.__getitem__)
        return story

    def _settle(self, record: Record, first: int, last: int) -> None:
        stream = (record["origin"], record["lane"], record["sequence"])
        self._settled[(record["node"], stream)].add(first, last)

    def _arrive(self, kind: str, record: Record, first: int, last: int, count: int) -> None:
        key = (record["node"], record["origin"], record["lane"])
        self._arrivals[key].append((kind, record["sequence"], first, last, count))

    def _judge_arrivals(
        self, node: str, origin: str, lane: int, arrivals: list[tuple[str, int, int, int, int]]
    ) -> None:
        """Walk through one lane at its destination: order, gaps, and order acks that say too much."""
        top = (-1, -1)
        reached: dict[int, int] = {}
        for kind, sequence, first, last, count in arrivals:
            before = reached.get(sequence, 0)
            if kind == "acked":
                if last > before:
                    evidence = f"order ack up to {last}, committed up to {before}"
                    self._report(Violation("order_ack_before_commit", node, "", origin, lane, sequence, last, evidence))
                continue
            if kind == "committed":
                if (sequence, first) <= top:
                    self.out_of_order += count
                    evidence = f"committed {first}..{last} after {top[0]}/{top[1]}"
                    self._report(Violation("order", node, "", origin, lane, sequence, first, evidence))
                if first > before + 1:
                    self._judge_hole(node, (origin, lane, sequence), before + 1, first)
            reached[sequence] = max(before, last)
            top = max(top, (sequence, last))

    def _judge_hole(self, node: str, stream: Stream, first: int, before: int) -> None:
        """Report what is queued and not removed between two commits."""
        story = self.stories[stream]
        wanted = [part for span in story.queued.overlap(first, before - 1) for part in _without(story.removed, *span)]
        if wanted:
            missing = sum(last - begin + 1 for begin, last in wanted)
            evidence = f"{missing} packets from {wanted[0][0]} on were not committed before {before}"
            self._report(Violation("gaps", node, "", *stream, before, evidence))

    def _judge_handed(self) -> None:
        for (node, stream, number), spans in self._handed.items():
            extra = sum(last - first + 1 for first, last in repeats(spans))
            if extra:
                self.duplicates += extra
                evidence = f"{extra} messages handed out again without being marked"
                self._report(Violation("duplicates_delivered", node, "", *stream, number, evidence))

    def _judge_story(self, stream: Stream, story: Story, verdict: Verdict, *, passed_on: bool) -> None:
        """Add the stream's messages to the verdict: whole ranges by their counts, then what single packets correct."""
        self._judge_repeats(stream, story)
        verdict.sent += sum(span[2] for span in story.fresh) - sum(span[2] for span in story.removed)
        verdict.delivered += sum(commit[3] for commit in story.commits)
        for part in segments(story):
            for number in range(part.first, part.last + 1):
                weight = story.weigh(number)
                verdict.sent += part.sent * weight
                verdict.delivered += part.delivered * weight
                verdict.pending += part.unqueued * weight
                if part.lost or (part.suspect and number in story.stored and not passed_on):
                    verdict.lost += weight
                    evidence = f"acknowledged at its origin, committed nowhere; messages: {weight}"
                    self._report(Violation("lost", "", "", *stream, number, evidence))

    def _judge_repeats(self, stream: Stream, story: Story) -> None:
        """Report packets that one destination committed more than once."""
        spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for node, first, last, _ in story.commits:
            spans[node].append((first, last))
        for node, committed in spans.items():
            extra = Counter(n for first, last in repeats(committed) for n in range(first, last + 1))
            for number, times in extra.items():
                self.duplicates += times * story.weigh(number)
                evidence = f"committed {times + 1} times; messages: {story.weigh(number)}"
                self._report(Violation("duplicates_delivered", node, "", *stream, number, evidence))


@dataclass(slots=True)
class Segment:
    """Consecutive packets with one fate, where that fate is not what the counts of the ranges say already.

    Attributes:
        first, last: the packets.
        sent, delivered: what must be added to the summed counts, times each packet's messages.
        unqueued: 1 for packets delivered although no log shows them queued.
        lost: the origin forgot them and no destination has them.
        suspect: recoverable and on no disk: lost if a store ack freed them at their origin.
    """

    first: int
    last: int
    sent: int
    delivered: int
    unqueued: int
    lost: bool
    suspect: bool


def segments(story: Story) -> Iterator[Segment]:
    """Sweep over a stream's numbers and yield the parts whose packets must be weighed one by one."""
    deltas: defaultdict[int, list[int]] = defaultdict(lambda: [0] * 6)

    def mark(kind: int, first: int, last: int) -> None:
        if first <= last:
            deltas[first][kind] += 1
            deltas[last + 1][kind] -= 1

    for kind, spans in enumerate((story.fresh, story.recovered, story.removed)):
        for first, last, _ in spans:
            mark(kind, first, last)
    for _, first, last, _ in story.commits:
        mark(3, first, last)
    for first, last in story.covered:
        mark(4, first, last)
    mark(5, 1, story.acked)

    state = [0] * 6
    for first, after in pairwise(sorted(deltas)):
        state = [have + delta for have, delta in zip(state, deltas[first], strict=True)]
        segment = _judge_segment(story.cls == TRANSACTIONAL, first, after - 1, state)
        if segment is not None:
            yield segment


def _judge_segment(transactional: bool, first: int, last: int, state: list[int]) -> Segment | None:
    fresh, recovered, removed, committed, covered, acked = state
    queued = fresh + recovered > 0
    waiting = queued and not removed
    there = committed > 0 or (waiting and covered > 0)
    sent = int(queued and (there or not removed)) - (fresh - removed)
    delivered = int(there) - committed
    lost = transactional and waiting and acked > 0 and not there
    suspect = not transactional and waiting and not there
    unqueued = int(there and not queued)
    if sent or delivered or unqueued or lost or suspect:
        return Segment(first, last, sent, delivered, unqueued, lost, suspect)
    return None


def repeats(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield each part of a span that an earlier one (by begin) has already; parts show up once for every repetition."""
    reach = -1
    for first, last in sorted(spans):
        if first <= reach:
            yield first, min(last, reach)
        reach = max(reach, last)


def _without(removed: list[tuple[int, int, int]], first: int, last: int) -> Iterator[tuple[int, int]]:
    gone = RangeSet()
    for begin, end, _ in removed:
        gone.add(begin, end)
    return gone.missing(first, last)
