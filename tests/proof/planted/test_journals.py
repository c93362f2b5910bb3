"""The bugs of journals still change something."""

import pytest

from proof.planted.bug import Bug
from proof.planted.journals import BUGS
from tests.proof.planted.changes import changes_of


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(changes_of(bug, monkeypatch)) == 1
