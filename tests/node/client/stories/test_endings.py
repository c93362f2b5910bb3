"""Ends of clients and nodes, in order and by kills."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import until
from tests.tools.processes import Server

# Services that are told to end while their node is away or stands still: real processes, which get real signals.

WAITS = """
import asyncio, sys, triack

async def again(work):
    while True:
        try:
            await work()
        except triack.ConnectionLost:
            pass

async def main():
    async with triack.connect(sys.argv[1], patience=None) as client, asyncio.TaskGroup() as group:

        async def receive():
            async with client.transaction() as tx:
                await tx.receive("none")

        async def send():
            async with client.transaction() as tx:
                await tx.send_stream("q", bytes(5_000_000))
            await asyncio.Event().wait()

        def handle(message, tx):
            raise AssertionError

        for work in (receive, send):
            group.create_task(again(work))
        group.create_task(client.consume("none", handle, transaction=True))
        group.create_task(client.consume("none", handle, transaction=True, ordered_by=len))
        await client.flush()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for work in (receive, send):
            group.create_task(again(work))
        print("waits", flush=True)

triack.run(main)
"""

WAITS_WITHOUT_ASYNC = """
import signal, sys, triack

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
with triack.sync.connect(sys.argv[1], patience=None) as client:
    with client.transaction() as tx:
        tx.send("q", b"x")
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            with client.transaction() as other, client.receive("none") as reader:
                print("waits", flush=True)
                other.receive("none")
        finally:
            print("ended", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("away", [True, False], ids=["away", "still"])
@pytest.mark.parametrize("service", [WAITS, WAITS_WITHOUT_ASYNC], ids=["run", "sync"])
def test_a_service_ends_that_waits_for_its_node(tmp_path: Path, service: str, *, away: bool) -> None:
    """With SIGTERM, whatever its patience; and no task complains that nobody has heard its error."""
    with Server(tmp_path / "a") as server:
        command = [sys.executable, "-c", service, str(tmp_path / "a")]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if away:
                server.kill()
            else:
                os.kill(server.pid, signal.SIGSTOP)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "waits\n"
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert "never retrieved" not in complaints
        assert "Traceback" not in complaints


# The process of a node is killed again and again, under the load of clients in another process.

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
