"""Data directories: their names are durable, they are their owner's alone, and errors name the fault."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from triack.base.errors import StoreError, UsageError
from triack.store.folder import STORE_FILE, check_private, check_unused, make_folder, open_private


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
    """A file is in the way."""
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


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


def _somebody_elses(path: Path) -> None:
    os.chown(path, 65_534, -1)


def _linked(path: Path) -> None:
    path.with_name("other").hardlink_to(path)


def _link(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("other")))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")
@pytest.mark.parametrize(
    ("harm", "cause"),
    [
        (_open_to_all, r"others may use it \(mode 0666\): chmod 600 it"),
        pytest.param(
            _somebody_elses,
            "it belongs to another user",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
        ),
        (_linked, "it has another name, too"),
        (_link, "it is a symbolic link"),
        (_pipe, "it is no regular file"),
    ],
)
def test_a_file_that_is_not_its_owners_alone_is_refused(
    tmp_path: Path, harm: Callable[[Path], None], cause: str
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
