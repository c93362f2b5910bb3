"""The commits of one sequence that have to be looked at again, some dozen bytes each: a giant stream has millions."""

from __future__ import annotations

from typing import NamedTuple

from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import Record
from triack.tools.replay.log.packed import Rows


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


class Commits(Rows[Commit]):
    """Commits in the order of their places."""

    KIND = Commit

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
