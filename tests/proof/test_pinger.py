"""The bad peer that sends nothing but pings is one: a node opens a session with it, and closes that."""

import asyncio

import pytest

import triack
from proof.pinger import ping_for_ever


@pytest.mark.asyncio
async def test_each_session_is_closed_for_its_first_datagram_of_pings() -> None:
    """The reason is counted, and the next session opens."""
    async with triack.open("hub", data=None, listen="udp://127.0.0.1:0", insecure=True) as node:
        assert node.address is not None
        sessions = ping_for_ever(node.address)
        for number in (1, 2, 3):
            assert await asyncio.to_thread(next, sessions) == number
        assert node.stats().drops["repeated-frame"] >= 2
        sessions.close()
