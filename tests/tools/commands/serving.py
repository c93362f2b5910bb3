"""Processes that serve a data directory, as their clients see them: real sockets, with the test on the other end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from triack.node.control import handover
from triack.node.control.control_frames import VERSION, Header, Link
from triack.node.control.socket_file import make_socket_path
from triack.node.files.notes import folder_of

Conversation = Callable[[Link], Awaitable[None]]


@asynccontextmanager
async def serving(data: Path, *conversations: Conversation) -> AsyncIterator[None]:
    """Serve a directory badly: each client meets the next conversation, and after the last one nobody is there."""
    left = list(conversations)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = left.pop(0)
        if not left:
            path.unlink()
        link = Link(reader, writer)
        await conversation(link)
        await link.close()

    path = make_socket_path()
    await asyncio.to_thread(data.mkdir)
    served = handover.Served(folder=folder_of(data), control=str(path), pid=0, listen="udp://127.0.0.1:9")
    async with await asyncio.start_unix_server(accept, path):
        handover.publish(data, served)
        yield
    handover.retract(data, served)


async def welcome(link: Link, **changes: Any) -> None:
    await link.receive()
    await link.send("welcome", **{"v": VERSION, **changes})


async def hear(link: Link, **wanted: str) -> Header:
    """The next frame with these fields; calls of other verbs get no answer."""
    header, _ = await link.receive()
    while not wanted.items() <= header.items():
        header, _ = await link.receive()
    return header


async def answer(link: Link, do: str, content: bytes = b"", **fields: Any) -> Header:
    call = await hear(link, op="call", do=do)
    await link.send("done", content, n=call["n"], **fields)
    return call
