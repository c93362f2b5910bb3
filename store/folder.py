"""The data directory of a node, before it has a store: only its owner can read it, and its name is durable."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from triack.base.errors import StoreError, UsageError

STORE_FILE = "store.db"
"""Backups and operators know this name."""
SAFELY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
"""Follow no link, and do not block on a pipe. A system that lacks one of these flags has no such thing."""
SAFELY_BY_LINKS = SAFELY & ~getattr(os, "O_NOFOLLOW", 0)
"""The same for a path that a person gave, which may be a link."""
NO_INODES = "its disk has no inode left, though perhaps room: remove files that are not needed, however small"
"""Why nothing new can be made on a disk with too many files."""


def as_folder(what: str, path: object) -> Path:
    """Make a path absolute. An empty one would mean the working directory. Raises UsageError: it is no path."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise UsageError(f"{what} must be the path of a directory, not {path!r}")
    return Path(path).absolute()


def make_missing(folder: Path) -> None:
    """Make a directory and its missing parents, for their owner alone, and sync each name. Raises OSError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        sync_folder(path.parent)


def lacks_inodes(folder: Path) -> bool:
    """Whether the disk below a directory may have room, but has no free inode."""
    if os.name != "posix":
        return False
    with suppress(OSError):
        found = os.statvfs(folder)
        return found.f_files > 0 and found.f_favail == 0  # a file system without a limit says that it has none at all
    return False


def explain(cause: OSError, folder: Path) -> str:
    """Why a file or directory could not be made in a directory, in words."""
    if cause.errno == errno.ENOSPC and lacks_inodes(folder):
        return NO_INODES
    return cause.strerror or str(cause)


def make_folder(folder: Path) -> None:
    """Make a data directory, and check that it can be used. Raises StoreError, with the path and the cause."""
    try:
        make_missing(folder)
    except OSError as cause:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        raise StoreError(f"make data directory {folder}: {explain(cause, there)}") from cause
    if not folder.is_dir():
        raise StoreError(f"open data directory {folder}: not a directory")
    if not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise StoreError(f"open data directory {folder}: not writable")


def check_unused(folder: Path) -> None:
    """Raise UsageError if a directory has a store: a node without one on the disk would leave its messages unread."""
    if (folder / STORE_FILE).exists():
        raise UsageError(
            f"open data directory {folder}: a node whose store survives nothing would leave out what is in "
            f"{folder / STORE_FILE}; give it another directory, or its store back"
        )


def open_private(path: Path, flags: int) -> int:
    """Open a file of a data directory that only its owner can use, by no other name. Never blocks on a pipe.

    A file that is made here has mode 0600, and SQLite gives the files beside it the same mode.

    Raises:
        StoreError: with the path and the cause.
    """
    try:
        opened = os.open(path, flags | SAFELY, 0o600)
    except OSError as cause:
        why = "it is a symbolic link" if cause.errno == errno.ELOOP else explain(cause, path.parent)
        raise StoreError(f"open {path}: {why}") from cause
    try:
        _check_file(path, os.fstat(opened))
    except BaseException:
        os.close(opened)
        raise
    return opened


def check_private(path: Path) -> None:
    """Check that a file which SQLite opens by its name is its owner's alone, if it exists. Raises StoreError."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as cause:
        raise StoreError(f"open {path}: {cause.strerror}") from cause
    _check_file(path, found)


def _check_file(path: Path, found: os.stat_result) -> None:
    try:
        problem = what_is_wrong(found, path.parent.stat()) if os.name == "posix" else None
    except OSError as cause:
        raise StoreError(f"open {path}: {cause.strerror}") from cause
    if problem is not None:
        raise StoreError(f"open {path}: {problem}")


def what_is_wrong(found: os.stat_result, folder: os.stat_result) -> str | None:
    """Why others may use a file in a directory, or None. A file replaced since it was opened has no name: no fault."""
    modes = [f"(mode {stat.S_IMODE(status.st_mode):04o})" for status in (found, folder)]
    checks = (
        (stat.S_ISLNK(found.st_mode), "it is a symbolic link"),
        (not stat.S_ISREG(found.st_mode), "it is no regular file"),
        (found.st_uid not in (os.geteuid(), folder.st_uid), "it belongs to another user"),
        (found.st_mode & (stat.S_IRWXG | stat.S_IRWXO), f"others may use it {modes[0]}: chmod 600 it"),
        (found.st_nlink > 1, "it has another name, too (a hard link)"),
        (
            folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX,
            f"everyone may write to its directory {modes[1]}: chmod 700 that",
        ),
    )
    return next((problem for is_so, problem in checks if is_so), None)


def sync_folder(folder: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
