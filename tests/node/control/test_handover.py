"""Where a serving process can be found."""

import tempfile
from pathlib import Path

import pytest

from triack.base.errors import TriackError
from triack.node.control import handover


def test_a_control_socket_that_the_system_would_refuse_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path holds 103 bytes; nothing is left behind."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(TriackError) as refused:
        handover.make_socket_path()
    assert str(refused.value).startswith(f"control socket {long}/triack-")
    assert str(refused.value).endswith(": the path is too long; set TMPDIR to a shorter one")
    assert list(long.iterdir()) == []


async def test_a_process_out_of_sight_is_left_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket is in a ``/tmp`` that only it sees, as services have it; others in there still find it."""
    monkeypatch.setattr(handover, "SOON_S", 0.01)
    served = handover.Served(str(tmp_path / "triack-elsewhere" / "control"), 1, "")
    handover.publish(tmp_path, served)
    assert await handover.find(tmp_path) is None
    assert handover.read(tmp_path) == served


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"control": "/tmp/triack-x/control", "pid": 1e999, "listen": ""}',
        b'{"control": "/tmp/triack-x\\u0000/control", "pid": 1, "listen": ""}',
        b'{"control": "/tmp/triack-\\ud800/control", "pid": 1, "listen": ""}',
        b'{"control": "/etc/passwd", "pid": 1, "listen": ""}',
    ],
)
async def test_a_file_that_no_node_wrote_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Whoever looks finds none, and a node that starts there replaces it, and removes nothing that it names."""
    monkeypatch.setattr(handover, "SOON_S", 0.01)
    (tmp_path / handover.NODE_FILE).write_bytes(content)
    assert await handover.find(tmp_path) is None
    served = handover.Served(str(tmp_path / "triack-new" / "control"), 1, "")
    handover.publish(tmp_path, served)
    assert handover.read(tmp_path) == served
