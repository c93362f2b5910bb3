"""The commits of one sequence that have to be looked at again, some dozen bytes each: a giant stream has millions."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import Record
from triack.tools.replay.log.packed import rows_of, steps_of


class Commit(NamedTuple):
    """A commit."""

    at: int
    incarnation: int
    n: int
    wall_ns: int
    first: int
    last: int
    messages: int

    def record(self, node: str) -> Record:
        """The fields of its record that a finding needs."""
        return {"node": node, "incarnation": self.incarnation, "n": self.n, "wall_ns": self.wall_ns}


class Commits:
    """Commits in the order of their places."""

    def __init__(self) -> None:
        # One after the other, field by field.
        self._fields = array("q")

    def __getstate__(self) -> list[array[int]]:
        """The state for a file: places and serials that grow pack well as steps."""
        return steps_of(self._fields, len(Commit._fields))

    def __setstate__(self, steps: list[array[int]]) -> None:
        """Commits are again what they were."""
        self._fields = rows_of(steps)

    def note(self, at: int, record: Record) -> None:
        """Add the next one."""
        get = record.__getitem__
        try:
            self.add(Commit(at, get("incarnation"), get("n"), get("wall_ns"), get("first"), get("last"), get("count")))
        except OverflowError:
            told = f"record {get('n')} of start {get('incarnation')} of node {get('node')}"
            raise ReplayError(f"{told} is damaged: a number that no node counts to") from None

    def add(self, commit: Commit) -> None:
        """Add the next one."""
        self._fields.extend(commit)

    def __iter__(self) -> Iterator[Commit]:
        fields, width = self._fields, len(Commit._fields)
        for at in range(0, len(fields), width):
            yield Commit(*fields[at : at + width])

    def __len__(self) -> int:
        return len(self._fields) // len(Commit._fields)
