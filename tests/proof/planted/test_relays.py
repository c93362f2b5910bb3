"""The bugs of relays still change something, and a bug that the search finds is found."""

import pytest

from proof.planted.bug import Bug
from proof.planted.relays import ALL, BUGS
from tests.proof.planted.changes import changes_of
from triack.tools.chaos.topologies import RELAYED_FROM


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there; it is looked for where there are relays."""
    assert 1 <= len(changes_of(bug, monkeypatch)) <= 2
    assert bug.first == RELAYED_FROM


@pytest.mark.slow
def test_the_search_finds_its_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ALL[0].run() == ""
    bug = next(bug for bug in BUGS if bug.scope is ALL[0])
    bug.plant(monkeypatch)
    assert bug.says in ALL[0].run()
