"""Finding session logs and reading their lines; both engines start here, so their errors are the same.

A last line without a newline is torn by a crash: skipped and counted. Any other line that does not parse is damage and
ends the replay, because a verdict over half a record would prove nothing.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from triack.base.errors import ReplayError
from triack.base.log_lines import NS_MAX, SEGMENT_BEGIN, LineReader
from triack.base.session_log import COMMON, EVENTS, FIELDS, LACKING, SCHEMA_VERSION, Event
from triack.tools.replay.schema import CLASS_CODES, EXPRESS, TRANSACTIONAL
from triack.tools.replay.version1 import VERSION as VERSION_1
from triack.tools.replay.version1 import modernize

if TYPE_CHECKING:
    from triack.tools.replay.columns import Columns

OPEN_SUFFIX: Final = ".open"
"""What the name of a segment that is being written ends in, behind its name to be."""
PARQUET_SUFFIX: Final = ".parquet"
"""What that of a segment ends in which ``triack log compact`` has made columns of."""
SUFFIXES: Final = (".jsonl", ".jsonl" + OPEN_SUFFIX, PARQUET_SUFFIX)
"""What the names of segments end in."""
PACKED: Final = tuple(f".jsonl{state}.{packer}" for state in ("", OPEN_SUFFIX) for packer in ("gz", "bz2", "xz", "zst"))
"""What they end in when somebody has packed them: a verdict without them would be over half a record."""
VIOLATIONS: Final = "violations.jsonl"
"""What a report writes beside its page, which may be beside logs: it is none of them."""
_TAIL_BYTES: Final = 65_536
"""A torn line is looked for in so much of a file's end: longer ones are rare, and cost a look at the whole file."""

UNREADABLE: Final = (ValueError, RecursionError)
"""What Python makes of a line that is no JSON, or is nested too deeply."""

PACKETS_MAX: Final = 1 << 20
"""Packets of one record: no burst comes near, and no damaged number makes a replay count for ever."""

BLOCK_LINES: Final = 512
"""Lines that are parsed together."""

Record = dict[str, Any]
Used = TypeVar("Used")


@dataclass(slots=True)
class LogFile:
    """One segment of a session log.

    Attributes:
        path: where it is.
        torn: the text after the last newline, empty if the file ends with one.
        order: (node, incarnation, n) of its first record; segments of a node sort by it.
    """

    path: Path
    torn: str
    order: tuple[str, int, int]


def find_logs(paths: list[Path]) -> list[LogFile]:
    """Return the log segments under the paths, each node's in the order in which they were written.

    Args:
        paths: directories with logs (searched in depth), or single segments.

    Raises:
        ReplayError: a path does not exist, or no log is found under it, or a first line is damaged.
    """
    found: dict[Path, LogFile] = {}
    for path in paths:
        files = segments_of(path)
        if not files:
            raise ReplayError(f"no session log (*.jsonl, *.jsonl.open, *.parquet) in {path}")
        for file in files:
            found.setdefault(file.resolve(), _inspect(file))
    if not found:
        raise ReplayError("no directory with session logs was given")
    return sorted(found.values(), key=lambda log: log.order)


def read_records(log: LogFile) -> Iterator[Record]:
    """Yield the records of a segment as today's version has them, without a torn last line.

    Raises:
        ReplayError: a line that does not parse, or is not as the schema says.
    """
    if log.path.name.endswith(PARQUET_SUFFIX):
        return columns_of(log.path).records()
    return Tail(log.path).read()


def read_content(path: str, content: bytes) -> tuple[Iterator[Record], bool]:
    """Read a segment that is in memory, whatever its form.

    Args:
        path: its file, whose name tells the form.
        content: all of it.

    Returns:
        Its records as today's version has them, and whether its last line is torn; that one is left out.

    Raises:
        ReplayError: a line that does not parse, or is not as the schema says; or it is packed, or complete and empty.
    """
    _check_unpacked(path)
    _check_filled(path, len(content))
    if path.endswith(PARQUET_SUFFIX):
        return columns_of(path, content).records(), False
    end = content.rfind(b"\n") + 1
    whole = islice(io.BytesIO(content), content.count(b"\n"))
    return Lines().records(path, whole), end < len(content)


def columns_of(path: str | Path, content: bytes | None = None) -> Columns:
    """Open a segment that was made columns of.

    Args:
        path: its file.
        content: what is in it; None to read the file.

    Raises:
        ReplayError: it is damaged, or what reads it is not installed.
    """
    try:
        from triack.tools.replay.columns import Columns
    except ImportError as error:
        raise ReplayError(f"{path} wants PyArrow to be read: pip install 'triack[spark]'") from error
    return Columns(path, content, complaint)


class Lines:
    """Makes records of the lines of a segment, one behind the other."""

    def __init__(self) -> None:
        self._reader = LineReader()
        self._number = 0
        # Lines that only refer to what lines before them say, by all that decides whether they are as the schema says:
        # of what lists they have to be judged, and whether of their packets. All other things are well with them.
        self._sound: dict[tuple[Any, ...], tuple[tuple[str, ...], bool]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What is kept of it (``checkpoint.py``): what is sound is found again, and is told by types."""
        return {**self.__dict__, "_sound": {}}

    def records(self, path: str | Path, lines: Iterable[bytes]) -> Iterator[Record]:
        """Yield the records of the next lines, as today's version has them.

        Args:
            path: their file, for what is said of damage.
            lines: whole ones.

        Raises:
            ReplayError: a line that does not parse, or is not as the schema says.
        """
        at = iter(lines)
        while block := list(islice(at, BLOCK_LINES)):
            for line in _parse(block):
                self._number += 1
                try:
                    record, said = self._read(json.loads(line) if type(line) is bytes else line)
                except UNREADABLE as error:
                    raise self._fault(path, line, f"is damaged: {_reason(error)}") from error
                if said:
                    raise self._fault(path, line, said)
                yield record

    def _fault(self, path: str | Path, line: Any, said: str) -> ReplayError:
        """What is said of a line that is no record; a file of something else is not damaged."""
        if self._number == 1 and not _begins_segment(line if type(line) is bytes else json.dumps(line).encode()):
            return ReplayError(f"{path} is no session log: its first line does not begin one")
        return ReplayError(f"{path} line {self._number} {said}")

    def _read(self, line: Any) -> tuple[Record, str]:
        """Return the record of a line, and what is wrong with it."""
        if type(line) is not dict:
            return line, complaint(line)
        shape = (line.get("of"), line.get("event"), *line, *map(type, line.values()))
        try:
            known = self._sound.get(shape)
        except TypeError:
            # A number or an event that is a list or more.
            known = None
        if known is None:
            return self._read_new(line, shape)
        lists, counted = known
        record = self._reader.fill(line)
        return record, (lists and _judge_lists(record, lists)) or (counted and _judge_packets(record)) or ""

    def _read_new(self, line: Record, shape: tuple[Any, ...]) -> tuple[Record, str]:
        """The same for a line of a shape that was not seen, or of one that says what later ones refer to."""
        refers = line.keys().isdisjoint(_SAYING)
        if not refers:
            self._sound.clear()
        record = _record_of(line, self._reader)
        said = complaint(record)
        if refers and not said and len(self._sound) < _SHAPES_MAX:
            self._sound[shape] = tuple(_LISTS & record.keys()), not _COUNTED.isdisjoint(record)
        return record, said


def _begins_segment(line: bytes) -> bool:
    """Whether it is the first of a segment, be it damaged; by whatever JSON is written by."""
    return line.replace(b" ", b"").startswith(SEGMENT_BEGIN)


def _reason(error: Exception) -> str:
    """A line's own words for what json says as if the line were a file."""
    return f"no JSON from character {error.pos + 1} on" if isinstance(error, json.JSONDecodeError) else str(error)


def _parse(block: list[bytes]) -> list[Any]:
    """Parse lines all at once, in a third of the time; where one is damaged, they stay as they are to find which."""
    try:
        values: list[Any] = json.loads(b"[" + b",".join(block) + b"]")
    except UNREADABLE:
        return block
    return values if len(values) == len(block) else block


class Tail:
    """Reads a segment piece by piece, as it grows.

    Args:
        path: its file, by the name that it had a moment ago.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines()
        self._at_bytes = 0
        # The last line, by which the file is known again.
        self._last = b""

    def read(self, until_bytes: int | None = None) -> Iterator[Record]:
        """Return the records that were not read before, as today's version has them, without a torn last line.

        Args:
            until_bytes: no line that ends behind so much of the file; None for all of it.

        Raises:
            ReplayError: a line that does not parse, or is not as the schema says.
        """
        return self._lines.records(self.path, self._whole_lines(until_bytes))

    def is_torn(self, size: int | None = None) -> bool:
        """Whether something stands behind the last whole line.

        Args:
            size: how much of the file is looked at, in bytes; None for all of it.
        """
        return (size_bytes(self.path) if size is None else size) > self._at_bytes

    def find(self) -> bool:
        """Look for the file; return whether it has what was read of it."""
        try:
            with _opened(self.path) as file:
                file.seek(self._at_bytes - len(self._last))
                return file.read(len(self._last)) == self._last
        except ReplayError:
            return False

    def _whole_lines(self, until_bytes: int | None) -> Iterator[bytes]:
        with _opened(self.path) as file:
            file.seek(self._at_bytes)
            for line in file:
                if not line.endswith(b"\n") or (until_bytes is not None and self._at_bytes + len(line) > until_bytes):
                    break
                self._at_bytes += len(line)
                self._last = line
                yield line


def _record_of(line: Any, reader: LineReader) -> Any:
    """Return the record of a line of any version; what is none is left to ``complaint``."""
    if type(line) is not dict or line.get("v", SCHEMA_VERSION) != SCHEMA_VERSION:
        return modernize(line) if type(line) is dict else line
    return reader.read(line)


def complaint(record: Any) -> str:
    """Return what is wrong with a parsed line, or an empty string."""
    if type(record) is not dict:
        return "is damaged: not a JSON object"
    shape = (record.get("event"), record.get("class"), record.get("v"), *record, *map(type, record.values()))
    try:
        known = _KNOWN_SHAPES.get(shape)
    except TypeError:
        return "is damaged: its event or class is not a name"
    if known is None:
        known = _judge_shape(record), tuple(_LISTS & record.keys()), not _COUNTED.isdisjoint(record)
        if len(_KNOWN_SHAPES) < _SHAPES_MAX:
            _KNOWN_SHAPES[shape] = known
    said, lists, counted = known
    said = said or _judge_times(record)
    return said or (lists and _judge_lists(record, lists)) or (counted and _judge_packets(record)) or ""


def _judge_times(record: Record) -> str:
    """A clock gives them; one that was set back, below zero."""
    for name in _TIMES:
        if not -NS_MAX < record[name] < NS_MAX:
            return f"is damaged: field {name!r} is {record[name]}, which no clock gives"
    return ""


def _judge_lists(record: Record, names: Iterable[str]) -> str:
    """Lists are of pairs of numbers."""
    for name in names:
        for pair in record[name]:
            if type(pair) is not list or len(pair) != 2 or not (type(pair[0]) is int is type(pair[1])):  # noqa: PLR2004
                return f"is damaged: field {name!r} is not made of pairs"
    return ""


def _judge_packets(record: Record) -> str:
    """Of packets there are as many as the record has."""
    if (counts := record.get("counts")) is not None:
        there = least = counts[0][0] if counts else 0
        for packets, _ in counts[1:]:
            there += packets
            least = min(least, packets)
        if least < 1 or there != record.get("packets", there) or there > PACKETS_MAX:
            return f"is damaged: the counts of {there} packets"
    elif not 0 < record.get("packets", 1) <= PACKETS_MAX:
        return f"is damaged: {record['packets']} packets"
    return ""


_TIMES: Final = ("at_ns", "wall_ns")
_SAYING: Final = frozenset({"v", "as", "class", *_TIMES})
"""A line with one of these says what later ones may refer to, or more than its event what fields it has to have, or a
time of its own, which has to be judged."""
_LISTS: Final = frozenset(name for name, field in FIELDS.items() if field.type is list)
_COUNTED: Final = frozenset({"counts", "packets"})
_KNOWN_SHAPES: dict[tuple[Any, ...], tuple[str, tuple[str, ...], bool]] = {}
_SHAPES_MAX: Final = 4096
"""Records that are alike in all but their values are judged once; so many kinds no honest log has."""


def _judge_shape(record: Record) -> str:
    if record.get("v", SCHEMA_VERSION) != SCHEMA_VERSION:
        return f"has schema version {record['v']!r}; this replay reads versions {VERSION_1} and {SCHEMA_VERSION}"
    for name, field in COMMON.items():
        if type(record.get(name)) is not field.type:
            return f"is damaged: field {name!r} is missing or of the wrong type"
    event = EVENTS.get(record["event"])
    said = f"unknown event {record['event']!r}" if event is None else _judge_fields(record, event)
    return f"is damaged: {said}" if said else ""


def _judge_fields(record: Record, event: Event) -> str:
    name, cls = record["event"], record.get("class", EXPRESS)
    wanted = set(event.fields) - set(LACKING.get(name, ()))
    more = record.keys() - COMMON.keys() - set(event.fields)
    if wanted - record.keys() or more not in map(set, event.variants):
        return f"{name} with the fields {', '.join(sorted(record.keys() - COMMON.keys()))}"
    wrong = [field for field, value in record.items() if type(value) is not (COMMON | FIELDS)[field].type]
    if wrong:
        return f"field {wrong[0]!r} is of the wrong type"
    if cls not in CLASS_CODES:
        return f"unknown class {cls!r}"
    if name == "position_recovered" and ("number" in record) != (cls == TRANSACTIONAL):
        return f"a position of class {cls!r} that is not one"
    return ""


def parse_records(log: bytes) -> list[Record]:
    """Return the records of a log in memory, as today's version has them, without a torn last line.

    All lines at once take a third of the time that they take one by one, but the error does not say which one it is.

    Raises:
        ValueError: a line that is no JSON, or no record.
    """
    lines = log.split(b"\n")[:-1]
    reader = LineReader()
    return [_record_of(line, reader) for line in json.loads(b"[" + b",".join(lines) + b"]")]


def segments_of(path: Path, *, following: bool = False) -> list[Path]:
    """Return the log segments under a path that have something in them, each once.

    Args:
        path: a directory, searched in depth, or a segment.
        following: whether it was there before. What is packed is passed over then, as it was read before that; and a
            segment may have been renamed.

    Raises:
        ReplayError: the path does not exist, or a directory below it cannot be read, or a segment in it is packed:
            what is in it would be missed; or a complete one is empty.
    """
    if following:
        path = there(path)
    if path.is_file():
        _check_unpacked(path)
        if not following:
            _check_filled(path, size_bytes(path))
        return [path]
    if not path.is_dir():
        raise ReplayError(f"no such directory: {path}")
    walk = os.walk(path, onerror=_refuse)
    found = (Path(folder, name) for folder, folders, files in walk for name in (*folders, *files))
    suffixes = SUFFIXES if following else SUFFIXES + PACKED
    logs = [file for file in found if file.name.endswith(suffixes) and file.name != VIOLATIONS]
    for file in logs:
        _check_unpacked(file)
    # A segment that is renamed while its directory is listed may be there by both names.
    sizes = {file: size_bytes(file) for file in set(map(there, logs))}
    for file, size in sizes.items():
        if not following and file.exists():
            _check_filled(file, size)
    return sorted(file for file, size in sizes.items() if size)


def _check_unpacked(path: str | Path) -> None:
    if str(path).endswith(PACKED):
        raise ReplayError(f"{path} is packed: unpack it; `triack log compact` makes small files that a replay reads")


def _check_filled(path: str | Path, size: int) -> None:
    """A complete segment has records, unless it lost them; one that is open may have been begun just before a crash."""
    if not size and not str(path).endswith(OPEN_SUFFIX):
        raise ReplayError(f"{path} is empty, as no complete segment is: restore it, or remove it if there is no other")


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # it was removed since it was listed
        raise ReplayError(f"cannot read {error.filename}: {error.strerror}") from error


def by_either_name(path: str, use: Callable[[str], Used]) -> Used:
    """Use a segment that was listed: its node may have completed and renamed it since, before any look at it.

    Args:
        path: its file, by the name that it had.
        use: called with that name, and with the one that it gets when there is nothing by that.

    Raises:
        FileNotFoundError: it was removed.
    """
    try:
        return use(path)
    except FileNotFoundError:
        return use(path.removesuffix(OPEN_SUFFIX))


def complete(path: Path) -> Path:
    """Return the name that a segment has when no more is written to it."""
    return path.with_name(path.name.removesuffix(OPEN_SUFFIX))


def there(path: Path) -> Path:
    """Return the name that a segment has which was listed a moment ago; it may change at once."""
    # Path.exists raises where a directory lets nobody look.
    return path if os.path.exists(path) else complete(path)  # noqa: PTH110


def size_bytes(path: Path) -> int:
    """Return how large a segment is; 0 if it was removed since it was listed.

    Raises:
        ReplayError: its directory lets nobody look at it.
    """
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
    return ReplayError(f"cannot read {path}: {os.strerror(error.errno or 0)}")


def _inspect(path: Path) -> LogFile:
    log = LogFile(path, "", ("", 0, 0))
    for record in read_records(log):
        log.order = record["node"], record["incarnation"], record["n"]
        break
    # With nothing but a torn line its place among the segments does not matter.
    log.torn = "" if path.name.endswith(PARQUET_SUFFIX) else _torn_tail(path)
    return log


def _torn_tail(path: Path) -> str:
    with _opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        if b"\n" not in tail and size > _TAIL_BYTES:
            file.seek(0)
            tail = file.read()
    return tail.rpartition(b"\n")[2].decode("utf-8", "replace")
