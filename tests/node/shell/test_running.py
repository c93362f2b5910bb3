"""Running a service: real processes, which get real signals."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S

SERVICE = """
import asyncio, sys, triack

async def main():
    async with triack.open("a", data=sys.argv[1], insecure=True) as node:
        await node.send("q", b"1")
        print("ready", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            if len(sys.argv) > 2:
                print("stuck", flush=True)
                await asyncio.sleep(1_000)

print(triack.run(main), flush=True)
"""


def start(*arguments: str | Path, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """The service, when it is ready."""
    command = [*prefix, sys.executable, "-c", SERVICE, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_node_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    """What it had accepted is on the disk, and the program goes on behind ``run``."""
    process = start(tmp_path)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (0, "None\n")
    with triack.sync.open("a", data=tmp_path, insecure=True) as node:
        assert node.queue_lengths()["q"] == 1


@pytest.mark.slow
@pytest.mark.skipif(subprocess.run(["unshare", "-pf", "true"], check=False).returncode != 0, reason="takes root")
def test_process_1_of_a_container_is_stopped_by_sigterm(tmp_path: Path) -> None:
    """The system gives that process no default for the signal."""
    process = start(tmp_path, prefix=("unshare", "--pid", "--fork", "--kill-child"))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (0, "None\n")


@pytest.mark.slow
def test_a_second_signal_ends_a_service_that_does_not_end(tmp_path: Path) -> None:
    process = start(tmp_path, "stuck")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGTERM


def test_it_returns_and_raises_what_the_service_does() -> None:
    """And leaves the handlers of signals as they were."""
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> int:
        return 7

    async def fail() -> None:
        raise LookupError

    assert triack.run(main()) == triack.run(main) == 7
    with pytest.raises(LookupError):
        triack.run(fail)
    assert signal.getsignal(signal.SIGTERM) is before


def test_only_the_main_thread_can_have_signals() -> None:
    """Another thread, or a running loop, is a mistake that is named."""
    said: list[BaseException] = []

    async def main() -> None:
        raise AssertionError

    def run() -> None:
        try:
            triack.run(main)
        except triack.UsageError as error:
            said.append(error)

    async def inside() -> None:
        with pytest.raises(triack.UsageError, match="runs an event loop already"):
            triack.run(main)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "only the main thread gets signals" in str(said[0])
    asyncio.run(inside())
