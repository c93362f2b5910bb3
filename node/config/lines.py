"""The lines of a TOML file that its keys are on: ``tomllib`` reads the values and forgets the places.

``lines_of`` gets only texts that ``tomllib`` has accepted, so it checks nothing.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

DEPTH_MAX = 32
"""Lists in lists, and parts of a name: no key needs more than five. ``tomllib`` recurses for each list, and its time
for a name grows with the square of its parts."""

_TOKENS = re.compile(
    r"(?P<skip>[ \t\r]+|\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<basic>\"\"\"(?:\\.|[^\\])*?\"{3,5}|\"(?!\"\")(?:\\.|[^\"\\\n])*\")"
    r"|(?P<literal>'''.*?'{3,5}|'(?!'')[^'\n]*')"
    r"|(?P<mark>[][{}=,.])"
    r"|(?P<bare>[^][{}=,.\s#\"']+)"
    r"|(?P<wrong>.)",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line of each key and of each table, counted from 1, by its path. Tables of a list have numbers for names."""
    reader = _Reader(text)
    reader.read()
    return reader.lines


def line_too_deep(text: str) -> int | None:
    """The line on which a list, a table or a name becomes too deep to be read; None if there is none.

    Any text may come here; it is examined as far as ``tomllib`` would read it.
    """
    depth = parts = 0
    for token in _tokens(text):
        if token.kind == "wrong":
            break
        if token.text == ".":
            parts += 1
        elif token.kind in ("mark", "newline"):
            parts = 0
            depth += (token.text in ("[", "{")) - (token.text in ("]", "}"))
        if max(depth, parts) > DEPTH_MAX:
            return token.line
    return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines: dict[tuple[str, ...], int] = {}
        self._tokens = [*_tokens(text), _Token("newline", "\n", 0)]
        self._at = 0
        self._lists: dict[tuple[str, ...], int] = {}

    def read(self) -> None:
        """Read the whole file."""
        table: tuple[str, ...] = ()
        while self._at < len(self._tokens):
            if self._next.kind == "newline":
                self._at += 1
            elif self._next.text == "[":
                table = self._header()
            else:
                self._pair(table)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _header(self) -> tuple[str, ...]:
        line = self._next.line
        brackets = 0
        while self._next.text == "[":
            brackets += 1
            self._at += 1
        path = self._key("]")
        self._at += brackets
        if brackets > 1:
            self._lists[path] = self._lists.get(path, -1) + 1
            path = (*path, str(self._lists[path]))
        self.lines.setdefault(path, line)
        return path

    def _key(self, end: str) -> tuple[str, ...]:
        parts = []
        while self._next.text != end:
            if self._next.text != ".":
                parts.append(_part(self._next))
            self._at += 1
        return tuple(parts)

    def _pair(self, table: tuple[str, ...]) -> None:
        line = self._next.line
        path = (*table, *self._key("="))
        self._at += 1
        for end in range(len(table) + 1, len(path) + 1):
            self.lines.setdefault(path[:end], line)
        self._value(path)

    def _value(self, path: tuple[str, ...]) -> None:
        opening = self._next.text
        self._at += 1
        if opening == "{":
            while not self._ends("}"):
                self._pair(path)
        elif opening == "[":
            index = 0
            while not self._ends("]"):
                self._value((*path, str(index)))
                index += 1
        else:  # a number may have a dot in it
            while self._next.text not in (",", "]", "}", "\n"):
                self._at += 1

    def _ends(self, closing: str) -> bool:
        """Skip what separates values. Returns whether the list or table ends here."""
        while self._next.text in (",", "\n"):
            self._at += 1
        if self._next.text != closing:
            return False
        self._at += 1
        return True


def _part(token: _Token) -> str:
    """The name in a token of a key; a quoted one is read."""
    if token.kind == "bare":
        return token.text
    return str(tomllib.loads(f"name = {token.text}")["name"])


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for found in _TOKENS.finditer(text):
        kind = str(found.lastgroup)
        if kind != "skip":
            yield _Token(kind, found[0], line)
        line += found[0].count("\n")
