"""``kill -9`` in the middle of large bodies, at either end: each is read once, whole and in its place."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

import triack
from tests.api.stories.large_ends import SETTINGS
from tests.machine import PATIENCE_S
from triack.node.node import port_of
from triack.tools.ports import free_port

BODIES = 6
KILLS = 16


@pytest.mark.slow
async def test_bodies_survive_the_deaths_of_both_processes(tmp_path: Path) -> None:
    chance, port = random.Random(3), str(free_port())

    def start(what: str) -> "subprocess.Popen[bytes]":
        program = [sys.executable, "-m", "tests.api.stories.large_ends"]
        return subprocess.Popen([*program, what, str(tmp_path / what), port, str(BODIES)])

    running = {what: start(what) for what in ("send", "receive")}
    try:
        for _ in range(KILLS):
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
