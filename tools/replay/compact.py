"""``triack log compact``: session logs as Parquet files, for replays and queries of what is kept for long.

Each segment becomes one file of its own, under the day on which it began, and a line of ``_manifest`` tells what was
made of what. A file is complete before it has its name, and its line is written behind that: whatever a crash leaves,
the next run makes what is not told of, and nothing twice. A segment that has grown is made again. All of it is its
owner's alone, as the logs are.
"""

from __future__ import annotations

import hashlib
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
    size_bytes,
)

MANIFEST: Final = "_manifest"
"""In JSON Lines; its name is none of a segment, and Spark takes no data from files whose names begin like that."""
_DIGEST_BYTES: Final = 8
"""Of what tells segments of the same day, name and node apart: no two of a million are alike by chance."""
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
        ReplayError: there is no log, one is damaged or is there twice, or the output cannot be written.
    """
    if directory.resolve() in (output.resolve(), *output.resolve().parents):
        raise ReplayError(f"{output} is within {directory}, where a replay would find each record twice")
    segments = _sources(directory)
    done = Compacted(segments=len(segments))
    write = _writer()
    try:
        output.mkdir(parents=True, exist_ok=True)
        known = read_manifest((output / MANIFEST).read_bytes()) if (output / MANIFEST).exists() else {}
        with open(output / MANIFEST, "ab", opener=_private) as manifest:
            if manifest.tell() and not _ends_whole(output / MANIFEST):
                manifest.write(b"\n")
            for source, path in segments.items():
                size = size_bytes(path)
                records = read_records(LogFile(path, "", ("", 0, 0)))
                first = next(records, None)
                if first is None:  # nothing but a torn line
                    continue
                file = _name(source, path, first)
                if known.get(file) != size:
                    told = _make(output / file, first, records, write)
                    _append(manifest, {"source": source, "bytes": size, "file": file, **told})
                    done.made += 1
                    done.records += told["records"]
                    done.bytes_in += size
                    done.bytes_out += (output / file).stat().st_size
    except OSError as error:  # of the output: what cannot be read of a log is told as that
        raise ReplayError(f"cannot write {output}: {error.strerror}") from error
    return done


def _sources(directory: Path) -> dict[str, Path]:
    """Return the segments by what the manifest calls them, which is the same when they are complete."""
    found: dict[str, Path] = {}
    for path in segments_of(directory):
        source = str(path.relative_to(directory)).removesuffix(OPEN_SUFFIX)
        if source in found:
            raise ReplayError(f"{found[source]} and {path} are one segment: keep only the larger one")
        if not path.name.endswith(PARQUET_SUFFIX):
            found[source] = path
    if not found:
        raise ReplayError(f"no session log (*.jsonl, *.jsonl.open) in {directory}")
    return found


def read_manifest(content: bytes) -> dict[str, int]:
    """Return how long the source of each file was when it was taken; a line that is torn or no record tells nothing.

    Args:
        content: of the manifest, all of it.
    """
    known: dict[str, int] = {}
    for line in content.split(b"\n"):
        try:
            told = json.loads(line)
        except UNREADABLE:
            continue
        if type(told) is dict and (type(told.get("file")), type(told.get("bytes"))) == (str, int):
            known[told["file"]] = told["bytes"]
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


def _private(path: str, flags: int) -> int:
    """Open a file for its owner alone, also one that is there."""
    handle = os.open(path, flags, 0o600)
    os.fchmod(handle, 0o600)
    return handle


def _make(
    file: Path, first: Record, records: Iterator[Record], write: Callable[[Iterator[Record], Any], int]
) -> dict[str, Any]:
    """Make the file of a segment, and return what the manifest says of its records."""
    last = dict(first)
    file.parent.mkdir(exist_ok=True)
    unready = file.with_name(f".{file.name}.new")
    with open(unready, "wb", opener=_private) as out:
        count = write(_noting(chain([first], records), last), out)
        out.flush()
        os.fsync(out.fileno())
    unready.replace(file)
    for folder in (file.parent, file.parent.parent):
        _sync(folder)
    whose = {name: first[name] for name in ("node", "incarnation")}
    return {"records": count, **whose, "first_n": first["n"], "last_n": last["n"]}


def _name(source: str, path: Path, first: Record) -> str:
    """Return where the file goes, which is nobody else's; days are those of Greenwich.

    The record may be damaged, and its node's id with it, which is to name nothing but a file: ReplayError.
    Nodes may have the same name. And a store that runs twice, as a copy or from a backup, writes segments of the same
    names: in another directory, or where the earlier ones have been deleted.
    """
    if not first["node"].isalnum():
        raise ReplayError(f"{path} line 1 is damaged: {first['node']!r} is no id of a node")
    day = datetime.fromtimestamp(first["wall_ns"] / 1e9, UTC)
    stem = path.name.removesuffix(OPEN_SUFFIX).removesuffix(".jsonl")
    which = hashlib.blake2b(os.fsencode(f"{first['wall_ns']} {source}"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"day={day:%Y-%m-%d}/{stem}-{first['node'][:8]}-{which}{PARQUET_SUFFIX}"


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
