"""Notes of a node about itself in its data directory, for later processes.

Each note is a small JSON file of its owner alone and names its directory: a note that was copied with its directory
names another one, and is ignored.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import ClassVar, TypeVar

from triack.node.files.ownership import open_plain, users_by, users_of, why_refused

NOTE_BYTES_MAX = 65_536
"""The longest paths and names need a tenth of it; the beginning of a longer file is no note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note of one kind."""

    FILE: ClassVar[str]

    folder: str

    def is_ours(self) -> bool:
        """Whether a node may have written it. May raise ValueError instead of returning False."""
        return True


N = TypeVar("N", bound=Note)


def folder_of(data: Path) -> str:
    """An id of a directory, for any path and after renames; a copy has another one. Raises OSError."""
    found = data.stat()
    return f"{found.st_dev}:{found.st_ino}"


def read_note(data: Path, kind: type[N], told: Callable[[str], object] | None = None) -> N | None:
    """The note in a directory, stale or not; see ``read_signed_note``."""
    found = read_signed_note(data, kind, told)
    return None if found is None else found[0]


def read_signed_note(
    data: Path, kind: type[N], told: Callable[[str], object] | None = None
) -> tuple[N, frozenset[int] | None] | None:
    """The note in a directory, stale or not, and the users whose files it may name (``users_by``); None: no note.

    A file that another user may have written is ignored, and ``told`` gets a sentence about it.
    """
    try:
        with os.fdopen(open_plain(data / kind.FILE, users_of(data)), "rb") as file:
            writer = os.fstat(file.fileno()).st_uid if os.name == "posix" else None
            note = decode_note(kind, file.read(NOTE_BYTES_MAX))
        if note is None or note.folder != folder_of(data):
            return None
        return note, users_by(writer, data)
    except PermissionError as error:
        if told is not None:
            told(f"note not used: {why_refused(error)}")
    except OSError:
        pass
    return None


def decode_note(kind: type[N], content: bytes) -> N | None:
    """Read a note; None if ``write_note`` has not written this content."""
    try:
        found = json.loads(content)
        values = {field.name: found[field.name] for field in fields(kind)}
        if any(type(values[field.name]) is not field.type for field in fields(kind)):
            return None
        note = kind(**values)
        return note if note.is_ours() else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def write_note(data: Path, note: Note) -> None:
    """Put a note into the directory, replacing an older one; the caller holds its store. Raises OSError."""
    temporary = data / f"{note.FILE}.new"
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(asdict(note), file)
    temporary.rename(data / note.FILE)
