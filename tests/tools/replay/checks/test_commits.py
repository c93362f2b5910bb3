"""Commits of a stream: small, and the same again."""

import pytest

from triack.base.errors import ReplayError
from triack.tools.replay.checks.commits import Commit, Commits
from triack.tools.replay.engines.checkpoint import freeze, revive

MANY = 10_000


def test_each_is_there_again_with_what_a_finding_needs() -> None:
    commits = Commits()
    commits.note(0, {"node": "aa", "incarnation": 2, "n": 7, "wall_ns": 1 << 60, "first": 1, "last": 3, "count": 9})
    commits.add(Commit(4, 2, 9, 5, 4, 4, 1))
    for kept in (commits, revive(freeze(commits), Commits)):
        one, other = kept
        assert (one.at, one.first, one.last, one.messages) == (0, 1, 3, 9)
        assert one.record("aa") == {"node": "aa", "incarnation": 2, "n": 7, "wall_ns": 1 << 60}
        assert other == Commit(4, 2, 9, 5, 4, 4, 1)
        assert len(kept) == 2


def test_a_number_that_no_node_counts_to_is_damage() -> None:
    record = {"node": "aa", "incarnation": 2, "n": 7, "wall_ns": 5, "first": 1, "last": 1 << 63, "count": 9}
    with pytest.raises(ReplayError, match="record 7 of start 2 of node aa is damaged"):
        Commits().note(0, record)


def test_each_takes_some_dozen_bytes() -> None:
    commits = Commits()
    for at in range(MANY):
        commits.add(Commit(at, 1, at, 1_700_000_000_000_000_000 + at, at, at, 1))
    assert len(freeze(commits)) < 64 * MANY
