"""The common part of the two sides of a stream: a node, its settings, and its state of each sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from triack.tools.replay.checks.findings import LaneReporter, Output, Record
from triack.tools.replay.log.schema import TRANSACTIONAL


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

    @abstractmethod
    def _begin(self) -> Known:
        """Return the state of a sequence before its first record."""

    def _sequence(self, record: Record) -> Known:
        known = self.sequences.get(record["sequence"])
        if known is None:
            known = self.sequences[record["sequence"]] = self._begin()
            known.cls = record.get("class", TRANSACTIONAL)
        return known

    def handle_other(self, record: Record) -> None:
        """Any record that no start begins with: the node has said what it found."""
        self._end_recovery(record)

    @abstractmethod
    def _end_recovery(self, record: Record) -> None:
        """Judge what a start has found; the record shows that it has said all of it."""
