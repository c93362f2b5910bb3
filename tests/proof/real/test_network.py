"""The bad network between real processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import triack
from proof.real.children import Work
from proof.real.network import cross, outage, weather
from proof.real.nodes import body, quick
from proof.real.workers import filler, opener, receiver
from tests.machine import PATIENCE_S
from triack.base.paths import UDP_SOCKETS, UdpSockets

# Through the worst weather, on real sockets: everything arrives once, in order and undamaged.

EFFICIENT = 1.3
"""Bytes that may be sent for a byte of payload, times what the loss makes necessary."""


@pytest.mark.gate
@pytest.mark.parametrize("udp", UDP_SOCKETS)
@pytest.mark.parametrize("loss", [0.02, 0.1])
async def test_a_little_loss_costs_little(tmp_path: Path, loss: float, udp: UdpSockets) -> None:
    settings = triack.NodeSettings(udp=udp)
    found = await cross(tmp_path, weather(loss=loss), scheme="udp", messages=500, size_bytes=1_000, settings=settings)
    assert found.violations == []
    assert found.messages == 500
    # The sender cannot know that its last packets need no repair: small transfers pay more for that than large ones.
    assert found.overhead < 1.1 * EFFICIENT / (1 - loss)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "udp"), [*(("udp", kind) for kind in UDP_SOCKETS), ("tcp", None)])
@pytest.mark.parametrize(("loss", "messages"), [(0.3, 300), (0.5, 100)])
async def test_everything_bad_at_once(
    tmp_path: Path, scheme: str, udp: UdpSockets | None, loss: float, messages: int
) -> None:
    faults, settings = weather(loss=loss, duplicate=0.1, reorder=0.1, corrupt=0.1), triack.NodeSettings(udp=udp)
    found = await cross(tmp_path, faults, scheme=scheme, messages=messages, size_bytes=500, settings=settings)
    assert found.violations == []
    assert found.messages == messages
    if scheme == "udp":
        assert found.damaged > 5


@pytest.mark.slow
async def test_nothing_damaged_is_believed(tmp_path: Path) -> None:
    """When every other datagram is damaged, each of those is dropped for what it is."""
    found = await cross(tmp_path, weather(corrupt=0.5), scheme="udp", messages=50, size_bytes=500)
    assert found.violations == []
    assert found.damaged > 20
    said = {"bad-tag", "bad-version", "bad-header", "unknown-kind", "unknown-connection", "too-short", "empty"}
    assert set(found.drops) <= {*said, "not-invited"}  # as the damage may have made an enrolment of it
    # The last ones may still be on their way.
    assert found.damaged - 5 <= sum(found.drops.values()) <= found.damaged


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "both"), [("udp", True), ("tcp", False)])
async def test_an_outage_longer_than_a_session(tmp_path: Path, scheme: str, both: bool) -> None:
    """Messages that were sent meanwhile arrive afterwards, in order; the long run measures how soon."""
    found = await outage(tmp_path, scheme=scheme, seconds=2.5, both=both)
    assert found.violations == []
    assert found.first_delivery_s < 20


@pytest.mark.gate
async def test_who_loses_everything_delivers_nothing(tmp_path: Path) -> None:
    found = await cross(tmp_path, weather(loss=1), scheme="udp", messages=2, size_bytes=100, limit_s=0.3)
    assert found.violations == ["0 of 2 messages after 0.3 s"]


# What the children do, here in one process: each goes on where it was, and the receiver tells a wrong number.


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
