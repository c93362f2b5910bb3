"""The file of a control socket: its place, its owner, and the process at its other end.

Promise: no byte goes to or comes from a process that runs as another user of the machine. A socket is made in a fresh
folder of mode 0700, below a directory in which no other user can replace it. A process that dials it checks the owner
and the mode of the folder and of the socket, follows no link to either, and asks the system for the user of the process
at the other end (SO_PEERCRED, unix(7)). A socket that was left behind is removed only if it is our own.

The one exception is root: it may use the node of every user, and every node serves root.
"""

import os
import socket
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct

from triack.base.errors import TriackError
from triack.node.files.ownership import check_private, check_private_folder, refused, trusted_users

SOCKET_FILE = "control"
"""The one file in its folder."""
SOCKET_FOLDER_PREFIX = "triack-"
"""Shows which program made a folder that was left behind."""
SOCKET_PATH_BYTES_MAX = 103
"""Every system accepts a socket path this long: macOS 104 bytes with the zero at its end, Linux 108 (unix(7))."""
_CREDENTIALS = Struct("3i")
"""The process, user and group at the other end of a connection (``struct ucred``, unix(7))."""

_IN_PLACE = sum(getattr(os, name, 0) for name in ("O_PATH", "O_NOFOLLOW", "O_CLOEXEC"))
"""Opens the file of a name itself, be it a socket or a link, and does nothing with it."""


# ---- the side that serves


def make_socket_path() -> Path:
    """A path for a control socket, in a fresh folder with mode 0700. Raises TriackError: no place can be used.

    It is below the first of these that can be used: the runtime directory of the service (``RUNTIME_DIRECTORY``,
    systemd.exec(5)) or of the user (``XDG_RUNTIME_DIR``, or ``/run/user/UID``), ``/run`` for root, and the directory
    for temporary files.
    """
    import tempfile  # noqa: PLC0415 - it loads three compressors

    why = ""
    for base in _bases(tempfile.gettempdir):
        try:
            check_private_folder(base, base.stat(), trusted_users())
            folder = Path(tempfile.mkdtemp(prefix=SOCKET_FOLDER_PREFIX, dir=base))
        except OSError as cause:
            why = cause.strerror or str(cause)
            continue
        path = folder / SOCKET_FILE
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
            return path
        folder.rmdir()
        why = "the path is too long"
    raise TriackError(f"control socket {base}/{SOCKET_FOLDER_PREFIX}...: {why}; set XDG_RUNTIME_DIR or TMPDIR")


def _bases(temporary: Callable[[], str]) -> Iterator[Path]:
    of_service, _, _ = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")
    for named in (of_service, os.environ.get("XDG_RUNTIME_DIR", "")):
        if named:
            yield Path(named).absolute()
    user = os.geteuid()
    yield Path("/run") if user == 0 else Path(f"/run/user/{user}")
    # Last: it writes a file to try each directory, and finds none if the root file system is read-only.
    with suppress(FileNotFoundError):
        yield Path(temporary()).absolute()


def is_there(path: Path) -> bool:
    """Whether the socket is still in its place: a logout, or a program that cleans up, may have removed it."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def is_served(path: Path) -> bool:
    """Whether a process listens at a socket of our own."""
    with socket.socket(socket.AF_UNIX) as end:
        end.setblocking(False)
        try:
            with opened(path, (os.geteuid(),)) as name:
                end.connect(name)
        except BlockingIOError:  # others wait to be accepted
            return True
        except OSError:
            return False
    return True


def remove(path: Path) -> None:
    """Remove a socket, and its folder. Does nothing if they are not our own."""
    own = (os.geteuid(),)
    with suppress(OSError), _folder_of(path, own) as folder:
        with suppress(FileNotFoundError):
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISSOCK(found.st_mode) or found.st_uid not in own:
                return
            os.unlink(path.name, dir_fd=folder)
        path.parent.rmdir()  # no link, as was checked; and a folder in use is not empty


# ---- the side that dials


@contextmanager
def opened(path: Path, users: Collection[int]) -> Iterator[str]:
    """A control socket under a name that certainly means the file that was checked, while the block lasts.

    Raises:
        PermissionError: it, or its folder, is not theirs alone; with a sentence that says why.
        OSError: it is not there.
    """
    with _folder_of(path, users) as folder:
        if not hasattr(os, "O_PATH"):
            _check_socket(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False), users)
            yield str(path)
            return
        found = os.open(path.name, _IN_PLACE, dir_fd=folder)
        try:
            _check_socket(path, os.fstat(found), users)
            by_number = f"/proc/self/fd/{found}"
            yield by_number if Path("/proc/self/fd").exists() else str(path)
        finally:
            os.close(found)


@contextmanager
def _folder_of(path: Path, users: Collection[int]) -> Iterator[int]:
    folder = os.open(path.parent, _IN_PLACE | getattr(os, "O_DIRECTORY", 0))
    try:
        check_private(str(path.parent), os.fstat(folder), users)
        yield folder
    finally:
        os.close(folder)


def _check_socket(path: Path, found: os.stat_result, users: Collection[int]) -> None:
    if not stat.S_ISSOCK(found.st_mode):
        raise refused(f"{path} is no socket")
    if found.st_uid not in users:
        raise refused(f"{path} belongs to another user (uid {found.st_uid})")


def check_peer(end: socket.socket, users: Collection[int]) -> None:
    """Check the user of the process at the other end of a connection. Raises PermissionError: it is another user.

    If the system does not tell it, the folder of mode 0700 must do.
    """
    if sys.platform == "linux" and (user := peer_of(end)[1]) not in users:
        raise refused(f"the process at its other end runs as another user (uid {user})")


def peer_of(end: socket.socket) -> tuple[int, int]:
    """The process at the other end of a connection, and its user. Raises AttributeError, OSError: not on Linux."""
    pid, user, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, user
