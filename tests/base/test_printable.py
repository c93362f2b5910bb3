"""A line of ours stays one line and does nothing to a terminal, whatever text of others is in it."""

import json
import sys

import pytest

from triack.base.printable import SHOWN_LETTERS_MAX, counted, escaped, escaped_json, printable, written


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-süd 注文", "orders-süd 注文"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred\x9b0m", "\\x1b[31mred\\x9b0m"),
        ("abc\u202edef\u2066", "abc\\u202edef\\u2066"),
        ("\u2028\x00\x7f\ud800", "\\u2028\\x00\\x7f\\ud800"),
        ("key triack-private-abc234.", "key triack-private-...."),
        ("TRIACK-SHARED-ABC", "TRIACK-SHARED-..."),
        ("triack-public-abc", "triack-public-abc"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    """Letters of any script as they are; what acts instead of being seen by its name; of a secret its kind."""
    assert printable(text) == shown


@pytest.mark.slow
def test_no_character_gets_through_that_is_not_seen() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    for start in range(0, len(everything), SHOWN_LETTERS_MAX // 20):
        assert printable(everything[start : start + SHOWN_LETTERS_MAX // 20]).isprintable()


def test_a_long_text_is_cut() -> None:
    assert len(printable("x" * 10**6)) == SHOWN_LETTERS_MAX + 3


def test_numbers_go_with_their_nouns() -> None:
    assert [counted(number, "message") for number in (0, 1, 2, 2_500)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "2,500 messages",
    ]


def test_the_name_of_a_file_is_shown_whole() -> None:
    """However long it is: it is cut nowhere, and nothing in it is a secret."""
    name = "\x1b" + "x" * 10**4 + "triack-private-abc"
    assert escaped(name) == "\\x1b" + "x" * 10**4 + "triack-private-abc"


@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_not_printable_is_escaped_in_json(ascii_only: bool) -> None:
    """As JSON does it, so that a program reads what it would have read, and a terminal does nothing."""
    text = "s\u00fcd \u6ce8\x00\x1b[31m\x7f\x9b\u202e\u2028\ud800\U000e0001\n"
    line = escaped_json(json.dumps({"label": text}, ensure_ascii=ascii_only))
    assert json.loads(line) == {"label": text}
    assert line.isprintable()
    assert ("s\u00fcd \u6ce8" in line) == (not ascii_only)


def test_whole_numbers_are_written_with_all_their_digits() -> None:
    """However large: nobody counts powers of ten."""
    assert [written(number) for number in (0, 64, 2**31 - 1, 1e6, 0.25, -3.0)] == [
        "0",
        "64",
        "2147483647",
        "1000000",
        "0.25",
        "-3",
    ]
    assert written(float("inf")) == "inf"
