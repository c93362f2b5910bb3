"""The judge: one set of state machines for both engines, so that they cannot disagree.

Records are dealt out to units, one for each session and one for each lane. Sessions are judged first: what they find
out about the packets of a lane goes to that lane as facts. Within a unit the records of one node come after those of
another, each node's in its order. Nothing else is asked of an engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy

from triack.tools.replay.conclusion import World, conclude
from triack.tools.replay.findings import Output, Record
from triack.tools.replay.journal import Journal, Segment, Unit, join_segments
from triack.tools.replay.lane_judge import LaneJudge
from triack.tools.replay.schema import Verdict
from triack.tools.replay.session_judge import SessionJudge


def order_of(record: Record) -> tuple[str, int, int, bool, bool]:
    """What sorts the records of a unit: by node and serial; a life comes before its record, a fact behind it."""
    event = record["event"]
    return record["node"], record["incarnation"], record["n"], event != "life", event[0] == "~"


def judge_unit(unit: Unit, records: Iterable[Record], out: Output) -> None:
    """Let the judge of a unit see its records, which are sorted by ``order_of``."""
    judge = judge_of(unit, out)
    for record in records:
        judge.see(record)
    judge.finish()


def judge_of(unit: Unit, out: Output) -> SessionJudge | LaneJudge:
    """Return the judge of a unit, which has seen nothing as yet."""
    return SessionJudge(unit[1], out) if unit[0] == "session" else LaneJudge(unit[1], int(unit[2]), out)


class Judge:
    """Judges what fits into memory, as often as is wished while more comes in.

    Args:
        engine: what the verdict is to call it.
    """

    def __init__(self, engine: str = "local") -> None:
        self._engine = engine
        # What was found while reading.
        self._read = Output()
        self._units: defaultdict[Unit, list[Record]] = defaultdict(list)
        self._journals: list[Journal] = []

    @property
    def segments(self) -> list[Segment]:
        """What was read, as wholes."""
        return [segment for journal in self._journals if (segment := journal.segment()) is not None]

    def begin(self, path: str) -> Journal:
        """Take a new segment, which has no records yet."""
        journal = Journal(path, self._read)
        self._journals.append(journal)
        return journal

    def take(self, journal: Journal, records: Iterable[Record]) -> int:
        """Take the next records of a segment, and return how many."""
        before = journal.records
        for unit, record in journal.read(records):
            self._units[unit].append(record)
        return journal.records - before

    def read(self, path: str, records: Iterable[Record]) -> None:
        """Take all records of one segment."""
        self.take(self.begin(path), records)

    def finish(self) -> Verdict:
        """Judge everything that was read."""
        verdict, out = Verdict(engine=self._engine), deepcopy(self._read)
        lives = join_segments(self.segments, out)
        facts: defaultdict[Unit, list[Record]] = defaultdict(list)
        for kind in ("session", "lane"):
            for unit in [unit for unit in {**self._units, **facts} if unit[0] == kind]:
                judge_unit(unit, sorted(self._units.get(unit, []) + facts.pop(unit, []), key=order_of), out)
            for fact in out.facts:
                facts[("lane", fact["origin"], str(fact["lane"]))].append(fact)
            out.facts.clear()
        conclude(verdict, out.findings, World(lives, out.openings), out.numbers, out.series)
        verdict.time(out.begin_ns, out.end_ns)
        return verdict
