"""The end of a replay on Spark: one task takes what all others have found, and concludes as the local engine does.

That task holds the starts and sessions of all nodes, the numbers and the violations. The driver gets a verdict with the
first violations of each check and, for the page, the first things of each kind; all other violations stay in Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.engines.arrow_rows import each
from triack.tools.replay.engines.checkpoint import freeze, revive
from triack.tools.replay.judges.conclusion import Read, conclude, files_of
from triack.tools.replay.judges.journal import Segment
from triack.tools.replay.log.schema import FAILURE_REASONS, Flows, Timeline, Verdict, Violation
from triack.tools.replay.log.series import Series

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIOLATIONS: Final = ", ".join(
    f"`{field.name}` {'bigint' if field.type == 'int' else 'string'}" for field in fields(Violation)
)
"""A violation: the fields of ``schema.Violation``."""
_CONCLUDED: Final = f"{VIOLATIONS}, verdict binary"
"""The same, and in the first row the verdict in its place."""
FIRST_OF_EACH: Final = 1_000
"""Violations of a check that the driver takes: more than a page shows, and no more memory however many there are."""
KEPT_MAX: Final = 2_000
"""Sessions, starts, streams and so on that the driver takes for the page: forty times what a page shows of a table, and
some tens of megabytes however large the fleet is."""
TOLD_MAX: Final = 8_192
"""Findings, ends of sessions and numbers that a task passes on together."""
_THINGS: Final = (
    "names", "links", "queues", "streams", "ways", "dwell", "readers", "hands", "bridges", "priorities", "policies",
    "trips", "holds", "pauses",
)  # fmt: skip
"""What a timeline has by things of which there may be very many."""


@dataclass(slots=True)
class Told:
    """What a task has found: files, segments, and all that the judges tell."""

    read: list[Read] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    out: Output = field(default_factory=Output)

    def take(self, out: Output) -> None:
        """Take over what was found, but for facts."""
        self.out.merge(out)
        for name, series in out.series.items():
            self.out.series.setdefault(name, Series(series.mode)).merge(series)

    def join(self, other: Told) -> None:
        """Take over what another task has found."""
        self.read += other.read
        self.segments += other.segments
        self.take(other.out)

    def clear(self) -> None:
        """Start empty: everything was passed on."""
        self.read, self.segments, self.out = [], [], Output()

    @property
    def size(self) -> int:
        """How many findings, ends of sessions and numbers there are."""
        return len(self.out.findings) + len(self.out.openings) + len(self.out.numbers)


def conclude_all(told: DataFrame) -> DataFrame:
    """Conclude over what was told, frozen in ``data``; return a row with the verdict and one for each violation."""
    work = partial(_conclude, first=FIRST_OF_EACH, most=KEPT_MAX)
    return told.select("data").repartition(1).mapInArrow(each(work, _CONCLUDED), _CONCLUDED)


def verdict_in(concluded: DataFrame) -> tuple[Verdict, list[Read]]:
    """Return the verdict, and what was read."""
    row = concluded.where("verdict is not null").select("verdict").first()
    assert row is not None, "it is made also of nothing"
    verdict, read = revive(bytes(row["verdict"]), tuple)
    return verdict, read


def violations_in(concluded: DataFrame) -> DataFrame:
    """Return the promises that are broken, in order, as ``VIOLATIONS``."""
    return concluded.where("verdict is null").drop("verdict")


def _conclude(rows: Iterable[dict[str, Any]], *, first: int, most: int) -> Iterator[Sequence[Any]]:
    whole = Told()
    for row in rows:
        whole.join(revive(row["data"], Told))
    verdict = conclude("spark", whole.segments, whole.out)
    found, counts = verdict.findings, Counter[str]()
    verdict.findings = []
    for it in found:
        counts[it.check] += 1
        verdict.findings += [it] if counts[it.check] <= first else []
    if verdict.timeline is not None:
        _shorten(verdict.timeline, most)
    yield *astuple(Violation("")), freeze((verdict, files_of(whole.segments, whole.read)))
    for it in found:
        yield *astuple(it), None


def _shorten(timeline: Timeline, most: int) -> None:
    """Keep the first things of each kind, and say how many more there are."""
    whose: list[tuple[Timeline | Flows, str, str]] = [(timeline, name, name) for name in _THINGS]
    whose += [(timeline.flows, it.name, "streams") for it in fields(timeline.flows)]
    left = {"ends of sessions": len(timeline.sessions) - most, "starts of nodes": len(timeline.starts) - most}
    for where, name, kind in whose:
        there = getattr(where, name)
        left[kind] = max(len(there) - most, left.get(kind, 0))
        setattr(where, name, {key: there[key] for key in sorted(there)[:most]})
    timeline.left_out = {name: n for name, n in sorted(left.items()) if n > 0}
    failed_first = sorted(timeline.sessions, key=lambda it: (it.reason not in FAILURE_REASONS, it.session, it.node))
    kept = {(it.session, it.node) for it in failed_first[:most]}
    timeline.sessions = [it for it in timeline.sessions if (it.session, it.node) in kept]
    timeline.starts = timeline.starts[:most]
    unacked = [name for name in timeline.series if name.startswith("unacked ")]
    for name in sorted(unacked, key=lambda it: (-len(timeline.series[it]), it))[most // 4 :]:
        del timeline.series[name]
