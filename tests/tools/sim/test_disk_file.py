"""The disk as SQLite sees it: a dead process changes nothing, and locks keep a second one out."""

import gc
from random import Random

import apsw
import pytest

from tests.tools.sim.files import crash_at, open_database, open_file, rows
from triack.tools.sim.disk import Disk, ProcessCrashed


def test_a_crash_comes_out_of_the_call_and_nothing_happens_after_it() -> None:
    """At every effect of a transaction; closing the dead process' database changes nothing and says nothing."""
    for effect in range(100):
        disk = Disk(Random(effect))
        database: apsw.Connection | None = None
        crash_at(disk, effect)
        try:
            database = open_database(disk)
            database.execute("BEGIN; INSERT INTO rows VALUES (1); INSERT INTO rows VALUES (2); COMMIT")
        except ProcessCrashed:
            disk.on_effect = None
            before = disk.fingerprint()
            database = None
            gc.collect()
            assert disk.fingerprint() == before
            disk.kill()
            assert rows(disk) in ([], [1, 2])
            disk.close()
        else:
            assert effect > 10
            disk.kill()
            disk.close()
            return
    raise AssertionError("the transaction has no end")


def test_a_dead_process_cannot_write(disk: Disk) -> None:
    """Killed or crashed: each write raises, and the disk stays as it is."""
    database = open_database(disk)
    disk.kill()
    before = disk.fingerprint()
    with pytest.raises(ProcessCrashed):
        database.execute("INSERT INTO rows VALUES (1)")
    database.close()
    assert disk.fingerprint() == before


def test_a_second_process_finds_the_database_locked(disk: Disk) -> None:
    """Until the first is gone."""
    first = open_database(disk)
    with pytest.raises(apsw.BusyError):
        open_database(disk)
    first.execute("INSERT INTO rows VALUES (1)")
    disk.kill()
    assert rows(disk) == [1]


def test_what_a_dead_process_closes_comes_back_empty_handed(disk: Disk) -> None:
    """A read sees nothing, a sync makes nothing durable, a deletion deletes nothing: SQLite lets its files go."""
    file = open_file(disk)
    file.xWrite(b"content", 0)
    files = apsw.VFS("shim-dead", disk.vfs)
    disk.on_effect = crash_always
    with pytest.raises(ProcessCrashed):
        file.xWrite(b"x", 0)
    disk.on_effect = None
    assert file.xRead(7, 0) == b""
    file.xSync(2)
    files.xDelete("log", True)
    assert disk.files() == {"log": b"content"}
    assert [change.kind for change in disk.unsynced] == ["create", "write"]
    files.unregister()


def crash_always(what: str) -> None:
    raise ProcessCrashed(what)


def test_time_and_chance_are_the_disks(disk: Disk) -> None:
    """SQLite on it reads no clock and no randomness of the real machine."""
    database = open_database(disk)
    assert database.execute("SELECT datetime('now')").get == "1970-01-01 00:00:00"
    drawn = database.execute("SELECT hex(randomblob(8))").get
    again = Disk(Random(1))
    assert open_database(again).execute("SELECT hex(randomblob(8))").get == drawn
    again.close()
