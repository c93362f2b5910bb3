"""``triack receive`` when its output, its node or its user lets it down."""

import asyncio
import fcntl
import mmap
import os
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.tools.commands.serving import answer, hear, serving, welcome
from triack.base.errors import ProtocolError, StoreInUse, TriackError, WaitTimeout
from triack.node.control import handover
from triack.node.control.control_frames import VERSION, Link
from triack.node.files.access import DEFAULT_SUITE
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.store.store import Store
from triack.tools.commands import receive

PIPE_BYTES = mmap.PAGESIZE
BODY = b"x" * 2 * PIPE_BYTES


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of standard output, which is a pipe, where somebody may read."""
    out, into = os.pipe()
    monkeypatch.setattr(receive, "STDOUT", into)
    yield out
    os.close(out)
    os.close(into)


async def run(data: Path, *, count: int | None = None, timeout: float | None = None) -> int:
    """The command, without its process."""
    order = receive._Order("orders", data, None, "b", None, insecure=True, suite=DEFAULT_SUITE, tls=None)  # noqa: SLF001
    async with asyncio.timeout(PATIENCE_S):
        return await receive._receive(order, count, timeout)  # noqa: SLF001


async def put(data: Path, *bodies: bytes) -> None:
    """Leave messages in a queue of a node that nobody runs."""
    async with triack.open("b", data=data, insecure=True) as node:
        for body in bodies:
            await (await node.send("orders", body)).ordered(10)


async def left(data: Path) -> int:
    """How many messages the node would hand out."""
    async with triack.open("b", data=data, insecure=True) as node:
        return node.queue_lengths()["orders"]


async def until_full(pipe: int) -> None:
    """Wait until the writer of a pipe waits for its reader."""
    async with asyncio.timeout(PATIENCE_S):
        while int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) < PIPE_BYTES:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def read(pipe: int, size_bytes: int) -> bytes:
    """Read that much."""
    data = b""
    while len(data) < size_bytes:
        data += os.read(pipe, size_bytes)
    return data


async def test_a_signal_lets_a_write_end_and_what_was_written_does_not_come_again(tmp_path: Path, reader: int) -> None:
    await put(tmp_path, BODY)
    task = asyncio.create_task(run(tmp_path))
    await until_full(reader)
    task.cancel()
    assert await asyncio.to_thread(read, reader, len(BODY) + 1) == BODY + b"\n"
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE_S)
    assert await left(tmp_path) == 0


async def test_a_signal_does_not_wait_without_end_for_a_write(
    tmp_path: Path, reader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads: what was not written whole comes again."""
    monkeypatch.setattr(receive, "GRACE_S", 0.05)
    await put(tmp_path, BODY)
    task = asyncio.create_task(run(tmp_path))
    await until_full(reader)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE_S)
    read(reader, len(BODY) + 1)
    assert await left(tmp_path) == 1


async def test_messages_that_are_taken_back_end_the_command(tmp_path: Path, reader: int) -> None:
    """Another reader gets them: what is written later would be there twice."""
    async with triack.open("b", data=tmp_path, insecure=True) as node:
        await node.send("orders", BODY, until="ordered")
        task = asyncio.create_task(run(tmp_path))
        await until_full(reader)
        assert await node.release("orders") == 1
        assert await asyncio.to_thread(read, reader, len(BODY) + 1) == BODY + b"\n"
        with pytest.raises(triack.HandOverEnded) as ended:
            await asyncio.wait_for(task, PATIENCE_S)
        assert str(ended.value) == "receive from orders: what was in hand was taken back, and comes again"
        assert (await node.receive("orders").get(PATIENCE_S)).redelivered


async def test_output_that_takes_no_more_is_said_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(tmp_path, b"kept")
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(receive, "STDOUT", full)
    try:
        with pytest.raises(TriackError, match=r"^write to standard output: .*No space left on device"):
            await run(tmp_path)
    finally:
        os.close(full)
    assert await left(tmp_path) == 1


async def test_a_directory_that_nobody_serves_and_somebody_has_is_said_to_be_in_use(
    tmp_path: Path, reader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "SOON_S", 0.05)
    store = Store(tmp_path)
    with pytest.raises(StoreInUse, match="in use by another node"):
        await run(tmp_path)
    store.close()


async def test_another_version_is_refused(tmp_path: Path, reader: int) -> None:
    async def other(link: Link) -> None:
        await welcome(link, v=VERSION + 1)

    async with serving(tmp_path / "b", other):
        with pytest.raises(ProtocolError, match=rf"^bad-hello: the serving process speaks version {VERSION + 1}$"):
            await run(tmp_path / "b")


async def test_a_node_that_goes_away_before_a_message_came_is_reported(tmp_path: Path, reader: int) -> None:
    async with serving(tmp_path / "b", welcome):
        with pytest.raises(WaitTimeout) as failed:
            await run(tmp_path / "b", count=3, timeout=0.5)
    said = "only 0 of 3 messages: none came to queue orders for 0.5 s, and the node went away"
    assert str(failed.value) == said


async def test_a_node_that_goes_away_without_its_confirmation_is_reported(tmp_path: Path, reader: int) -> None:
    """Everything was written, but whether the node knows is not known."""

    async def hand_out(link: Link) -> None:
        await welcome(link)
        await answer(link, "queue_lengths", b'{"orders": 2}')
        await answer(link, "read", reader=5)
        two = {"message": 1, "reader": 5, "count": 2, "ids": ["1", "2"], "sizes": [3, 3], "about": []}
        await answer(link, "draw", b"onetwo", **two)
        assert (await hear(link, op="ack"))["message"] == 1

    async with serving(tmp_path / "b", hand_out):
        reading = asyncio.create_task(asyncio.to_thread(read, reader, 8))
        with pytest.raises(TriackError) as failed:
            await run(tmp_path / "b", count=2, timeout=0.5)
    assert str(failed.value) == "written, but the node went away; it may hand out 2 messages again"
    assert await reading == b"one\ntwo\n"


def test_messages_are_not_asked_for_bit_by_bit() -> None:
    """The room grows with what is written at once: also when it is looked at in the middle of a write."""
    room = 1
    for _ in range(9):
        asked = receive.room_for(room, 0)
        room = max(room, 2 * asked)  # the sink has written it, and it is not acknowledged yet
        assert receive.room_for(room, asked) == 0
    assert room == 512
    assert receive.room_for(2_000, BATCH_MESSAGES) == 1_000  # the next answer comes while the one before is written
    assert receive.room_for(5, 5) == receive.room_for(0, 0) == receive.room_for(0, 2) == 0
