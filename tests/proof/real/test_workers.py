"""What the children do, here in one process: each goes on where it was, and the receiver tells a wrong number."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import triack
from proof.real.children import Work
from proof.real.nodes import body, quick
from proof.real.workers import filler, opener, receiver
from tests.machine import PATIENCE_S


async def until(work: Work, options: dict[str, Any], holds: Callable[[str], bool]) -> list[str]:
    """Let it work until it says something, then cancel it. Returns all it said."""
    said: list[str] = []
    reached = asyncio.Event()

    def report(line: str) -> None:
        said.append(line)
        if holds(line):
            reached.set()

    working = asyncio.create_task(work(options, report))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await reached.wait()
    finally:
        working.cancel()
        await asyncio.wait([working])
    return said


async def test_what_was_filled_is_there_when_it_is_opened(tmp_path: Path) -> None:
    """The opener says the number of the last commit that the filler reported, or of one after it."""
    options: dict[str, Any] = {"data": tmp_path / "filler", "log": None, "size_bytes": 10}
    said = await until(filler, options, lambda line: line == "committed 2000")
    assert said[0] == "opened 0"
    (opened,) = await until(opener, options, lambda line: line.startswith("opened"))
    assert int(opened.split()[1]) >= int(said[-1].split()[1])


async def test_a_receiver_tells_a_number_that_is_not_the_next(tmp_path: Path) -> None:
    """And passes on what came, so that the end of the run sees it too."""
    options: dict[str, Any] = {"data": tmp_path / "receiver", "log": None, "listen": "udp://127.0.0.1:0", "seed": 1}
    async with triack.open("receiver", data=options["data"], insecure=True, settings=quick()) as node:
        for number in (0, 2):
            await (await node.send("orders", body(number))).queued(timeout=PATIENCE_S)
    said = await until(receiver, options, lambda line: line == "committed 2")
    assert [line for line in said if line.startswith("violation")] == ["violation: b'2 ' came in place of 1"]
    async with triack.open("receiver", data=options["data"], insecure=True, settings=quick()) as node:
        assert node.queue_lengths()["done"] == 2
