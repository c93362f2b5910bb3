"""The catalogue: enough bugs, each with a name of its own and somewhere to be found."""

import pickle

import pytest

from proof.planted.catalogue import BUGS, bug_named
from proof.planted.relays import ALL as RELAYS
from proof.planted.stories import ALL as STORIES
from proof.planted.worlds import ALL


def test_there_are_enough() -> None:
    """84 that seeds find, 41 that the search or a story finds, and 14 of them are the same."""
    assert len({bug.name for bug in BUGS}) == len(BUGS) == 111
    assert sum(bug.seeds for bug in BUGS) == 84
    assert sum(bug.scope is not None for bug in BUGS) == 41


def test_each_must_be_found_somewhere() -> None:
    """And the search must say something of it that belongs to it."""
    for bug in BUGS:
        assert bug.seeds or bug.scope is not None
        assert bool(bug.says) == (bug.scope is not None)


def test_every_world_is_there_for_a_bug() -> None:
    """None is searched for nothing."""
    assert {bug.scope for bug in BUGS if bug.scope is not None} == {*ALL, *STORIES, *RELAYS}


def test_each_can_go_to_a_process_of_its_own() -> None:
    """Or ``make teeth`` would end at it."""
    for bug in BUGS:
        assert pickle.loads(pickle.dumps(bug)).name == bug.name


def test_a_bug_is_had_by_its_name() -> None:
    """And by no other."""
    assert bug_named("nothing is synced").name == "nothing is synced"
    with pytest.raises(KeyError):
        bug_named("all is well")
