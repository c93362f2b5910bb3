"""The judge: one set of state machines for all engines, so that they cannot disagree.

Records are dealt out to units: one for each session, each stream, each queue, topic and bridge of a node, and all that
a node sends. What a session finds about the packets of a stream goes to that stream as facts. Within a unit the records
of each node come in its order, and a fact behind the record that it follows from; the order between two nodes does not
matter. An engine has no other duty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from triack.tools.replay.checks.findings import DisorderError, Output, Record
from triack.tools.replay.judges.bridge_judge import BridgeJudge
from triack.tools.replay.judges.conclusion import World, conclude, decide
from triack.tools.replay.judges.journal import Journal, Segment, Unit, join_segments, join_start
from triack.tools.replay.judges.past import Cut, Kept, Past, behind
from triack.tools.replay.judges.queue_judge import QueueJudge
from triack.tools.replay.judges.sending_judge import SendingJudge
from triack.tools.replay.judges.session_judge import SessionJudge
from triack.tools.replay.judges.stream_judge import StreamJudge
from triack.tools.replay.log.schema import BROKEN, Timeline, Verdict, Violation
from triack.tools.replay.report.report_tables import fill_tables, join_links
from triack.tools.replay.topics.topic_check import TopicJudge

BLOCK_RECORDS: Final = 512
"""Records that are judged together: running one judge after the other is faster than taking turns. With more records
than this the processor's cache drops the first ones before the last judge looks at them."""

UnitJudge = SessionJudge | StreamJudge | QueueJudge | SendingJudge | TopicJudge | BridgeJudge


def order_of(record: Record) -> tuple[str, int, int, bool, bool]:
    """The sort key of a unit's records: node and serial; a life comes before its record, a fact after it."""
    event = record["event"]
    return record["node"], record["incarnation"], record["n"], event != "life", event[0] == "~"


def judge_of(unit: Unit, out: Output, *, forgets: bool = False) -> UnitJudge:
    """Return a new judge of a unit."""
    kind, whose, *name = unit
    match kind:
        case "session":
            return SessionJudge(whose, out)
        case "queue":
            return QueueJudge(whose, out)
        case "sending":
            return SendingJudge(whose, out)
        case "topic":
            return TopicJudge(whose, name[0], out)
        case "bridge":
            return BridgeJudge(whose, name[0], out)
    return StreamJudge(whose, int(name[0]), out, forgets=forgets)


def join_parts(mine: Any, other: Any) -> None:
    """Merge another node's part of the same unit into one; nodes are joined by their ids, in order."""
    assert type(mine) is type(other)
    mine.join(other)


class Judge:
    """Judges each record as it comes; reports what holds for now as often as desired.

    Args:
        forgets: whether to forget sessions some time after their end, and what is settled in streams. This bounds the
            memory and the cost of reporting what holds for now.
    """

    def __init__(self, *, forgets: bool = False) -> None:
        self._forgets = forgets
        # What is found by single records.
        self._out = Output()
        self._units: dict[Unit, UnitJudge] = {}
        # The results of units for now, and the units that have had records since.
        self._ended: dict[Unit, Output] = {}
        self._touched: set[Unit] = set()
        # Sessions that are forgotten, and the latest start of their nodes then; what held for them.
        self._over: dict[Unit, dict[str, int]] = {}
        self._past = Output()
        self._journals: list[Journal] = []
        # By node, the start and the serial of its last record, and the time.
        self._heard: dict[str, tuple[int, int]] = {}
        self._clocks: dict[str, tuple[int, int]] = {}
        # What a summary tells of: the last record of each node, and segments.
        self._cuts: dict[str, Cut] = {}
        self._removed: list[Segment] = []

    @property
    def segments(self) -> list[Segment]:
        """The segments that were read, and those that were removed before."""
        return self._removed + [segment for journal in self._journals if (segment := journal.segment()) is not None]

    def resume(self, past: Past, revive: Callable[[bytes, Output], object]) -> None:
        """Go on from a cut. This is to be the first call."""
        self._cuts = past.cuts
        self._removed = list(past.segments)
        self._past.merge(past.found)
        self._out.begin_ns, self._out.end_ns = past.found.begin_ns, past.found.end_ns
        for segment in sorted(past.segments, key=lambda it: (it.node, it.incarnation)):
            self._heard[segment.node] = segment.incarnation, segment.last_n
            self._clocks[segment.node] = segment.incarnation, segment.end_ns
        for unit, _, state in sorted(past.kept):
            part = revive(state, self._out)
            if unit in self._units:
                join_parts(self._units[unit], part)
            else:
                assert isinstance(part, UnitJudge)
                self._units[unit] = part
        for judge in self._units.values():
            judge.go_on(forgets=self._forgets)
        self._touched |= self._units.keys()

    def past(self, freeze: Callable[[UnitJudge], bytes]) -> Past:
        """Return what is known now, to go on from it later."""
        self._end()
        found = Output()
        found.merge(self._past)
        found.merge(self._out)
        starts: dict[tuple[str, int], list[Segment]] = {}
        for segment in sorted(self.segments, key=lambda it: (it.node, it.incarnation, it.first_n)):
            starts.setdefault((segment.node, segment.incarnation), []).append(segment)
        joined = Output()
        join_segments([segment for parts in starts.values() for segment in parts], joined)
        found.merge(joined)
        peers = {(it.node, it.session): it.peer for it in found.openings}
        for unit, judge in self._units.items():
            if isinstance(judge, SessionJudge):
                peers |= {(node, unit[1]): peer for node, peer in judge.peers()}
        found.numbers = join_links(found.numbers, peers)
        kept = [
            Kept(unit, node, freeze(part))
            for unit, judge in sorted(self._units.items())
            for node, part in judge.split(self._clocks).items()
        ]
        return Past([join_start(parts) for parts in starts.values()], found, kept)

    def parts(self, freeze: Callable[[UnitJudge], bytes]) -> Iterator[tuple[Unit, bytes]]:
        """Yield each unit as far as it was judged, to be joined with those of other nodes, and finished."""
        return ((unit, freeze(judge)) for unit, judge in self._units.items())

    @property
    def found(self) -> tuple[Output, Output]:
        """What single records have shown, and what is known of before a cut."""
        return self._out, self._past

    def begin(self, path: str, line: int = 1) -> Journal:
        """Take a new segment, which has no records yet."""
        journal = Journal(path, self._out, line)
        self._journals.append(journal)
        return journal

    def take(self, journal: Journal, records: Iterable[Record]) -> int:
        """Take the next records of a segment, and return how many.

        Raises:
            DisorderError: they do not, or one is about what is forgotten.
        """
        before, coming = journal.records, behind(records, self._cuts)
        while block := list(islice(coming, BLOCK_RECORDS)):
            for record in block:
                if not self._note(record):
                    raise DisorderError
            self._judge(journal.deal(block))
        return journal.records - before

    def read(self, path: str, records: Iterable[Record], line: int = 1) -> None:
        """Take all records of one segment, as ``take`` does."""
        self.take(self.begin(path, line), records)

    def take_all(self, segments: Iterable[tuple[Journal, Iterable[Record]]]) -> None:
        """Take the records of segments in whatever order they are; all of them fit into memory."""
        piles = defaultdict[Unit, list[Record]](list)
        for journal, records in segments:
            mine = list(behind(records, self._cuts))
            for record in mine:
                self._note(record)
            for unit, pile in journal.deal(mine).items():
                piles[unit] += pile
        for pile in piles.values():
            pile.sort(key=order_of)
        self._judge(piles)

    def _note(self, record: Record) -> bool:
        """Note how far a node has come; return whether the record follows those before it."""
        node, place = record["node"], (record["incarnation"], record["n"])
        if place < self._heard.get(node, place):
            return False
        self._heard[node] = place
        self._clocks[node] = record["incarnation"], record["at_ns"]
        return True

    def _judge(self, piles: dict[Unit, list[Record]]) -> None:
        """Show records to their judges: to those of sessions first, which tell streams what they find out."""
        for unit in [unit for unit in piles if unit[0] == "session"]:
            self._see(unit, piles.pop(unit))
        told = set[Unit]()
        for fact in self._out.facts:
            unit = "stream", fact["origin"], str(fact["stream"])
            piles.setdefault(unit, []).append(fact)
            told.add(unit)
        self._out.facts.clear()
        for unit, pile in piles.items():
            # Of records that are alike in these fields, a fact was put behind the record that it follows from.
            self._see(unit, sorted(pile, key=itemgetter("incarnation", "n")) if unit in told else pile)

    def _see(self, unit: Unit, records: list[Record]) -> None:
        if unit in self._over:
            for record in records:
                self._see_late(unit, record)
            return
        judge = self._units.get(unit)
        if judge is None:
            judge = self._units[unit] = judge_of(unit, self._out, forgets=self._forgets)
        see = judge.see
        for record in records:
            see(record)
        self._touched.add(unit)

    def _see_late(self, unit: Unit, record: Record) -> None:
        """A restarted node gives up what an old connect left; nothing else is logged of an ended session."""
        was_killed = record["incarnation"] > self._over[unit].get(record["node"], record["incarnation"])
        if record["event"] != "life" and not (was_killed and record["event"] == "session_closed"):
            raise DisorderError

    def _end(self) -> list[Output]:
        """Return what was found, and what holds for each unit for now."""
        for unit in self._touched:
            with self._out.aside() as now:
                self._units[unit].finish()
            self._ended[unit] = now
        self._touched.clear()
        if self._forgets:
            self._forget()
        return [self._out, self._past, *self._ended.values()]

    def _forget(self) -> None:
        """Keep only the findings of sessions that are over."""
        judges = [(unit, judge) for unit, judge in self._units.items() if isinstance(judge, SessionJudge)]
        for unit, judge in judges:
            if judge.is_over(self._clocks):
                self._over[unit] = {node: end.incarnation for node, end in judge.ends.items()}
                self._past.merge(self._ended.pop(unit))
                del self._units[unit]

    def finish(self) -> Verdict:
        """Return the verdict over everything that was read; more of it may follow."""
        whole = self._whole()
        whole.series = self._out.series
        return conclude("local", self.segments, whole)

    def news(self) -> tuple[list[Violation], Timeline]:
        """Return the violations of everything that was read, and how nodes and queues are called."""
        whole, timeline = self._whole(), Timeline()
        fill_tables(timeline, whole.numbers)
        world = World(join_segments(self.segments, whole), whole.openings)
        return [it for it in decide(whole.findings, world) if it.standing == BROKEN], timeline

    def _whole(self) -> Output:
        """Return what was found, what it depends on, and the numbers."""
        whole = Output()
        for part in self._end():
            whole.merge(part)
        return whole
