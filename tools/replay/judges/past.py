"""What the judges know at a cut: all that is needed to judge the rest of the logs as if it were the whole.

For each node the cut is the serial of a record; what comes before it may be removed. Findings, numbers and sessions
that are over are results. A session or a stream that may go on is kept as parts, one for each node, as what a judge
makes of a record depends only on what the same node said before. A judge that is written later adds a kind of unit, its
``split`` and its ``join``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from triack.tools.replay.checks.findings import Output, Record
from triack.tools.replay.judges.journal import Segment, Unit

Cut = tuple[int, int]
"""A start of a node, and the serial of a record of it."""


class Kept(NamedTuple):
    """The state of one node's part of a session or a stream."""

    unit: Unit
    node: str
    state: bytes


@dataclass(slots=True)
class Past:
    """What is known at a cut: what was removed of each start, as one segment; what was found; what goes on."""

    segments: list[Segment] = field(default_factory=list)
    found: Output = field(default_factory=Output)
    kept: list[Kept] = field(default_factory=list)

    @property
    def cuts(self) -> dict[str, Cut]:
        """The last record of each node that is in it."""
        cuts: dict[str, Cut] = {}
        for segment in self.segments:
            place = segment.incarnation, segment.last_n
            cuts[segment.node] = max(cuts.get(segment.node, place), place)
        return cuts

    def join(self, other: Past) -> None:
        """Take over what is known of other nodes."""
        self.segments += other.segments
        self.found.merge(other.found)
        self.kept += other.kept

    def by_node(self) -> dict[str, Past]:
        """Return what is known of each node; the first one has what was found."""
        parts = {node: Past() for node in self.cuts}
        for segment in self.segments:
            parts[segment.node].segments.append(segment)
        for it in self.kept:
            parts[it.node].kept.append(it)
        for part in list(parts.values())[:1]:
            part.found = self.found
        return parts


def behind(records: Iterable[Record], cuts: Mapping[str, Cut]) -> Iterator[Record]:
    """Yield the records behind the cuts: a prune that was ended early leaves files with others."""
    if not cuts:
        yield from records
        return
    for record in records:
        if (record["incarnation"], record["n"]) > cuts.get(record["node"], (0, 0)):
            yield record
