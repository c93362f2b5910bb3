"""Sending and receiving at the command line."""

import asyncio
import fcntl
import mmap
import os
import socket
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.tools.commands.serving import answer, hear, serving, welcome
from tests.tools.processes import message_of
from tests.tools.processes import triack as run_triack
from triack.base.errors import ProtocolError, StoreInUse, TriackError, WaitTimeout
from triack.node.control import handover
from triack.node.control.control_frames import VERSION, Link
from triack.node.control.intake import Chunk
from triack.queues.messages import MAX_BODY_BYTES
from triack.queues.stages import STAGES
from triack.store.store import Store
from triack.tools.commands import pipes, receive, send
from triack.tools.commands.pipes import AHEAD_FILE_LINES, AHEAD_LINES, FileSource, LineSink, LineSource, LineTooLong
from triack.tools.commands.succession import OwnNode
from triack.tools.commands.tally import RANGES_SHOWN, STORED, Tally, stored_but


# ``triack send`` when the process that serves its directory lets it down.
@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of standard input, which is a pipe, where lines are written."""
    out, into = os.pipe()
    monkeypatch.setattr(send, "STDIN", out)
    os.write(into, b"one\ntwo\n")
    yield into
    os.close(into)


async def run(data: Path, delivery: triack.Delivery = triack.TRANSACTIONAL, timeout: float = 10) -> int:
    own = OwnNode("a", data, insecure=True)
    order = send._Order("orders", delivery, STAGES[delivery], own, [], {})  # noqa: SLF001
    return await send._send(order, timeout)  # noqa: SLF001


async def produce(link: Link, accepted: int = 0) -> None:
    """Begin a conversation as a node does that has accepted ``accepted`` lines of this producer."""
    await welcome(link)
    await answer(link, "produce", producer=3, accepted=accepted)


async def take(link: Link) -> None:
    await produce(link)
    call = await answer(link, "take")
    assert (call["producer"], call["first"], call["sizes"]) == (3, 1, [3, 3])


async def test_another_version_is_refused(tmp_path: Path, writer: int) -> None:
    async def other(link: Link) -> None:
        await welcome(link, v=VERSION + 1)

    async with serving(tmp_path / "a", other):
        with pytest.raises(ProtocolError, match=rf"^bad-hello: the serving process speaks version {VERSION + 1}$"):
            await run(tmp_path / "a")


async def test_express_lines_are_sent_once(tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str]) -> None:
    """When the node goes away it is not known which have left."""
    async with serving(tmp_path / "a", take):
        assert await run(tmp_path / "a", triack.EXPRESS) == 1
    lost = "the connection to the node that serves the directory was lost, and express messages are not sent twice"
    assert capsys.readouterr().err.splitlines() == [
        f"triack: lines 1-2 not received: {lost}",
        f"triack: what follows line 2 was not sent: {lost}",
    ]


async def test_a_node_that_has_forgotten_lines_is_another_store(
    tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were safe, says the first; the one that comes in its place has never heard of them."""
    async with serving(tmp_path / "a", take, produce):
        assert await run(tmp_path / "a") == 1
    lost = f"the node of {tmp_path / 'a'} has lost lines 1-2: it is not the same store"
    assert capsys.readouterr().err.splitlines() == [
        f"triack: lines 1-2 not ordered: {lost}",
        f"triack: what follows line 2 was not sent: {lost}",
    ]


@pytest.mark.parametrize(("waits_for", "why"), [("restart", stored_but("restart")), ("", STORED)])
async def test_what_was_stored_when_it_gives_up_is_reported_with_what_it_waits_for(
    tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str], waits_for: str, why: str
) -> None:
    """Though the answer was still to come: a user who hears otherwise sends it again. The node is to forget us."""
    said = []

    async def store_in_silence(link: Link) -> None:
        await produce(link)
        await hear(link, do="take")
        with suppress(ConnectionError):
            await hear(link, op="bye")

    async def remember(link: Link) -> None:
        await produce(link, accepted=2)
        said.append((await answer(link, "forget", waits_for=waits_for))["producer"])

    async with serving(tmp_path / "a", store_in_silence, remember):
        assert await run(tmp_path / "a", timeout=0.2) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"triack: lines 1-2 not yet ordered: not after 0.2 s; {why}",
        "triack: what follows line 2 was not sent: not after 0.2 s",
    ]
    assert said == [3]


# ``triack receive`` when its output, its node or its user lets it down.
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


async def run_receive(data: Path, *, count: int | None = None, timeout: float | None = None) -> int:
    order = receive._Order("orders", OwnNode("b", data, insecure=True))  # noqa: SLF001
    async with asyncio.timeout(PATIENCE_S):
        return await receive._receive(order, count, timeout)  # noqa: SLF001


async def put(data: Path, *bodies: bytes) -> None:
    async with triack.open("b", data=data, insecure=True) as node:
        for body in bodies:
            await (await node.send("orders", body)).ordered(10)


async def left(data: Path) -> int:
    async with triack.open("b", data=data, insecure=True) as node:
        return node.queue_lengths()["orders"]


async def until_full(pipe: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) < PIPE_BYTES:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def read(pipe: int, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        data += os.read(pipe, size_bytes)
    return data


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_signal_lets_a_write_end_for_a_moment(
    tmp_path: Path, reader: int, monkeypatch: pytest.MonkeyPatch, *, is_read: bool
) -> None:
    """What was written whole does not come again; if no process reads it until then, it does."""
    if not is_read:
        monkeypatch.setattr(receive, "GRACE_S", 0.05)
    await put(tmp_path, BODY)
    task = asyncio.create_task(run_receive(tmp_path))
    await until_full(reader)
    task.cancel()
    if is_read:
        assert await asyncio.to_thread(read, reader, len(BODY) + 1) == BODY + b"\n"
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE_S)
    if not is_read:
        read(reader, len(BODY) + 1)
    assert await left(tmp_path) == (not is_read)


async def test_messages_that_are_taken_back_end_the_command(tmp_path: Path, reader: int) -> None:
    """Another reader gets them: what is written later would be there twice."""
    async with triack.open("b", data=tmp_path, insecure=True) as node:
        await node.send("orders", BODY, until="ordered")
        task = asyncio.create_task(run_receive(tmp_path))
        await until_full(reader)
        assert await node.release("orders") == 1
        assert await asyncio.to_thread(read, reader, len(BODY) + 1) == BODY + b"\n"
        with pytest.raises(triack.HandOverEnded) as ended:
            await asyncio.wait_for(task, PATIENCE_S)
        assert str(ended.value) == "receive from orders: what was not acknowledged was taken back"
        assert (await node.receive("orders").get(PATIENCE_S)).redelivered


async def test_full_output_is_said_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(tmp_path, b"kept")
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(receive, "STDOUT", full)
    try:
        with pytest.raises(TriackError, match=r"^write to standard output: .*No space left on device"):
            await run_receive(tmp_path)
    finally:
        os.close(full)
    assert await left(tmp_path) == 1


async def test_a_directory_that_nobody_serves_and_somebody_has_is_said_to_be_in_use(
    tmp_path: Path, reader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "SOON_S", 0.05)
    store = Store(tmp_path)
    with pytest.raises(StoreInUse, match="in use by another node"):
        await run_receive(tmp_path)
    store.close()


async def test_a_node_that_goes_away_before_a_message_came_is_reported(tmp_path: Path, reader: int) -> None:
    async with serving(tmp_path / "b", welcome):
        with pytest.raises(WaitTimeout) as failed:
            await run_receive(tmp_path / "b", count=3, timeout=0.5)
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
            await run_receive(tmp_path / "b", count=2, timeout=0.5)
    assert str(failed.value) == "written, but the node went away; it may hand out 2 messages again"
    assert await reading == b"one\ntwo\n"


# Input that cannot be read ends a command with its reason; output counts when it was taken.
async def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
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


# How far lines have come, and what the report says of those that have not.
def chunk(first: int, count: int) -> Chunk:
    return Chunk(first, [b"x"] * count, count)


@pytest.fixture
def tally() -> Tally:
    return Tally(triack.Stage.ORDERED)


def test_all_is_done_when_the_input_has_ended_and_every_line_is_decided(tally: Tally) -> None:
    tally.handle_input(chunk(1, 3))
    tally.handle_finished(3, [])
    assert not tally.done.is_set()
    tally.handle_input(chunk(4, 2))
    tally.handle_input(None)
    assert not tally.done.is_set()
    assert (tally.read, tally.finished, tally.ended) == (5, 3, True)
    tally.handle_finished(5, [])
    assert tally.done.is_set()
    assert tally.problems("never said", 100) == []


def test_failures_are_listed_by_their_reason(tally: Tally) -> None:
    """Those that touch as one range, even when they came apart, and no more than can be read."""
    tally.handle_input(chunk(1, 20))
    tally.handle_finished(10, [(2, 2, "expired"), (5, 6, "expired")])
    tally.handle_finished(20, [(7, 7, "expired"), (8, 8, "refused"), (20, 20, "expired")])
    assert tally.problems("", 100)[:2] == ["lines 2, 5-7, 20 not ordered: expired", "line 8 not ordered: refused"]
    tally.handle_input(chunk(21, 100))
    tally.handle_finished(120, [(number, number, "lost") for number in range(21, 120, 2)])
    tally.handle_input(None)
    assert tally.done.is_set()
    said = tally.problems("", 100)[-1]
    assert said.startswith("lines 21, 23, 25, ")
    assert said.endswith(f", {2 * RANGES_SHOWN + 19} and {50 - RANGES_SHOWN} more ranges not ordered: lost")


def test_what_is_not_decided_has_the_reason_of_the_end() -> None:
    """In a sentence for each, and as JSON."""
    tally = Tally(triack.Stage.ORDERED, "file")
    tally.handle_input(chunk(1, 5))
    tally.handle_finished(3, [(1, 2, "expired")])
    assert tally.problems("the node is gone", 100) == [
        "files 1-2 not ordered: expired",
        "files 4-5 not ordered: the node is gone",
        "what follows file 5 was not sent: the node is gone",
    ]
    tally.handle_input(None)
    failures = [{"first": 1, "last": 2, "reason": "expired"}]
    assert tally.to_json() == {"read": 5, "stored": 0, "stage": "ordered", "reached": 1, "failures": failures}


def test_a_line_that_is_too_long_ends_the_input(tally: Tally) -> None:
    tally.handle_input(chunk(1, 2))
    tally.handle_input(LineTooLong(3))
    assert not tally.done.is_set()
    tally.handle_finished(2, [])
    assert tally.done.is_set()
    assert tally.problems("", 4_000) == ["line 3 is over the limit of 4000 bytes; it and what follows was not sent"]


def test_what_is_stored_must_not_be_sent_again(tally: Tally) -> None:
    """Only then is the command late and no more: not with a line that nobody has, nor with one that failed."""
    tally.handle_input(chunk(1, 5))
    tally.handle_stored(3)
    tally.handle_finished(1, [])
    late = "lines 2-3 not yet ordered: not after 1 s; on the node's disk, and sent when it runs: do not send this again"
    assert tally.problems("not after 1 s", 100)[:2] == ["lines 4-5 not ordered: not after 1 s", late]
    tally.handle_stored(5)
    assert not tally.only_late
    tally.handle_input(None)
    assert tally.only_late
    assert len(tally.problems("not after 1 s", 100)) == 1
    tally.handle_finished(2, [(2, 2, "expired")])
    assert not tally.only_late


@pytest.mark.parametrize(
    ("waits_for", "what"),
    [
        ("", STORED),
        ("answer", "sent when this node runs and the peer answers, which it does not now"),
        ("restart", "not sent to that peer until the right stores are there and both nodes were started again"),
        ("key", "sent when this node trusts the peer"),
        ("address", "sent when the peer calls this node"),
        ("queue-full", "sent when there is room for it at its destination (queue-full)"),
    ],
)
def test_what_is_stored_says_what_it_waits_for(tally: Tally, waits_for: str, what: str) -> None:
    tally.handle_input(chunk(1, 1))
    tally.handle_stored(1)
    tally.waits_for = waits_for
    told = tally.problems("suspended", 100)[0]
    assert what in told
    assert told.endswith(stored_but(waits_for))
    assert told.endswith("do not send this again")


# Files of any size from a command to a command: ``triack send --file`` and ``triack receive --save``.
LARGE_BODY = os.urandom(MAX_BODY_BYTES + 100_000)


@pytest.mark.gate
def test_a_large_file_goes_from_command_to_command(tmp_path: Path) -> None:
    """It is one message; it is refused as a line, and shown with its size. Several are saved in a folder."""
    big, data = tmp_path / "big.iso", tmp_path / "a"
    big.write_bytes(LARGE_BODY)
    assert run_triack("send", "films", "--file", big, "--label", "film", "--data", data).returncode == 0
    shown = run_triack("queue", "browse", "films", "--data", data).stdout
    assert f"... {len(LARGE_BODY)} bytes, sent in parts".encode() in shown
    assert f"1 waiting, {len(LARGE_BODY)} bytes".encode() in run_triack("queue", "show", "films", "--data", data).stdout
    refused = run_triack("receive", "films", "--count", "1", "--data", data)
    assert refused.returncode != 0
    assert "triack receive films --save PATH" in message_of(refused)
    saved = run_triack("receive", "films", "--save", tmp_path / "copy.iso", "--data", data)
    assert (saved.returncode, saved.stdout) == (0, f"{tmp_path}/copy.iso {len(LARGE_BODY)}\n".encode())
    assert (tmp_path / "copy.iso").read_bytes() == LARGE_BODY
    assert b"0 waiting" in run_triack("queue", "show", "films", "--data", data).stdout

    small, folder = tmp_path / "small", tmp_path / "folder"
    small.write_bytes(b"small")
    folder.mkdir()
    assert run_triack("send", "films", "--file", big, "--file", small, "--data", data).returncode == 0
    assert run_triack("receive", "films", "--save", folder, "--timeout", "0.5", "--data", data).returncode == 0
    assert sorted(path.stat().st_size for path in folder.iterdir()) == [5, len(LARGE_BODY)]
    refused = run_triack("receive", "films", "--save", tmp_path / "none", "--count", "2", "--data", data)
    assert "need a folder that exists" in message_of(refused)
    keyed = run_triack("send", "films", "--file", big, "--key", "k", "--data", data)
    assert "a large message has no key" in message_of(keyed)
