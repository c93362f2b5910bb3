"""The judge: one set of state machines for both engines, so that they cannot disagree.

Records are dealt out to units, one for each session and one for each lane. Sessions are judged first: what they find
out about the packets of a lane goes to that lane as facts. Within a unit the records of one node come after those of
another, each node's in its order. Nothing else is asked of an engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

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
    judge = SessionJudge(unit[1], out) if unit[0] == "session" else LaneJudge(unit[1], int(unit[2]), out)
    for record in records:
        judge.see(record)
    judge.finish()


class Judge:
    """Judges what fits into memory.

    Args:
        engine: what the verdict is to call it.
    """

    def __init__(self, engine: str = "local") -> None:
        self._out = Output()
        self._units: defaultdict[Unit, list[Record]] = defaultdict(list)
        self.segments: list[Segment] = []
        self.verdict = Verdict(engine=engine)

    def read(self, path: str, records: Iterable[Record]) -> None:
        """Take the records of one segment."""
        journal = Journal(path, self._out)
        for unit, record in journal.read(records):
            self._units[unit].append(record)
        segment = journal.segment()
        if segment is not None:
            self.segments.append(segment)

    def finish(self) -> Verdict:
        """Judge everything."""
        out = self._out
        lives = join_segments(self.segments, out)
        for kind in ("session", "lane"):
            for unit in [unit for unit in self._units if unit[0] == kind]:
                judge_unit(unit, sorted(self._units.pop(unit), key=order_of), out)
            for fact in out.facts:
                self._units[("lane", fact["origin"], str(fact["lane"]))].append(fact)
            out.facts.clear()
        conclude(self.verdict, out.findings, World(lives, out.openings), out.numbers, out.series)
        self.verdict.time(out.begin_ns, out.end_ns)
        return self.verdict
