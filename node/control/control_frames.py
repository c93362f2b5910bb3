"""Frames between two processes of one machine: a length, one line of JSON, and raw bytes.

    4 bytes, big-endian: length of the rest | JSON object | newline | body

Both ends are Triack, but perhaps of different versions: the first frame of each side, ``hello`` and ``welcome``, has
``v``. Nothing that arrives is trusted beyond its bounds.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from struct import Struct
from typing import Any, Protocol

from triack.base.errors import ProtocolError, TriackError, UsageError
from triack.base.reasons import DropReason
from triack.node.control import socket_file
from triack.node.files.ownership import trusted_users

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
"""Accepts the serving end of one."""


class Doors(Protocol):
    """The nodes of a simulated machine that other processes of it can use."""

    def publish(self, data: Path, accept: Accept) -> Callable[[], None]:
        """Serve a data directory by this process. Returns what ends that."""

    def dial(self, data: Path) -> Streams | None:
        """Connect to the process that serves a directory; None when none does."""


# Separate from ``PLATFORM``, as a command that finds no node loads no part of one.
DOORS: ContextVar[Doors | None] = ContextVar("triack_doors", default=None)
"""Those of the process in whose context this is; None on a real machine."""


VERSION = 13
"""Of the frames and the verbs: both ends must have the same, as neither knows another."""
FRAME_BYTES_MAX = 8 * 1024 * 1024
"""The largest message, 4 MiB, and as much again."""
CALLS_MAX = 16_384
"""Calls of one connection at a time, most of which wait for messages: some kilobytes each. A caller with more waits."""
CALL_BYTES = 256
"""Of the header of a call beside its arguments: numbers and names."""
ERROR_CHARS_MAX = 65_536
"""Of an error's text: more than anyone reads."""
CLOSE_S = 2.0
"""How long the other end may take to read the last frames: a running process needs milliseconds; one that was stopped,
or whose reader has stopped, never does."""
BUSY_S = 0.02
"""Time between attempts to connect to a process with many waiting connections: a few turns of its loop."""
BUSY_TRIES = 500
"""Ten seconds of attempts: a running process accepts sooner."""
_LENGTH = Struct("!I")

Header = dict[str, Any]
Answer = tuple[dict[str, Any], bytes]


class Caller(Protocol):
    """The client."""

    async def call(
        self, do: str, body: bytes = b"", *, epoch: int | None = None, **fields: Any
    ) -> tuple[Header, bytes]:
        """Have the node do something, and wait until it is done; with an ``epoch``, on that connection alone."""

    def post(self, op: str, *, epoch: int | None = None, **fields: Any) -> None:
        """Send the node a notice, without an answer; with an ``epoch``, on that connection alone."""

    async def connected(self, end: float | None = None, *, patient: bool = False) -> int:
        """Wait for a connection, until ``end`` by the clock of the event loop. Returns its epoch.

        With ``patient``, wait even where calls fail, as long as the client looks for the next process.
        """

    async def lost(self, epoch: int) -> None:
        """Wait until that connection has ended."""


class Link:
    """One connection. When it is lost, reading and writing raise ``ConnectionError``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._coming_bytes: int | None = None
        self.received_bytes = 0

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the other end has not read yet."""
        return self._writer.transport.get_write_buffer_size()

    async def drained(self) -> None:
        """Wait until the other end has read nearly all that was sent. Raises ConnectionError."""
        await self._writer.drain()

    def abort(self) -> None:
        """End the connection immediately; unsent frames are lost."""
        self._writer.transport.abort()

    @property
    def peer_pid(self) -> int | None:
        """The process at the other end; None if that is this one, or unknown."""
        try:
            pid, _ = socket_file.peer_of(self._writer.get_extra_info("socket"))
        except (AttributeError, OSError):  # not on Linux
            return None
        return None if pid == os.getpid() else pid

    async def send(self, op: str, body: bytes = b"", **fields: Any) -> None:
        """Send one frame, as ``post``; waits while the other end does not read."""
        self.post(op, body, **fields)
        await self._writer.drain()

    def post(self, op: str, body: bytes = b"", **fields: Any) -> None:
        """Send one frame, without waiting. Does nothing on a connection that has ended: ``receive`` reports that.

        Raises UsageError: the frame is longer than the other end accepts; nothing was sent.
        """
        header = encode({"op": op, **fields})
        length = len(header) + 1 + len(body)
        _check_length(str(fields.get("do", op)), length)
        if not self._writer.is_closing():  # asyncio would write a line of the log for each frame
            self._writer.write(b"".join((_LENGTH.pack(length), header, b"\n", body)))

    async def receive(self) -> tuple[Header, bytes]:
        """The next frame. A call that is cancelled has taken none.

        Raises:
            ConnectionError: the connection has ended.
            ProtocolError: the bytes that came are no frame.
            TriackError: the other end reports an error; UsageError if it was a wrong request.
        """
        try:
            if self._coming_bytes is None:
                (self._coming_bytes,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if self._coming_bytes > FRAME_BYTES_MAX:
                raise ProtocolError(DropReason.BAD_FRAME, f"{self._coming_bytes} bytes")
            frame = await self._reader.readexactly(self._coming_bytes)
            self.received_bytes, self._coming_bytes = self._coming_bytes, None
        except asyncio.IncompleteReadError as cause:
            raise ConnectionResetError("the connection has ended") from cause
        text, _, body = frame.partition(b"\n")
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as cause:
            raise ProtocolError(DropReason.BAD_FRAME, "the header is not JSON") from cause
        if not isinstance(header, dict) or not isinstance(header.get("op"), str):
            raise ProtocolError(DropReason.BAD_FRAME, "the header has no op")
        if header["op"] == "error":
            kind = UsageError if header.get("usage") is True else TriackError
            raise kind(str(header.get("message")))
        return header, body

    async def close(self) -> None:
        """Close the connection, in any state; frames that the other end does not read in time are lost."""
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(self._writer.wait_closed())  # a second call of close waits for it, too
        except TimeoutError:
            self._writer.transport.abort()
        except OSError:
            return


async def dial(path: Path, users: Collection[int] | None = None) -> Link:
    """Connect to a control socket.

    Raises:
        PermissionError: the socket, or the process that serves it, is another user's; nothing was sent to it.
        OSError: no process listens there.
        TriackError: the process does not accept.
    """
    users = trusted_users() if users is None else users
    end = socket.socket(socket.AF_UNIX)
    try:
        await _connect(end, path, users)
        socket_file.check_peer(end, users)
        return Link(*await asyncio.open_unix_connection(sock=end))
    except BaseException:
        end.close()
        raise


async def greet(link: Link) -> Header:
    """Begin the conversation from the side that has connected.

    Raises:
        ConnectionError: the connection has ended.
        ProtocolError: the process speaks another version.
        TriackError: it refuses to serve.
    """
    await link.send("hello", v=VERSION)
    welcome, _ = await link.receive()
    if welcome.get("v") != VERSION:
        raise ProtocolError(DropReason.BAD_HELLO, f"the serving process speaks version {welcome.get('v')!r}")
    return welcome


async def call_once(link: Link, do: str) -> Header:
    """The answer to one call without arguments, the only one on its connection. Raises as ``greet``."""
    await greet(link)
    await link.send("call", n=1, do=do)
    answer, _ = await link.receive()
    return answer


async def pair() -> tuple[Link, Link]:
    """The two ends of a connection within this process."""
    ends = socket.socketpair()
    connect = asyncio.open_unix_connection if ends[0].family.name == "AF_UNIX" else asyncio.open_connection
    one, other = [Link(*await connect(sock=end)) for end in ends]
    return one, other


async def _connect(end: socket.socket, path: Path, users: Collection[int]) -> None:
    """As ``loop.sock_connect``, which would read a full queue of waiting connections as success."""
    end.setblocking(False)
    for _ in range(BUSY_TRIES):
        with socket_file.opened(path, users) as name, contextlib.suppress(BlockingIOError):
            return end.connect(name)
        await asyncio.sleep(BUSY_S)
    raise TriackError(
        f"control socket {path}: no process has accepted a connection for {BUSY_S * BUSY_TRIES:g} s: stopped, or stuck"
    )


def encode(it: object) -> bytes:
    """An object as JSON for a frame; records are objects with the names of their fields."""
    return json.dumps(it, separators=(",", ":"), default=_fields_of).encode()


def _fields_of(record: Any) -> dict[str, Any]:
    if not is_dataclass(record):
        raise TypeError(f"JSON cannot express {record!r}")
    return {it.name: getattr(record, it.name) for it in fields(record)}


def check_frame(do: str, body: bytes, **fields: Any) -> None:
    """Raise UsageError for a call that is longer than a frame, before it is made."""
    _check_length(do, len(encode(fields)) + CALL_BYTES + len(body))


def _check_length(what: str, length: int) -> None:
    if length > FRAME_BYTES_MAX:
        raise UsageError(f"{what}: {length} bytes, and the control socket takes {FRAME_BYTES_MAX} at a time")


def check_sayable(what: str, fields: Mapping[str, object]) -> None:
    """Raise UsageError, with its name, for a field that JSON cannot express."""
    for name, value in fields.items():
        try:
            encode(value)
        except (TypeError, ValueError, RecursionError):
            if isinstance(value, dict):
                check_sayable(what, value)
            raise UsageError(f"{what}: {name} is of a wrong type: {value!r}") from None


def words_of(error: Exception) -> str:
    """The text of an error, cut to fit into a frame: it may repeat an argument as long as a frame."""
    return str(error)[:ERROR_CHARS_MAX]


def number_of(header: Header, key: str) -> int:
    """A non-negative number of a frame. Raises ProtocolError."""
    value = header.get(key)
    if type(value) is not int or value < 0:
        raise ProtocolError(DropReason.BAD_FRAME, f"{key} is {value!r}")
    return value


def cut(body: bytes, sizes: object) -> list[bytes]:
    """Cut a body into pieces of these sizes. Raises ProtocolError if they do not fill it."""
    if (
        not isinstance(sizes, list)
        or any(type(size) is not int or size < 0 for size in sizes)
        or sum(sizes) != len(body)
    ):
        raise ProtocolError(DropReason.BAD_FRAME, "the sizes do not fit the body")
    pieces: list[bytes] = []
    at = 0
    for size in sizes:
        pieces.append(body[at : at + size])
        at += size
    return pieces
