"""The starts of nodes: which of them are missing, and what of them is known by what their peers heard."""

import pytest

from triack.tools.replay.checks.findings import EVER, Opening
from triack.tools.replay.judges.starts import Starts

KNOWN = [("a", 1), ("b", 2), ("b", 3), ("b", 6)]


def ends(*starts: int | None, heard: bool = True) -> list[Opening]:
    """Sessions of a with b, one behind the other: with which start of b, or None if b tells of none."""
    mine = [Opening("a", 1, "b", f"s{at}", at, 0, "", 0, heard) for at, _ in enumerate(starts)]
    return mine + [Opening("b", start, "a", f"s{at}", 0, 0, "", 0) for at, start in enumerate(starts) if start]


@pytest.mark.parametrize(
    ("first", "last", "given"), [(1, 1, False), (2, 3, True), (2, 4, False), (5, 5, False), (6, EVER, True)]
)
def test_a_start_is_given_or_not(first: int, last: int, given: bool) -> None:
    assert Starts(KNOWN, []).are_given("b", first, last) == given
    assert not Starts(KNOWN, []).are_given("c", first, last)


def test_those_that_are_missing_are_named() -> None:
    assert Starts(KNOWN, []).missing() == ["start 1 of node b", "starts 4 to 5 of node b"]


def test_a_session_behind_the_last_one_is_of_a_start_that_is_missing() -> None:
    """If something came in it: a node that was killed before its peer's answer came wrote nothing of it."""
    starts = Starts(KNOWN, ends(2, 6, None))
    assert starts.missing()[-1] == "a start after start 6 of node b"
    assert not starts.are_given("b", 6, EVER)
    assert starts.are_given("b", 6, 6)
    assert not starts.would_tell("b", "s2")
    unheard = Starts(KNOWN, ends(2, 6, None, heard=False))
    assert unheard.are_given("b", 6, EVER)
    assert not unheard.would_tell("b", "s2")


def test_one_that_another_missing_start_explains_names_no_other() -> None:
    starts = Starts(KNOWN, ends(2, None))
    assert starts.missing() == ["start 1 of node b", "starts 4 to 5 of node b"]
    assert not starts.are_given("b", 6, EVER)


@pytest.mark.parametrize(
    ("before", "after", "tells"), [(2, 2, True), (2, 3, True), (3, 6, False), (None, 2, False), (6, 6, True)]
)
def test_a_session_between_two_others_is_of_a_start_between_theirs(before: int | None, after: int, tells: bool) -> None:
    """If there is a log of each of these, it should be in one of them."""
    starts = Starts(KNOWN, ends(before, None, after))
    assert starts.would_tell("b", "s1") == tells
    assert starts.would_tell("b", "s2")
    assert not starts.would_tell("c", "s1")


def test_a_start_whose_log_has_no_begin_is_not_given() -> None:
    starts = Starts([("a", 1), ("a", 2)], [], {("a", 2): 17})
    assert not starts.are_given("a", 1, 2)
    assert starts.are_given("a", 1, 1)
    assert starts.missing() == ["the begin, before record 17, of start 2 of node a"]
