"""The users whose files and processes a node trusts, on a machine that several users share.

Promise: a file of another user of the machine never counts as our own. Our own are files of the user of this process,
and of root, who can do everything anyway. One exception: for a process of root, files of the owner of the data
directory that it was given count as that directory's own.
"""

import errno
import os
import stat
from collections.abc import Collection
from pathlib import Path

from triack.store.folder import SAFELY, SAFELY_BY_LINKS

ROOT = 0
"""The user who can do everything."""
UNKNOWN_FILE = Path("/proc/sys/kernel/overflowuid")
"""Has the user that represents all unknown ones in a user namespace, as in a container (user_namespaces(7))."""
UNKNOWN = 65_534
"""That user if this file is missing."""


def trusted_users(data: Path | None = None) -> frozenset[int]:
    """The users whose files and processes count as our own, on systems that have users (POSIX).

    Raises OSError: the directory cannot be examined.
    """
    own = os.geteuid()
    users = {ROOT, own}
    if own == ROOT and data is not None:
        owner = data.stat().st_uid
        # Several users may appear as this one.
        if owner != _unknown_user():
            users.add(owner)
    return frozenset(users)


def users_of(data: Path) -> frozenset[int] | None:
    """The users whose files in a directory, and beside it, count as its own; None if the system has no users."""
    return trusted_users(data) if os.name == "posix" else None


def users_by(writer: int | None, data: Path) -> frozenset[int] | None:
    """The users whose files and processes a note in a directory may name.

    A user cannot make root use root's own files by a note in that user's directory.
    """
    if writer is None:
        return None
    return trusted_users(data) if writer in trusted_users() else frozenset((writer,))


def _unknown_user() -> int:
    try:
        return int(UNKNOWN_FILE.read_text())
    except (OSError, ValueError):
        return UNKNOWN


def check_private(what: str, found: os.stat_result, users: Collection[int]) -> None:
    """Check that only these users can use a file or a folder. Raises PermissionError, with a sentence that says why."""
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in users:
        raise refused(f"{what} belongs to another user (uid {found.st_uid})")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise refused(f"others may use {what} (mode {mode:04o})")


def check_private_folder(folder: Path, found: os.stat_result, users: Collection[int]) -> None:
    """Check that only these users can replace their files in a folder. Raises PermissionError, with a reason."""
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in users:
        raise refused(f"{folder} belongs to another user (uid {found.st_uid})")
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        raise refused(f"others may write to {folder} (mode {mode:04o})")


def close_to_group(data: Path, names: Collection[str]) -> list[str]:
    """Remove a group's access to files of a directory, if the owner is right and all others have none.

    The kubelet gives that access to the group ``fsGroup`` of a pod with each start. A file that all may use, or of
    another user, stays as it is: the code that opens it refuses it.
    """
    return [name for name in names if os.name == "posix" and _is_closed_now(data / name)]


def _is_closed_now(path: Path) -> bool:
    try:
        if not _is_open_to_group(path.lstat()):
            return False
        opened = os.open(path, os.O_RDONLY | SAFELY)
        try:
            found = os.fstat(opened)
            if is_open := _is_open_to_group(found):
                os.fchmod(opened, stat.S_IMODE(found.st_mode) & stat.S_IRWXU)
        finally:
            os.close(opened)
    except OSError:  # it is not there, or stays as it is
        return False
    return is_open


def _is_open_to_group(found: os.stat_result) -> bool:
    ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    return ours and bool(found.st_mode & stat.S_IRWXG) and not found.st_mode & stat.S_IRWXO


def is_folder_of(folder: Path, users: Collection[int] | None) -> bool:
    """Whether there is a folder that one of these users has made."""
    try:
        found = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and (users is None or found.st_uid in users)


def open_plain(path: Path, users: Collection[int] | None) -> int:
    """Open a regular file for reading, if only these users can have written it; None: the system has no users.

    Raises:
        PermissionError: it is no regular file, another user's, or others may write to it; with a sentence on that.
        OSError: it cannot be opened.
    """
    try:
        opened = os.open(path, os.O_RDONLY | SAFELY)
    except OSError as cause:
        if cause.errno == errno.ELOOP:
            raise refused(f"{path} is a symbolic link") from cause
        raise
    try:
        _check_written_by(str(path), os.fstat(opened), users)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _check_written_by(what: str, found: os.stat_result, users: Collection[int] | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise refused(f"{what} is no regular file")
    if users is None:
        return
    if found.st_uid not in users:
        raise refused(f"{what} belongs to another user (uid {found.st_uid})")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise refused(f"others may write to {what} (mode {stat.S_IMODE(found.st_mode):04o}): chmod go-w it")


def read_named(path: Path, bytes_max: int) -> bytes:
    """Read a file whose path a person has given, through links as well; never block on a pipe.

    Raises:
        PermissionError: it is no regular file or too large, another user's, or others may write to it; with a sentence
            on that, which calls it "it".
        OSError: it cannot be opened or read.
    """
    opened = os.open(path, os.O_RDONLY | SAFELY_BY_LINKS)
    try:
        _check_written_by("it", os.fstat(opened), trusted_users() if os.name == "posix" else None)
        with os.fdopen(opened, "rb", closefd=False) as file:
            content = file.read(bytes_max + 1) or b""  # nothing for a file of the kernel that has nothing to say yet
    finally:
        os.close(opened)
    if len(content) > bytes_max:
        raise refused(f"it has more than {bytes_max} bytes")
    return content


def why_exposed(found: os.stat_result, *, secret: bool) -> str | None:
    """A sentence on the access of other users to a file that people have made for a node; None: no access.

    Only the owner may read a ``secret`` file, or the group of a file of root, as Debian's ``ssl-cert``.
    """
    if os.name != "posix" or not stat.S_ISREG(found.st_mode):
        return None
    mode = f"(mode {stat.S_IMODE(found.st_mode):04o})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to it {mode}"
    group = 0 if found.st_uid == ROOT else stat.S_IRGRP
    if secret and found.st_mode & (stat.S_IROTH | group):
        return f"other users may read it {mode}: chmod 600 it"
    return None


def why_refused(error: PermissionError) -> str:
    """The sentence of such an error, also of one that the system has raised."""
    return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error.strerror)


def refused(why: str) -> PermissionError:
    """The error for a file that is not used; its ``strerror`` says why."""
    return PermissionError(errno.EPERM, why)
