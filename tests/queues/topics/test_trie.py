"""Patterns of topics, against a model that compares each pattern with each name."""

import re

from hypothesis import given
from hypothesis import strategies as st

from triack.queues.topics.trie import Trie, stands_for

LEVELS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)
PATTERNS = st.builds(
    lambda root, levels, last: ".".join([root, *levels, *last]),
    st.sampled_from(["a", "b"]),
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=3),
    st.sampled_from([[], ["#"], ["*"]]),
)
NAMES = st.builds(lambda root, levels: ".".join([root, *levels]), st.sampled_from(["a", "b"]), LEVELS)


def is_match(pattern: str, name: str) -> bool:
    """The rules as a regular expression."""
    base, below = (pattern.removesuffix(".#"), r"(\..+)?") if pattern.endswith(".#") else (pattern, "")
    return re.fullmatch(re.escape(base).replace(r"\*", r"[^.]+") + below, name) is not None


def found(trie: Trie[str], name: str) -> list[str]:
    """All values that a name finds."""
    return [value for values in trie.match(name) for value in values]


@given(st.lists(PATTERNS, max_size=12, unique=True), st.lists(NAMES, min_size=1, max_size=8), st.data())
def test_a_trie_finds_what_comparing_each_pattern_finds(
    patterns: list[str], names: list[str], data: st.DataObject
) -> None:
    trie = Trie[str]()
    for pattern in patterns:
        trie.add(pattern, pattern)
    gone = data.draw(st.sets(st.sampled_from(patterns))) if patterns else set()
    for pattern in gone:
        trie.remove(pattern, pattern)
    left = [pattern for pattern in patterns if pattern not in gone]
    for name in names:
        assert sorted(found(trie, name)) == sorted(pattern for pattern in left if is_match(pattern, name))


@given(PATTERNS, NAMES)
def test_one_pattern_stands_for_what_its_regular_expression_does(pattern: str, name: str) -> None:
    assert stands_for(pattern, name) == is_match(pattern, name)


def test_the_wildcards_stand_for_one_level_or_for_all_below() -> None:
    trie = Trie[str]()
    for pattern in ("Games", "Games.*", "Games.#", "Games.*.Scores"):
        trie.add(pattern, pattern)
    assert sorted(found(trie, "Games")) == ["Games", "Games.#"]
    assert sorted(found(trie, "Games.Cricket")) == ["Games.#", "Games.*"]
    assert sorted(found(trie, "Games.Cricket.Scores")) == ["Games.#", "Games.*.Scores"]
    assert found(trie, "Plays") == []


def test_what_was_found_follows_what_becomes_of_the_patterns() -> None:
    """Except for a pattern that had no value: ``add`` says so."""
    trie = Trie[int]()
    assert trie.add("Games.*", 1)
    (values,) = trie.match("Games.Cricket")
    assert not trie.add("Games.*", 2)
    assert list(values) == [1, 2]
    trie.remove("Games.*", 1)
    assert list(values) == [2]
    assert trie.add("Games.#", 1)


def test_nothing_is_left_of_removed_patterns() -> None:
    trie = Trie[int]()
    trie.add("a.b.*.c", 1)
    trie.remove("a.b.*.c", 1)
    assert trie._top.is_empty  # noqa: SLF001 - nothing else shows it
