"""Files that are their owner's alone, and changes that are whole or not there."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from triack.base.errors import IdentityError
from triack.node.files import private_files
from triack.node.files.private_files import Files, MemoryFiles, PrivateFiles

CANARY = b"canary"


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return PrivateFiles(tmp_path / "data") if request.param == "disk" else MemoryFiles()


def test_a_change_is_made_to_what_the_last_one_left(files: Files) -> None:
    assert files.read("f") is None
    assert files.change("f", lambda now: b"1" if now is None else b"no") == b"1"
    assert files.change("f", lambda now: (now or b"") + b"2") == b"12"
    assert files.read("f") == b"12"


def test_a_change_that_fails_changes_nothing(files: Files) -> None:
    files.change("f", lambda _: b"1")
    stamp = files.stamp("f")
    with pytest.raises(ZeroDivisionError):
        files.change("f", lambda _: bytes(1 // 0))
    assert (files.read("f"), files.stamp("f")) == (b"1", stamp)


async def test_a_change_is_noticed(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first one, and one that leaves the size as it was."""
    monkeypatch.setattr(private_files, "POLL_SECONDS", 0.001)
    stamp = files.stamp("f")
    assert stamp is None
    for content in (b"1", b"2"):
        waiting = asyncio.create_task(files.changed("f", stamp))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        files.change("f", lambda _, new=content: new)  # type: ignore[misc]
        stamp = await asyncio.wait_for(waiting, PATIENCE_S)
        assert stamp == files.stamp("f")


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        PrivateFiles(tmp_path / "data").change("f", lambda _: CANARY)
    finally:
        os.umask(before)
    assert (tmp_path / "data/f").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o640), "mode 0640"),
        (lambda path: path.chmod(0o604), "mode 0604"),
        (lambda path: path.chmod(0o602), "mode 0602"),
        (link, "symbolic link"),
        (lambda path: path.with_name("twin").hardlink_to(path), "hard link"),
        (pipe, "no regular file"),
        (folder, "no regular file"),
        (lambda path: path.parent.chmod(0o777), "directory"),
        (lambda path: os.truncate(path, private_files.FILE_BYTES_MAX + 1), "over"),
    ],
)
def test_what_is_not_private_is_refused_by_name(tmp_path: Path, spoil: Callable[[Path], None], why: str) -> None:
    """Neither is it read nor replaced; and no error says what is in it."""
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: CANARY)
    spoil(tmp_path / "f")
    for is_change in (False, True):
        with pytest.raises(IdentityError, match=why) as caught:
            files.change("f", lambda _: b"") if is_change else files.read("f")
        assert str(tmp_path / "f") in str(caught.value)
        assert CANARY.decode() not in repr(caught.value)


def test_a_file_that_is_replaced_while_it_is_read_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was opened is read whole, although it has no name left; and no second one either."""
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: CANARY)

    def replaced(opened: int) -> os.stat_result:
        monkeypatch.undo()
        files.change("f", lambda _: b"new")
        return os.fstat(opened)

    monkeypatch.setattr(os, "fstat", replaced)
    assert (files.read("f"), files.read("f")) == (CANARY, b"new")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_other_peoples_files(tmp_path: Path) -> None:
    """A stranger's file is refused; what root changes for a node stays the node's user's."""
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: CANARY)
    os.chown(tmp_path / "f", 65_534, 65_534)
    with pytest.raises(IdentityError, match="another user"):
        files.read("f")
    os.chown(tmp_path, 65_534, 65_534)
    assert files.change("f", lambda now: (now or b"") + b"!") == CANARY + b"!"
    assert (tmp_path / "f").stat().st_uid == 65_534


def test_a_disk_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = PrivateFiles(tmp_path)
    files.change("f", lambda _: b"1")

    def fail(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(IdentityError, match="No space left"):
            files.change("f", lambda _: b"2")
    assert (files.read("f"), [path.name for path in tmp_path.iterdir()]) == (b"1", ["f"])


def test_what_a_killed_process_left_does_not_disturb(tmp_path: Path) -> None:
    (tmp_path / "f.new").write_bytes(b"half")
    assert PrivateFiles(tmp_path).change("f", lambda _: b"1") == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


COUNT = """
import sys
from pathlib import Path
from triack.node.files.private_files import PrivateFiles
for _ in range(100):
    PrivateFiles(Path(sys.argv[1])).change("f", lambda now: b"%d" % (int(now or b"0") + 1))
"""


@pytest.mark.slow
def test_processes_do_not_undo_each_others_changes(tmp_path: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path)]) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert PrivateFiles(tmp_path).read("f") == b"300"


def test_a_locked_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "LOCK_SECONDS", 0.01)
    files = PrivateFiles(tmp_path)

    def inside(_now: bytes | None) -> bytes:
        with pytest.raises(IdentityError, match=f"{tmp_path}: another process has it locked"):
            files.change("g", lambda _: b"")
        return b""

    files.change("f", inside)
