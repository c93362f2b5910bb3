"""Files on a simulated disk, opened as SQLite opens them."""

import apsw

from triack.tools.sim.disk import Disk, ProcessCrashed

FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


def open_file(disk: Disk, name: str = "log", kind: int = apsw.SQLITE_OPEN_WAL) -> apsw.VFSFile:
    """A file, made if it is not there; a write-ahead log if nothing else is said."""
    return apsw.VFSFile(disk.vfs, name, [FLAGS | kind, 0])


def written(disk: Disk, *pieces: bytes) -> apsw.VFSFile:
    """A new file with these pieces one after the other; nothing is synced."""
    file = open_file(disk)
    for piece in pieces:
        file.xWrite(piece, file.xFileSize())
    return file


def open_database(disk: Disk) -> apsw.Connection:
    """A database with one table, as a store has it: exclusive, with a log, synced."""
    database = apsw.Connection("db", vfs=disk.vfs)
    database.pragma("locking_mode", "EXCLUSIVE")
    database.pragma("journal_mode", "WAL")
    database.pragma("synchronous", "FULL")
    database.execute("CREATE TABLE IF NOT EXISTS rows (x)")
    return database


def rows(disk: Disk) -> list[int]:
    """What a new process finds in the table; it is gone then."""
    database = open_database(disk)
    found = [x for (x,) in database.execute("SELECT x FROM rows ORDER BY x")]
    disk.kill()
    return found


def crash_at(disk: Disk, effect: int) -> None:
    """Let the process die before the effect with that number."""
    left = iter([False] * effect + [True])

    def crash(what: str) -> None:
        if next(left, False):
            raise ProcessCrashed(what)

    disk.on_effect = crash
