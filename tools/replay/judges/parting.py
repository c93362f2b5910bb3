"""A session or a stream judged in parts, one for each node that mentions it; the parts are merged at the end.

What a judge makes of a record depends only on what the same node said before: so the parts of a giant session or stream
are judged in parallel. Results that need both ends are judged after the merge.
"""

from __future__ import annotations

from collections.abc import Iterable

from triack.tools.replay.checks.findings import Output, Record
from triack.tools.replay.judges.journal import Unit
from triack.tools.replay.judges.judge import UnitJudge, join_parts, judge_of


class Part:
    """One node's part of a session or a stream."""

    def __init__(self, unit: Unit) -> None:
        self.out = Output()
        self.judge: UnitJudge = judge_of(unit, self.out)
        self.until = (0, 0)

    def see(self, records: Iterable[Record]) -> None:
        """Look at the next records of the node, which come in its order."""
        see = self.judge.see
        for record in records:
            see(record)

    def join(self, other: Part) -> None:
        """Merge another node's part of the same unit; nodes are joined by their ids, in order."""
        join_parts(self.judge, other.judge)

    def finish(self) -> None:
        """Judge what only all parts show together."""
        self.judge.finish()
