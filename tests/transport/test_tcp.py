"""TCP as a carrier of datagrams: connections come and go, are bounded, and end with a report."""

import asyncio
import socket

import pytest

from tests.transport.endpoints import Opener, received
from triack.base.reasons import DropReason
from triack.transport.endpoint import Received
from triack.transport.frames import FRAME_BYTES_MAX


@pytest.mark.asyncio
async def test_path_gone(opened: Opener) -> None:
    """The end of a connection is reported once, after what came over it."""
    here, there = await opened("tcp", None), await opened("tcp")
    await here.send([b"last words"], there.address)
    await here.close()
    words, end = await received(there, 2)
    assert words.data == b"last words"
    assert end == Received(b"", words.sender)


@pytest.mark.asyncio
async def test_connects_again(opened: Opener) -> None:
    """After the path is gone, the next datagram opens a new one."""
    here, there = await opened("tcp", None), await opened("tcp")
    await here.send([b"1"], there.address)
    await received(there, 1)
    await there.close()
    assert await received(here, 1) == [Received(b"", there.address)]
    again = await opened("tcp", there.address)
    await here.send([b"2"], again.address)
    assert [data for data, _ in await received(again, 1)] == [b"2"]


@pytest.mark.asyncio
async def test_connection_refused(opened: Opener) -> None:
    """An address where nobody listens is a path that is gone."""
    here, there = await opened("tcp"), await opened("tcp")
    await there.close()
    await here.send([b"1", b"2"], there.address)
    assert await received(here, 1) == [Received(b"", there.address)]
    assert here.drops == {"connect-failed": 2}


@pytest.mark.asyncio
async def test_frame_too_large(opened: Opener) -> None:
    """Who announces a frame that is too large is cut off."""
    endpoint = await opened("tcp")
    host, port = endpoint.address.removeprefix("tcp://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await reader.read(1) == b""
    writer.close()
    assert [data for data, _ in await received(endpoint, 1)] == [b""]
    assert endpoint.drops == {"frame-too-large": 1}


@pytest.mark.asyncio
async def test_slow_frame(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins a frame and does not end it is cut off in time."""
    monkeypatch.setattr("triack.transport.tcp.FIRST_FRAME_TIMEOUT_SECONDS", 0.01)
    endpoint = await opened("tcp")
    host, port = endpoint.address.removeprefix("tcp://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\0")
    assert [data for data, _ in await received(endpoint, 1)] == [b""]
    assert endpoint.drops == {"frame-timeout": 1}
    writer.close()


@pytest.mark.asyncio
async def test_too_many_connections(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the cap a connection is refused, and those within it go on."""
    monkeypatch.setattr("triack.transport.tcp.ACCEPTED_MAX", 1)
    there, first, second = await opened("tcp"), await opened("tcp"), await opened("tcp")
    await first.send([b"1"], there.address)
    assert [data for data, _ in await received(there, 1)] == [b"1"]
    await second.send([b"2"], there.address)
    assert await received(second, 1) == [Received(b"", there.address)]
    await first.send([b"3"], there.address)
    assert [data for data, _ in await received(there, 1)] == [b"3"]
    assert there.drops == {"too-many-connections": 1}


@pytest.mark.asyncio
async def test_peer_that_does_not_read(opened: Opener) -> None:
    """What a peer does not read is kept up to a cap; beyond it, drops are counted and close does not hang."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = await opened("tcp", None)
        datagrams = [bytes(65_536)] * 64
        for _ in range(8):
            await endpoint.send(datagrams, f"tcp://127.0.0.1:{silent.getsockname()[1]}")
            await asyncio.sleep(0.001)
        assert endpoint.drops[DropReason.SEND_OVERFLOW] >= 100


@pytest.mark.asyncio
async def test_slow_reader_gets_everything(opened: Opener) -> None:
    """More than the system's buffers hold arrives whole and in order."""
    here, there = await opened("tcp"), await opened("tcp")
    datagrams = [number.to_bytes(2, "big") * 30_000 for number in range(200)]
    await here.send(datagrams, there.address)
    assert [data for data, _ in await received(there, 200)] == datagrams
    assert not here.drops
