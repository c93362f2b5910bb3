"""The hunt: what is planted is found, what is harmless is not, and what does not fit is an error."""

from dataclasses import replace

import pytest

from proof.planted.bug import Bug, Patch, Plant
from proof.planted.catalogue import bug_named
from proof.planted.run import Found, hunt_all
from proof.planted.worlds import PLAIN
from triack.base.errors import ChaosError
from triack.ordering.incoming import IncomingSequence
from triack.queues.manager.engine import Engine

WINDOW = bug_named("the window is off by one")


def harmless(patch: Patch) -> None:
    patch.setattr(Engine, "poll", Engine.poll)


def gone(patch: Patch) -> None:
    patch.setattr(Engine, "poll_later", Engine.poll)


def broken(patch: Patch) -> None:
    patch.setattr(IncomingSequence, "_judge", lambda: None)


@pytest.mark.slow
def test_a_bug_is_found_by_seeds_and_by_the_search() -> None:
    """With a seed, a rule and the sentences of both, and told of as it is found."""
    said: list[Found] = []
    (found,) = results = hunt_all([WINDOW], seeds_max=3, jobs=1, say=said.append)
    assert said == results
    assert (found.seed, found.rule, found.whole) == (0, "window", True)
    assert found.finders == ["seed 0: window", "search: four express messages"]
    assert found.told == f"seed 0 window: {found.sentence}; search of four express messages: {found.said}"


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is_wrong() -> None:
    bug = Bug("none", harmless, seeds=True)
    for found in hunt_all([bug, bug], seeds_max=2, jobs=2):
        assert (found.seed, found.whole, found.finders, found.told) == (-1, False, [], "found by no seed")


@pytest.mark.slow
@pytest.mark.parametrize(("known", "seed"), [(1, 1), (2, 0)])
def test_the_seed_that_is_known_comes_first(known: int, seed: int) -> None:
    (found,) = hunt_all([replace(WINDOW, scope=None)], seeds_max=3, known={WINDOW.name: known}, jobs=1)
    assert found.seed == seed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "why"), [(gone, "ChaosError: .* no poll_later"), (broken, "ChaosError: TypeError: .*positional")]
)
def test_a_bug_that_does_not_fit_is_an_error(plant: Plant, why: str) -> None:
    """With its name and the reason: it is no bug that a seed could find."""
    with pytest.raises(ChaosError, match=f"plant 'bad': {why}"):
        hunt_all([Bug("bad", plant)], seeds_max=3)


def test_a_bug_is_not_found_by_half_or_by_another_sentence() -> None:
    """If two must find a bug, both must; and a failure for another reason is another bug."""
    both = Bug("both", harmless, seeds=True, scope=PLAIN, says="order ack")
    said = "order ack to 1 left"
    assert Found(both, 3, "order", "it broke", said).whole
    for half in (Found(both, 3, "order", "it broke"), Found(both, said=said), Found(both)):
        assert not half.whole
    other = Found(both, 3, "order", "it broke", "TypeError: no")
    assert not other.whole
    assert other.told == "seed 3 order: it broke; search of two messages: TypeError: no (not 'order ack')"
    search = Bug("search", harmless, seeds=False, scope=PLAIN, says="order ack")
    assert [Found(search, said=words).finders for words in (said, "", "else")] == [["search: two messages"], [], []]
