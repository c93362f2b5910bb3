"""The bugs of remote subscriptions still change something."""

import pytest

from proof.planted.bug import Bug
from proof.planted.remote import BUGS
from tests.proof.planted.changes import changes_of
from triack.tools.chaos.topics import TOPICS_FROM


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there; it is looked for where there are topics."""
    assert 1 <= len(changes_of(bug, monkeypatch)) <= 2
    assert bug.first == TOPICS_FROM
