"""The file ``hands`` of a data directory: which messages are leased to applications, in shared memory.

Promise: as long as the system lives, the next process reads what this one wrote, however this one ended. Nothing is
synced: after a loss of power or a restart of the machine no one reads the file, as no handler caused that. If the file
cannot be made, only these notes are missing.
"""

import mmap
import os
from array import array
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Protocol

from triack.base.clock import BOOT_BYTES
from triack.base.lease_words import Marks, begin_words, read_marks
from triack.store.boot import boot_id

LEASE_FILE = "hands"
"""Operators see this name in a data directory."""


class LeaseWords(Protocol):
    """Where a store notes the leased messages."""

    def begin(self, before: int, start: int) -> tuple[Marks, memoryview | None]:
        """Begin the notes of a start. Returns those that ``before`` left, and the words to write to, or None."""

    def end(self) -> None:
        """The store closes in good order: keep only the notes that the next start needs."""


class LeaseFile:
    """The file of one data directory."""

    __slots__ = ("_path", "_start", "_words")

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / LEASE_FILE
        self._start = 0
        self._words: memoryview | None = None

    def begin(self, before: int, start: int) -> tuple[Marks, memoryview | None]:
        """See ``LeaseWords``. Never raises: without the file, deaths are not counted."""
        boot = boot_id()
        if self._path is None or not boot:
            return {}, None
        left = self._read(self._path, boot, before)
        with suppress(OSError, ValueError):
            self._start, self._words = start, self._make(self._path, boot + begin_words(before, start, left).tobytes())
        return left, self._words

    def end(self) -> None:
        """Remove the file if it has no notes."""
        words, self._words = self._words, None
        if words is None or self._path is None:
            return
        if not read_marks(words, self._start):
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
        # The map keeps its own descriptor while anything refers to a message.
        words.release()

    @staticmethod
    def _read(path: Path, boot: bytes, start: int) -> Marks:
        try:
            # Blocks on no pipe, and follows no link.
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(opened, "rb") as file:
                content = file.read() if S_ISREG(os.fstat(opened).st_mode) else b""
        except OSError:
            return {}
        words = array("Q")
        if content[:BOOT_BYTES] == boot and not len(content) % words.itemsize:
            words.frombytes(content[BOOT_BYTES:])
        return read_marks(words, start)

    @staticmethod
    def _make(path: Path, content: bytes) -> memoryview:
        """Make a new file, then rename it: a process that has the old one keeps it, and none ever sees half a file."""
        new = path.with_name(f"{path.name}.new")
        new.unlink(missing_ok=True)
        opened = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Write all of it, so that the disk cannot be full when a word changes later.
            if os.write(opened, content) != len(content):
                raise OSError(f"write {new}: the disk is full")
            shared = mmap.mmap(opened, len(content))
        finally:
            os.close(opened)
        new.replace(path)
        return memoryview(shared)[BOOT_BYTES:].cast("Q")
