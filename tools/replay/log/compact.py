"""``triack log compact``: session logs as Parquet files, for replays and queries of what is kept for long.

Segments of one day go into one file until it is full, so that a thousand small ones cost what a large one does. Each
file lists its segments. To add new ones, a run writes the whole file under a temporary name and then replaces the old
one atomically. So after a crash each segment is there once or not at all, and the next run goes on. A segment that has
grown replaces its earlier version. All files are readable by their owner alone, as the logs are.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from triack.base.errors import ReplayError
from triack.store.folder import sync_folder
from triack.tools.replay.log.files import UNREADABLE, LogFile, Record, columns_of, read_records, size_bytes
from triack.tools.replay.log.listing import PARQUET_SUFFIX, UNFINISHED, Listing, complete, list_logs
from triack.tools.replay.log.writing import writing

if TYPE_CHECKING:
    import pyarrow as pa

FILE_BYTES: Final = 16 << 20
"""Bytes of segments that a file takes, or one segment that is larger: what Parquet writes beside the records,
about twenty kilobytes a file, is little then, and to write a file anew takes a second or two."""
SOURCES: Final = b"triack.sources"
"""The key under which a file lists its segments."""


class Source(NamedTuple):
    """A segment that is in a file."""

    source: str
    wall_ns: int
    bytes: int
    records: int


@dataclass(slots=True)
class Compacted:
    """The result of a run."""

    segments: int = 0
    made: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records: int = 0


@dataclass(slots=True)
class _New:
    """A segment that is to be taken: its file, its length, and where its records belong."""

    path: Path
    source: str
    wall_ns: int
    bytes: int
    order: tuple[str, int, int]


class _File:
    """A file of the output: what is in it, and what is to be put into it."""

    def __init__(self, path: Path, sources: list[Source]) -> None:
        self.path = path
        self.sources = sources
        self.stale: set[Source] = set()
        self.new: list[_New] = []
        self.room_bytes = FILE_BYTES - sum(it.bytes for it in sources)

    def put(self, new: _New, grown: Source | None = None) -> None:
        """Take a segment, perhaps in the place of its earlier version."""
        self.new.append(new)
        self.room_bytes -= new.bytes
        if grown is not None:
            self.stale.add(grown)
            self.room_bytes += grown.bytes


def compact(directory: Path, output: Path, say: Callable[[str], None] = lambda _: None) -> Compacted:
    """Make Parquet files of the session logs in a directory, of those that are new or have grown."""
    if directory.resolve() in (output.resolve(), *output.resolve().parents):
        raise ReplayError(f"{output} is within {directory}, where a replay would find each record twice")
    listing = list_logs([directory]).require_all()
    segments = _find(directory, listing)
    done = Compacted(segments=len(segments))
    _require_writer()
    try:
        output.mkdir(parents=True, exist_ok=True)
        for summary in listing.summaries:
            _copy(Path(summary.path), output / Path(summary.path).relative_to(directory))
        files = _plan(segments, output)
        for number, file in enumerate(files, start=1):
            say(f"file {number:,} of {len(files):,}")
            _write(file, done)
    except OSError as error:  # of the output: a log that cannot be read is a ReplayError
        raise ReplayError(f"cannot write {output}: {error.strerror}") from error
    return done


def _require_writer() -> None:
    """Raise if the Parquet library is not installed, before any output is made."""
    try:
        importlib.import_module("triack.tools.replay.log.columns")
    except ImportError as error:
        raise ReplayError("log compact wants PyArrow: pip install 'triack[spark]'") from error


def _copy(summary: Path, to: Path) -> None:
    """Copy what stands for logs that were removed: the rest proves nothing without it."""
    content = summary.read_bytes()
    if to.exists() and to.read_bytes() == content:
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    with writing(to, to.with_name(to.name + ".new")) as file:
        file.write(content)


def _find(directory: Path, listing: Listing) -> dict[str, Path]:
    """Return the segments by their names, which are the same when they are complete."""
    found: dict[str, Path] = {}
    for listed in listing.logs:
        path = Path(listed.path)
        source = complete(str(path.relative_to(directory)))
        if source in found:
            raise ReplayError(f"{found[source]} and {path} are one segment: keep only the larger one")
        if not path.name.endswith(PARQUET_SUFFIX):
            found[source] = path
    if not found:
        raise ReplayError(f"no session log (*.jsonl, *.jsonl.open) in {directory}")
    return found


def _plan(segments: dict[str, Path], output: Path) -> list[_File]:
    """Return the files that are to be written, with what goes into each."""
    files = _files_in(output)
    known = {(it.source, it.wall_ns): (file, it) for file in files for it in file.sources}
    days: defaultdict[str, list[_File]] = defaultdict(list)
    for file in files:
        days[file.path.parent.name].append(file)
    for new in _look_at(segments):
        there = known.get((new.source, new.wall_ns))
        if there is None:
            day = f"day={datetime.fromtimestamp(new.wall_ns / 1e9, UTC):%Y-%m-%d}"
            _with_room(days[day], output / day, new.bytes).put(new)
        elif there[1].bytes != new.bytes:
            there[0].put(new, there[1])
    return [file for files in days.values() for file in files if file.new]


def _files_in(output: Path) -> list[_File]:
    """Return the files of the output, and remove what a crash has left of one."""
    for path in output.rglob(f".*{UNFINISHED}"):
        path.unlink()
    return [_File(path, sources_of(path)) for path in sorted(output.rglob(f"*{PARQUET_SUFFIX}"))]


def sources_of(path: Path) -> list[Source]:
    """Return a file's list of its segments."""
    columns = columns_of(path)
    sources = read_sources(columns.told(SOURCES))
    if sources is None or sum(it.records for it in sources) != columns.count:
        raise ReplayError(f"{path} is no file that `triack log compact` makes: name another place by --output")
    return sources


def read_sources(told: bytes) -> list[Source] | None:
    """Return the segments that a file lists, or None if the list is damaged."""
    try:
        rows = json.loads(told)
    except UNREADABLE:
        return None
    if type(rows) is not list or not all(type(row) is list and [*map(type, row)] == _TYPES for row in rows):
        return None
    return [Source(*row) for row in rows]


def _look_at(segments: dict[str, Path]) -> list[_New]:
    """Return the segments by their first records, in the order of these; none that has only a torn line."""
    found = []
    for source, path in segments.items():
        size = size_bytes(path)
        first = next(read_records(LogFile(path)), None)
        if first is not None:
            order = first["node"], first["incarnation"], first["n"]
            found.append(_New(path, source, first["wall_ns"], size, order))
    return sorted(found, key=lambda it: it.order)


def _with_room(files: list[_File], folder: Path, size: int) -> _File:
    """Return a file of a day that has room for a segment; a new one if there is none."""
    for file in files:
        if file.room_bytes >= size:
            return file
    number = 1 + max((int("0" + "".join(filter(str.isdigit, file.path.stem))) for file in files), default=0)
    files.append(_File(folder / f"segments-{number:06d}{PARQUET_SUFFIX}", []))
    return files[-1]


def _write(file: _File, done: Compacted) -> None:
    """Write a file anew, and replace the old one atomically."""
    from triack.tools.replay.log.columns import write_parquet

    path = file.path
    path.parent.mkdir(exist_ok=True)
    before = path.stat().st_size if path.exists() else 0
    taken: list[Source] = [it for it in file.sources if it not in file.stale]
    with writing(path, path.with_name(f".{path.name}.new")) as out:
        batches = chain(_old(file), _fresh(file, taken))
        write_parquet(batches, out, lambda: {SOURCES: json.dumps(taken).encode()})
    for folder in (path.parent, path.parent.parent):
        sync_folder(folder)
    done.made += len(file.new)
    done.records += sum(it.records for it in taken[len(file.sources) - len(file.stale) :])
    done.bytes_in += sum(it.bytes for it in file.new)
    done.bytes_out += path.stat().st_size - before


def _old(file: _File) -> Iterator[pa.RecordBatch]:
    """Yield the records that are in a file and stay."""
    if not file.sources:
        return
    at, whole = 0, columns_of(file.path).table()
    for it in file.sources:
        if it not in file.stale:
            yield from whole.slice(at, it.records).to_batches()
        at += it.records


def _fresh(file: _File, taken: list[Source]) -> Iterator[pa.RecordBatch]:
    """Yield the records of new segments; note of each how many there were."""
    from triack.tools.replay.log.columns import BATCH_RECORDS, pack

    records = chain.from_iterable(_noted(new, taken) for new in file.new)
    while some := list(islice(records, BATCH_RECORDS)):
        yield pack(some)


def _noted(new: _New, taken: list[Source]) -> Iterator[Record]:
    count = 0
    for record in read_records(LogFile(new.path)):
        count += 1
        yield record
    taken.append(Source(new.source, new.wall_ns, new.bytes, count))


_TYPES: Final = [str, int, int, int]
"""The fields of a ``Source``."""
