"""The files of the session log: segments, renames, and a disk that takes no more."""

import errno
import os
from pathlib import Path

import pytest

from triack.base.errors import StoreError
from triack.node.files.log_file import LogFile


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_records_are_in_the_file_at_once(tmp_path: Path) -> None:
    """With the operating system when ``append`` returns; the file is renamed when the log is closed."""
    log = LogFile(tmp_path / "log", "n", 7)
    log.append(b"one\n")
    (open_file,) = (tmp_path / "log").iterdir()
    assert open_file.read_bytes() == b"one\n"
    assert open_file.name.startswith("n-000007-")
    assert open_file.name.endswith("-000001.jsonl.open")
    log.append(b"")
    log.append(b"two\n")
    log.close()
    log.close()
    (closed,) = (tmp_path / "log").iterdir()
    assert closed.read_bytes() == b"one\ntwo\n"
    assert closed.name == open_file.name.removesuffix(".open")


def test_a_record_that_begins_a_segment_begins_a_file(tmp_path: Path) -> None:
    """The first one, too, but only one; the segments put together are all records, in order."""
    log = LogFile(tmp_path, "n", 1)
    records = [(b'{"v":6,"n":%d}\n' if number % 3 == 0 else b'{"n":%d}\n') % number for number in range(20)]
    for record in records:
        log.append(record)
    assert len([name for name in names(tmp_path) if name.endswith(".open")]) == 1
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 7
    assert all(file.suffix == ".jsonl" and file.read_bytes().endswith(b"\n") for file in files)
    assert b"".join(file.read_bytes() for file in files) == b"".join(records)


def test_two_logs_never_write_one_file(tmp_path: Path) -> None:
    """Files of an earlier life are not touched, whatever their number."""
    first = LogFile(tmp_path, "n", 1)
    first.append(b"first\n")
    second = LogFile(tmp_path, "n", 1)
    second.append(b"second\n")
    first.close()
    second.close()
    assert sorted(file.read_bytes() for file in tmp_path.iterdir()) == [b"first\n", b"second\n"]


def test_a_disk_that_takes_no_more_ends_the_recording_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go on: ``append`` and ``close`` do not raise, and nothing is left open."""
    log = LogFile(tmp_path, "n", 1)
    log.append(b"before\n")

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    log.append(b"lost\n")
    monkeypatch.undo()
    log.append(b"later\n")
    log.close()
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"before\n"


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take less than it is given."""
    write = os.write
    log = LogFile(tmp_path, "n", 1)
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:3])))
    log.append(b"0123456789\n")
    monkeypatch.undo()
    log.close()
    assert next(tmp_path.iterdir()).read_bytes() == b"0123456789\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "log").write_text("in the way")
    with pytest.raises(StoreError, match="log"):
        LogFile(tmp_path / "log", "n", 1)


@pytest.mark.parametrize(("times", "records"), [(1, b"on\n"), (2, b"on\n"), (2, b'{"v":6}\n')])
def test_a_folder_that_is_gone_ends_the_recording_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, times: int, records: bytes
) -> None:
    """Somebody tidied up under the running node: its next segment, or its end, says so once and makes no new folder."""
    log = LogFile(tmp_path / "log", "n", 1)
    log.append(b"begun\n")
    for file in (tmp_path / "log").iterdir():
        file.unlink()
    (tmp_path / "log").rmdir()
    for _ in range(times):
        log.append(records)
    log.close()
    assert caplog.messages == [f"recording in {tmp_path / 'log'} stopped: No such file or directory"]
    assert not (tmp_path / "log").exists()


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")
def test_its_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """And those above it that are made with it; one that is there stays as it is."""
    before = os.umask(0o022)
    try:
        LogFile(tmp_path / "a" / "b", "n", 1).close()
        (tmp_path / "shared").mkdir(mode=0o755)
        LogFile(tmp_path / "shared", "n", 1).close()
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "shared")]
    assert modes == [0o700, 0o700, 0o755]
