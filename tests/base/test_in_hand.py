"""The words in which a process notes messages in hand."""

from triack.base.in_hand import LEFT_AT, LIVE_AT, LIVE_WORDS, begin_words, read_marks


def test_what_is_left_is_read_by_the_start_that_follows() -> None:
    """Large packets, too; nothing is read of another start than the one before."""
    left = {7: (0b10, 0b1), 9: (1 << 200, 0), 11: (0, 1 << 64)}
    words = begin_words(4, 5, left)
    assert read_marks(words, 5) == left
    assert read_marks(words, 6) == {}
    assert read_marks(words, 4) == left


def test_a_start_that_the_store_does_not_know_has_handed_nothing_out() -> None:
    """It died between its notes and its first commit; what it says of itself is not to be believed."""
    words = begin_words(4, 5, {7: (1, 0)})
    at = words[LIVE_AT]
    words[at : at + 4] = type(words)("Q", [8, 1, 1, 0])
    assert read_marks(words, 4) == {7: (1, 0)}
    assert read_marks(words, 5) == {7: (1, 0), 8: (1, 0)}


def test_a_cell_of_this_start_adds_to_what_is_left() -> None:
    """Done is done; what was in hand before the node died again still is."""
    words = begin_words(4, 5, {7: (0b110, 0)})
    at = words[LIVE_AT]
    words[at : at + 4] = type(words)("Q", [7, 1, 0b1000, 0b010])
    assert read_marks(words, 5) == {7: (0b1100, 0b010)}


def test_cells_that_are_free_say_nothing() -> None:
    words = begin_words(4, 5, {})
    at = words[LIVE_AT]
    words[at : at + 8] = type(words)("Q", [0, 1, 1, 1, 8, 1, 1, 0])
    assert read_marks(words, 5) == {8: (1, 0)}


def test_words_that_end_too_early_say_nothing() -> None:
    words = begin_words(4, 5, {7: (1, 0)})
    assert read_marks(words[:2], 5) == {}
    assert len(words) - words[LIVE_AT] == LIVE_WORDS
    assert words[LEFT_AT] == 4
