"""Simulated machines: crashes, power, pauses, disks, clocks and addresses, under services that do not know."""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

import triack
import triack.sync
from tests.tools.testing.services import B, collect, feed, numbers
from triack.testing import NotSimulated, World


async def test_tasks_made_inside_with_belong_to_the_machine(triack_world: World) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(triack_world.now)

    a = triack_world.machine("a")
    with a:
        ticking = asyncio.create_task(tick())
    await triack_world.advance(1.5)
    a.crash()
    await triack_world.advance(10)
    assert ticks == [1.0]
    assert not ticking.done()


async def test_what_runs_nowhere_is_named(triack_world: World) -> None:
    """What is no service, and a service whose nodes would live in another loop."""

    async def serve() -> None:
        with triack.sync.open("a", data="data"):
            pass

    a: Any = triack_world.machine("a")
    for nothing in (5, time.time):
        with pytest.raises(triack.UsageError, match=r"on (machine )?a: .* is no async function"):
            a.start(nothing)
    for uncalled in (5, serve):
        with pytest.raises(triack.UsageError, match="is no coroutine, as what a call of an async function gives"):
            await a.run(uncalled)
    with pytest.raises(NotSimulated, match=r"^open a node on machine a: .* real event loop, as that of triack\.sync"):
        await a.run(serve())
    for name in ("", "a b", 5):
        with pytest.raises(triack.AddressError, match="name"):
            triack_world.machine(name)  # type: ignore[arg-type]


async def test_no_other_process_is_there_to_connect(triack_world: World, tmp_path: Path) -> None:
    """A real directory of that name is none of the world's business."""

    async def visit() -> None:
        async with triack.open("a", data=tmp_path):
            with pytest.raises(triack.UsageError, match="in a simulated world"):
                await triack.connect(tmp_path).start()

    await triack_world.machine("a").run(visit())


async def test_a_paused_machine_is_late(triack_world: World) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(triack_world.now)

    a = triack_world.machine("a")
    a.start(tick)
    await triack_world.advance(1.5)
    a.pause()
    assert a.state == "paused"
    await triack_world.advance(100)
    a.resume()
    await triack_world.advance(1.1)
    assert ticks == [1.0, 101.5, 102.5]


@pytest.mark.slow
@pytest.mark.gate
async def test_a_pause_breaks_no_promise(triack_world: World) -> None:
    """Sessions end meanwhile, and everything arrives after it; being late is no finding."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    b.start(collect, got)
    a.start(feed, 60, B, 0.1)
    await triack_world.advance(2)
    b.pause()
    await triack_world.advance(60)
    b.resume()
    await triack_world.until(lambda: len(got) == 60)
    assert got == numbers(60)


async def test_stop_ends_services_in_good_order(triack_world: World) -> None:
    """Without a signal handler they are cancelled, and their nodes close."""
    got: list[bytes] = []
    b = triack_world.machine("b")
    service = b.start(collect, got)
    await triack_world.advance(1)
    await b.stop()
    assert not service.is_running
    assert b.is_up
    with b:  # the data directory is free again
        async with triack.open("b", data="b", listen=B, insecure=True):
            pass


async def test_who_does_not_stop_is_named(triack_world: World) -> None:
    """And runs on: it is the wait that has ended."""

    async def hang() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1_000)
        await asyncio.sleep(1_000)

    b = triack_world.machine("b")
    b.start(asyncio.sleep, 1_000)
    service = b.start(hang)
    await triack_world.advance(1)
    with pytest.raises(triack.WaitTimeout, match=r"^test_.*hang on b: still running 5 s of virtual time after stop"):
        await b.stop(timeout=5)
    assert service.is_running


async def test_a_coroutine_is_no_service(triack_world: World) -> None:
    """It could not start again; the error says what can."""
    a = triack_world.machine("a")
    with pytest.raises(
        triack.UsageError, match=r"^start feed on machine a: a coroutine cannot .* start\(feed, \.\.\.\)"
    ):
        a.start(feed(1))  # type: ignore[arg-type]
