"""Small files for their owner alone: keys, and the peers that a node trusts.

Promise: a content comes from a regular file that no other user can read or write, whatever name it was put under. A
change happens as a whole or not at all, is durable when ``change`` returns, and builds on the change before it, also
of another process. No error repeats any of the content.
"""

import asyncio
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from pathlib import Path

from triack.base.errors import IdentityError
from triack.store.folder import SAFELY, explain, make_folder, sync_folder, what_is_wrong

if sys.platform != "win32":
    import fcntl

FILE_BYTES_MAX = 16 * 1024 * 1024
"""Tens of thousands of peers; Triack did not write a larger file."""
POLL_SECONDS = 0.5
"""Time between checks of a file: a peer whose trust is withdrawn must be gone within a second."""
LOCK_SECONDS = 5.0
"""A change takes milliseconds: a process that locks the directory this long does something else with it."""
LOCK_POLL_SECONDS = 0.02
"""Too short for a person who waits for a command to notice."""

Edit = Callable[[bytes | None], bytes]
"""Makes a new content from the present one; from None if there is none."""


class PrivateFiles:
    """Files in a data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def where(self, name: str) -> str:
        """The name of a file in messages for people."""
        return str(self._folder / name)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none.

        Raises IdentityError: it cannot be read, is no regular file, or others than its owner may read or write it.
        """
        path = self._folder / name
        try:
            opened = os.open(path, os.O_RDONLY | SAFELY)
        except FileNotFoundError:
            return None
        except OSError as cause:
            why = "it is a symbolic link" if cause.errno == errno.ELOOP else cause.strerror
            raise IdentityError(f"read {path}: {why}") from cause
        try:
            self._check(path, os.fstat(opened))
            with os.fdopen(opened, "rb", closefd=False) as file:
                return file.read()
        except OSError as cause:
            raise IdentityError(f"read {path}: {cause.strerror}") from cause
        finally:
            os.close(opened)

    def _check(self, path: Path, found: os.stat_result) -> None:
        problem = what_is_wrong(found, self._folder.stat()) if os.name == "posix" else None
        if problem is None and found.st_size > FILE_BYTES_MAX:
            problem = f"it has {found.st_size} bytes, over {FILE_BYTES_MAX}"
        if problem is not None:
            raise IdentityError(f"read {path}: {problem}")

    def change(self, name: str, edit: Edit) -> bytes:
        """Replace a content by the result of ``edit``. Returns the new content.

        Raises:
            IdentityError: as ``read``; or it cannot be written.
            StoreError: the directory cannot be made.
        """
        make_folder(self._folder)
        with self._locked():
            content = edit(self.read(name))
            try:
                self._replace(name, content)
            except OSError as cause:
                raise IdentityError(f"write {self.where(name)}: {explain(cause, self._folder)}") from cause
        return content

    def _replace(self, name: str, content: bytes) -> None:
        fresh = self._folder / f"{name}.new"
        with suppress(FileNotFoundError):
            fresh.unlink()  # of a process that was killed: this one has the lock
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY, 0o600), "wb") as file:
                if os.name == "posix" and os.geteuid() == 0:  # an operator must not lock the node's own user out
                    folder = self._folder.stat()
                    os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._folder / name)
        except OSError:
            with suppress(OSError):
                fresh.unlink()
            raise
        sync_folder(self._folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the files, by a lock on the directory; it ends with the process."""
        if sys.platform == "win32":
            yield
            return
        opened = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            end = time.monotonic() + LOCK_SECONDS
            while not _try_lock(opened):
                if time.monotonic() > end:
                    raise IdentityError(f"change files in {self._folder}: another process has it locked")
                time.sleep(LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(opened)

    def stamp(self, name: str) -> object:
        """Equal while the file is unchanged; None if there is none."""
        try:
            # Not through ``Path``, which makes twenty calls of it: an idle node does little else.
            found = os.lstat(f"{self._folder}/{name}")
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    async def changed(self, name: str, stamp: object) -> object:
        """Wait until the stamp changes, and return the new one."""
        while (now := self.stamp(name)) == stamp:  # noqa: ASYNC110 - no notification works on every file system
            await asyncio.sleep(POLL_SECONDS)
        return now


class MemoryFiles:
    """The same for a node that keeps everything in memory. Any thread may change them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contents: dict[str, bytes] = {}
        self._versions: dict[str, int] = {}
        self._waiting: list[tuple[asyncio.Future[None], Context]] = []

    def where(self, name: str) -> str:
        """The name of a file in messages for people."""
        return f"{name} in memory"

    def read(self, name: str) -> bytes | None:
        """The content; None if there is none."""
        return self._contents.get(name)

    def change(self, name: str, edit: Edit) -> bytes:
        """Replace a content by the result of ``edit``. Returns the new content."""
        with self._lock:
            content = self._contents[name] = edit(self._contents.get(name))
            self._versions[name] = self._versions.get(name, 0) + 1
            waiting, self._waiting = self._waiting, []
        for future, context in waiting:
            with suppress(RuntimeError):  # its loop has ended
                future.get_loop().call_soon_threadsafe(_finish, future, context=context)
        return content

    def stamp(self, name: str) -> object:
        """Equal while it is unchanged; None if there is none."""
        return self._versions.get(name)

    async def changed(self, name: str, stamp: object) -> object:
        """Wait until the stamp changes, and return the new one."""
        while (future := self._wait(name, stamp)) is not None:
            await future
        return self._versions.get(name)

    def _wait(self, name: str, stamp: object) -> "asyncio.Future[None] | None":
        with self._lock:
            if self._versions.get(name) != stamp:
                return None
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((future, copy_context()))
            return future


Files = PrivateFiles | MemoryFiles


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _try_lock(opened: int) -> bool:
    if sys.platform != "win32":
        with suppress(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
