"""Data directories: their names last, they are their owner's, and what cannot be used is named."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from triack.base.errors import StoreError, UsageError
from triack.store.folder import STORE_FILE, check_unused, make_folder, make_private


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


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")
def test_a_file_is_private_from_its_first_moment_and_one_that_is_there_stays(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_bytes(b"content")
    old.chmod(0o644)
    for path in (new, old):
        make_private(path)
    assert (new.stat().st_mode & 0o777, old.stat().st_mode & 0o777) == (0o600, 0o644)
    assert (new.read_bytes(), old.read_bytes()) == (b"", b"content")


def test_a_node_that_keeps_nothing_leaves_no_store_unread(tmp_path: Path) -> None:
    check_unused(tmp_path)
    (tmp_path / STORE_FILE).touch()
    with pytest.raises(UsageError, match=STORE_FILE):
        check_unused(tmp_path)
