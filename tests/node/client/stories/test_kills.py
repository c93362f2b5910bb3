"""The process of a node is killed again and again, under the load of clients in another process."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import until
from tests.tools.processes import Server

KILLS = 50
SENDS_MAX = 20
"""Between two kills; after none some of them hit the client while it connects."""


@pytest.mark.slow
async def test_fifty_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """What is sent with keys is there once; each message is handled until its handler has returned, in its order.

    No call fails but by the errors that say what may have happened, and nobody starts a client again.
    """
    stopping, sent = asyncio.Event(), [0]
    handled: Counter[bytes] = Counter()
    forwarded: list[bytes] = []

    async def send(client: triack.Client) -> None:
        while not stopping.is_set():
            await client.send("in", b"%d" % sent[0], key=f"order-{sent[0]}", until="queued")
            sent[0] += 1

    async def look(client: triack.Client) -> None:
        while not stopping.is_set():
            await client.stats()

    async def forward(message: triack.Message, tx: triack.Transaction) -> None:
        await tx.send("out", message.body)
        tx.remember("last", message.body)

    def collect(message: triack.Message) -> None:
        handled[message.body] += 1
        if not message.redelivered or message.body not in forwarded:
            forwarded.append(message.body)

    with Server(tmp_path / "a") as server:
        async with (
            triack.connect(tmp_path / "a", patience=None) as client,
            triack.connect(tmp_path / "a", patience=None) as worker,
        ):
            sending = asyncio.create_task(send(client))
            looking = asyncio.create_task(look(client))
            working = [
                asyncio.create_task(worker.consume("in", forward, transaction=True)),
                asyncio.create_task(worker.consume("out", collect)),
            ]
            chance = random.Random(1)
            for _ in range(KILLS):
                wanted = sent[0] + chance.randrange(SENDS_MAX)
                await until(lambda wanted=wanted: sent[0] >= wanted)
                await asyncio.to_thread(server.restart)
            stopping.set()
            async with asyncio.timeout(PATIENCE_S):
                await sending
                await looking
                await until(lambda: len(handled) == sent[0])
                while any((await client.queue_lengths()).values()):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.05)
            for task in working:
                assert not task.done()
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
    assert sent[0] > KILLS
    assert forwarded == [b"%d" % number for number in range(sent[0])]
