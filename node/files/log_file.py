"""The files of the session log (docs/session-log.md).

Segments grow by whole records and are renamed when the next one begins. The data directory has a note of their folder,
so that a start without the argument for a log, as for browsing a node at rest, continues it.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from triack.base.errors import StoreError
from triack.base.log_lines import SEGMENT_BEGIN
from triack.base.names import check_name
from triack.node.files import operator_log
from triack.node.files.notes import Note, folder_of, write_note
from triack.store.folder import explain, make_missing

OPEN_SUFFIX = ".open"
"""Marks the segment that is being written, for readers and for cleaning up."""


class LogFile:
    """Appends records to the current segment.

    The operating system has the records when ``append`` returns, so a killed process loses none of them. A full disk
    ends the recording, with a warning; messages continue.

    Raises:
        StoreError: the folder or the first segment cannot be made.
    """

    def __init__(self, folder: Path, name: str, incarnation: int) -> None:
        self._folder = folder
        self._stem = f"{name}-{incarnation:06d}"
        self._segment = 0
        self._begun = False
        self._fd: int | None = None
        try:
            make_missing(folder)
            self._open_next()
        except OSError as cause:
            raise StoreError(f"open session log in {folder}: {explain(cause, folder)}") from cause

    def append(self, records: bytes) -> None:
        """Append whole records; a record that begins a segment begins a file."""
        if self._fd is None or not records:
            return
        try:
            if self._begun and records.startswith(SEGMENT_BEGIN):
                self._finish()
                self._open_next()
            view = memoryview(records)
            while view:
                view = view[os.write(self._fd, view) :]
            self._begun = True
        except OSError as cause:
            self._give_up(cause)

    def close(self) -> None:
        """Finish the last segment."""
        if self._fd is None:
            return
        try:
            self._finish()
        except OSError as cause:
            self._give_up(cause)

    def _give_up(self, cause: OSError) -> None:
        operator_log.error(f"recording in {self._folder} stopped: {cause.strerror}", folder=str(self._folder))
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _path(self) -> Path:
        return self._folder / f"{self._stem}-{self._segment:06d}.jsonl"

    def _open_path(self) -> Path:
        return self._folder / f"{self._path().name}{OPEN_SUFFIX}"

    def _open_next(self) -> None:
        self._segment += 1
        # Another node of the same name, with other data, may have written here before.
        while self._path().exists() or self._open_path().exists():
            self._segment += 1
        self._begun = False
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._fd = os.open(self._open_path(), flags, 0o600)

    def _finish(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._open_path().rename(self._path())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Note):
    """The place of the session log of a node's last start by a program."""

    FILE = "log.json"

    name: str
    log: str

    def is_ours(self) -> bool:
        """Whether the folder is an absolute path. Raises ValueError for a wrong name or path."""
        check_name(self.name)
        return Path(self.log).is_absolute() and b"\0" not in os.fsencode(self.log)


def note_log(data: Path, log: Path | None, name: str) -> None:
    """Note where a start records, or that it does not. A disk that refuses the note does not stop a node."""
    with contextlib.suppress(OSError):
        if log is None:
            (data / Recorded.FILE).unlink(missing_ok=True)
        else:
            write_note(data, Recorded(folder=folder_of(data), name=name, log=str(log)))
