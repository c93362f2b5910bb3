"""Standard input and output as lines, without blocking the event loop.

Either may be a pipe whose other end sleeps for hours, so each has a daemon thread: a process can end although a read or
write never returns.
"""

import asyncio
import contextlib
import mmap
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from triack.base.errors import TriackError
from triack.node.control.intake import Chunk

CHUNK_LINES = 1_000
CHUNK_BYTES = 1024 * 1024
READ_BYTES = 256 * 1024
WRITE_BYTES = 64 * 1024
"""The capacity of a pipe on Linux (pipe(7)): a write to a slow reader blocks no longer than necessary."""
PACE_S = 0.05
"""When a pipe is read message by message, reads are reported after at most about this time."""
AHEAD_FILE_LINES = 4_000
"""A few batches, so that a file is written while the next is in progress."""
AHEAD_LINES = 128
"""The reader of a pipe or a screen may stop at any time and withhold from others what is ready for it. So few lines
cost no speed: writing them one by one is slower than fetching them."""
CHUNKS_AHEAD = 8
"""Chunks read ahead: reading continues during a commit, and memory stays bounded."""


@dataclass(slots=True)
class LineTooLong:
    """The end of an input whose next line is over the limit."""

    line: int


class LineSource:
    """Reads lines, a few chunks ahead of the caller."""

    def __init__(self, fd: int, line_bytes_max: int) -> None:
        self._fd = fd
        self._max = line_bytes_max
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[Chunk | LineTooLong | OSError | None] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        threading.Thread(target=self._read, name="triack-input", daemon=True).start()

    async def next(self) -> Chunk | LineTooLong | None:
        """The next lines, None at the end. May be cancelled without losing any."""
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
        with contextlib.suppress(RuntimeError):  # the loop has ended, and there is no caller
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


class FileSource:
    """Gives each file as one message; ``-`` is standard input."""

    def __init__(self, paths: list[Path], body_bytes_max: int) -> None:
        self._paths = paths
        self._max = body_bytes_max
        self._next = 0

    async def next(self) -> Chunk | LineTooLong | None:
        """The next file, None at the end."""
        if self._next == len(self._paths):
            return None
        path = self._paths[self._next]
        self._next += 1
        loop = asyncio.get_running_loop()
        reading: asyncio.Future[bytes | OSError] = loop.create_future()
        threading.Thread(target=self._read, args=(path, loop, reading), name="triack-input", daemon=True).start()
        body = await reading
        if isinstance(body, OSError):
            raise TriackError(f"read {path}: {body.strerror or body}") from body
        return Chunk(self._next, [body], len(body)) if len(body) <= self._max else LineTooLong(self._next)

    def _read(self, path: Path, loop: asyncio.AbstractEventLoop, reading: "asyncio.Future[bytes | OSError]") -> None:
        found: bytes | OSError
        try:
            with open(0, "rb", closefd=False) if str(path) == "-" else path.open("rb") as file:
                found = file.read(self._max + 1)
        except OSError as error:
            found = error
        with contextlib.suppress(RuntimeError):  # the loop has ended, and there is no caller
            loop.call_soon_threadsafe(_give, reading, found)


def _give(reading: "asyncio.Future[bytes | OSError]", found: bytes | OSError) -> None:
    if not reading.done():
        reading.set_result(found)


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
    """Writes lines.

    Into a pipe it writes one line at a time, and a line counts as written when the reader of the pipe has read it: so
    ``head -1`` gets one. Only Linux shows that of a pipe; elsewhere, and into files, a line counts when it is written.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._paced = _make_small(fd)
        self._most = AHEAD_FILE_LINES if stat.S_ISREG(os.fstat(fd).st_mode) else AHEAD_LINES
        self.error: OSError | None = None
        self.room = 1
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="triack-output", daemon=True).start()

    async def write(self, lines: list[bytes]) -> int:
        """Write lines.

        Returns how many were written whole: fewer than given when there is an ``error``, or when the reader is slow; at
        least one without an error.
        """
        done: asyncio.Future[int] = self._loop.create_future()

        def finish(count: int) -> None:
            if not done.done():
                done.set_result(count)

        def job() -> None:
            count = self._write_one_by_one(lines) if self._paced else self._write(lines)
            with contextlib.suppress(RuntimeError):  # the loop has ended, and no task waits
                self._loop.call_soon_threadsafe(finish, count)

        began = self._loop.time()
        self._jobs.put(job)
        count = await done
        self._learn(count, self._loop.time() - began)
        return count

    def _learn(self, count: int, took_s: float) -> None:
        if took_s < PACE_S:
            self.room = min(max(self.room, 2 * count), self._most)
        else:
            self.room = max(1, min(self.room, int(count * PACE_S / took_s)))

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

    def _write_one_by_one(self, lines: list[bytes]) -> int:
        end = time.monotonic() + PACE_S
        for count, line in enumerate(lines):
            if count and time.monotonic() > end:
                return count
            if not (self._write([line]) and self._is_taken()):
                return count
        return len(lines)

    def _is_taken(self) -> bool:
        """Wait until everything in the pipe was read, or it has no reader any more."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        ((_, events),) = poll.poll()
        if not events & select.POLLOUT:
            self.error = BrokenPipeError("no process reads the output any more")
        return self.error is None


def _make_small(fd: int) -> bool:
    """Let a pipe hold one page, the least there is: room in it then means that all was read (pipe(7)).

    Returns whether it is a pipe, and could be made so.
    """
    if sys.platform != "linux" or not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return False
    import fcntl

    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, mmap.PAGESIZE)
    except OSError:  # it holds more than that already
        return False
    return True
