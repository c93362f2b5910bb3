"""Text for people: foreign text made safe to show (one line, no control over a terminal, no secret), and numbers."""

import json
import re
from math import isfinite

SHOWN_LETTERS_MAX = 1_000
"""No one reads a longer line of a log, and anyone could make it long."""

_SECRET = re.compile(r"(triack-(?:private|shared)-)[a-z2-7]+", re.IGNORECASE)


def printable(text: str) -> str:
    """Return the text with every character escaped that is no letter, digit, mark, punctuation, symbol or plain space.

    So control characters, ANSI sequences, newlines, and marks that turn the direction of writing are visible and have
    no effect (CWE-117, CWE-150). Of a private or shared key only its kind is left.
    """
    text = escaped(text)
    if "triack-" in text.lower():
        text = _SECRET.sub(r"\1...", text)
    return text if len(text) <= SHOWN_LETTERS_MAX else f"{text[:SHOWN_LETTERS_MAX]}..."


def escaped(text: str) -> str:
    """Escape text that may be long and has no secrets, such as the name of a file: nothing is left out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def escaped_json(line: str) -> str:
    """Return a line of JSON in which every character that is not printable is escaped as JSON does it.

    The value stays the same: such characters occur only within its strings. ``json.dumps`` alone leaves DEL, and with
    ``ensure_ascii=False`` also C1 controls, line separators, marks that turn the direction of writing, and surrogates.
    """
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else _escape_json(char) for char in line)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _escape_json(char: str) -> str:
    # json.dumps escapes everything but ASCII; DEL is the only ASCII character that it leaves and that is not printable.
    return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as people say it: ``1 message``, ``2,500 messages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def written(number: float) -> str:
    """A number as people write it: a whole one with all its digits."""
    return str(int(number)) if isfinite(number) and number == int(number) else f"{number:g}"
