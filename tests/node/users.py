"""Other users of the machine, who are really there: threads that run as them. It takes root."""

import ctypes
import os
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

OWNER, OTHER = 21_001, 21_002
"""Two users that nothing else on the machine is likely to run as."""
_SETRESUID = {"x86_64": 117, "aarch64": 147}.get(platform.machine())
"""The system call itself changes one thread alone; what the C library makes of it changes the whole process."""

needs_users = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or _SETRESUID is None, reason="to be another user takes root"
)


def run_as(user: int, work: Callable[[], T]) -> T:
    """Return what ``work`` returns, or raise what it raises, as another user of the machine."""
    found: list[T] = []
    failed: list[BaseException] = []

    def be() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(_SETRESUID, user, user, user) != 0:
            failed.append(OSError(ctypes.get_errno(), "setresuid"))
            return
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failed.append(error)

    thread = threading.Thread(target=be)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


@pytest.fixture
def commons() -> Iterator[Path]:
    """A directory that each user can reach and that belongs to root. Those of pytest are for its own user alone."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def make_folder(path: Path, owner: int, mode: int = 0o700) -> Path:
    path.mkdir()
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path
