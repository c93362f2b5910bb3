"""Planted bugs: each still fits the code, and the harness finds them."""

import re
from pathlib import Path

import pytest

import triack
from proof.planted import BUGS, Bug, run_planted
from triack.base.errors import ChaosError

SAMPLE = (
    "the order ack speaks of what is not yet committed",
    "the window is off by one",
    "an ack deletes one row too many",
)


def test_there_are_enough_and_each_fits_the_code() -> None:
    """A bug whose text has changed would plant nothing. ``triack chaos --planted`` hunts all of them."""
    assert len(BUGS) >= 25
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        text = (Path(triack.__file__).parent / bug.file).read_text()
        assert text.count(bug.old) == 1, bug.name
        compile(text.replace(bug.old, bug.new), bug.file, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_the_harness_finds_a_bug(name: str) -> None:
    """With a seed and a rule."""
    (found,) = run_planted(bugs=tuple(bug for bug in BUGS if bug.name == name), seeds_max=100)
    assert found.seed >= 0
    assert found.rule


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """A change that changes nothing."""
    text = '"""What goes to the store in one transaction'
    (found,) = run_planted(bugs=(Bug("none", "base/commit.py", text, text + ","),), seeds_max=3)
    assert found.seed == -1


def test_a_bug_that_does_not_fit_is_an_error() -> None:
    """With its name and how often its text occurs."""
    with pytest.raises(ChaosError, match=re.escape("'gone' in base/commit.py: its text occurs 0 times")):
        run_planted(bugs=(Bug("gone", "base/commit.py", "no such text", ""),))


def test_a_bug_with_which_nothing_runs_is_an_error() -> None:
    """With the end of what the campaign said: it is no bug that a seed could find."""
    text = '"""What goes to the store in one transaction'
    said = re.escape("'broken': the campaign ended with") + r"(?s:.*)SyntaxError"
    with pytest.raises(ChaosError, match=said):
        run_planted(bugs=(Bug("broken", "base/commit.py", text, "(" + text),))
