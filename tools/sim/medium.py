"""The content of a simulated disk, and the outcome of each call to it; it does not know the callers.

Each file has two contents: processes read the *visible* one, a loss of power leaves the *durable* one. A write, a
truncation, a creation or a deletion changes the visible one immediately and waits in ``unsynced``; a sync of the file
makes its changes durable, and a sync of the directory makes creations and deletions durable.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, Protocol

import apsw

from triack.base.checks import check_between

_CALLS = ("open", "read", "write", "sync", "truncate", "delete")
_CONTENT = ("write", "truncate")


class ProcessCrashed(BaseException):
    """The simulated process ended here; no more of its code may run, so no ``except Exception`` stops this."""


class Life(Protocol):
    """The process that calls."""

    dead: bool

    def end(self) -> None:
        """Nothing more of this process reaches the disk."""


@dataclass(slots=True)
class DiskFaults:
    """How the disk misbehaves. Numbers are chances per call, from 0 to 1; others are refused when they are set.

    Attributes:
        full: a write fails for want of space (ENOSPC), nothing of it is written.
        short: a write stops half-way for want of space.
        sync: a sync fails (EIO); of the file or of the directory.
        lies: a sync says that it worked and makes nothing durable.
        drop_on_failed_sync: after a failed sync of a file its changes count as written, as in the page cache of Linux:
            a later sync that works leaves them out, they stay visible, and a loss of power removes them.
    """

    read: float = 0.0
    write: float = 0.0
    full: float = 0.0
    short: float = 0.0
    sync: float = 0.0
    open: float = 0.0
    truncate: float = 0.0
    delete: float = 0.0
    lies: float = 0.0
    drop_on_failed_sync: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        check_between(name, float(value) if name == "drop_on_failed_sync" else value, 0, 1)
        object.__setattr__(self, name, value)


class FailAt(NamedTuple):
    """One planned failure.

    Attributes:
        number: which of the calls counted by ``Disk.calls`` fails; the first is 1.
        kind: ``eio``, ``full`` (ENOSPC), ``short`` (a write stops half-way with ENOSPC, other calls fail as with
            ``eio``) or ``drop`` (as ``eio``, and a failed sync drops its changes, see ``DiskFaults``).
        forever: whether all calls after it fail, too.
        call: only calls of this name count and fail (``write``, ``sync`` ...), from ``number`` of all calls on.
    """

    number: int
    kind: str = "eio"
    forever: bool = False
    call: str = ""


@dataclass(slots=True, eq=False)
class File:
    """One file, as processes see it and as a loss of power leaves it."""

    visible: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)


class Change(NamedTuple):
    """A change that is not durable yet: ``write``, ``truncate`` (to ``offset``), ``create`` or ``delete``."""

    kind: str
    path: str
    file: File
    offset: int = 0
    data: bytes = b""


class Medium:
    """The files of a disk."""

    def __init__(self, random: Random) -> None:
        self.faults = DiskFaults()
        self.fail_at: FailAt | None = None
        self.on_effect: Callable[[str], None] | None = None
        self.calls = 0
        self.counts = dict.fromkeys(_CALLS, 0)
        self.failed = 0
        self.unsynced: list[Change] = []
        self.visible: dict[str, File] = {}
        self.durable: dict[str, File] = {}
        self.powersafe = True
        self.chance = random
        self._salts = Random(random.getrandbits(64))

    # ---- calls of the file system

    def random_bytes(self, size_bytes: int) -> bytes:
        """The next bytes of the disk's source of randomness, for SQLite."""
        return self._salts.randbytes(size_bytes)

    def exists(self, path: str) -> bool:
        """Whether a file can be seen."""
        return path in self.visible

    def open(self, process: Life, path: str, *, create: bool) -> tuple[File, bool]:
        """The file of that name, a nameless one for an empty name, and whether it is new."""
        file = self.visible.get(path)
        if file is None and not create:
            raise apsw.CantOpenError(f"open {path}: no such file")
        if self._call(process, "open", path, "create" if file is None else "", self.faults.open):
            raise apsw.CantOpenError(f"open {path}: EIO")
        if file is not None:
            return file, False
        file = File()
        if path:
            self.visible[path] = file
            self.unsynced.append(Change("create", path, file))
        return file, True

    def read(self, process: Life, path: str, file: File, size_bytes: int, offset: int) -> bytes:
        """The bytes there, fewer at the end of the file."""
        if self._call(process, "read", path, "", self.faults.read):
            raise _eio("read", path, apsw.SQLITE_IOERR_READ)
        return bytes(file.visible[offset : offset + size_bytes])

    def write(self, process: Life, path: str, file: File, data: bytes, offset: int) -> None:
        """Change the visible content."""
        faults = self.faults
        kind = self._call(process, "write", path, "write", faults.write)
        if faults.full or faults.short:
            kind = kind or self._drawn(faults.full, "full") or self._drawn(faults.short, "short")
        if kind == "short":
            data = data[: self.chance.randrange(max(len(data), 1))]
        if kind in ("", "short"):
            put(file.visible, offset, data)
            self._wait(Change("write", path, file, offset, data))
        if kind in ("full", "short"):
            raise apsw.FullError(f"write {path}: ENOSPC")
        if kind:
            raise _eio("write", path, apsw.SQLITE_IOERR_WRITE)

    def truncate(self, process: Life, path: str, file: File, size_bytes: int) -> None:
        """Change the visible size."""
        if self._call(process, "truncate", path, "truncate", self.faults.truncate):
            raise _eio("truncate", path, apsw.SQLITE_IOERR_TRUNCATE)
        resize(file.visible, size_bytes)
        self._wait(Change("truncate", path, file, size_bytes))

    def sync(self, process: Life, path: str, file: File) -> None:
        """Make a file's changes durable."""
        kind = self._call(process, "sync", path, "sync", self.faults.sync)
        if kind:
            if kind == "drop" or self.faults.drop_on_failed_sync:
                self._take_content(file)
            raise _eio("sync", path, apsw.SQLITE_IOERR_FSYNC)
        if not self._drawn(self.faults.lies):
            for change in self._take_content(file):
                self.persist(change)

    def sync_directory(self, process: Life) -> None:
        """Make creations and deletions durable. After a failure they stay to be done: that is the journal's work."""
        if self._call(process, "sync", "directory", "sync", self.faults.sync):
            raise _eio("sync", "directory", apsw.SQLITE_IOERR_DIR_FSYNC)
        if not self._drawn(self.faults.lies):
            for change in self._take(lambda change: change.kind not in _CONTENT):
                self.persist(change)
            reachable = {id(file) for file in (*self.visible.values(), *self.durable.values())}
            self._take(lambda change: id(change.file) not in reachable)

    def delete(self, process: Life, path: str) -> None:
        """Remove a file from the directory."""
        if self._call(process, "delete", path, "delete", self.faults.delete):
            raise _eio("delete", path, apsw.SQLITE_IOERR_DELETE)
        if path not in self.visible:
            raise _eio("delete", path, apsw.SQLITE_IOERR_DELETE_NOENT)
        self.unsynced.append(Change("delete", path, self.visible.pop(path)))

    # ---- one call

    def _call(self, process: Life, call: str, path: str, effect: str, chance: float) -> str:
        """Count a call. Returns how it is to fail; empty when it is to work."""
        if process.dead:
            raise ProcessCrashed(f"{call} {path}: the process is dead")
        if effect and self.on_effect is not None:
            try:
                self.on_effect(f"{effect} {path}")
            except BaseException:
                process.end()
                raise
        self.calls += 1
        self.counts[call] += 1
        plan = self.fail_at
        if plan is not None and plan.call in ("", call):
            number = self.counts[call] if plan.call else self.calls
            if number == plan.number or (plan.forever and number > plan.number):
                self.failed += 1
                return plan.kind
        return self._drawn(chance, "eio") if chance else ""

    def _drawn(self, chance: float, kind: str = "lie") -> str:
        if not chance or self.chance.random() >= chance:
            return ""
        self.failed += 1
        return kind

    def _wait(self, change: Change) -> None:
        if change.path:
            self.unsynced.append(change)

    def _take_content(self, file: File) -> list[Change]:
        taken: list[Change] = []
        left: list[Change] = []
        for change in self.unsynced:
            (taken if change.file is file and change.kind in _CONTENT else left).append(change)
        self.unsynced = left
        return taken

    def _take(self, wanted: Callable[[Change], bool]) -> list[Change]:
        taken = [change for change in self.unsynced if wanted(change)]
        self.unsynced = [change for change in self.unsynced if not wanted(change)]
        return taken

    def persist(self, change: Change) -> None:
        """Make a change durable."""
        if change.kind == "write":
            put(change.file.durable, change.offset, change.data)
        elif change.kind == "truncate":
            resize(change.file.durable, change.offset)
        elif change.kind == "create":
            self.durable[change.path] = change.file
        else:
            self.durable.pop(change.path, None)


def put(content: bytearray, offset: int, data: bytes) -> None:
    """Write, over zeros where there was nothing."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def resize(content: bytearray, size_bytes: int) -> None:
    """Cut the end, or add zeros."""
    if len(content) < size_bytes:
        content.extend(bytes(size_bytes - len(content)))
    del content[size_bytes:]


def _eio(operation: str, path: str, result: int) -> apsw.IOError:
    error = apsw.IOError(f"{operation} {path}: EIO")
    error.extendedresult = result  # type: ignore[attr-defined]  # the stubs do not know it
    return error
