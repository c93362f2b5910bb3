"""The files of the session log (docs/session-log.md).

Segments grow by whole records and are renamed when the next one begins.
"""

import os
from pathlib import Path

from triack.base.errors import StoreError
from triack.base.log_lines import SEGMENT_BEGIN
from triack.node import operator_log

__all__ = ["LogFile"]

OPEN_SUFFIX = ".open"
"""Marks the segment that is being written, for readers and for whoever cleans up."""


class LogFile:
    """Appends records to the current segment.

    What was appended is with the operating system when ``append`` returns, so a killed process loses none of it. A
    disk that takes no more ends the recording, with a warning; messages go on.

    Args:
        folder: made when it does not exist.
        name: name of the node.
        incarnation: which start of it.

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
            folder.mkdir(parents=True, exist_ok=True)
            self._open_next()
        except OSError as cause:
            raise StoreError(f"open session log in {folder}: {cause.strerror}") from cause

    def append(self, records: bytes) -> None:
        """Append whole records; those that begin a segment begin a file."""
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
        # Another node of the same name, on other data, may have written here before.
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
