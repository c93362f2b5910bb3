"""Which process has a data directory: one at a time, and a process that has lost it finds out.

Two locks keep a second process out. SQLite's own would not: they belong to the process, and are gone as soon as any
code of that process closes a descriptor of the file, as a backup does that reads it (fcntl(2)). These two belong to
open files that only this module has:

- ``owner`` is locked as a whole (flock(2)). No code but this module's opens it.
- Of the database those bytes are locked that SQLite locks, where the system can (Linux: F_OFD_SETLK). So SQLite refuses
  to read or write an open store, also for another part of this very process, and a second node is refused even when
  somebody deleted ``owner``.

Locks do not reach everywhere: two mounts of one volume may have locks of their own. So each process that opens a
store writes a record into ``owner`` before it reads anything, and looks for its own record before and after each
commit. A process that finds another record has lost the store, and reports that (docs/decisions/0006).
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
"""The name that operators see in a data directory."""
RECORD_BYTES = 512
"""One sector, which a disk writes as a whole or not at all. A host's name has 64 bytes at most (gethostname(2))."""
TOKEN_BYTES = 16
"""Random, so that no two processes ever have the same."""

_SQLITE_LOCK_BYTES = 0x40000000, 512
"""Where SQLite locks a database, and how many bytes: PENDING_BYTE and what follows (https://sqlite.org/src, os.h)."""
_SET_OPEN_FILE_LOCK: int | None = fcntl.F_OFD_SETLK if sys.platform == "linux" else None
_FLOCK = "hhqqi"
"""``struct flock`` of Linux's fcntl(2): type, whence, start, length, pid."""

UNREADABLE = "of unknown name"
"""In place of the id of a node in a damaged record: there was one."""

_open: "WeakSet[Owner]" = WeakSet()
"""The owners in this process, for its forked children."""


class Owner:
    """This process as the owner of a data directory.

    Attributes:
        node_id: of the node that kept its store here before, 32 hex digits; empty when none did, ``UNREADABLE`` when
            that cannot be read any more.
        guards_database: whether SQLite needs no locks of its own.

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
        """Record that this process has the directory. A process that had it before finds out.

        Raises:
            OSError: it cannot be written.
        """
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

        The file is opened anew each time: on a network, an open file may show an older content.
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
        """Whether the record is there, as ``fault`` looks for it, without naming another fault."""
        try:
            return not self._child and self._read() == self._record
        except OSError:
            return False

    def _read(self) -> bytes:
        try:
            opened = os.open(self._name, os.O_RDONLY | SAFELY)
        except OSError as error:
            # A process that has no descriptor left has lost nothing by that.
            if error.errno in (errno.EMFILE, errno.ENFILE) and self._is_in_place():
                return os.pread(self._locked, RECORD_BYTES, 0)
            raise
        try:
            return os.pread(opened, RECORD_BYTES, 0)
        finally:
            os.close(opened)

    def _take_again(self) -> str | None:
        """Somebody deleted ``owner``, or emptied it: that is no reason to stop, as long as nobody else has it."""
        try:
            if not self._is_in_place():
                opened = self._lock()
                os.close(self._locked)
                self._locked = opened
            self._write()
        except StoreInUse:
            # The other process is refused at the database, if that is locked.
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
        """In a forked child: it has no part in the store, and keeps no lock when its parent is gone."""
        self._child = True
        self.release()

    def __del__(self) -> None:
        # Like a file that nobody closes: a forgotten store keeps its directory no longer than its connection.
        self.release()

    def release(self) -> None:
        """Let the directory go. The record stays, and says whose store is in it."""
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
    """The record of a process; None when there is none."""
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
