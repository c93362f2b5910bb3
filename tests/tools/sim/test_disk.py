"""The simulated disk: it loses, tears, lies and fails as told, SQLite runs on it, and the same seed does the same."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from random import Random

import apsw
import pytest

from triack.tools.sim.disk import Disk, FailAt, Kept, ProcessCrashed, sectors

FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


@pytest.fixture
def disk() -> Iterator[Disk]:
    found = Disk(Random(1))
    yield found
    found.close()


def open_file(disk: Disk, name: str = "log", kind: int = apsw.SQLITE_OPEN_WAL) -> apsw.VFSFile:
    return apsw.VFSFile(disk.vfs, name, [FLAGS | kind, 0])


def written(disk: Disk, *pieces: bytes) -> apsw.VFSFile:
    """A new file with these pieces one after the other; nothing is synced."""
    file = open_file(disk)
    for piece in pieces:
        file.xWrite(piece, file.xFileSize())
    return file


def open_database(disk: Disk) -> apsw.Connection:
    database = apsw.Connection("db", vfs=disk.vfs)
    database.pragma("locking_mode", "EXCLUSIVE")
    database.pragma("journal_mode", "WAL")
    database.pragma("synchronous", "FULL")
    database.execute("CREATE TABLE IF NOT EXISTS rows (x)")
    return database


def rows(disk: Disk) -> list[int]:
    database = open_database(disk)
    found = [x for (x,) in database.execute("SELECT x FROM rows ORDER BY x")]
    disk.kill()
    return found


def crash_at(disk: Disk, effect: int) -> None:
    left = iter([False] * effect + [True])

    def crash(what: str) -> None:
        if next(left, False):
            raise ProcessCrashed(what)

    disk.on_effect = crash


# ---- what survives


def test_a_write_is_seen_at_once_and_gone_with_the_power(disk: Disk) -> None:
    """Unless it was synced; a killed process takes nothing with it."""
    file = written(disk, b"synced")
    file.xSync(2)
    file.xWrite(b"lost", 6)
    assert disk.files() == {"log": b"syncedlost"}
    disk.kill()
    assert disk.files() == {"log": b"syncedlost"}
    disk.lose_power_with([])
    assert disk.files() == {"log": b"synced"}


def test_a_new_name_is_gone_with_the_power_until_the_directory_is_synced(disk: Disk) -> None:
    """The first sync of a new log syncs the directory, that of another file does not."""
    open_file(disk, "database", apsw.SQLITE_OPEN_MAIN_DB).xSync(2)
    disk.lose_power_with([])
    assert disk.files() == {}
    open_file(disk, "database", apsw.SQLITE_OPEN_MAIN_DB)
    open_file(disk).xSync(2)
    disk.lose_power_with([])
    assert sorted(disk.files()) == ["database", "log"]


@pytest.mark.parametrize("synced", [False, True])
def test_a_deleted_file_comes_back_unless_the_directory_was_synced(disk: Disk, synced: bool) -> None:
    """With what it held."""
    written(disk, b"content").xSync(2)
    files = apsw.VFS("shim", disk.vfs)
    files.xDelete("log", synced)
    files.unregister()
    assert disk.files() == {}
    disk.lose_power_with([])
    assert disk.files() == ({} if synced else {"log": b"content"})


def test_exactly_what_is_chosen_survives_in_the_chosen_order(disk: Disk) -> None:
    """Parts of writes, too; what lies between is zero."""
    file = written(disk, b"")
    file.xSync(2)
    file.xWrite(b"aaaa", 0)
    file.xWrite(b"bbbb", 2)
    file.xTruncate(5)
    before = disk.snapshot()
    for kept, content in (
        ([], b""),
        ([Kept(0)], b"aaaa"),
        ([Kept(0), Kept(1)], b"aabbbb"),
        ([Kept(1), Kept(0)], b"aaaabb"),
        ([Kept(1), Kept(2)], b"\0\0bbb"),
        ([Kept(0, 1, 3)], b"\0aa"),
        ([Kept(0), Kept(1, 3)], b"aaaa\0b"),
    ):
        disk.restore(before)
        disk.lose_power_with(kept)
        assert disk.files() == {"log": content}, kept


def test_power_loss_leaves_nothing_everything_prefixes_parts_and_torn_writes() -> None:
    """Each of them is seen within some seeds, and without tearing no write is torn."""
    seen: dict[bool, set[bytes]] = {}
    for tears in (False, True):
        for seed in range(300):
            disk = Disk(Random(seed))
            disk.tears = tears
            file = written(disk)
            file.xSync(2)
            for number in range(3):
                file.xWrite(bytes([65 + number]) * 600, number * 600)
            disk.lose_power()
            seen.setdefault(tears, set()).add(disk.files()["log"])
            disk.close()
    whole = [bytes([65 + number]) * 600 for number in range(3)]
    nothing, everything, prefix, part = b"", b"".join(whole), whole[0] + whole[1], bytes(600) + whole[1]
    assert {nothing, everything, prefix, part} <= seen[False]
    assert len(seen[False]) == 8
    assert seen[False] < seen[True]
    assert any(content.count(b"A") == 512 for content in seen[True])
    assert any(content.count(b"A") % 256 for content in seen[True] - seen[False])


def test_sectors_are_those_of_the_disk(disk: Disk) -> None:
    """Not those of the write: one that begins in the middle of a sector is cut where the sector ends."""
    file = written(disk)
    file.xWrite(b"x" * 1_000, 500)
    assert sectors(disk.unsynced[-1]) == [(0, 12), (12, 524), (524, 1000)]


# ---- what fails


def test_a_call_fails_when_it_is_told_to(disk: Disk) -> None:
    """By its number, once or from then on, of all calls or of one kind."""
    file = written(disk, b"one")
    disk.fail_at = FailAt(disk.calls + 2)
    file.xWrite(b"two", 0)
    with pytest.raises(apsw.IOError, match="EIO"):
        file.xWrite(b"bad", 0)
    file.xWrite(b"3", 0)
    assert (disk.files()["log"], disk.failed) == (b"3wo", 1)
    disk.fail_later("sync", 1, forever=True)
    file.xSync(2)
    for _ in range(2):
        file.xWrite(b"4", 0)
        with pytest.raises(apsw.IOError, match="EIO"):
            file.xSync(2)
    disk.calm()
    file.xSync(2)


@pytest.mark.parametrize("call", ["open", "read", "write", "truncate", "sync", "delete"])
def test_every_call_can_fail_by_chance(disk: Disk, call: str) -> None:
    """And leaves the file as it was."""
    file, files = written(disk, b"content"), apsw.VFS(f"shim-{call}", disk.vfs)
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: open_file(disk),
        "read": lambda: file.xRead(1, 0),
        "write": lambda: file.xWrite(b"x", 0),
        "truncate": lambda: file.xTruncate(0),
        "sync": lambda: file.xSync(2),
        "delete": lambda: files.xDelete("log", False),
    }
    setattr(disk.faults, call, 1.0)
    with pytest.raises(apsw.CantOpenError if call == "open" else apsw.IOError):
        calls[call]()
    disk.calm()
    assert disk.files() == {"log": b"content"}
    calls[call]()
    files.unregister()


def test_a_file_that_is_not_there_cannot_be_deleted(disk: Disk) -> None:
    """And SQLite learns that this is why: it does not mind."""
    files = apsw.VFS("shim-gone", disk.vfs)
    with pytest.raises(apsw.IOError) as caught:
        files.xDelete("log", False)
    assert caught.value.extendedresult == apsw.SQLITE_IOERR_DELETE_NOENT  # type: ignore[attr-defined]
    assert disk.failed == 0
    files.unregister()


@pytest.mark.parametrize("kind", ["full", "short"])
def test_a_full_disk_takes_nothing_or_a_part(disk: Disk, kind: str) -> None:
    """And says so."""
    file = written(disk)
    setattr(disk.faults, kind, 1.0)
    with pytest.raises(apsw.FullError):
        file.xWrite(b"x" * 100, 0)
    size = len(disk.files()["log"])
    assert size == 0 if kind == "full" else 0 < size < 100


def test_a_failed_sync_makes_nothing_durable_and_can_be_repeated(disk: Disk) -> None:
    """As long as nothing was dropped."""
    file = written(disk, b"")
    file.xSync(2)
    file.xWrite(b"content", 0)
    disk.fail_later("sync", 0)
    with pytest.raises(apsw.IOError):
        file.xSync(2)
    before = disk.snapshot()
    disk.lose_power_with([])
    assert disk.files() == {"log": b""}
    disk.restore(before)
    open_file(disk).xSync(2)
    disk.lose_power_with([])
    assert disk.files() == {"log": b"content"}


def test_after_a_failed_sync_the_bytes_are_seen_and_never_durable(disk: Disk) -> None:
    """If they were dropped: not even by a sync that works, unless they are written again."""
    file = written(disk, b"dropped")
    file.xSync(2)
    file.xWrite(b"DROPPED", 0)
    disk.fail_later("sync", 0, drops=True)
    with pytest.raises(apsw.IOError):
        file.xSync(2)
    file.xSync(2)
    file.xWrite(b"R", 1)
    file.xSync(2)
    assert disk.files() == {"log": b"DROPPED"}
    disk.lose_power_with([])
    assert disk.files() == {"log": b"dRopped"}


def test_a_lying_sync_makes_nothing_durable(disk: Disk) -> None:
    """Until it stops lying."""
    disk.faults.lies = 1.0
    file = written(disk, b"promised")
    file.xSync(2)
    assert [change.kind for change in disk.unsynced] == ["create", "write"]
    disk.calm()
    file.xSync(2)
    assert [change.kind for change in disk.unsynced] == ["create"]


def test_bytes_rot_as_seen_and_as_kept(disk: Disk) -> None:
    """A damaged file stays so without power; as many bits flip as were asked for."""
    file = written(disk, bytes(1_000))
    file.xSync(2)
    disk.rot(5)
    content = disk.files()["log"]
    assert sum(byte.bit_count() for byte in content) == 5
    disk.damage("log", 10, b"xyz")
    disk.cut("log", 500)
    disk.lose_power_with([])
    assert disk.files()["log"] == content[:10] + b"xyz" + content[13:500]


# ---- processes


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


def test_sqlite_keeps_what_it_synced_and_no_more(disk: Disk) -> None:
    """Committed with a sync: there. Without: not there, so this disk does lose."""
    database = open_database(disk)
    database.execute("INSERT INTO rows VALUES (1)")
    database.pragma("synchronous", "OFF")
    database.execute("INSERT INTO rows VALUES (2)")
    seen = disk.snapshot()
    disk.kill()
    assert rows(disk) == [1, 2]
    disk.restore(seen)
    disk.lose_power_with([])
    assert rows(disk) == [1]


def test_a_copy_goes_its_own_way(disk: Disk) -> None:
    """On another disk, with what was not synced; the original does not notice."""
    file = written(disk, b"one")
    file.xSync(2)
    file.xWrite(b"two", 0)
    copy = Disk(Random(2))
    copy.restore(disk.snapshot())
    assert copy.files() == disk.files() == {"log": b"two"}
    copy.lose_power_with([])
    assert (copy.files(), disk.files()) == ({"log": b"one"}, {"log": b"two"})
    copy.close()


# ---- the same again

SCRIPT = """
import gc, sys
gc.disable() if sys.argv[1] == "off" else gc.set_threshold(1)
from random import Random
from tests.tools.sim.test_disk import lived
print(lived(7))
"""


def lived(seed: int) -> str:
    """The bytes that some work, some faults and a loss of power leave."""
    disk = Disk(Random(seed))
    disk.faults.write = disk.faults.sync = 0.01
    for number in range(60):
        try:
            database = open_database(disk)
            database.execute("INSERT INTO rows VALUES (?)", (number,))
        except apsw.Error:
            pass
        if number % 7 == 0:
            disk.lose_power()
        else:
            disk.kill()
    found = disk.fingerprint()
    disk.close()
    return found


def test_the_same_seed_leaves_the_same_bytes() -> None:
    """In this process twice, in others with other hash seeds and collectors; another seed leaves others."""
    first = lived(7)
    assert lived(7) == first != lived(8)
    for hash_seed, collector in (("0", "off"), ("1", "eager")):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, collector],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.strip() == first, done.stderr
