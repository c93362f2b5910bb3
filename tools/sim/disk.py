"""The disk of one simulated machine, in memory, with real SQLite on top of it.

Promise: the same seed and the same calls leave the same bytes, whatever the hash seed or the garbage collector do.

Each file has two contents: *visible* is what processes read, *durable* is what a loss of power leaves. A write, a
truncation, a creation or a deletion changes what is visible at once and waits in ``unsynced``; a sync of the file makes
its changes durable, and a sync of the directory makes creations and deletions durable. As on Linux, the directory is
synced by the first sync of a journal or write-ahead log just created, and by a deletion that asks for it; whether that
sync of the directory worked is something SQLite never hears, except from a deletion.

What it does not know: locks between machines, the time, and reordering of syncs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count, pairwise
from random import Random
from typing import NamedTuple

import apsw

from triack.tools.sim.disk_file import Process, ProcessCrashed

__all__ = ["SECTOR_BYTES", "Change", "Disk", "DiskFaults", "FailAt", "File", "Kept", "ProcessCrashed", "Snapshot"]

SECTOR_BYTES = 512
CAPACITY_BYTES = 16 * 1024 * 1024
"""No file grows beyond this: the disk is full."""

_CALLS = ("open", "read", "write", "sync", "truncate", "delete")
_CONTENT = ("write", "truncate")

_names = count(1)


@dataclass(slots=True)
class DiskFaults:
    """How the disk misbehaves. Numbers are chances per call, from 0 to 1.

    Attributes:
        read: a read fails (EIO).
        write: a write fails (EIO), nothing of it is written.
        full: a write fails for want of space (ENOSPC), nothing of it is written.
        short: a write stops half-way for want of space.
        sync: a sync fails (EIO); of the file or of the directory.
        open: a file cannot be opened.
        truncate: a truncation fails (EIO).
        delete: a deletion fails (EIO).
        lies: a sync says that it worked and makes nothing durable.
        drop_on_failed_sync: after a failed sync of a file its changes count as written: a later sync that works leaves
            them out, they stay visible, and a loss of power takes them, as the page cache of Linux does it.
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
    """One file: what processes see, and what a loss of power leaves."""

    visible: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)


class Change(NamedTuple):
    """A change that is not durable yet: ``write``, ``truncate`` (to ``offset``), ``create`` or ``delete``."""

    kind: str
    path: str
    file: File
    offset: int = 0
    data: bytes = b""


class Kept(NamedTuple):
    """What survives of ``Disk.unsynced[place]``: of a write the bytes from ``start`` to ``end``, of others all."""

    place: int
    start: int = 0
    end: int | None = None


class Snapshot(NamedTuple):
    """Everything on a disk at one moment; it never changes."""

    contents: tuple[tuple[bytes, bytes], ...]
    visible: tuple[tuple[str, int], ...]
    durable: tuple[tuple[str, int], ...]
    unsynced: tuple[tuple[str, str, int, int, bytes], ...]


class Disk:
    """A disk, and the one process that uses it.

    Args:
        random: decides faults and what survives.

    Attributes:
        vfs: the name for ``apsw.Connection(path, vfs=...)``; the same after ``kill`` and ``lose_power``.
        faults: chances of failing, changed at will.
        fail_at: one planned failure.
        tears: whether a loss of power may leave a part of a write.
        powersafe: whether SQLite may believe that a write harms no byte beside it, as it does on Linux.
        on_effect: called before every call that changes the disk, with for example ``write store.db-wal``; it may raise
            ProcessCrashed: the call then does nothing, and neither do all later ones of this process.
        calls: calls so far that could fail: ``open``, ``read``, ``write``, ``sync``, ``truncate`` and ``delete``.
        failed: how many of them failed, planned or by chance.
        unsynced: the changes that are not durable, in the order they were made.
    """

    def __init__(self, random: Random) -> None:
        self.vfs = f"triack-disk-{next(_names)}"
        self.faults = DiskFaults()
        self.fail_at: FailAt | None = None
        self.tears = True
        self.powersafe = True
        self.on_effect: Callable[[str], None] | None = None
        self.calls = 0
        self.failed = 0
        self.unsynced: list[Change] = []
        self._calls = dict.fromkeys(_CALLS, 0)
        self.chance = random
        self._salts = Random(random.getrandbits(64))
        self._visible: dict[str, File] = {}
        self._durable: dict[str, File] = {}
        self._process = self._start()

    # ---- processes

    def _start(self) -> Process:
        process = Process(self.vfs, self)
        # SQLite has one source of random numbers for all connections, and asks the default file system for its seed.
        default = apsw.vfs_names()[0]
        apsw.set_default_vfs(self.vfs)
        apsw.randomness(0)
        apsw.randomness(1)
        apsw.set_default_vfs(default)
        return process

    def kill(self) -> None:
        """The process is gone: its files are closed and its locks free; what it wrote stays visible."""
        self._process.end()
        self._process = self._start()

    def lose_power(self) -> None:
        """The machine stops: of the unsynced changes nothing, all, a prefix, or any part in any order survives."""
        random = self.chance
        mode = random.choice(("nothing", "everything", "prefix", "part"))
        kept = [Kept(place) for place in range(len(self.unsynced) if mode != "nothing" else 0)]
        if mode == "prefix":
            kept = kept[: random.randrange(len(kept) + 1)]
            kept[-1:] = [piece for one in kept[-1:] for piece in self._tear(one.place)]
        elif mode == "part":
            kept = [piece for one in kept if random.getrandbits(1) for piece in self._tear(one.place)]
            random.shuffle(kept)
        self.lose_power_with(kept)

    def _tear(self, place: int) -> list[Kept]:
        """A write that survives whole, up to a byte, or in some of its sectors."""
        random = self.chance
        change = self.unsynced[place]
        mode = random.choice(("whole", "bytes", "sectors")) if self.tears and change.data else "whole"
        if mode == "bytes":
            return [Kept(place, 0, random.randrange(len(change.data)))]
        if mode == "sectors":
            return [Kept(place, *sector) for sector in sectors(change) if random.getrandbits(1)]
        return [Kept(place)]

    def lose_power_with(self, kept: Iterable[Kept]) -> None:
        """The machine stops, and just these changes have become durable, in this order."""
        changes, self.unsynced = self.unsynced, []
        for place, start, end in kept:
            change = changes[place]
            if change.kind == "write":
                change = change._replace(offset=change.offset + start, data=change.data[start:end])
            self._persist(change)
        self._visible = dict(self._durable)
        for file in self._visible.values():
            file.visible[:] = file.durable
        self.kill()

    def close(self) -> None:
        """End the process, take the disk's name from SQLite and let go of all it holds."""
        self._process.end()
        self.on_effect = None
        self._visible, self._durable, self.unsynced = {}, {}, []
        apsw.randomness(0)

    # ---- what a test may plan, look at and break

    def calm(self) -> None:
        """From now on nothing fails."""
        self.faults = DiskFaults()
        self.fail_at = None

    def fail_later(
        self, call: str, after: int, *, kind: str = "eio", forever: bool = False, drops: bool = False
    ) -> None:
        """Let a call fail.

        Args:
            call: ``open``, ``read``, ``write``, ``sync``, ``truncate`` or ``delete``.
            after: how many of these still work.
            kind: as in ``FailAt``.
            forever: whether all later ones fail, too.
            drops: whether a failed sync drops its changes.
        """
        self.fail_at = FailAt(self._calls[call] + after + 1, "drop" if drops else kind, forever, call)

    def files(self) -> dict[str, bytes]:
        """The visible content of every file, by name."""
        return {path: bytes(file.visible) for path, file in sorted(self._visible.items())}

    def damage(self, path: str, offset: int, data: bytes) -> None:
        """Other bytes than were written, as seen and as kept."""
        file = self._visible[path]
        for content in (file.visible, file.durable):
            _put(content, offset, data)

    def cut(self, path: str, size_bytes: int) -> None:
        """The end of a file is lost, as seen and as kept."""
        file = self._visible[path]
        del file.visible[size_bytes:], file.durable[size_bytes:]

    def rot(self, bits: int) -> None:
        """As many bits flip, anywhere on the disk."""
        files = sorted((path, file.visible) for path, file in self._visible.items() if file.visible)
        for _ in range(bits if files else 0):
            place = self.chance.randrange(sum(len(content) for _, content in files))
            for path, content in files:
                if place < len(content):
                    self.damage(path, place, bytes([content[place] ^ 1 << self.chance.randrange(8)]))
                    break
                place -= len(content)

    def snapshot(self) -> Snapshot:
        """All that is on the disk, durable or not."""
        numbers: dict[int, int] = {}
        contents: list[tuple[bytes, bytes]] = []

        def number(file: File) -> int:
            if id(file) not in numbers:
                numbers[id(file)] = len(contents)
                contents.append((bytes(file.visible), bytes(file.durable)))
            return numbers[id(file)]

        visible = tuple((path, number(file)) for path, file in self._visible.items())
        durable = tuple((path, number(file)) for path, file in self._durable.items())
        unsynced = tuple((kind, path, number(file), offset, data) for kind, path, file, offset, data in self.unsynced)
        return Snapshot(tuple(contents), visible, durable, unsynced)

    def restore(self, snapshot: Snapshot) -> None:
        """The disk is as it was, or as another disk was; its process ends."""
        files = [File(bytearray(visible), bytearray(durable)) for visible, durable in snapshot.contents]
        self._visible = {path: files[number] for path, number in snapshot.visible}
        self._durable = {path: files[number] for path, number in snapshot.durable}
        self.unsynced = [
            Change(kind, path, files[number], offset, data) for kind, path, number, offset, data in snapshot.unsynced
        ]
        self.kill()

    def fingerprint(self) -> str:
        """A hash of all that is on the disk, durable or not."""
        return sha256(repr(self.snapshot()).encode()).hexdigest()

    # ---- what the file system calls

    def random_bytes(self, size_bytes: int) -> bytes:
        """The next bytes of the disk's own source of chance, for SQLite."""
        return self._salts.randbytes(size_bytes)

    def exists(self, path: str) -> bool:
        """Whether a file can be seen."""
        return path in self._visible

    def open(self, process: Process, path: str, *, create: bool) -> tuple[File, bool]:
        """The file of that name, a nameless one for an empty name, and whether it is new."""
        file = self._visible.get(path)
        if file is None and not create:
            raise apsw.CantOpenError(f"open {path}: no such file")
        if self._call(process, "open", path, "create" if file is None else "", self.faults.open):
            raise apsw.CantOpenError(f"open {path}: EIO")
        if file is not None:
            return file, False
        file = File()
        if path:
            self._visible[path] = file
            self.unsynced.append(Change("create", path, file))
        return file, True

    def read(self, process: Process, path: str, file: File, size_bytes: int, offset: int) -> bytes:
        """What is there, short at the end of the file."""
        if self._call(process, "read", path, "", self.faults.read):
            raise _eio("read", path, apsw.SQLITE_IOERR_READ)
        return bytes(file.visible[offset : offset + size_bytes])

    def write(self, process: Process, path: str, file: File, data: bytes, offset: int) -> None:
        """Change the visible content."""
        faults = self.faults
        kind = self._call(process, "write", path, "write", faults.write)
        kind = kind or self._drawn(faults.full, "full") or self._drawn(faults.short, "short")
        if kind == "short":
            data = data[: self.chance.randrange(max(len(data), 1))]
        if kind in ("", "short"):
            _put(file.visible, offset, data)
            self._wait(Change("write", path, file, offset, data))
        if kind in ("full", "short"):
            raise apsw.FullError(f"write {path}: ENOSPC")
        if kind:
            raise _eio("write", path, apsw.SQLITE_IOERR_WRITE)

    def truncate(self, process: Process, path: str, file: File, size_bytes: int) -> None:
        """Change the visible size."""
        if self._call(process, "truncate", path, "truncate", self.faults.truncate):
            raise _eio("truncate", path, apsw.SQLITE_IOERR_TRUNCATE)
        _resize(file.visible, size_bytes)
        self._wait(Change("truncate", path, file, size_bytes))

    def sync(self, process: Process, path: str, file: File) -> None:
        """Make a file's changes durable."""
        kind = self._call(process, "sync", path, "sync", self.faults.sync)
        if kind:
            if kind == "drop" or self.faults.drop_on_failed_sync:
                self._take(lambda change: change.file is file and change.kind in _CONTENT)
            raise _eio("sync", path, apsw.SQLITE_IOERR_FSYNC)
        if not self._drawn(self.faults.lies):
            for change in self._take(lambda change: change.file is file and change.kind in _CONTENT):
                self._persist(change)

    def sync_directory(self, process: Process) -> None:
        """Make creations and deletions durable. What failed stays to be done: that is the journal's work."""
        if self._call(process, "sync", "directory", "sync", self.faults.sync):
            raise _eio("sync", "directory", apsw.SQLITE_IOERR_DIR_FSYNC)
        if not self._drawn(self.faults.lies):
            for change in self._take(lambda change: change.kind not in _CONTENT):
                self._persist(change)
            reachable = {id(file) for file in (*self._visible.values(), *self._durable.values())}
            self._take(lambda change: id(change.file) not in reachable)

    def delete(self, process: Process, path: str) -> None:
        """Remove a file from the directory."""
        if self._call(process, "delete", path, "delete", self.faults.delete):
            raise _eio("delete", path, apsw.SQLITE_IOERR_DELETE)
        if path not in self._visible:
            raise _eio("delete", path, apsw.SQLITE_IOERR_DELETE_NOENT)
        self.unsynced.append(Change("delete", path, self._visible.pop(path)))

    # ---- one call

    def _call(self, process: Process, call: str, path: str, effect: str, chance: float) -> str:
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
        self._calls[call] += 1
        plan = self.fail_at
        if plan is not None and plan.call in ("", call):
            number = self._calls[call] if plan.call else self.calls
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

    def _take(self, wanted: Callable[[Change], bool]) -> list[Change]:
        """Remove changes from the list of unsynced ones."""
        taken = [change for change in self.unsynced if wanted(change)]
        self.unsynced = [change for change in self.unsynced if not wanted(change)]
        return taken

    def _persist(self, change: Change) -> None:
        if change.kind == "write":
            _put(change.file.durable, change.offset, change.data)
        elif change.kind == "truncate":
            _resize(change.file.durable, change.offset)
        elif change.kind == "create":
            self._durable[change.path] = change.file
        else:
            self._durable.pop(change.path, None)


def sectors(change: Change) -> list[tuple[int, int]]:
    """The parts of a write that lie in one sector of the disk each, as ranges of its bytes."""
    size = len(change.data)
    first = -change.offset % SECTOR_BYTES
    edges = [0, *range(first or SECTOR_BYTES, size, SECTOR_BYTES), size]
    return list(pairwise(edges))


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size_bytes: int) -> None:
    if len(content) < size_bytes:
        content.extend(bytes(size_bytes - len(content)))
    del content[size_bytes:]


def _eio(operation: str, path: str, result: int) -> apsw.IOError:
    error = apsw.IOError(f"{operation} {path}: EIO")
    error.extendedresult = result  # type: ignore[attr-defined]  # the stubs do not know it
    return error
