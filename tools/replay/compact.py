"""``triack log compact``: session logs as Parquet files, for replays and queries of what is kept for long.

Each segment becomes one file, under the day on which it began, and a line of ``_manifest`` tells what was made of
what. A file is complete before it has its name, and its line is written behind that: whatever a crash leaves, the next
run makes what is not told of, and nothing twice. A segment that has grown is made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from triack.base.errors import ReplayError
from triack.tools.replay.files import (
    OPEN_SUFFIX,
    PARQUET_SUFFIX,
    UNREADABLE,
    LogFile,
    Record,
    read_records,
    segments_of,
)

MANIFEST: Final = "_manifest"
"""In JSON Lines; its name is none of a segment, and Spark takes no data from files whose names begin like that."""
_WRITER: Final = "log compact wants PyArrow: pip install 'triack[spark]'"


@dataclass(slots=True)
class Compacted:
    """What a run did.

    Attributes:
        segments: there are so many.
        made: so many of them were new, or had grown.
        bytes_in, bytes_out: of these, before and after.
        records: of these.
    """

    segments: int = 0
    made: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records: int = 0


def compact(directory: Path, output: Path) -> Compacted:
    """Make Parquet files of the session logs in a directory, of those that are new or have grown.

    Args:
        directory: searched in depth.
        output: where the files go; not within the directory, which would have each record twice.

    Raises:
        ReplayError: there is no log, one is damaged, or the output cannot be written.
    """
    if directory.resolve() in (output.resolve(), *output.resolve().parents):
        raise ReplayError(f"{output} is within {directory}, where a replay would find each record twice")
    segments = [path for path in segments_of(directory) if not path.name.endswith(PARQUET_SUFFIX)]
    if not segments:
        raise ReplayError(f"no session log (*.jsonl, *.jsonl.open) in {directory}")
    done = Compacted(segments=len(segments))
    write = _writer()
    try:
        output.mkdir(parents=True, exist_ok=True)
        known = read_manifest((output / MANIFEST).read_bytes()) if (output / MANIFEST).exists() else {}
        with (output / MANIFEST).open("ab") as manifest:
            if manifest.tell() and not _ends_whole(output / MANIFEST):
                manifest.write(b"\n")
            for path in segments:
                name = str(path.relative_to(directory)).removesuffix(OPEN_SUFFIX)
                size_bytes = path.stat().st_size
                if known.get(name) != size_bytes:
                    told = _make(path, output, done, write)
                    _append(manifest, {"source": name, "bytes": size_bytes, **told})
                    done.bytes_in += size_bytes
    except OSError as error:
        raise ReplayError(f"cannot write {output}: {error.strerror}") from error
    return done


def read_manifest(content: bytes) -> dict[str, int]:
    """Return how long each source was when it was taken last; a line that is torn or no record tells nothing.

    Args:
        content: of the file, all of it.
    """
    known: dict[str, int] = {}
    for line in content.split(b"\n"):
        try:
            told = json.loads(line)
        except UNREADABLE:
            continue
        if type(told) is dict and (type(told.get("source")), type(told.get("bytes"))) == (str, int):
            known[told["source"]] = told["bytes"]
    return known


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _append(manifest: Any, told: dict[str, Any]) -> None:
    manifest.write(json.dumps(told).encode() + b"\n")
    manifest.flush()
    os.fsync(manifest.fileno())


def _writer() -> Callable[[Iterator[Record], Any], int]:
    """What writes records; asked for before anything is made."""
    try:
        from triack.tools.replay.columns import write_parquet
    except ImportError as error:
        raise ReplayError(_WRITER) from error
    return write_parquet


def _make(path: Path, output: Path, done: Compacted, write: Callable[[Iterator[Record], Any], int]) -> dict[str, Any]:
    """Make the file of a segment, and return what the manifest says of it."""
    records = read_records(LogFile(path, "", ("", 0, 0)))
    first = next(records, None)
    if first is None:
        return {"records": 0}
    last = dict(first)
    file = output / _name(path, first)
    file.parent.mkdir(exist_ok=True)
    unready = file.with_name(f".{file.name}.new")
    with unready.open("wb") as out:
        count = write(_noting(chain([first], records), last), out)
        out.flush()
        os.fsync(out.fileno())
    unready.replace(file)
    for folder in (file.parent, output):
        _sync(folder)
    done.made += 1
    done.records += count
    done.bytes_out += file.stat().st_size
    whose = {name: first[name] for name in ("node", "incarnation")}
    return {
        "file": str(file.relative_to(output)),
        "records": count,
        **whose,
        "first_n": first["n"],
        "last_n": last["n"],
    }


def _name(path: Path, first: Record) -> str:
    """Return where the file goes. Nodes may have the same name, and days are those of Greenwich."""
    day = datetime.fromtimestamp(first["wall_ns"] / 1e9, UTC)
    stem = path.name.removesuffix(OPEN_SUFFIX).removesuffix(".jsonl")
    return f"day={day:%Y-%m-%d}/{stem}-{first['node'][:8]}{PARQUET_SUFFIX}"


def _noting(records: Iterator[Record], last: Record) -> Iterator[Record]:
    for record in records:
        last["n"] = record["n"]
        yield record


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
