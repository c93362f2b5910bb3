"""Input that cannot be read ends a command with its reason; output counts when it was taken."""

import asyncio
import os
import socket
import struct
import threading
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from triack.base.errors import TriackError
from triack.node.control.intake import Chunk
from triack.tools.commands import pipes
from triack.tools.commands.pipes import AHEAD_FILE_LINES, AHEAD_LINES, FileSource, LineSink, LineSource, LineTooLong


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


async def test_a_file_is_one_message_whatever_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n\xff")
    (tmp_path / "b").write_bytes(b"x" * 101)
    source = FileSource([tmp_path / "a", tmp_path / "b", tmp_path / "gone"], 100)
    assert await source.next() == Chunk(1, [b"one\ntwo\n\xff"], 9)
    assert await source.next() == LineTooLong(2)
    with pytest.raises(TriackError, match=r"^read .*gone: No such file or directory"):
        await source.next()
    assert await source.next() is None


async def test_a_file_that_is_a_silent_pipe_keeps_no_process_from_ending(tmp_path: Path) -> None:
    """Its thread is a daemon; a pool of threads would be waited for."""
    os.mkfifo(tmp_path / "pipe")
    reading = asyncio.create_task(FileSource([tmp_path / "pipe"], 100).next())
    await asyncio.sleep(0)
    threads = [it for it in threading.enumerate() if it.name == "triack-input"]
    reading.cancel()
    assert [it.daemon for it in threads] == [True]
    (tmp_path / "pipe").write_bytes(b"x")
    threads[0].join()


async def test_into_a_pipe_a_line_counts_when_it_was_taken() -> None:
    """Lines that the reader left in the pipe when it went away do not count."""
    out, into = os.pipe()
    writing = asyncio.create_task(LineSink(into).write([b"one", b"two", b"three"]))
    assert await asyncio.to_thread(os.read, out, 100) == b"one\n"
    os.close(out)
    assert await writing == 1
    os.close(into)


async def test_into_a_file_all_lines_go_at_once(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        sink = LineSink(file.fileno())
        assert await sink.write([b"one", b"two"]) == 2
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\n"


async def test_the_progress_of_a_slow_reader_is_reported_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that were taken can be acknowledged before the rest is."""
    monkeypatch.setattr("triack.tools.commands.pipes.PACE_S", 0.0)
    out, into = os.pipe()
    writing = asyncio.create_task(LineSink(into).write([b"one", b"two"]))
    assert await asyncio.to_thread(os.read, out, 100) == b"one\n"
    assert await writing == 1
    os.close(out)
    os.close(into)


async def test_into_a_file_more_lines_are_wanted_with_each_write(tmp_path: Path) -> None:
    """One at first, and twice as many as it has written, up to some batches."""
    with (tmp_path / "out").open("wb") as file:
        sink, rooms = LineSink(file.fileno()), list[int]()
        while sink.room < AHEAD_FILE_LINES:
            rooms.append(sink.room)
            await sink.write([b"x"] * sink.room)
    assert rooms == sorted(rooms)
    assert rooms[0] == 1


async def test_of_a_reader_who_takes_his_time_little_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines at hand for it go to no other reader: as many as it takes in a moment, however quick it was before."""
    out, into = os.pipe()
    monkeypatch.setattr(pipes, "PACE_S", PATIENCE_S)
    sink = LineSink(into)
    while sink.room < AHEAD_LINES:
        writing = asyncio.create_task(sink.write([b"x"] * sink.room))
        await asyncio.to_thread(lambda: [os.read(out, 2) for _ in range(sink.room)])
        await writing
    monkeypatch.setattr(pipes, "PACE_S", 0.0)
    writing = asyncio.create_task(sink.write([b"x"] * sink.room))
    await asyncio.to_thread(os.read, out, 100)
    assert (await writing, sink.room) == (1, 1)
    os.close(out)
    os.close(into)
