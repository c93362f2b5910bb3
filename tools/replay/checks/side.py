"""What judges have in common: those of the sides of a stream, and those of something that one node alone has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from triack.tools.replay.checks.findings import Due, LaneReporter, Output, Record, settled
from triack.tools.replay.log.ranges import RangeSet, Span
from triack.tools.replay.log.schema import TRANSACTIONAL


def by_event(methods: Mapping[str, Any], prefix: str = "_on_") -> dict[str, Any]:
    """Return the methods of a class, by the events whose records they look at: ``_on_EVENT``, and ``_told_FACT``."""
    found = {name.removeprefix(prefix): method for name, method in methods.items() if name.startswith(prefix)}
    return found | {f"~{name.removeprefix('_told_')}": methods[name] for name in methods if name.startswith("_told_")}


class OfNode:
    """A judge of something that one node alone has: a queue, a bridge or a topic."""

    def __init__(self, node: str, out: Output) -> None:
        self._node = node
        self._out = out
        self._start = 0

    def see(self, record: Record) -> None:
        """Look at the next record of the node."""
        if record["event"] != "life":
            self._look(record)
        elif record["incarnation"] != self._start:
            self._enter(record["incarnation"])

    def _enter(self, start: int) -> None:
        """A start of the node begins."""
        self._start = start

    def _look(self, record: Record) -> None:
        """Look at a record that says something."""

    def finish(self) -> None:
        """Judge what holds at the end of the log; more of it may follow."""

    def join(self, other: OfNode) -> None:
        """Merge another judge of the same unit: only one of the two has seen anything."""
        if other._start:
            self.__dict__.update(other.__dict__ | {"_out": self._out})

    def split(self, _heard: Mapping[str, tuple[int, int]]) -> dict[str, Self]:
        """Return the judge by its node."""
        return {self._node: self}

    def go_on(self, *, forgets: bool) -> None:
        """Go on from a summary; what is forgotten or not is the same here."""


class Sequence(Protocol):
    """A side's state of one sequence."""

    cls: str


Known = TypeVar("Known", bound=Sequence)


class Side(LaneReporter, ABC, Generic[Known]):
    """One node's side of one stream."""

    def __init__(self, node: str, origin: str, stream: int, out: Output) -> None:
        super().__init__(origin, stream, out)
        self.node = node
        self.sequences: dict[int, Known] = {}
        self._life: Record = {}
        # The last start before this one whose log mentions the stream; and what this one has found on its disk, by
        # sequence, while it says so.
        self._before = 0
        self._found: dict[int, RangeSet] | None = None

    @abstractmethod
    def _begin(self) -> Known:
        """Return the state of a sequence before its first record."""

    def _sequence(self, record: Record) -> Known:
        known = self.sequences.get(record["sequence"])
        if known is None:
            known = self.sequences[record["sequence"]] = self._begin()
            known.cls = record.get("class", TRANSACTIONAL)
        return known

    # ---- starts of the node

    def handle_life(self, record: Record) -> None:
        """The node's settings, at the begin of each start and of each segment."""
        self._life = record

    def handle_started(self, record: Record) -> None:
        """A new start of the node: what was on its disk must be there again."""
        self.handle_other(record)
        self._before = int((self._life or record)["incarnation"])
        self._found = {}

    def handle_other(self, record: Record) -> None:
        """Any record that no start begins with: the node has said what it found."""
        found, self._found = self._found, None
        if found is not None:
            # In a start that is missing it may have ended.
            self._judge_missing(record, found, settled(self.node, self._before, record["incarnation"]), final=True)

    def _find(self, record: Record, spans: Iterable[Span]) -> None:
        """A start has found packets on its disk."""
        sequence = record["sequence"]
        if self._found is None:
            self._at(record, "node_life", f"{record['event']}, found, but not at a start")
            return
        found = self._found.setdefault(sequence, RangeSet())
        for span in spans:
            self._each(record, "claims", "recovered twice in one start", found.overlap(*span))
            found.add(*span)

    @abstractmethod
    def _judge_missing(self, record: Record, found: dict[int, RangeSet], *dues: Due, final: bool = False) -> None:
        """Report what was on the disk before a start and is not in ``found``, by sequence; if ``final``, forget it.

        The record shows that the start has said all that it found. The first due is that its log is whole.
        """

    def finish_start(self, later: Due) -> None:
        """A later start, if there is one, did not find any of this."""
        self._found = None
        due = settled(self.node, self._life["incarnation"], later.end_ns)
        self._judge_missing(self._life, {}, due, later, final=True)

    def _finish_starts(self, later: Due) -> None:
        """The log is over; ``later`` holds if the node has started again after the last record seen here."""
        if not self._life:
            return
        start = self._life["incarnation"]
        if self._found is not None:
            self._judge_missing(self._life, self._found, settled(self.node, self._before, start), later)
        later = later._replace(incarnation=later.incarnation + 1)
        self._judge_missing(self._life, {}, settled(self.node, start), later)
