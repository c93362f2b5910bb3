"""Sources of large bodies, and what of them is refused; ``tests/api/stories/test_large_bodies.py`` has the stories."""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import bodies, make, quick
from triack.node.handles.streaming import PIECE_BYTES, Source, StoredBody, Upload, open_source
from triack.node.node import port_of

BODY = os.urandom(2 * PIECE_BYTES + 5)
SMALL = triack.LargeBodies(from_bytes=1_000, part_bytes=100_000, ahead_bytes=300_000, most_bytes=10_000_000)


async def work(job: Callable[[], Any]) -> Any:
    return job()


async def opened(source: Any, content_length: int | None = None) -> tuple[Source, bytes]:
    found = await open_source("q", source, content_length, work)
    try:
        return found, await found.read_all()
    finally:
        await found.close()


async def pieces() -> AsyncIterator[bytes]:
    yield BODY[:7]
    yield b""
    yield BODY[7:]


class Pipe(io.RawIOBase):
    """A file that cannot say how much is left."""

    def __init__(self) -> None:
        self._left = io.BytesIO(BODY)

    def read(self, size: int = -1) -> bytes:
        return self._left.read(size)

    def seekable(self) -> bool:
        return False


async def test_each_kind_of_source_gives_its_bytes(tmp_path: Path) -> None:
    """With its size before the first of them; a file begins where it is."""
    path = tmp_path / "body"
    path.write_bytes(BODY)
    file = io.BytesIO(b"before" + BODY)
    file.seek(6)
    for source in (BODY, bytearray(BODY), memoryview(BODY), path, str(path), file, Pipe(), pieces(), iter([BODY])):
        found, body = await opened(source)
        assert (found.size, body) == (len(BODY), BODY), source
    for source in (pieces(), iter([BODY]), Pipe()):
        assert (await opened(source, len(BODY)))[1] == BODY
    assert not file.closed


async def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(triack.UsageError, match="gives no pieces"):
        await opened(7)
    with pytest.raises(triack.UsageError, match="gives bytes, not str"):
        await opened(["text"])
    with pytest.raises(triack.UsageError, match="gave str"):
        await opened(io.StringIO("text"))
    with pytest.raises(triack.UsageError, match="has 3 bytes, and content_length is 4"):
        await opened(b"123", 4)
    with pytest.raises(triack.UsageError, match="must not be negative"):
        await opened(b"123", -1)
    with pytest.raises(OSError, match="missing"):
        await opened(tmp_path / "missing")


async def test_a_short_body_is_a_message_like_any_other() -> None:
    async with make(settings=quick(large=SMALL)) as node:
        await node.send_stream("q", b"x" * 1_000)
        async with node.receive("q") as reader:
            message = await reader.get()
        assert (message.body, message.size, message.is_large) == (b"x" * 1_000, 1_000, False)
        assert [chunk async for chunk in message.stream()] == [message.body]


async def test_limits_of_the_sender_and_of_its_own_queue() -> None:
    limits = triack.Limits(queue_quota={"q": triack.Quota(size_bytes=50_000)})
    async with make(settings=quick(large=SMALL, limits=limits)) as node:
        with pytest.raises(triack.MessageTooLarge, match=r"large\.most_bytes"):
            await node.send_stream("q", iter([]), content_length=10_000_001)
        with pytest.raises(triack.MessageTooLarge, match="larger than all"):
            await node.send_stream("q", BODY)


async def test_a_file_that_is_saved_is_whole_or_not_there(tmp_path: Path) -> None:
    async with make(settings=quick(large=SMALL)) as node:
        await node.send_stream("q", BODY)
        async with node.receive("q", ack="manual") as reader:
            message = await reader.get()
            assert await message.save(tmp_path / "body") == len(BODY)
            assert (tmp_path / "body").read_bytes() == BODY
            message.ack()
            await node.flush()
            with pytest.raises(triack.BodyLost):
                await message.save(tmp_path / "late")
        assert os.listdir(tmp_path) == ["body"]  # noqa: PTH208


async def test_an_upload_that_is_given_up_twice_ends_once() -> None:
    async with make(settings=quick(large=SMALL)) as node:
        upload = Upload.to(port_of(node), "q", len(BODY), triack.TRANSACTIONAL, {})
        await upload.begin()
        await upload.add(BODY[:200_000])
        upload.give_up()
        upload.give_up()
        assert upload.has_ended
        await node.flush()
        assert not port_of(node).engine.queues.bodies.by_id
        with pytest.raises(triack.BodyLost):
            await StoredBody(port_of(node), bytes(16), 7, 1).read()


async def test_a_source_that_says_nothing_holds_up_nothing_else(tmp_path: Path) -> None:
    """A path of a pipe is refused. An open pipe is read in a thread of its own: the store takes other messages."""
    os.mkfifo(tmp_path / "pipe")
    out, into = os.pipe()
    async with make("a", data=None) as node:
        with pytest.raises(triack.UsageError, match="pipe is no regular file"):
            await node.send_stream("q", tmp_path / "pipe")
        with os.fdopen(out, "rb") as reading, os.fdopen(into, "wb") as writing:
            sending = asyncio.create_task(node.send_stream("q", reading))
            await asyncio.sleep(0)
            await node.send("q", b"small")
            assert await bodies(node, "q", 1) == [b"small"]
            writing.write(b"large")
            writing.close()
            await sending
        assert await bodies(node, "q", 1) == [b"large"]
