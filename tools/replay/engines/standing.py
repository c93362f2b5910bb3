"""What is kept of a segment, a session or a stream between two batches, and how it goes on from there.

All of it can be frozen (``checkpoint.py``), so it lives wherever Spark runs the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from triack.tools.replay.checks.findings import DisorderError, Output, Record
from triack.tools.replay.engines.checkpoint import revive_part
from triack.tools.replay.judges.conclusion import Read
from triack.tools.replay.judges.journal import Journal, Unit
from triack.tools.replay.judges.judge import UnitJudge, join_parts, judge_of
from triack.tools.replay.judges.past import NO_CUTS, Cut, behind
from triack.tools.replay.log.files import Tail


class Growing:
    """A segment that is read on as it grows.

    Attributes:
        out: what was found.
    """

    def __init__(self) -> None:
        self.out = Output()
        self._tail = Tail(Path())
        self._journal = Journal("", self.out)
        self._size_bytes = 0

    def grow(self, path: str, size: int, cuts: Mapping[str, Cut] = NO_CUTS) -> Iterator[tuple[Unit, Record]]:
        """Yield the new records with their units.

        Args:
            path: its file, which may have been renamed.
            size: how much of it is read, in bytes.
            cuts: the last record of each node that is in a summary.

        Raises:
            ReplayError: a line that does not parse, or is not as the schema says.
            DisorderError: what was read of it is not there any more.
        """
        self._tail.path, self._journal.path, self._size_bytes = Path(path), path, size
        if not self._tail.find():
            raise DisorderError
        return self._journal.read(behind(self._tail.read(size), cuts))

    def now(self) -> Output:
        """Return what holds for now beside its records: nothing."""
        return Output()

    def parts(self) -> Iterator[tuple[str, object]]:
        """Yield what Spark's driver needs to know of it as a whole."""
        torn = self._tail.is_torn(self._size_bytes)
        yield "file", Read(self._journal.path, self._journal.records, torn)
        segment = self._journal.segment()
        if segment is not None:
            yield "segment", segment


class Standing:
    """A session or a stream as far as it was judged.

    Args:
        unit: which one.
        forgets: whether what is settled is kept as sums only.

    Attributes:
        out: what single records have shown.
    """

    def __init__(self, unit: Unit, *, forgets: bool) -> None:
        self.out = Output()
        self._forgets = forgets
        self._judge = judge_of(unit, self.out, forgets=forgets)
        # By node, the start and serial of its last record.
        self._heard: dict[str, tuple[int, int]] = {}

    def resume(self, states: Iterable[bytes], cuts: Mapping[str, Cut]) -> None:
        """Go on from a summary. This is to be the first call.

        Args:
            states: of the parts of all nodes, in the order of their ids.
            cuts: the last record of each node that is in the summary.
        """
        for number, state in enumerate(states):
            part = revive_part(state, self.out)
            if number:
                join_parts(self._judge, part)
            else:
                assert isinstance(part, UnitJudge)
                self._judge = part
        self._judge.go_on(forgets=self._forgets)
        self._heard = dict(cuts)

    def see(self, records: Iterable[Record]) -> None:
        """Look at the next records.

        Raises:
            DisorderError: one came behind a later one of its node, or is about what is forgotten.
        """
        for record in records:
            node, place = record["node"], (record["incarnation"], record["n"])
            if place < self._heard.get(node, place):
                raise DisorderError
            self._heard[node] = place
            self._judge.see(record)

    def parts(self) -> Iterator[tuple[str, object]]:
        """Yield what Spark's driver needs to know of it as a whole, beside what was found."""
        yield from ()

    def now(self) -> Output:
        """Return what holds for now; more records may follow."""
        with self.out.aside() as now:
            self._judge.finish()
        return now
