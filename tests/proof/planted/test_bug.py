"""What a bug is made of, and how it is planted for good."""

import re
from types import MappingProxyType

import pytest

from proof.planted.bug import Bug, Bugs, ForGood, Patch
from proof.planted.worlds import PLAIN
from triack.base.errors import ChaosError


class Thing:
    value = 1


def plant(patch: Patch) -> None:
    patch.setattr(Thing, "value", 2)


def test_what_is_planted_for_good_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """In classes and in tables."""
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
    """With where each must be found; the function stays what it is."""
    bugs = Bugs()
    assert bugs.by_seeds("one")(plant) is plant
    bugs.by_search("two", PLAIN, "words")(plant)
    bugs.by_both("three", PLAIN, "words")(plant)
    assert bugs == [
        Bug("one", plant, seeds=True),
        Bug("two", plant, seeds=False, scope=PLAIN, says="words"),
        Bug("three", plant, seeds=True, scope=PLAIN, says="words"),
    ]
