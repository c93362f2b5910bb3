"""The backlog of a connection to a peer that reads nothing, or little."""

import asyncio
import socket

import pytest

from tests.transport.endpoints import Opener, received
from triack.transport import connection
from triack.transport.connection import UNSENT_BYTES_MAX, Connection
from triack.transport.endpoint import Received
from triack.transport.frames import LengthFramer

BURST = [bytes(65_536)] * 64


async def test_what_waits_has_an_end() -> None:
    """Before the connection is open, too: the caller counts the datagrams that find no room."""
    waiting = Connection("tcp://127.0.0.1:9", LengthFramer(), host=None)
    refused = [waiting.offer(BURST) for _ in range(5)]
    assert refused[:3] == [0, 0, 0]
    assert refused[-1] == len(BURST)
    assert waiting.unsent_count == UNSENT_BYTES_MAX // (65_536 + 64)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="it is the system that gives up")
async def test_who_takes_nothing_is_given_up(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system, after a while without a byte; the receiver is notified as of any other end."""
    monkeypatch.setattr(connection, "USER_TIMEOUT_MS", 100)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = await opened("tcp", None)
        there = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for _ in range(4):
            await here.send(BURST, there)
            await asyncio.sleep(0)
        assert await received(here, 1) == [Received(b"", there)]
