"""The store's folder: its owner, its place, its ballast."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from triack.base.errors import StoreError, UsageError
from triack.base.lease_words import LIVE_AT
from triack.store import ballast, lease_file
from triack.store.ballast import BALLAST_FILE, Ballast
from triack.store.folder import STORE_FILE, check_private, check_unused, make_folder, open_private
from triack.store.lease_file import LEASE_FILE, LeaseFile
from triack.store.place import Place

# Data directories: their names are durable, they are their owner's alone, and errors name the fault.


def test_the_names_of_new_directories_are_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in the one above it, or the store could vanish with its directory."""
    synced = []
    sync = os.fsync

    def note(opened: int) -> None:
        synced.append(Path(f"/proc/self/fd/{opened}").readlink())
        sync(opened)

    monkeypatch.setattr(os, "fsync", note)
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(StoreError, match="data"):
        make_folder(tmp_path / "data")


def test_a_folder_that_cannot_be_written_is_named() -> None:
    """Not even by this user; root, who may write everywhere, tries as nobody."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        as_root = os.geteuid() == 0
        if as_root:
            os.seteuid(65_534)
        try:
            with pytest.raises(StoreError, match=f"{folder}: not writable"):
                make_folder(Path(folder))
        finally:
            if as_root:
                os.seteuid(0)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")
@pytest.mark.parametrize(
    ("harm", "cause"),
    [
        (lambda path: path.chmod(0o666), r"others may use it \(mode 0666\): chmod 600 it"),
        pytest.param(
            lambda path: os.chown(path, 65_534, -1),
            "it belongs to another user",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
        ),
        (lambda path: path.with_name("other").hardlink_to(path), "it has another name, too"),
        (lambda path: path.symlink_to(path.rename(path.with_name("other"))), "it is a symbolic link"),
        (_pipe, "it is no regular file"),
    ],
    ids=["open to all", "of somebody else", "hard link", "symbolic link", "pipe"],
)
def test_a_file_that_is_not_its_owners_alone_is_refused(
    tmp_path: Path, harm: Callable[[Path], object], cause: str
) -> None:
    """By name, before its content counts, and without waiting for the other end of a pipe."""
    path = tmp_path / "file"
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    assert path.stat().st_mode & 0o777 == 0o600
    check_private(path)
    harm(path)
    for look in (lambda: open_private(path, os.O_RDONLY), lambda: check_private(path)):
        with pytest.raises(StoreError, match=f"{path}: {cause}"):
            look()


def test_a_file_that_is_not_there_is_private(tmp_path: Path) -> None:
    check_private(tmp_path / "file")
    with pytest.raises(StoreError, match="No such file"):
        open_private(tmp_path / "file", os.O_RDONLY)


def test_a_node_that_keeps_nothing_leaves_no_store_unread(tmp_path: Path) -> None:
    check_unused(tmp_path)
    (tmp_path / STORE_FILE).touch()
    with pytest.raises(UsageError, match=STORE_FILE):
        check_unused(tmp_path)


def test_a_disk_without_inodes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has room, so that its error, which is that of a full disk, leads astray."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_files=1_000, f_favail=0))
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"open .*/file: its disk has no inode left, though perhaps room"):
        open_private(tmp_path / "file", os.O_RDWR)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_files=0, f_favail=0))  # as btrfs says
    with pytest.raises(StoreError, match=r"open .*/file: No space left on device"):
        open_private(tmp_path / "file", os.O_RDWR)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "data" / "store.db"
    made.parent.mkdir()
    made.write_bytes(b"x")
    return made


def test_a_file_that_stays_is_no_fault(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    place = Place([file.name])
    with file.open("ab") as opened:
        opened.write(b"y")
    monkeypatch.chdir("/")
    assert place.fault() is None


def test_what_was_deleted_or_renamed_is_missed(file: Path) -> None:
    place = Place([str(file)])
    copy = file.with_name("copy")
    copy.write_bytes(b"x")
    copy.replace(file)
    assert place.fault() == "store.db in its directory is another file now"
    file.parent.rename(file.parent.with_name("elsewhere"))
    assert place.fault() == f"store.db is not in its directory any more ({os.strerror(2)})"


# A file that is laid down on disks with plenty of room, and given up on those without.

SIZE_BYTES = 1_000_000


def test_it_takes_real_room_and_gives_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Ballast(tmp_path, SIZE_BYTES)
    assert one.missing_bytes == SIZE_BYTES
    one.lay()
    laid = (tmp_path / BALLAST_FILE).stat()
    assert (laid.st_blocks * 512 >= SIZE_BYTES, laid.st_mode & 0o777, one.missing_bytes) == (True, 0o600, 0)
    one.release()
    assert one.missing_bytes == 0
    monkeypatch.setattr(ballast, "free_bytes", lambda _folder: SIZE_BYTES - 1)
    one.release()
    assert one.missing_bytes == SIZE_BYTES


def test_a_small_disk_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the ballast that fills it."""
    monkeypatch.setattr(ballast, "free_bytes", lambda _folder: 4 * SIZE_BYTES - 1)
    one = Ballast(tmp_path, SIZE_BYTES)
    one.lay()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such files")
def test_a_pipe_in_its_place_stops_nobody(tmp_path: Path) -> None:
    """It has no other end. There is no ballast then, and as much is kept free."""
    os.mkfifo(tmp_path / BALLAST_FILE, 0o600)
    one = Ballast(tmp_path, SIZE_BYTES)
    one.lay()
    assert one.missing_bytes == SIZE_BYTES


# The file with the messages in hand, for the next process on the same system.


def begin_and_hold(leases: LeaseFile, last: int, start: int) -> dict[int, tuple[int, int]]:
    """Begin a start that has message 7. Returns what the one before it has left."""
    left, words = leases.begin(last, start)
    assert words is not None
    for step, word in enumerate((7, 1, 0b11, 0b10), words[LIVE_AT]):
        words[step] = word
    return left


def test_what_a_process_wrote_is_read_without_a_word_of_it(tmp_path: Path) -> None:
    """Nobody has closed or synced the file."""
    assert begin_and_hold(LeaseFile(tmp_path), 0, 1) == {}
    assert LeaseFile(tmp_path).begin(1, 2)[0] == {7: (0b01, 0b10)}
    assert (tmp_path / LEASE_FILE).stat().st_mode & 0o777 == 0o600


def test_what_nobody_has_told_a_commit_of_is_handed_on(tmp_path: Path) -> None:
    """The second process dies before its first commit."""
    begin_and_hold(LeaseFile(tmp_path), 0, 1)
    LeaseFile(tmp_path).begin(1, 2)
    assert LeaseFile(tmp_path).begin(2, 3)[0] == {7: (0b01, 0b10)}
    assert LeaseFile(tmp_path).begin(9, 4)[0] == {}


def test_an_orderly_end_leaves_the_file_for_what_there_is_to_tell(tmp_path: Path) -> None:
    leases = LeaseFile(tmp_path)
    leases.begin(0, 1)
    leases.end()
    assert not list(tmp_path.iterdir())
    begin_and_hold(leases, 1, 2)
    leases.end()
    assert LeaseFile(tmp_path).begin(2, 3)[0] == {7: (0b01, 0b10)}


def test_another_boot_of_the_machine_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was synced, so nobody knows what of it is true."""
    begin_and_hold(LeaseFile(tmp_path), 0, 1)
    monkeypatch.setattr(lease_file, "boot_id", lambda: b"another".ljust(16))
    assert LeaseFile(tmp_path).begin(1, 2)[0] == {}


def test_a_system_that_cannot_tell_its_boots_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_file, "boot_id", lambda: b"")
    assert LeaseFile(tmp_path).begin(0, 1) == ({}, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_passed_over(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    """A pipe, a directory, a link: the start neither waits nor fails."""
    make(tmp_path / LEASE_FILE)
    assert LeaseFile(tmp_path).begin(0, 1)[0] == {}


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\0" * 4_096])
def test_a_damaged_file_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LEASE_FILE).write_bytes(content)
    assert begin_and_hold(LeaseFile(tmp_path), 0, 1) == {}


def test_a_directory_that_takes_no_file_costs_the_notes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _file, _content: 0)
    assert LeaseFile(tmp_path).begin(0, 1) == ({}, None)
