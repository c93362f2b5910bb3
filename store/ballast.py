"""A file of reserved space. A store that finds its disk full removes it, so that the node can start and be emptied.

It makes room for one log of the store: enough to delete messages, whose pages SQLite then uses again.
"""

import os
from contextlib import suppress
from pathlib import Path

from triack.base.errors import StoreError
from triack.store.folder import open_private

BALLAST_FILE = "ballast"
"""The name that operators see in a data directory."""
PLENTY = 4
"""Lay the ballast only on a disk with room for this many of it, so that a new node does not fill a small disk."""


def free_bytes(folder: Path) -> int:
    """How many more bytes the disk below a directory accepts from ordinary users. Raises OSError."""
    import shutil  # noqa: PLC0415 - it loads three compressors

    return shutil.disk_usage(folder).free


def disk_bytes(folder: Path) -> int:
    """How many bytes the disk below a directory would accept from ordinary users if it were empty. Raises OSError."""
    import shutil  # noqa: PLC0415 - as above

    usage = shutil.disk_usage(folder)
    return usage.used + usage.free


class Ballast:
    """The ballast of one data directory. The store sets ``size_bytes`` again once it has opened the database."""

    __slots__ = ("_folder", "_path", "size_bytes")

    def __init__(self, folder: Path | None, size_bytes: int) -> None:
        self._folder = folder or Path()
        self._path = None if folder is None else folder / BALLAST_FILE
        self.size_bytes = size_bytes

    def release(self) -> None:
        """Remove it if the disk has less room than its size. Never raises: the store may open all the same."""
        with suppress(OSError):
            if self._path is not None and free_bytes(self._folder) < self._path.stat().st_size:
                self._path.unlink(missing_ok=True)

    def lay(self) -> None:
        """Make it if the disk has plenty of room. Never raises: without it, the store keeps its size free."""
        if self._path is None or not self.missing_bytes or not hasattr(os, "posix_fallocate"):
            return
        with suppress(OSError, StoreError):
            if free_bytes(self._folder) < PLENTY * self.size_bytes:
                return
            opened = open_private(self._path, os.O_WRONLY | os.O_CREAT)
            try:
                os.posix_fallocate(opened, 0, self.size_bytes)
            finally:
                os.close(opened)

    @property
    def missing_bytes(self) -> int:
        """How many of its bytes are missing, and must be kept free in its place."""
        if self._path is None:
            return 0
        try:
            return max(0, self.size_bytes - self._path.stat().st_size)
        except OSError:
            return self.size_bytes
