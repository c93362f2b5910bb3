"""The simulated disk as SQLite sees it: one process's view of the file system, and its open files.

A process that has crashed is dead: none of its calls changes anything. A call that would have changed something raises
ProcessCrashed; SQLite's calls to close its files (reads, syncs and deletions) return without effect, as Python could
only print an exception from there. End a process before its Connection objects go: those of a living one close orderly.
"""

# ruff: noqa: N802 - the names are SQLite's

import apsw

from triack.tools.sim.medium import File, Medium

SHARED, RESERVED, PENDING, EXCLUSIVE = 1, 2, 3, 4
SYNCS_DIRECTORY = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
EPOCH_MS = 210_866_760_000_000
"""1970-01-01 as SQLite counts time: milliseconds of the Julian day."""


class Process(apsw.VFS):
    """The file system for one process."""

    def __init__(self, name: str, disk: Medium) -> None:
        super().__init__(name, None)
        self.disk = disk
        self.dead = False
        self.locks: dict[str, dict[Handle, int]] = {}

    def end(self) -> None:
        """Nothing more of this process reaches the disk, and its name is free."""
        self.dead = True
        self.unregister()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "Handle":  # type: ignore[override]
        """Open a file; without a name a temporary one."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        file, new = self.disk.open(self, path, create=not path or bool(flags[0] & apsw.SQLITE_OPEN_CREATE))
        return Handle(self, path, file, syncs_directory=new and bool(flags[0] & SYNCS_DIRECTORY))

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Remove a file from the directory, for good if ``syncdir``."""
        if self.dead:
            return
        self.disk.delete(self, filename)
        if syncdir:
            self.disk.sync_directory(self)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: ARG002
        """Whether a file exists: a visible file may be used."""
        return self.disk.exists(pathname)

    def xFullPathname(self, name: str) -> str:
        """Names are whole: there is one directory."""
        return name

    def xRandomness(self, numbytes: int) -> bytes:
        """The seed of SQLite's random numbers."""
        return self.disk.random_bytes(numbytes)

    def xSleep(self, microseconds: int) -> int:
        """No time passes."""
        return microseconds

    def xCurrentTime(self) -> float:
        """The same moment always."""
        return EPOCH_MS / 86_400_000

    def xCurrentTimeInt64(self) -> int:
        """The same moment always."""
        return EPOCH_MS

    def xGetLastError(self) -> tuple[int, str | None]:
        """No more detail than the error itself."""
        return 0, None

    def excepthook(self, *_: object) -> bool:
        """The only errors that SQLite cannot report are of a dead process closing its files."""
        return True


class Handle:
    """One open file of a process."""

    __slots__ = ("disk", "file", "path", "process", "syncs_directory")

    def __init__(self, process: Process, path: str, file: File, *, syncs_directory: bool) -> None:
        self.process = process
        self.disk = process.disk
        self.path = path
        self.file = file
        self.syncs_directory = syncs_directory

    def xRead(self, amount: int, offset: int) -> bytes:
        """Read, less at the end of the file."""
        if self.process.dead:
            return b""
        return self.disk.read(self.process, self.path, self.file, amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        """Write all of it."""
        self.disk.write(self.process, self.path, self.file, bytes(data), offset)

    def xTruncate(self, newsize: int) -> None:
        """Set the size."""
        self.disk.truncate(self.process, self.path, self.file, newsize)

    def xSync(self, flags: int) -> None:  # noqa: ARG002
        """Make the content durable; the first time for a new journal or log, its name too."""
        if self.process.dead:
            return
        self.disk.sync(self.process, self.path, self.file)
        if self.syncs_directory:
            self.syncs_directory = False
            try:
                self.disk.sync_directory(self.process)
            except apsw.IOError:
                # SQLite's file system for Unix also tries, and ignores the result.
                return

    def xFileSize(self) -> int:
        """The visible size."""
        return len(self.file.visible)

    def xLock(self, level: int) -> None:
        """Lock, or raise BusyError because another handle has a lock that excludes it."""
        locks = self.process.locks.setdefault(self.path, {})
        others = max((held for handle, held in locks.items() if handle is not self), default=0)
        if others >= (PENDING if level == SHARED else RESERVED if level == RESERVED else SHARED):
            if level == EXCLUSIVE and others == SHARED:
                locks[self] = PENDING
            raise apsw.BusyError(f"lock {self.path}: another process has it")
        locks[self] = max(level, locks.get(self, 0))

    def xUnlock(self, level: int) -> None:
        """Return to a lower lock, or to none."""
        locks = self.process.locks.get(self.path, {})
        if level:
            locks[self] = min(level, locks.get(self, 0))
        else:
            locks.pop(self, None)

    def xCheckReservedLock(self) -> bool:
        """Whether any handle is about to write."""
        return any(held >= RESERVED for held in self.process.locks.get(self.path, {}).values())

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: ARG002
        """Nothing special is understood."""
        return False

    def xSectorSize(self) -> int:
        """The neighbours that a write may damage: as on any drive."""
        return 512

    def xDeviceCharacteristics(self) -> int:
        """Neither atomic nor in order; the disk decides whether a write spares its neighbours."""
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE if self.disk.powersafe else 0

    def xClose(self) -> None:
        """Close it; its locks end."""
        self.xUnlock(0)

    def excepthook(self, *_: object) -> bool:
        """The only errors that SQLite cannot report are of a dead process closing its files."""
        return True
