"""Bytes that arrive on the control socket are a frame, or are refused by name."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.machine import PATIENCE_S
from triack.base.errors import ProtocolError, UsageError
from triack.node.control import control_frames
from triack.node.control.control_frames import FRAME_BYTES_MAX, Link, cut, dial, number_of, pair


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Link, asyncio.StreamWriter]]:
    """A link, and who writes to it."""
    near, far = socket.socketpair()
    link = Link(*await asyncio.open_unix_connection(sock=near))
    _, writer = await asyncio.open_unix_connection(sock=far)
    yield link, writer
    writer.close()
    await link.close()


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"not JSON\nbody", "bad-frame: the header is not JSON"),
        (b"\xff\n", "bad-frame: the header is not JSON"),
        (b"[" * 100_000, "bad-frame: the header is not JSON"),
        (b'["chunk"]\n', "bad-frame: the header has no op"),
        (b'{"first": 1}\n', "bad-frame: the header has no op"),
        (b'{"op": 1}\n', "bad-frame: the header has no op"),
    ],
)
async def test_what_is_no_frame_is_refused(
    ends: tuple[Link, asyncio.StreamWriter], frame: bytes, complaint: str
) -> None:
    link, writer = ends
    writer.write(len(frame).to_bytes(4, "big") + frame)
    with pytest.raises(ProtocolError) as refused:
        await link.receive()
    assert (str(refused.value), refused.value.reason) == (complaint, "bad-frame")


async def test_the_length_alone_refuses_a_frame(ends: tuple[Link, asyncio.StreamWriter]) -> None:
    """Nothing of it is waited for."""
    link, writer = ends
    writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"^bad-frame: {FRAME_BYTES_MAX + 1} bytes$"):
        await asyncio.wait_for(link.receive(), PATIENCE_S)


async def test_what_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte too many is enough: the receiver of such a frame would end the connection."""
    monkeypatch.setattr(control_frames, "FRAME_BYTES_MAX", 100)
    one, other = await pair()
    with pytest.raises(UsageError, match=r"^recall: 101 bytes, and the control socket takes 100 at a time$"):
        one.post("call", bytes(73), do="recall")
    one.post("call", bytes(72), do="recall")
    assert await other.receive() == ({"op": "call", "do": "recall"}, bytes(72))
    for link in (one, other):
        await link.close()


async def test_who_stops_waiting_within_a_frame_gets_it_later(ends: tuple[Link, asyncio.StreamWriter]) -> None:
    """As a command that has waited long enough, and is still to hear what was confirmed."""
    link, writer = ends
    frame = b'{"op":"x"}\nbody'
    writer.write(len(frame).to_bytes(4, "big") + frame[:5])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(link.receive(), 0.05)
    writer.write(frame[5:])
    assert await link.receive() == ({"op": "x"}, b"body")


async def test_a_connection_that_ends_within_a_frame_is_lost(ends: tuple[Link, asyncio.StreamWriter]) -> None:
    link, writer = ends
    writer.write((10).to_bytes(4, "big") + b"{")
    writer.close()
    with pytest.raises(ConnectionResetError, match="the connection has ended"):
        await link.receive()


async def test_an_end_that_does_not_read_holds_nobody_who_closes(
    ends: tuple[Link, asyncio.StreamWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped, or writes into a pager that nobody leafs through."""
    monkeypatch.setattr(control_frames, "CLOSE_S", 0.01)
    link, _ = ends
    link.post("more", bytes(FRAME_BYTES_MAX - 100))
    await asyncio.wait_for(link.close(), PATIENCE_S)


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None])
def test_a_number_is_one(value: object) -> None:
    with pytest.raises(ProtocolError) as refused:
        number_of({"op": "ack", "serial": value}, "serial")
    assert str(refused.value) == f"bad-frame: serial is {value!r}"


def test_a_body_is_cut_into_pieces_that_fill_it() -> None:
    assert cut(b"onetwo", [3, 0, 3]) == [b"one", b"", b"two"]


@pytest.mark.parametrize("sizes", [[3, 4], [3], [7, -1], [True, 5], ["6"], 6, None])
def test_sizes_that_do_not_fit_the_body_are_refused(sizes: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^bad-frame: the sizes do not fit the body$"):
        cut(b"onetwo", sizes)


async def test_who_comes_while_too_many_wait_is_connected_when_there_is_room(tmp_path: Path) -> None:
    """The process has not come to accept the others yet."""
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as early:
        listening.bind(str(path))
        listening.listen(0)
        early.connect(str(path))
        dialling = asyncio.create_task(dial(path))
        await asyncio.sleep(0)
        assert not dialling.done()
        listening.accept()[0].close()
        link = await asyncio.wait_for(dialling, PATIENCE_S)
        with listening.accept()[0] as far:
            await link.send("hello")
            assert far.recv(100)[4:] == b'{"op":"hello"}\n'
        await link.close()
