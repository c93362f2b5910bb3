"""Input that cannot be read ends a command with its reason."""

import os
import socket
import struct
from pathlib import Path

import pytest

from triack.base.errors import TriackError
from triack.node.control.intake import Chunk
from triack.tools.commands.pipes import LineSource


async def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """A directory as standard input."""
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(TriackError, match=r"^read standard input: .*Is a directory"):
            await LineSource(fd, 100).next()
    finally:
        os.close(fd)


async def test_lines_before_a_failure_are_read() -> None:
    """Standard input is a connection whose other end breaks it off, which is no lost connection to a node."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        writer = socket.create_connection(listener.getsockname())
        reader, _ = listener.accept()
    with reader:
        source = LineSource(reader.fileno(), 100)
        writer.sendall(b"one\n")
        assert await source.next() == Chunk(1, [b"one"], 3)
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        with pytest.raises(TriackError, match=r"^read standard input: .*Connection reset by peer") as failed:
            await source.next()
    assert not isinstance(failed.value, OSError)
