"""The content of a disk: visible, durable, and each call that can fail fails as planned."""

from collections.abc import Callable

import apsw
import pytest

from tests.tools.sim.files import open_file, written
from triack.tools.sim.disk import Disk, FailAt


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


def test_a_call_fails_when_it_should(disk: Disk) -> None:
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
