"""Services that are told to end while their node is away or stands still: real processes, which get real signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.tools.processes import Server

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
