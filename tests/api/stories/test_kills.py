"""Processes that are killed: of journals and of large bodies nothing is lost and nothing comes twice."""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

import triack
from tests.api.stories.large_ends import SETTINGS
from tests.machine import PATIENCE_S
from tests.node.nodes import SOON, WAIT
from tests.tools.processes import Server
from triack.base.errors import QueueNotFound, TriackError
from triack.node.node import port_of
from triack.tools.ports import free_port

# Real servers are killed at their commits while one journals what it sends, and the other what its reader takes.
# Afterwards each message is in its queue or in the journal, in none of them twice, and none is missing.

KILLS = 12
"""Of each server: at its first commit, its second and so on, and in between."""
JOURNAL = ("--set", "queues.q.journal.when_full=stop")
SENT, READ = "$journal", "$journal.q"


def state_of(folder: Path) -> tuple[int, ...]:
    """When the files of a store were written to."""
    return tuple(entry.stat().st_mtime_ns for entry in os.scandir(folder) if entry.is_file())


async def killed_at_a_commit(server: Server, at: int, work: Callable[[triack.Client], Awaitable[None]]) -> None:
    """Start a server, let a client work with it, and kill it when its store is written to for the ``at``-th time."""
    async with triack.connect(server.data) as client:
        task = asyncio.ensure_future(work(client))
        before, writes = state_of(server.data), 0
        async with asyncio.timeout(WAIT):
            while writes < at and not task.done():
                await asyncio.sleep(0)
                now = state_of(server.data)
                writes, before = writes + (now != before), now
        server.kill()
        task.cancel()
        with suppress(asyncio.CancelledError, TriackError):
            await task


async def numbers(client: triack.Client, queue: str) -> list[int]:
    """What waits in a queue; nothing in a journal that nothing was copied into."""
    try:
        return [int(message.body) async for message in client.browse(queue)]
    except QueueNotFound:
        return []


async def the_end(server: Server, check: Callable[[triack.Client], Awaitable[None]]) -> None:
    async with triack.connect(server.data) as client:
        await check(client)


@pytest.mark.slow
@pytest.mark.parametrize("per_packet", [1, 3])
def test_no_message_is_in_its_queue_and_in_the_journal_and_none_in_neither(tmp_path: Path, per_packet: int) -> None:
    """Its reader acknowledges some at a time. A packet of several messages is copied when all of it is done."""
    count = 1_500
    seen = set(range(count))

    async def fill(client: triack.Client) -> None:
        await client.send_many("q", [b"%d" % number for number in range(count)], until="ordered", timeout=WAIT)

    async def read(client: triack.Client) -> None:
        async with client.receive("q") as reader:
            held = []
            while True:
                try:
                    message = await reader.get(SOON)
                except triack.WaitTimeout:
                    return  # a quick machine has read all before the last kill
                held.append(message)
                if len(held) == 1 + int(message.body) % 5:
                    for one in held:
                        one.ack()
                    held.clear()
                    await client.flush()

    async def check(client: triack.Client) -> None:
        waiting, copies = await numbers(client, "q"), await numbers(client, READ)
        assert not set(waiting) & set(copies), "in both"
        assert per_packet > 1 or set(waiting) | set(copies) == seen, "in neither"
        assert len(copies) == len(set(copies)), "twice"

    with Server(tmp_path / "b", *JOURNAL, "--set", f"node.messages_per_packet={per_packet}") as server:
        asyncio.run(the_end(server, fill))
        for at in range(1, KILLS + 1):
            asyncio.run(killed_at_a_commit(server, at, read))
            server.start()
            asyncio.run(the_end(server, check))
        assert asyncio.run(drained(server)) == seen, "in neither"


async def drained(server: Server) -> set[int]:
    """What is in the journal when all is read; there was something before."""
    async with triack.connect(server.data) as client:
        assert await numbers(client, READ)
        async with client.receive("q") as reader, asyncio.timeout(WAIT):
            while await numbers(client, "q"):
                (await reader.get()).ack()
                await client.flush()
        return set(await numbers(client, READ))


@pytest.mark.slow
def test_a_sender_that_dies_has_a_copy_of_each_message_that_arrived_and_no_two(tmp_path: Path) -> None:
    """Of transactional and recoverable messages."""

    async def check(sender: triack.Client, receiver: triack.Client) -> None:
        async with asyncio.timeout(WAIT):
            while any(it.packets for it in (await sender.stats()).outgoing):  # noqa: ASYNC110 - a poll is all there is
                await asyncio.sleep(0.05)
        arrived, copies = await numbers(receiver, "q"), await numbers(sender, SENT)
        assert sorted(copies) == sorted(arrived), "each that arrived, once"
        assert len(arrived) == len(set(arrived)) > KILLS

    with Server(tmp_path / "b") as receiver, Server(tmp_path / "a") as server:
        for at in range(1, KILLS + 1):

            async def send(client: triack.Client, first: int = at * 10_000) -> None:
                for number in range(first, first + 10_000):
                    delivery = triack.RECOVERABLE if number % 2 else triack.TRANSACTIONAL
                    await client.send(f"{receiver.address}/q", b"%d" % number, delivery=delivery, journal=True)
                    await client.flush()

            asyncio.run(killed_at_a_commit(server, at, send))
            server.start()

        async def both() -> None:
            async with triack.connect(server.data) as sender, triack.connect(receiver.data) as other:
                await check(sender, other)

        asyncio.run(both())


# ``kill -9`` in the middle of large bodies, at either end: each is read once, whole and in its place.

BODIES = 6
LARGE_KILLS = 16


@pytest.mark.slow
async def test_bodies_survive_the_deaths_of_both_processes(tmp_path: Path) -> None:
    chance, port = random.Random(3), str(free_port())

    def start(what: str) -> "subprocess.Popen[bytes]":
        program = [sys.executable, "-m", "tests.api.stories.large_ends"]
        return subprocess.Popen([*program, what, str(tmp_path / what), port, str(BODIES)])

    running = {what: start(what) for what in ("send", "receive")}
    try:
        for _ in range(LARGE_KILLS):
            await asyncio.sleep(0.3 + chance.random())
            what = chance.choice(["send", "receive"])
            running[what].kill()
            # One that has had all has ended by itself.
            if running[what].wait() == 0:
                break
            running[what] = start(what)
        assert running["receive"].wait(PATIENCE_S) == 0
    finally:
        for one in running.values():
            one.kill()
            one.wait()
    peers = {"b": f"udp://127.0.0.1:{port}"}
    listen = f"udp://127.0.0.1:{port}"
    async with (
        triack.open("a", data=tmp_path / "send", insecure=True, peers=peers, settings=SETTINGS) as sender,
        triack.open("b", data=tmp_path / "receive", insecure=True, listen=listen, settings=SETTINGS) as receiver,
    ):
        assert sender.recall("sent") == receiver.recall("seen") == b"%d" % BODIES
        await (await sender.send("b/q", b"last")).ordered(PATIENCE_S)
        assert receiver.queue_lengths()["q"] == 1
        assert not port_of(receiver).engine.queues.bodies.by_id
        assert not port_of(receiver).engine.queues.bodies.held.total_bytes
