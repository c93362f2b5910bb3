"""Which process has a data directory: one at a time, and a process that has lost it finds out.

Two locks keep a second process out. SQLite's locks would not: they belong to the process, and any code of that process
releases them when it closes a descriptor of the file, as a backup does (fcntl(2)). Our two locks belong to open files
that only this module has:

- ``owner`` is locked as a whole (flock(2)). No other code opens it.
- In the database we lock the bytes that SQLite locks, where the system can (Linux: F_OFD_SETLK). So SQLite refuses to
  read or write an open store, even for another part of this process, and a second node is refused even when someone
  deleted ``owner``.

Locks do not reach everywhere: two mounts of one volume may have separate locks. So a process that opens a store writes
a record into ``owner`` before it reads anything, and looks for that record before and after each commit. A process
that finds another record has lost the store, and reports that (docs/decisions/0006).
"""

import errno
import json
import os
import secrets
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from triack.base.errors import StoreError, StoreInUse
from triack.base.printable import printable
from triack.store.folder import SAFELY, STORE_FILE, open_private

if sys.platform != "win32":
    import fcntl

OWNER_FILE = "owner"
"""Operators see this name in a data directory."""
RECORD_BYTES = 512
"""One sector, which a disk writes as a whole or not at all. A host's name has 64 bytes at most (gethostname(2))."""
TOKEN_BYTES = 16
"""Random, so that no two processes have the same."""

_SQLITE_LOCK_BYTES = 0x40000000, 512
"""Where SQLite locks a database, and how many bytes: PENDING_BYTE and what follows (https://sqlite.org/src, os.h)."""
_SET_OPEN_FILE_LOCK: int | None = fcntl.F_OFD_SETLK if sys.platform == "linux" else None
_FLOCK = "hhqqi"
"""``struct flock`` of Linux's fcntl(2): type, whence, start, length, pid."""

UNREADABLE = "of unknown name"
"""Replaces the id of a node in a damaged record: there was one."""

_open: "WeakSet[Owner]" = WeakSet()
"""The owners in this process: a forked child ends them."""


class Owner:
    """This process as the owner of a data directory.

    Attributes:
        node_id: of the node that kept its store here before, 32 hex digits; empty: none; ``UNREADABLE``: not known.
        guards_database: whether our lock replaces SQLite's.

    Raises:
        StoreInUse: another process has it, or another node of this one.
        StoreError: ``owner`` cannot be used, or its file system has no locks.
        OSError: it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder.absolute() / OWNER_FILE
        self._name = str(self._path)  # which each commit opens twice, and a Path costs as much as the call
        self._record = b""
        self._database = self._locked = -1
        self._child = False
        self.guards_database = False
        _open.add(self)
        self._locked = self._lock()
        record = os.pread(self._locked, RECORD_BYTES, 0)
        found = _decode(record)
        self.node_id = found["node"] if found is not None else UNREADABLE if record else ""

    def _lock(self) -> int:
        opened = open_private(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if sys.platform != "win32":
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            by = _who(os.pread(opened, RECORD_BYTES, 0))
            os.close(opened)
            raise _in_use(self._path.parent, by) from cause
        except OSError as cause:
            os.close(opened)
            why = f"its file system has no locks ({cause.strerror}), so a second process could not be kept out"
            raise StoreError(f"open data directory {self._path.parent}: {why}") from cause
        return opened

    def guard(self, database: Path) -> None:
        """Keep every SQLite but ours out of the database, where the system can.

        Raises:
            StoreInUse: a process has it open.
            StoreError: it cannot be opened.
        """
        if _SET_OPEN_FILE_LOCK is None:
            return
        self._database = open_private(database, os.O_RDWR)
        start, length = _SQLITE_LOCK_BYTES
        lock = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        try:
            fcntl.fcntl(self._database, _SET_OPEN_FILE_LOCK, lock)
        except (BlockingIOError, PermissionError) as cause:
            by = f"a process that {OWNER_FILE} does not name, or a program that reads it with SQLite"
            raise _in_use(self._path.parent, by) from cause
        except OSError:
            return  # an old kernel, or a file system that cannot: SQLite's own locks have to do
        self.guards_database = True

    def take(self, node_id: str) -> None:
        """Record that this process has the directory: a process that had it before finds out. Raises OSError."""
        self.node_id = node_id
        who = {
            "token": secrets.token_hex(TOKEN_BYTES),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "node": node_id,
        }
        self._record = json.dumps(who).encode().ljust(RECORD_BYTES - 1) + b"\n"
        self._write()

    def _write(self) -> None:
        os.pwrite(self._locked, self._record, 0)
        os.fsync(self._locked)

    def fault(self) -> str | None:
        """Why this process does not have the directory any more, or None. Called before and after each commit.

        Each call opens the file anew: on a network, an open file may show older content.
        """
        if self._child:
            return "this process was forked from the one that has it"
        try:
            content = self._read()
        except FileNotFoundError:
            return self._take_again()
        except OSError as error:
            return f"{OWNER_FILE} in its directory cannot be read ({error.strerror})"
        if content == self._record:
            return None
        return f"it belongs to another process now: {_who(content)}" if content else self._take_again()

    def is_sure(self) -> bool:
        """Whether the record is in its place. Unlike ``fault`` it repairs nothing, and gives no reason."""
        try:
            return not self._child and self._read() == self._record
        except OSError:
            return False

    def _read(self) -> bytes:
        try:
            opened = os.open(self._name, os.O_RDONLY | SAFELY)
        except OSError as error:
            # A process that has run out of descriptors has not lost the store.
            if error.errno in (errno.EMFILE, errno.ENFILE) and self._is_in_place():
                return os.pread(self._locked, RECORD_BYTES, 0)
            raise
        try:
            return os.pread(opened, RECORD_BYTES, 0)
        finally:
            os.close(opened)

    def _take_again(self) -> str | None:
        """Write the record again: a deleted or emptied ``owner`` is no reason to stop unless another process has it."""
        try:
            if not self._is_in_place():
                opened = self._lock()
                os.close(self._locked)
                self._locked = opened
            self._write()
        except StoreInUse:
            # The database, if it is locked, keeps the other process out.
            return None if self.guards_database else f"another process has locked a new {OWNER_FILE}"
        except StoreError as error:
            return f"{OWNER_FILE} is gone, and cannot be made again: {error}"
        except OSError as error:
            return f"{OWNER_FILE} is gone, and cannot be written again ({error.strerror})"
        return None

    def _is_in_place(self) -> bool:
        """Whether the file that we have locked is the one in the directory."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._locked))
        except FileNotFoundError:
            return False

    def end(self) -> None:
        """Give up the store in a forked child, so that it keeps no lock when its parent has ended."""
        self._child = True
        self.release()

    def __del__(self) -> None:
        # As with a file: a forgotten store keeps its directory no longer than its connection.
        self.release()

    def release(self) -> None:
        """Release the directory. The record stays, and says whose store it has."""
        _open.discard(self)
        for opened in (self._database, self._locked):
            if opened >= 0:
                with suppress(OSError):
                    os.close(opened)
        self._database = self._locked = -1


def _in_use(folder: Path, by: str) -> StoreInUse:
    advice = f"another process uses that node by triack.connect({str(folder)!r}), and a command by --data"
    return StoreInUse(f"open store {folder / STORE_FILE}: in use by another node: {by}; {advice}")


def _decode(record: bytes) -> dict[str, str] | None:
    try:
        found = json.loads(record)
        return {name: printable(str(found[name])) for name in ("pid", "host", "node")}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _who(record: bytes) -> str:
    found = _decode(record)
    return "of another process, or of this one" if found is None else f"process {found['pid']} on {found['host']}"


def _handle_fork() -> None:
    for owner in list(_open):
        owner.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_handle_fork)
