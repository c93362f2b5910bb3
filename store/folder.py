"""The data directory of a node, before there is a store in it: readable to its owner alone, and durable by its name."""

import os
from pathlib import Path

from triack.base.errors import StoreError, UsageError

__all__ = ["STORE_FILE", "as_folder", "check_unused", "make_folder", "make_private", "sync_folder"]

STORE_FILE = "store.db"
"""The name that backups, and whoever looks into a data directory, know."""


def as_folder(what: str, path: object) -> Path:
    """A directory, as a program names it from where it is now. No name would be the working directory: nobody means it.

    Raises:
        UsageError: that is no path.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise UsageError(f"{what} must be the path of a directory, not {path!r}")
    return Path(path).absolute()


def make_folder(folder: Path) -> None:
    """Make a data directory, and those above it, readable to their owner alone.

    A name in a directory is durable when that directory is synced.

    Raises:
        StoreError: with the path and the cause.
    """
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            sync_folder(path.parent)
    except OSError as cause:
        raise StoreError(f"make data directory {folder}: {cause.strerror}") from cause
    if not folder.is_dir():
        raise StoreError(f"open data directory {folder}: not a directory")
    if not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise StoreError(f"open data directory {folder}: not writable")


def check_unused(folder: Path) -> None:
    """Make sure that a node which is to keep nothing on the disk leaves nothing there unread.

    Raises:
        UsageError: there is a store in the directory.
    """
    if (folder / STORE_FILE).exists():
        raise UsageError(
            f"open data directory {folder}: a node whose store survives nothing would leave out what is in "
            f"{folder / STORE_FILE}; give it another directory, or its store back"
        )


def make_private(path: Path) -> None:
    """Make a file of its owner alone; SQLite makes those beside it in its likeness. One that is there stays as it is.

    Raises:
        StoreError: with the path and the cause.
    """
    try:
        # Not to open what is there: to close it would take the lock of whoever has it open in this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as cause:
        raise StoreError(f"make {path}: {cause.strerror}") from cause


def sync_folder(folder: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
