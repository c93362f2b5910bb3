"""Patterns of names, as the judge reads them."""

import pytest

from triack.tools.replay.topics.patterns import full_name, matches


@pytest.mark.parametrize(
    ("pattern", "name", "does"),
    [
        ("Games.Cricket", "Games.Cricket", True),
        ("Games.Cricket", "Games.Cricket.Scores", False),
        ("Games.*", "Games.Cricket", True),
        ("Games.*", "Games", False),
        ("Games.*", "Games.Cricket.Scores", False),
        ("Games.*.Scores", "Games.Cricket.Scores", True),
        ("Games.#", "Games", True),
        ("Games.#", "Games.Cricket.Scores", True),
        ("Games.#", "Gamesome.Cricket", False),
        ("*.Cricket.#", "Games.Cricket", True),
        ("#", "Games.Cricket", True),
        ("*", "Games", True),
    ],
)
def test_a_pattern_matches_level_by_level(pattern: str, name: str, does: bool) -> None:
    assert matches(pattern, name) is does


def test_a_name_begins_with_its_topic() -> None:
    assert full_name("Games", "") == "Games"
    assert full_name("Games", "Cricket.Scores") == "Games.Cricket.Scores"
