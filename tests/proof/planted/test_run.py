"""The hunt: what is planted is found, what is harmless is not, and what does not fit is an error."""

import json
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from proof import __main__ as commands
from proof.planted.bug import Bug, Patch, Plant
from proof.planted.catalogue import BUGS, bug_named
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
    assert (found.seed, found.rule, found.whole, found.by) == (0, "window", True, "window")
    assert found.told == f"seed 0 window: {found.sentence}; search of four express messages: {found.said}"


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """A change that changes nothing, and two at a time."""
    bug = Bug("none", harmless, seeds=True)
    for found in hunt_all([bug, bug], seeds_max=2, jobs=2):
        assert (found.seed, found.whole, found.by, found.told) == (-1, False, "", "found by no seed")


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
    assert [Found(search, said=words).by for words in (said, "", "else")] == ["two messages", "", ""]


def test_the_command_tells_of_each_and_fails_when_one_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are the last line."""
    asked: list[object] = []

    def pretend(bugs: Sequence[Bug], *, seeds_max: int, jobs: int, say: object) -> list[Found]:
        asked.append((len(bugs), seeds_max, jobs))
        return results

    monkeypatch.setattr(commands, "hunt_all", pretend)
    found = Found(Bug("one", harmless), 3, "order", "it broke")
    for results, status in (([found], 0), ([found, Found(Bug("two", harmless))], 1)):
        done = CliRunner().invoke(commands.main, ["planted", "--seeds", "7", "--jobs", "2", "--json"])
        assert done.exit_code == status
        by = {"one": "order", "two": ""} if status else {"one": "order"}
        assert json.loads(done.stdout.splitlines()[-1]) == {"planted": len(results), "found": 1, "by": by}
    one = ["planted", "--seeds", "7", "--jobs", "2", "the window is off by one"]
    assert CliRunner().invoke(commands.main, one).exit_code == 1
    assert CliRunner().invoke(commands.main, ["planted", "no such bug"]).exit_code == 2
    assert asked == [(len(BUGS), 7, 2), (len(BUGS), 7, 2), (1, 7, 2)]
