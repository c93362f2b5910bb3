"""Where a serving process can be found."""

import asyncio
import shutil
import socket
from pathlib import Path

import pytest

from tests.node.nodes import make
from triack.base.errors import StoreInUse
from triack.node.at_rest import open_at_rest
from triack.node.control import handover
from triack.node.control.socket_file import make_socket_path
from triack.node.files.notes import folder_of, read_note


def read_served(data: Path) -> handover.Served | None:
    """Read the note of the node that serves the directory."""
    return read_note(data, handover.Served)


def make_served(data: Path, control: Path) -> handover.Served:
    """What a process says that serves the directory by that socket."""
    return handover.Served(folder=folder_of(data), control=str(control), pid=1, listen="")


async def test_a_process_out_of_sight_is_left_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket is in a ``/tmp`` that only it sees, as services have it; others in there still find it."""
    monkeypatch.setattr(handover, "SOON_S", 0.01)
    served = make_served(tmp_path, tmp_path / "triack-elsewhere" / "control")
    handover.publish(tmp_path, served)
    assert await handover.find(tmp_path) is None
    assert read_served(tmp_path) == served


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"control": "/tmp/triack-x/control", "pid": 1e999, "listen": "", "folder": "1:2"}',
        b'{"control": "/tmp/triack-x\\u0000/control", "pid": 1, "listen": "", "folder": "1:2"}',
        b'{"control": "/tmp/triack-\\ud800/control", "pid": 1, "listen": "", "folder": "1:2"}',
        b'{"control": "/etc/passwd", "pid": 1, "listen": "", "folder": "1:2"}',
        b'{"control": "/tmp/triack-x/control", "pid": 1, "listen": ""}',
        b'{"control": "/tmp/triack-x/control", "pid": 1, "listen": "", "folder": 2}',
    ],
)
async def test_a_file_that_no_node_wrote_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """``find`` finds none. A node that starts there replaces the file, and removes nothing that it names."""
    monkeypatch.setattr(handover, "SOON_S", 0.01)
    (tmp_path / handover.Served.FILE).write_bytes(content)
    assert await handover.find(tmp_path) is None
    served = make_served(tmp_path, tmp_path / "triack-new" / "control")
    handover.publish(tmp_path, served)
    assert read_served(tmp_path) == served


async def test_a_copy_is_served_by_nobody(tmp_path: Path) -> None:
    """The node of the original goes on: the node of the copy may neither connect to its socket nor remove it."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    control = make_socket_path()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(control))
    original.mkdir()
    handover.publish(original, make_served(original, control))
    shutil.copytree(original, copy)
    assert read_served(copy) is None
    assert await handover.find(copy) is None
    served = make_served(copy, tmp_path / "triack-copy" / "control")
    handover.publish(copy, served)
    assert read_served(copy) == served
    assert control.exists()
    handover.retract(original, make_served(original, control))
    assert not control.parent.exists()


def test_a_directory_is_the_same_by_another_name(tmp_path: Path) -> None:
    """Renamed while its node runs, or by a link to it."""
    (tmp_path / "old").mkdir()
    served = make_served(tmp_path / "old", tmp_path / "triack-old" / "control")
    handover.publish(tmp_path / "old", served)
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "link").symlink_to("new")
    assert read_served(tmp_path / "new") == read_served(tmp_path / "link") == served


async def test_a_node_begins_behind_one_that_only_looks(tmp_path: Path) -> None:
    """As `triack queue list` does: it says nothing, and is gone at once."""
    async with make("a", tmp_path):
        pass
    looking = await open_at_rest(tmp_path).start()
    asyncio.get_running_loop().call_later(0.2, asyncio.create_task, looking.close())
    async with make("a", tmp_path):
        pass


async def test_a_directory_that_nobody_speaks_for_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "SOON_S", 0.1)
    async with make("a", tmp_path):
        pass
    async with open_at_rest(tmp_path):
        with pytest.raises(StoreInUse):
            await make("a", tmp_path).start()
