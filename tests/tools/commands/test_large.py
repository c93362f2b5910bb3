"""Files of any size from a command to a command: ``triack send --file`` and ``triack receive --save``."""

import os
from pathlib import Path

from tests.tools.processes import message_of, triack
from triack.queues.packing import MAX_BODY_BYTES

BODY = os.urandom(MAX_BODY_BYTES + 100_000)


def test_a_large_file_goes_from_command_to_command(tmp_path: Path) -> None:
    """It is one message; it is refused as a line, and shown with its size."""
    big, data = tmp_path / "big.iso", tmp_path / "a"
    big.write_bytes(BODY)
    assert triack("send", "films", "--file", big, "--label", "film", "--data", data).returncode == 0
    shown = triack("queue", "browse", "films", "--data", data).stdout
    assert f"... {len(BODY)} bytes, sent in parts".encode() in shown
    assert f"1 waiting, {len(BODY)} bytes".encode() in triack("queue", "show", "films", "--data", data).stdout
    refused = triack("receive", "films", "--count", "1", "--data", data)
    assert refused.returncode != 0
    assert "triack receive films --save PATH" in message_of(refused)
    saved = triack("receive", "films", "--save", tmp_path / "copy.iso", "--data", data)
    assert (saved.returncode, saved.stdout) == (0, f"{tmp_path}/copy.iso {len(BODY)}\n".encode())
    assert (tmp_path / "copy.iso").read_bytes() == BODY
    assert b"0 waiting" in triack("queue", "show", "films", "--data", data).stdout


def test_several_messages_are_saved_in_a_folder(tmp_path: Path) -> None:
    """Small ones, too, each under its id."""
    big, small, data, folder = tmp_path / "big", tmp_path / "small", tmp_path / "a", tmp_path / "folder"
    big.write_bytes(BODY)
    small.write_bytes(b"small")
    folder.mkdir()
    sent = triack("send", "films", "--file", big, "--file", small, "--data", data)
    assert sent.returncode == 0
    assert triack("receive", "films", "--save", folder, "--timeout", "0.5", "--data", data).returncode == 0
    assert sorted(path.stat().st_size for path in folder.iterdir()) == [5, len(BODY)]
    refused = triack("receive", "films", "--save", tmp_path / "none", "--count", "2", "--data", data)
    assert "need a folder that exists" in message_of(refused)
    keyed = triack("send", "films", "--file", big, "--key", "k", "--data", data)
    assert "a large message has no key" in message_of(keyed)
