"""The bugs of large bodies still change something."""

import pytest

from proof.planted.bodies import BUGS
from proof.planted.bug import Bug
from tests.proof.planted.changes import changes_of


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert changes_of(bug, monkeypatch)
