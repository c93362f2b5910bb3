"""The stories of planted bugs: nothing is wrong with any as long as nothing is planted."""

import pytest

from proof.planted.bug import Bug
from proof.planted.catalogue import BUGS
from proof.planted.run import Found
from proof.planted.stories import ALL, Story


@pytest.mark.parametrize("story", ALL, ids=lambda story: story.name)
def test_nothing_is_wrong_where_nothing_is_planted(story: Story) -> None:
    """Whatever a story says of a bug comes from the bug."""
    assert story.run() == ""


@pytest.mark.parametrize("bug", [bug for bug in BUGS if isinstance(bug.scope, Story)], ids=lambda bug: bug.name)
@pytest.mark.plain
def test_each_bug_is_found_by_its_story(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words that it was to be found with."""
    assert isinstance(bug.scope, Story)
    bug.plant(monkeypatch)
    found = Found(bug, said=bug.scope.run())
    assert found.by_search
    assert found.told.endswith(f"story of {bug.scope.name}: {found.said}")
