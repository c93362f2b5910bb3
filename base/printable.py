"""Text for people: that of others made safe to show (one line, no control over a terminal, no secret), and numbers."""

import re
from math import isfinite

__all__ = ["counted", "printable", "written"]

SHOWN_LETTERS_MAX = 1_000
"""A line of a log that is longer is not read, and anyone could make it long."""

_SECRET = re.compile(r"(triack-(?:private|shared)-)[a-z2-7]+", re.IGNORECASE)


def printable(text: str) -> str:
    """Return the text with every character escaped that is no letter, digit, mark, punctuation, symbol or plain space.

    So control characters, ANSI sequences, newlines, and what turns the direction of writing are seen and have no
    effect (CWE-117, CWE-150). Of a private or shared key only its kind is left.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escape(char) for char in text)
    if "triack-" in text.lower():
        text = _SECRET.sub(r"\1...", text)
    return text if len(text) <= SHOWN_LETTERS_MAX else f"{text[:SHOWN_LETTERS_MAX]}..."


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as people say it: ``1 message``, ``2,500 messages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def written(number: float) -> str:
    """A number as people write it: a whole one with all its digits."""
    return str(int(number)) if isfinite(number) and number == int(number) else f"{number:g}"
