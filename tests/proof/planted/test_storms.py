"""The bugs that cost work alone still change something."""

import pytest

from proof.planted.bug import Bug
from proof.planted.storms import BUGS
from tests.proof.planted.changes import changes_of
from triack.tools.chaos.topologies import RELAYED_FROM


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there; it is looked for where there are relays."""
    assert 1 <= len(changes_of(bug, monkeypatch)) <= 2
    assert bug.first == RELAYED_FROM
