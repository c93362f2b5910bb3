"""Standard input and output as lines, without blocking the event loop.

Either may be a pipe whose other end sleeps for hours, so each has a daemon thread: a process can end although a read or
write never returns.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue

from triack.base.errors import TriackError
from triack.node.control.intake import Chunk

__all__ = ["CHUNK_BYTES", "CHUNK_LINES", "LineSink", "LineSource", "LineTooLong"]

CHUNK_LINES = 1_000
CHUNK_BYTES = 1024 * 1024
"""A chunk of lines enters the node in one transaction: large enough for a commit, small against memory."""
READ_BYTES = 256 * 1024
WRITE_BYTES = 64 * 1024
"""What a pipe of Linux holds (pipe(7)): a write in the hands of a slow reader is not longer than it has to be."""
CHUNKS_AHEAD = 8
"""Chunks that were read and not asked for: so that reading goes on during a commit, and memory stays bounded."""


@dataclass(slots=True)
class LineTooLong:
    """The end of an input whose next line is over the limit."""

    line: int


class LineSource:
    """Reads lines, a few chunks ahead of who asks for them.

    Args:
        fd: where to read.
        line_bytes_max: a longer line ends the input.
    """

    def __init__(self, fd: int, line_bytes_max: int) -> None:
        self._fd = fd
        self._max = line_bytes_max
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[Chunk | LineTooLong | OSError | None] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        threading.Thread(target=self._read, name="triack-input", daemon=True).start()

    async def next(self) -> Chunk | LineTooLong | None:
        """The next lines, None at the end.

        May be cancelled without losing any.

        Raises:
            TriackError: the input cannot be read.
        """
        item = await self._chunks.get()
        self._room.release()
        if isinstance(item, OSError):
            raise TriackError(f"read standard input: {item}") from item
        return item

    def _read(self) -> None:
        end: LineTooLong | OSError | None = None
        try:
            for item in self._items():
                self._put(item)
                if isinstance(item, LineTooLong):
                    return
        except OSError as error:
            end = error
        self._put(end)

    def _put(self, item: Chunk | LineTooLong | OSError | None) -> None:
        self._room.acquire()
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody will ask
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, item)

    def _items(self) -> Iterator[Chunk | LineTooLong]:
        first = 1
        parts: list[bytes] = []
        held_bytes = 0
        while data := os.read(self._fd, READ_BYTES):
            *lines, rest = data.split(b"\n")
            if lines:
                lines[0] = b"".join((*parts, lines[0]))
                parts, held_bytes = [], 0
                if len(lines[0]) > self._max:
                    yield LineTooLong(first)
                    return
                for chunk in _chunks(first, lines):
                    yield chunk
                    first = chunk.last + 1
            parts.append(rest)
            held_bytes += len(rest)
            if held_bytes > self._max:
                yield LineTooLong(first)
                return
        if held_bytes:
            yield Chunk(first, [b"".join(parts)], held_bytes)


def _chunks(first: int, lines: list[bytes]) -> Iterator[Chunk]:
    chunk = Chunk(first, [])
    for line in lines:
        full = len(chunk.lines) >= CHUNK_LINES or chunk.size_bytes + len(line) > CHUNK_BYTES
        if full and chunk.lines:
            yield chunk
            chunk = Chunk(chunk.last + 1, [])
        chunk.lines.append(line)
        chunk.size_bytes += len(line)
    yield chunk


class LineSink:
    """Writes lines. ``error`` is why it cannot write any more."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.error: OSError | None = None
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="triack-output", daemon=True).start()

    async def write(self, lines: list[bytes]) -> int:
        """Write lines.

        Returns:
            How many were written whole: fewer than given when there is an ``error``.
        """
        done: asyncio.Future[int] = self._loop.create_future()

        def finish(count: int) -> None:
            if not done.done():
                done.set_result(count)

        def job() -> None:
            count = self._write(lines)
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                self._loop.call_soon_threadsafe(finish, count)

        self._jobs.put(job)
        return await done

    def _work(self) -> None:
        while True:
            self._jobs.get()()

    def _write(self, lines: list[bytes]) -> int:
        data = b"".join([line + b"\n" for line in lines])
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written : written + WRITE_BYTES])
        except OSError as error:
            self.error = error
            for count, line in enumerate(lines):
                written -= len(line) + 1
                if written < 0:
                    return count
        return len(lines)
