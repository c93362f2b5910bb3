"""What was said of settings, by whom: the file, the environment, the arguments. Later ones beat earlier ones."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from triack.base.errors import ConfigError
from triack.base.names import composed, nearest
from triack.base.printable import printable
from triack.node.config.gone import gone
from triack.node.config.keys import IN_CODE, KEYS, NUMBERED, SECTIONS, KeyPath, generalised, key_at, written_path
from triack.node.config.lines import line_too_deep, lines_of
from triack.node.config.values import read_value, shown, write_value
from triack.node.files.ownership import read_named
from triack.node.files.trust import PEER_FIELDS

PREFIX = "TRIACK_"
"""Begins the names of the variables: ``TRIACK_SESSION__MAX_UNACKED_PACKET`` is ``session.max_unacked_packet``."""
BETWEEN = "__"
"""Between the parts of a path in the name of a variable; names of keys have single underscores."""
CONFIG_VARIABLE = "TRIACK_CONFIG"
"""Names the file."""
NUMBERED_PARTS = 3
"""``routes`` or ``bridges``, a number, and a key."""
FILE_BYTES_MAX = 1024 * 1024
"""More than ten thousand queues need; a longer file is not the one that was meant."""
PROBLEMS_MAX = 100
"""More than a person fixes before the next look; each may cost a search for the name that was meant."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TRUST = {"key", "send", *PEER_FIELDS} - {"addresses"}
"""What people may look for at a peer, and what is in trust.json alone."""


@dataclass(frozen=True, slots=True)
class Said:
    """A value that was given; ``base`` is the directory to which a path is relative."""

    value: Any
    where: str
    base: Path


class Layers:
    """Collects what was said, and every mistake in it."""

    def __init__(self) -> None:
        self.said: dict[KeyPath, Said] = {}
        self._problems: list[tuple[str, str]] = []
        # Where each table of the file begins, for mistakes that no single key has made.
        self.tables: dict[KeyPath, str] = {}
        self._first: dict[KeyPath, KeyPath] = {}

    def says(self, table: KeyPath) -> bool:
        """Whether something was said of a key, or of one in this table."""
        return table in self._first

    def first_place(self, table: KeyPath) -> str:
        """The place of the first key of a table that was given."""
        return self.said[self._first[table]].where

    def problem(self, where: str, path: KeyPath, why: str) -> None:
        """Note a mistake. Raises ConfigError at ``PROBLEMS_MAX``; the rest is not read."""
        text = f"{where}: {written_path(path)}: {why}" if path else f"{where}: {why}"
        self._problems.append((where, printable(text)))
        if len(self._problems) >= PROBLEMS_MAX:
            more = f"after {PROBLEMS_MAX} mistakes the rest was not read: there may be more"
            raise ConfigError("\n".join([*self.problems, more]))

    @property
    def problems(self) -> list[str]:
        """The mistakes so far: those of the file by their lines, then the others."""
        found = dict.fromkeys(sorted(self._problems, key=lambda it: _line_of(it[0])))
        return [text for _, text in found]

    def add_file(self, file: Path) -> None:
        """Add what a file says. Blocks."""
        text = self._read(file)
        line = line_too_deep(text)
        if line is not None:
            self.problem(f"{file}:{line}", (), "it is nested too deeply")
            return
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self._unreadable(file, text, str(error))
            return
        except ValueError:  # Python reads no number of so many digits
            self.problem(str(file), (), "it has a number of several thousand digits")
            return
        lines = lines_of(text)
        self.tables = {path: f"{file}:{line}" for path, line in lines.items()}
        for path, raw in _leaves(tables):
            where = self.tables.get(path) or self.tables.get((*path, "0")) or str(file)
            self._take(path, raw, where, file.parent)

    def _read(self, file: Path) -> str:
        content = b""
        try:
            content = read_named(file, FILE_BYTES_MAX)
            return content.decode("utf-8-sig")  # some editors begin a file with a mark
        except OSError as error:
            self.problem(str(file), (), error.strerror or str(error))
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            self.problem(f"{file}:{line}", (), "it is not UTF-8")
        return ""

    def _unreadable(self, file: Path, text: str, why: str) -> None:
        place = _PLACE.search(why)
        line = place[1] if place is not None and place[1] else str(text.rstrip().count("\n") + 1)
        self.problem(f"{file}:{line}", (), f"it is no TOML: {_PLACE.sub('', why)}")

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Add what the variables say. Those that Kubernetes sets for a service ``triack`` are no keys."""
        for name, text in sorted(environment.items()):
            if not name.startswith(PREFIX) or name == CONFIG_VARIABLE:
                continue
            path = tuple(name.removeprefix(PREFIX).lower().split(BETWEEN))
            if len(path) > 1:
                self._take(path, text, name, Path(), from_text=True)
            elif meant := [variable_of(key) for key in KEYS if key[-1] == path[0] and "*" not in key]:
                self.problem(name, (), f"write {' or '.join(meant)}")

    def add_arguments(self, given: Mapping[KeyPath, tuple[object, str]]) -> None:
        """Add arguments: each value with the words for its place. Routes replace those of other sources."""
        if any(path[0] == "routes" for path in given):
            self.said = {path: said for path, said in self.said.items() if path[0] != "routes"}
            self._first = {table: path for table, path in self._first.items() if table[0] != "routes"}
        for path, (raw, where) in given.items():
            self._take(path, raw, where, Path())

    def add_assignment(self, text: str, where: str) -> None:
        """Add ``KEY=VALUE``, as an option has it."""
        name, equals, value = text.partition("=")
        try:
            path = () if line_too_deep(name) else next(_leaves(tomllib.loads(f"{name} = 0")))[0]
        except (tomllib.TOMLDecodeError, StopIteration):
            path = ()
        if not path or not equals:
            self.problem(f"{where} {text}", (), "it must be KEY=VALUE, such as session.max_unacked_packet=128")
            return
        self._take(path, value.strip(), where, Path(), from_text=True)

    def _take(self, path: KeyPath, raw: object, where: str, base: Path, *, from_text: bool = False) -> None:
        path = tuple(map(composed, path))
        key = key_at(path)
        if key is None or (path[0] in NUMBERED and not _NUMBER.fullmatch(path[1])):
            self.problem(where, path, _why_gone(generalised(path)) or _why_unknown(path, raw))
            return
        try:
            self.said[path] = Said(read_value(key, raw, from_text=from_text), where, base)
        except ValueError as error:
            self.problem(where, path, str(error))
            return
        for end in range(1, len(path) + 1):
            self._first.setdefault(path[:end], path)


def _line_of(where: str) -> float:
    line = where.rpartition(":")[2]
    return int(line) if line.isdecimal() else inf


def variable_of(path: KeyPath) -> str:
    """The variable of a key."""
    return PREFIX + BETWEEN.join(path).upper()


def _leaves(table: Mapping[str, Any], before: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Everything in a table that is no table itself, by path; and tables that have the place of a value."""
    for name, value in table.items():
        path = (*before, name)
        if len(path) == 1 and path[0] in NUMBERED and isinstance(value, list):
            yield from _leaves({str(index): one for index, one in enumerate(value)}, path)
        elif isinstance(value, dict) and value and key_at(path) is None:
            yield from _leaves(value, path)
        elif value != {} or not _is_section(path):
            yield path, value


def _is_section(path: KeyPath) -> bool:
    """Whether there are keys below this path, so that a table without keys may be there."""
    return any(
        len(path) <= len(section) and all(a in ("*", b) for a, b in zip(section, path, strict=False))
        for section in SECTIONS
    )


def _why_gone(path: KeyPath) -> str:
    """What became of a key that there was once; empty for any other."""
    advice, key = gone(path), IN_CODE.get(path)
    value = "" if key is None else f", and its value is {write_value(key, key.default)}"
    return advice and f"this key is gone{value}: {advice}"


def _why_unknown(path: KeyPath, raw: object) -> str:
    """The cause, and the name that the writer most likely meant."""
    table, name = path[:-1], path[-1]
    if path[0] in NUMBERED and (len(path) < NUMBERED_PARTS or not _NUMBER.fullmatch(path[1])):
        return f"write each {path[0].removesuffix('s')} as a table of its own, [[{path[0]}]]"
    if table[:1] == ("peers",) and name in _TRUST:
        return "keys and permissions of peers are in trust.json alone: use triack trust"
    if _is_section(path):
        return f"it is a table, [{written_path(path)}], not {shown(raw)}"
    general = generalised(path)[:-1]
    siblings = [key[-1] for key in KEYS if key[:-1] == general]
    elsewhere = [written_path(key) for key in KEYS if key[-1] == name]
    if not siblings:
        return f"there is no such table; {_meant(written_path(table or path), list(map(written_path, SECTIONS)))}"
    if elsewhere:
        return f"there is no such key in this table; did you mean {elsewhere[0]}?"
    return f"there is no such key; {_meant(name, siblings)}"


def _meant(name: str, known: list[str]) -> str:
    meant = nearest(name, known) or next((one for one in known if one.startswith(name)), None)
    return f"there is {', '.join(sorted(known))}" if meant is None else f"did you mean {meant}?"
