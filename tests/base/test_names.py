"""Names of queues and nodes."""

from unicodedata import normalize

import pytest

from triack.base.errors import AddressError
from triack.base.names import (
    COMPARED_MAX,
    TOLD_MAX,
    StreamId,
    check_levels,
    check_name,
    check_pattern,
    check_permitted,
    check_queue,
    check_topic,
    composed,
    covers,
    find_name,
    nearest,
    what_else,
)


@pytest.mark.parametrize(
    "name", ["orders", "a.b_c-$1", "bestellungen-süd", "注文", "ü" * 62, "आदेश", "คำสั่งซื้อ", "ஆணைகள்", "အော်ဒါ", "שָׁלוֹם"]
)
def test_a_name_is_given_back(name: str) -> None:
    """Letters and digits of any script; 124 bytes are a name."""
    assert check_name(name) == normalize("NFC", name)


@pytest.mark.parametrize("word", ["Aufträge", "đơn-hàng", "주문", "Å"])
def test_a_name_has_one_form_however_it_is_written(word: str) -> None:
    """Each check gives back the composed form, of topics, patterns and permissions, too."""
    apart, whole = normalize("NFD", word), normalize("NFC", word)
    assert apart != whole
    assert composed(apart) == check_name(apart) == check_queue(apart) == check_name(whole) == whole
    assert check_queue(f"topic:{apart}.{apart}") == f"topic:{whole}.{whole}"
    assert check_topic(apart) == check_levels(apart) == whole
    assert check_pattern(f"{apart}.*.{apart}") == f"{whole}.*.{whole}"
    assert check_permitted(f"*.{apart}") == f"*.{whole}"


def test_an_old_name_is_found_as_it_is_known() -> None:
    apart, whole = normalize("NFD", "주문"), "주문"
    assert (find_name(apart, {whole}), find_name(apart, {apart, whole})) == (whole, apart)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must not be empty"),
        (".hidden", "must not start with '.'"),
        ("a/b", "'/' is not a letter"),
        ("a b", "' ' is not a letter"),
        ("a\nb", "is not a letter"),
        ("\u0308a", "has no letter before it"),
        ("a.\u0308a", "has no letter before it"),
        ("orders\u3164", "is shown as nothing"),
        ("orders\ufe0f", "is shown as nothing"),
        ("or\u200dders", "is not a letter"),
        ("a\u20dd", "is not a letter"),
        ("ü" * 62 + "x", "longer than 124 bytes"),
    ],
)
def test_a_bad_name_is_rejected_with_its_reason(name: str, why: str) -> None:
    """With the first thing that is wrong; what would be a path or a line of its own among them."""
    with pytest.raises(AddressError, match=why):
        check_name(name)


def test_what_is_no_text_is_no_name() -> None:
    for wrong in (None, 5, b"orders", ["orders"]):
        with pytest.raises(AddressError, match=r"^a name is text, not "):
            check_name(wrong)


def test_what_was_most_likely_meant() -> None:
    """One that is near, if any is."""
    known = ["invoices", "orders", "dead-letter"]
    assert (nearest("ordres", known), nearest("orders2", known), nearest("stock", known)) == ("orders", "orders", None)


def test_a_name_is_compared_with_a_hundred_at_most() -> None:
    """Thousands of numbered queues are like each other, and to compare one with all takes longer than a node has."""
    many = [f"orders-{number:04}" for number in range(COMPARED_MAX)]
    assert nearest("orders-", many) is not None
    assert nearest("orders-", [*many, "stock"]) is None


def test_what_there_is_instead() -> None:
    """The nearest name, or some of all."""
    names = [f"q{number:03}" for number in range(TOLD_MAX + 5)]
    assert what_else("ordres", ["invoices", "orders"]) == "did you mean orders?"
    assert what_else("stock", ["orders", "invoices"]) == "there is invoices, orders"
    assert what_else("stock", []) == "there is none yet"
    assert what_else("stock", names) == f"there is {', '.join(names[:TOLD_MAX])} and 5 more"


def test_a_stream_is_known_by_its_origin_and_its_number() -> None:
    one, other = StreamId(b"a" * 16, 1), StreamId(b"b" * 16, 1)
    assert len({one, other, StreamId(b"a" * 16, 1)}) == 2
    assert (one.origin, one.number) == (b"a" * 16, 1)


@pytest.mark.parametrize(
    ("permitted", "pattern", "covered"),
    [
        ("#", "Games.#", True), ("Games.#", "Games", True), ("Games.#", "Games.#", True), ("Games.#", "Games.*", True),
        ("Games.*", "Games.*", True), ("Games.*", "Games.Chess", True), ("*.Chess", "Games.Chess", True),
        ("Games.*", "Games.#", False), ("Games.*", "Games", False), ("Games.*", "Games.*.x", False),
        ("Games.Chess", "Games.*", False), ("Games.#", "Plays.#", False), ("*.Chess", "Games.*", False),
        ("Games.Chess.#", "Games.#", False),
    ],
)  # fmt: skip
def test_a_permission_covers_a_pattern_if_it_stands_for_all_its_topics(
    permitted: str, pattern: str, covered: bool
) -> None:
    assert check_permitted(permitted) == permitted
    assert covers(permitted, pattern) is covered


@pytest.mark.parametrize("wrong", ["", "#.x", "Games.#.x", "Games..x", None, 7])
def test_what_is_no_permission(wrong: object) -> None:
    with pytest.raises(AddressError):
        check_permitted(wrong)


@pytest.mark.parametrize("pattern", ["#", "*", "*.Scores", "#.Scores"])
def test_a_pattern_over_all_roots_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(AddressError) as refused:
        check_pattern(pattern)
    assert str(refused.value).startswith(f"pattern {pattern!r}: there is no pattern over all roots")
