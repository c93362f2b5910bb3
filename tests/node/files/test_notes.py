"""What a directory says of its node to processes that come later."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from triack.node.control.handover import Served
from triack.node.files.log_file import Recorded
from triack.node.files.notes import Note, decode_note, folder_of, read_note, write_note


def make_note(data: Path, log: Path) -> Recorded:
    """What a node says that recorded there."""
    return Recorded(folder=folder_of(data), name="a", log=str(log))


def test_a_note_is_its_owners_alone_and_replaces_another(tmp_path: Path) -> None:
    """Also where a process died while it wrote one."""
    (tmp_path / "log.json.new").write_text("half a no")
    for log in (tmp_path / "1", tmp_path / "2"):
        write_note(tmp_path, make_note(tmp_path, log))
        assert read_note(tmp_path, Recorded) == make_note(tmp_path, log)
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("log.json", 0o600)


def test_a_copy_speaks_of_another_directory(tmp_path: Path) -> None:
    """Whatever it says, it is not about this one."""
    original = tmp_path / "original"
    original.mkdir()
    write_note(original, make_note(original, tmp_path))
    shutil.copytree(original, tmp_path / "copy")
    assert read_note(tmp_path / "copy", Recorded) is None
    original.rename(tmp_path / "renamed")
    assert read_note(tmp_path / "renamed", Recorded) is not None


def test_where_there_is_none_nothing_is_said(tmp_path: Path) -> None:
    assert read_note(tmp_path, Recorded) is None
    assert read_note(tmp_path / "typo", Served) is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../b"},
        {"name": ""},
        {"log": "logs"},
        {"log": "/logs\0"},
        {"log": "/\ud800"},
        {"log": None},
        {"folder": 12},
        {"name": ["a"]},
    ],
    ids=str,
)
def test_what_no_node_wrote_is_no_note(tmp_path: Path, change: dict[str, object]) -> None:
    """A name that leads out of the folder, a path that depends on where one is, and what is of another kind."""
    written = asdict(make_note(tmp_path, tmp_path))
    assert decode_note(Recorded, json.dumps(written).encode()) is not None
    assert decode_note(Recorded, json.dumps(written | change).encode()) is None


@pytest.mark.parametrize("kind", [Served, Recorded])
@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"{}", b"\xff", b"[" * 100_000], ids=[*"123456"])
def test_what_is_no_note_at_all(kind: type[Note], content: bytes) -> None:
    assert decode_note(kind, content) is None


def test_a_note_that_cannot_be_written_raises(tmp_path: Path) -> None:
    """The caller decides whether that matters."""
    (tmp_path / "log.json.new").mkdir()
    with pytest.raises(OSError, match=os.strerror(21)):
        write_note(tmp_path, make_note(tmp_path, tmp_path))


def test_what_others_may_have_written_is_no_note(tmp_path: Path) -> None:
    """Nor is a pipe, which would be waited for without end."""
    write_note(tmp_path, make_note(tmp_path, tmp_path))
    path = tmp_path / Recorded.FILE
    path.chmod(0o666)
    said: list[str] = []
    assert read_note(tmp_path, Recorded, said.append) is None
    path.unlink()
    os.mkfifo(path)
    assert read_note(tmp_path, Recorded, said.append) is None
    assert said == [
        f"note not used: others may write to {path} (mode 0666): chmod go-w it",
        f"note not used: {path} is no regular file",
    ]


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such files")
@pytest.mark.parametrize("what", ["pipe", "link", "mode"])
def test_what_is_no_file_of_its_owner_alone_says_nothing_and_stops_nobody(tmp_path: Path, what: str) -> None:
    """A pipe has no other end; another one is written in its place."""
    path = tmp_path / Recorded.FILE
    note = make_note(tmp_path, tmp_path)
    write_note(tmp_path, note)
    if what == "pipe":
        path.unlink()
        os.mkfifo(path, 0o600)
    elif what == "link":
        path.symlink_to(path.rename(tmp_path / "elsewhere"))
    else:
        path.chmod(0o666)
    assert read_note(tmp_path, Recorded) is None
    write_note(tmp_path, note)
    assert read_note(tmp_path, Recorded) == note
