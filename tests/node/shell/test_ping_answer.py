"""``node.ping``: in seconds, through every face of a node."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import SCHEMES, WAIT, make, open_sync, quick
from triack.node.shell.ping_answer import PingAnswer
from triack.queues.manager.pings import Pong


def test_it_is_told_in_seconds() -> None:
    pong = Pong("udp://h:1", 2_000_000, 1_000_000, -500.0, 1_400)
    assert PingAnswer.of(pong) == PingAnswer("udp://h:1", 0.002, 0.001, -0.5, 1_400)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_peer_answers_over_every_transport(scheme: str) -> None:
    async with make("b", scheme=scheme) as b, make("a", scheme=scheme) as a:
        first = await a.ping(b.address, timeout=WAIT)
        again = await a.ping(b.address, timeout=WAIT)
        assert (first.handshake_s is not None, again.handshake_s) == (True, None)
        assert first.round_trip_s > 0
        assert abs(first.clock_ahead_s) <= first.round_trip_s + 0.002
        assert await asyncio.gather(*(a.ping(b.address, timeout=WAIT) for _ in range(3)))


async def test_silence_and_mistakes_are_told_apart() -> None:
    async with make("a", scheme="tcp") as a:
        with pytest.raises(triack.WaitTimeout, match=r"^ping udp://127.0.0.1:9: no .* within 0.1 s$"):
            await a.ping("udp://127.0.0.1:9", timeout=0.1)
        with pytest.raises(triack.AddressError, match="unknown peer nobody"):
            await a.ping("nobody")
        with pytest.raises(triack.UsageError):
            await a.ping(a.address)
        with pytest.raises(triack.UsageError):
            await a.ping("udp://127.0.0.1:9", timeout=-1)


async def test_a_ping_ends_with_its_node() -> None:
    a = await make("a", scheme="tcp").start()
    waiting = asyncio.create_task(a.ping("udp://127.0.0.1:9", timeout=WAIT))
    await asyncio.sleep(0)
    await a.close()
    with pytest.raises(triack.NodeClosed):
        await waiting
    with pytest.raises(triack.NodeClosed):
        await a.ping("udp://127.0.0.1:9")


@pytest.mark.slow
def test_another_process_and_threads_can_ping(tmp_path: Path) -> None:
    with (
        open_sync("b", listen=True) as b,
        triack.sync.open("a", data=tmp_path, insecure=True, settings=quick()),
        triack.sync.connect(tmp_path) as client,
    ):
        assert client.ping(b.address, timeout=WAIT).address == b.address
