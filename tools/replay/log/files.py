"""Finding session logs and reading their lines; both engines start here, so their errors are the same.

A last line without a newline was torn by a crash: it is skipped and counted. Any other line that does not parse is
damage: the file is read up to it, and no verdict over that proves anything.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from triack.base.errors import ReplayError
from triack.base.log_lines import LineReader
from triack.base.session_log import SCHEMA_VERSION, SHARED
from triack.tools.replay.log.listing import PARQUET_SUFFIX, Listed, Listing, begins_segment, by_either_name, list_logs
from triack.tools.replay.log.validity import SHAPES_MAX, Values, complaint

if TYPE_CHECKING:
    from triack.tools.replay.log.columns import Columns

UNREADABLE: Final = (ValueError, RecursionError)
"""The errors that Python raises for a line that is no JSON, or is nested too deeply."""

BEGINNING: Final = ("node_started", "node_continued")
"""A segment begins with one of these."""

BLOCK_LINES: Final = 512
"""Lines that are parsed together."""
BLOCK_BYTES: Final = 4 << 20
"""The most bytes parsed together: a block is in memory."""
LINE_BYTES_MAX: Final = 4 << 20
"""A line that is longer is damaged: the longest records are lists of a few thousand ranges."""

Record = dict[str, Any]


@dataclass(slots=True)
class LogFile:
    """A file with one segment of a session log, or with several."""

    path: Path
    order: tuple[str, int, int] = ("", 0, 0)
    size: int = 0


def find_logs(paths: Iterable[str | Path]) -> list[LogFile]:
    """Return the logs under the paths, each node's in the order in which they were written."""
    return in_order(list_logs(paths).require_all())


def in_order(listing: Listing) -> list[LogFile]:
    """Return the files of a listing in an order in which each node's records most likely come in theirs.

    Files that ``triack log compact`` has made come first: the segments in them are older, and of several nodes, so only
    their time shows the order of these files.
    """
    firsts = [(listed, first_of(listed.path)) for listed in listing.logs]
    return [
        LogFile(Path(listed.path), (first["node"], first["incarnation"], first["n"]), listed.size)
        for listed, first in sorted(firsts, key=lambda it: _place(*it))
    ]


def first_of(path: str, content: bytes | None = None) -> Record:
    """Return the first record of a file, or one before all others if none can be read: reading it reports why."""
    try:
        records = columns_of(path).records() if path.endswith(PARQUET_SUFFIX) else Tail(Path(path), content).read()
        return next(records, _NO_RECORD)
    except ReplayError:
        return _NO_RECORD


def _place(listed: Listed, first: Record) -> tuple[bool, int, str, int, int, str]:
    is_columns = listed.path.endswith(PARQUET_SUFFIX)
    since_ns = first["wall_ns"] if is_columns else 0
    return not is_columns, since_ns, first["node"], first["incarnation"], first["n"], listed.path


_NO_RECORD: Final[Record] = {"node": "", "incarnation": 0, "n": 0, "wall_ns": 0}


def read_records(log: LogFile) -> Iterator[Record]:
    """Yield the records of a file, without a torn last line."""
    if log.path.name.endswith(PARQUET_SUFFIX):
        return columns_of(log.path).records()
    return Tail(log.path).read()


class Reading:
    """One file, read to its end or to where it is damaged. Both engines use it, so they find the same.

    Attributes:
        torn: whether its last line has no end, as a crash leaves it; it is left out.
        fault: why not all of it was read; with the path before it, it is a sentence.
    """

    def __init__(self, path: str, content: bytes | None = None) -> None:
        self.path = path
        self.torn = False
        self.fault = ""
        self._content = content
        self._size_bytes = 0

    def segments(self) -> Iterator[tuple[int, Iterator[Record]]]:
        """Yield each segment: the line that it begins with, and its records, which are to be read before the next."""
        if self.path.endswith(PARQUET_SUFFIX):
            yield from split(self._records())
        else:
            yield 1, self._records()

    def _records(self) -> Iterator[Record]:
        try:
            if self.path.endswith(PARQUET_SUFFIX):
                yield from columns_of(self.path, self._content).records()
                self._size_bytes = size_bytes(Path(self.path)) if self._content is None else len(self._content)
            else:
                tail = Tail(Path(self.path), self._content)
                yield from tail.read()
                self._size_bytes, self.torn = tail.seen_bytes, tail.is_torn(tail.seen_bytes)
        except ReplayError as error:
            self.fault = str(error).removeprefix(f"{self.path} ")

    def compare(self, size: int) -> None:
        """Compare what was read with what was listed, so that a file that ends early is noticed."""
        if not self.fault and self._size_bytes < size:
            self.fault = f"had {size:,} bytes when it was listed, of which {self._size_bytes:,} were read"


def split(records: Iterable[Record]) -> Iterator[tuple[int, Iterator[Record]]]:
    """Cut records into segments: the number of the first record of each, from 1, and these, to be read now."""
    begin = number = 0
    whose: tuple[str, int] | None = None

    def begin_of(record: Record) -> int:
        nonlocal begin, number, whose
        number += 1
        mine = record["node"], record["incarnation"]
        if mine != whose or record["event"] in BEGINNING:
            begin, whose = number, mine
        return begin

    yield from groupby(records, begin_of)


def columns_of(path: str | Path, content: bytes | None = None) -> Columns:
    """Open a segment that was made columns of."""
    try:
        from triack.tools.replay.log.columns import Columns
    except ImportError as error:
        raise ReplayError(f"{path} wants PyArrow to be read: pip install 'triack[spark]'") from error
    return Columns(path, content, complaint)


class Lines:
    """Makes records of the lines of a segment, one after the other."""

    def __init__(self) -> None:
        self._reader = LineReader()
        self._number = 0
        # The node and the start whose records these are.
        self._whose: tuple[str, int] | None = None
        # How to judge the own values of brief lines, by all that decides it. All else about them is known to be valid.
        self._sound: dict[tuple[Any, ...], Values] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state for a checkpoint (``checkpoint.py``): ``_sound`` holds types, and is learned again."""
        return {**self.__dict__, "_sound": {}}

    def records(self, path: str | Path, lines: Iterable[bytes]) -> Iterator[Record]:
        """Yield the records of the next lines."""
        for block in _blocks(lines):
            for line in _parse(block):
                self._number += 1
                try:
                    record, said = self._read(json.loads(line) if type(line) is bytes else line)
                except UNREADABLE as error:
                    raise self._fault(path, line, f"is damaged: {_reason(error, line)}") from error
                if said:
                    raise self._fault(path, line, said)
                yield record

    def _fault(self, path: str | Path, line: Any, said: str) -> ReplayError:
        """The error for a line that is no record; a file of something else is not damaged."""
        if self._number == 1 and not begins_segment(line if type(line) is bytes else json.dumps(line).encode()):
            return ReplayError(f"{path} is no session log: its first line does not begin one")
        return ReplayError(f"{path} line {self._number} {said}")

    def _read(self, line: Any) -> tuple[Record, str]:
        """Return the record of a line, and what is wrong with it."""
        if type(line) is int or type(line) is list:
            return self._read_brief(line)
        if type(line) is dict and not line.keys().isdisjoint(_SAYING):
            self._sound.clear()
        record = _record_of(line, self._reader)
        return record, complaint(record) or self._strangeness(record)

    def _read_brief(self, line: int | list[Any]) -> tuple[Record, str]:
        """The same for a line whose record is like the one of its kind before it."""
        record = self._reader.follow(line)
        shape: tuple[Any, ...]
        if isinstance(line, int):
            shape = (line,)
        else:
            other = line[2] if len(line) > 2 else {}  # noqa: PLR2004 - the kind and the time come before
            shape = (line[0], *other, *map(type, other.values()))
        values = self._sound.get(shape)
        if values is not None:
            return record, values.fault(record)
        said = complaint(record)
        if not said and len(self._sound) < SHAPES_MAX:
            self._sound[shape] = Values(name for name in record if name not in _SHARED)
        return record, said

    def _strangeness(self, record: Record) -> str:
        """Say whether a record is of another segment than those before it, so that it is unknown what it proves."""
        mine = record["node"], record["incarnation"]
        if self._whose is None:
            self._whose = mine
        elif mine != self._whose or record["event"] in BEGINNING:
            return "begins another segment: a file has one, so cut it there"
        return ""


def _blocks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lines that are parsed together; the first one alone, as who orders files wants no other."""
    block: list[bytes] = []
    size, most = 0, 1
    for line in lines:
        block.append(line)
        size += len(line)
        if len(block) == most or size >= BLOCK_BYTES:
            yield block
            block, size, most = [], 0, BLOCK_LINES
    if block:
        yield block


def _reason(error: Exception, line: Any) -> str:
    """Phrase an error for one line that json phrases as if the line were a file."""
    if type(line) is bytes and len(line) > LINE_BYTES_MAX:
        return f"it is longer than {LINE_BYTES_MAX:,} bytes"
    return f"no JSON from character {error.pos + 1} on" if isinstance(error, json.JSONDecodeError) else str(error)


def _parse(block: list[bytes]) -> list[Any]:
    """Parse lines all at once, in a third of the time; if one is damaged, they stay unparsed to find which."""
    try:
        values: list[Any] = json.loads(b"[" + b",".join(block) + b"]")
    except UNREADABLE:
        return block
    return values if len(values) == len(block) else block


class Tail:
    """Reads a segment piece by piece, as it grows.

    Attributes:
        seen_bytes: how far the file was seen, including a torn line.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path = path
        self.seen_bytes = 0
        self._content = content
        self._lines = Lines()
        self._at_bytes = 0
        # The last line, which identifies the file later.
        self._last = b""

    def read(self) -> Iterator[Record]:
        """Return the records that were not read before, without a torn last line."""
        return self._lines.records(self.path, self._whole_lines())

    def is_torn(self, size: int | None = None) -> bool:
        """Whether something follows the last whole line."""
        return (size_bytes(self.path) if size is None else size) > self._at_bytes

    def find(self) -> bool:
        """Look for the file; return whether it still holds what was read of it."""
        try:
            with self._opened() as file:
                file.seek(self._at_bytes - len(self._last))
                return file.read(len(self._last)) == self._last
        except ReplayError:
            return False

    def _whole_lines(self) -> Iterator[bytes]:
        with self._opened() as file:
            file.seek(self._at_bytes)
            while line := file.readline(LINE_BYTES_MAX + 1):
                self.seen_bytes = self._at_bytes + len(line)
                if not line.endswith(b"\n") and len(line) <= LINE_BYTES_MAX:
                    break
                self._at_bytes = self.seen_bytes
                self._last = line
                yield line

    def _opened(self) -> AbstractContextManager[BinaryIO]:
        return _opened(self.path) if self._content is None else io.BytesIO(self._content)


_SAYING: Final = frozenset({"v", "as"})
"""A line with one of these begins a segment or a kind of records: brief lines refer to it."""
_SHARED: Final = frozenset({"v", "node", "incarnation", "at_ns", "wall_ns", "event", *SHARED})
"""Fields that all records of a kind have in common, or that are checked when a line is read."""


def _record_of(line: Any, reader: LineReader) -> Any:
    """Return the record of a line. A line of another version, or that is no object, stays: ``complaint`` refuses it."""
    if type(line) is int or type(line) is list:
        return reader.read(line)
    if type(line) is not dict or line.get("v", SCHEMA_VERSION) != SCHEMA_VERSION:
        return line
    return reader.read(line)


def parse_records(log: bytes) -> list[Record]:
    """Return the records of a log in memory, without a torn last line.

    All lines at once take a third of the time that they take one by one, but the error does not say which one it is.

    Raises:
        ValueError: a line that is no JSON, or no record.
    """
    lines = log.split(b"\n")[:-1]
    reader = LineReader()
    return [_record_of(line, reader) for line in json.loads(b"[" + b",".join(lines) + b"]")]


def size_bytes(path: Path) -> int:
    """Return how large a segment is; 0 if it was removed since it was listed."""
    try:
        return by_either_name(str(path), os.stat).st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _unreadable(path, error) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a segment that was listed, and say what cannot be read of it."""
    try:
        with by_either_name(str(path), lambda name: Path(name).open("rb", buffering=1 << 20)) as file:
            yield file
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ReplayError:
    return ReplayError(f"{path} cannot be read: {os.strerror(error.errno or 0)}")
