"""The planted bugs: each still changes something, has a name and somewhere to be found, and does what it says."""

import pickle
import re
from types import MappingProxyType

import pytest

from proof.planted import relays
from proof.planted.bridged import BRIDGES
from proof.planted.bug import Bug, Bugs, ForGood, Patch
from proof.planted.catalogue import BUGS, ROOMS, bug_named
from proof.planted.lying_relay import LIES
from proof.planted.run import Found
from proof.planted.stories import ALL as STORIES
from proof.planted.stories import Story
from proof.planted.worlds import ALL as WORLDS
from proof.planted.worlds import PLAIN
from proof.search.scope import Scope
from proof.search.search import Search
from tests.proof.planted.changes import changes_of
from triack.base.errors import ChaosError
from triack.tools.chaos.topics import TOPICS_FROM
from triack.tools.chaos.topologies import RELAYED_FROM

MOST = {"bodies": 2, "relays": 2}
"""Rooms with bugs that change two things; those of all others change one."""

FIRST = {"relays": RELAYED_FROM, "storms": RELAYED_FROM, "topics": TOPICS_FROM, "remote": TOPICS_FROM}
"""From which seed on the bugs of a room are looked for: where there are relays, or topics."""

TOLD = [*STORIES, LIES]
"""The stories, and the relay that lies."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    room = next(room.__name__.rpartition(".")[2] for room in ROOMS if bug in room.BUGS)
    assert 1 <= len(changes_of(bug, monkeypatch)) <= MOST.get(room, 1)
    assert bug.first == FIRST.get(room, 0)


def test_there_are_enough() -> None:
    """87 that seeds find, 46 that the search or a story finds, and 14 of them are the same.

    And the search must say something of it that belongs to it.
    """
    assert len({bug.name for bug in BUGS}) == len(BUGS) == 119
    assert sum(bug.seeds for bug in BUGS) == 87
    assert sum(bug.scope is not None for bug in BUGS) == 46
    for bug in BUGS:
        assert bug.seeds or bug.scope is not None
        assert bool(bug.says) == (bug.scope is not None)


def test_every_world_is_there_for_a_bug() -> None:
    assert {bug.scope for bug in BUGS if bug.scope is not None} == {*WORLDS, *STORIES, BRIDGES, *relays.ALL}


def test_each_can_go_to_a_process_of_its_own() -> None:
    for bug in BUGS:
        assert pickle.loads(pickle.dumps(bug)).name == bug.name


def test_a_bug_is_had_by_its_name() -> None:
    assert bug_named("nothing is synced").name == "nothing is synced"
    with pytest.raises(KeyError):
        bug_named("all is well")


class Thing:
    value = 1


def plant(patch: Patch) -> None:
    patch.setattr(Thing, "value", 2)


def test_what_is_planted_for_good_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thing, "value", 1)
    table = {"a": 1}
    plant(ForGood())
    ForGood().setitem(table, "a", 2)
    assert (Thing.value, table) == (2, {"a": 2})


def test_what_is_not_there_cannot_be_changed() -> None:
    """A bug that changed nothing would be a bug that nobody can find."""
    with pytest.raises(ChaosError, match="Thing'>: it has no price"):
        ForGood().setattr(Thing, "price", 2)
    for table in ({"a": 1}, MappingProxyType({"b": 1})):
        with pytest.raises(ChaosError, match=re.escape("a table: it has no 'b'")):
            ForGood().setitem(table, "b", 2)


def test_bugs_are_listed_as_their_functions_are_defined() -> None:
    bugs = Bugs()
    assert bugs.by_seeds("one")(plant) is plant
    bugs.by_search("two", PLAIN, "words")(plant)
    bugs.by_both("three", PLAIN, "words")(plant)
    assert bugs == [
        Bug("one", plant, seeds=True),
        Bug("two", plant, seeds=False, scope=PLAIN, says="words"),
        Bug("three", plant, seeds=True, scope=PLAIN, says="words"),
    ]


# The small worlds and the stories: each is sound as long as nothing is planted.


@pytest.mark.slow
@pytest.mark.parametrize("scope", WORLDS, ids=lambda scope: scope.name)
def test_nothing_is_found_in_a_world_where_nothing_is_planted(scope: Scope) -> None:
    """Whatever the search says of a bug comes from the bug."""
    assert Search(scope).run(200, fair_runs=10).violation is None


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.name)
def test_nothing_is_wrong_in_a_story_where_nothing_is_planted(story: Story) -> None:
    assert story.run() == ""


@pytest.mark.gate
@pytest.mark.parametrize("bug", [bug for bug in BUGS if isinstance(bug.scope, Story)], ids=lambda bug: bug.name)
@pytest.mark.plain
def test_each_bug_is_found_by_its_story(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(bug.scope, Story)
    bug.plant(monkeypatch)
    found = Found(bug, said=bug.scope.run())
    assert found.by_search
    assert found.told.endswith(f"story of {bug.scope.name}: {found.said}")
