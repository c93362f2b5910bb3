"""Services of simulated machines: they start with them, end with them, and do not die unnoticed."""

import asyncio

import pytest

import triack
from tests.tools.testing.services import B, collect, feed, numbers
from triack.testing import MachineCrashed, ServiceDied, World


async def test_a_service_starts_again_with_its_machine(triack_world: World) -> None:
    """Its store is as it was, what it had in memory is gone, and nothing is lost or repeated."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    b.start(collect, got)
    a.start(feed, 50, B, 0.1)
    for machine in (b, a, b):
        await triack_world.advance(1)
        machine.crash()
        await triack_world.advance(0.5)
        machine.restart()
    await triack_world.until(lambda: len(set(got)) == 50)
    # A transaction that was open when the machine died was taken again; the numbers are those of the first time.
    assert sorted(set(got), key=int) == numbers(50)
    assert len(got) <= 52


async def test_work_on_a_machine_that_crashes_says_so(triack_world: World) -> None:
    a = triack_world.machine("a")
    service = a.start(asyncio.sleep, 1_000)
    running = asyncio.create_task(a.run(asyncio.sleep(1_000)))
    await triack_world.advance(1)
    a.crash()
    with pytest.raises(MachineCrashed, match="sleep on a ended: crash of machine a"):
        await running
    with pytest.raises(MachineCrashed):
        await service
    with pytest.raises(triack.UsageError, match=r"machine a: it is down; restart\(\) starts it again"):
        await a.run(asyncio.sleep(0))
    assert a.state == "down"
    a.restart()
    assert service.is_running
    assert await a.run(asyncio.sleep(1, "fine")) == "fine"


def test_a_service_that_dies_unnoticed_fails_the_test() -> None:
    async def test() -> None:
        world.machine("a").start(asyncio.to_thread, int, "no number")
        await world.advance(1)

    with pytest.raises(ServiceDied, match="to_thread on a died: ValueError: invalid") as caught, World() as world:
        world.run(test())
    assert isinstance(caught.value.__cause__, ValueError)


def test_so_does_a_task_of_its_own() -> None:
    async def service() -> None:
        task = asyncio.create_task(asyncio.to_thread(int, "no number"))
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)

    async def test() -> None:
        await world.machine("a").start(service)

    with pytest.raises(ServiceDied, match="exception was never retrieved: ValueError"), World() as world:
        world.run(test())


async def test_work_that_is_cancelled_ends_on_its_machine(triack_world: World) -> None:
    """Its waiter is cancelled, and so is what runs there."""
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.set()

    waiting = asyncio.create_task(triack_world.machine("a").run(work()))
    await triack_world.advance(1)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    await asyncio.wait_for(ended.wait(), 1)


async def test_a_service_gives_its_result_or_is_cancelled(triack_world: World) -> None:
    """To every waiter, as often as it waits."""
    machine = triack_world.machine("a")
    service = machine.start(asyncio.sleep, 1, "result")
    assert service.is_running
    assert [await service, await service, service.error] == ["result", "result", None]
    assert not service.is_running
    endless = machine.start(asyncio.sleep, 1_000)
    await triack_world.advance(1)
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    assert endless.error is None


async def test_who_gives_up_waiting_does_not_end_a_service(triack_world: World) -> None:
    service = triack_world.machine("a").start(asyncio.sleep, 2, "result")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(service, 1)
    assert service.is_running
    assert await service == "result"


async def test_a_death_that_was_looked_at_is_no_failure_of_the_test(triack_world: World) -> None:
    """To ask for the error is to notice."""
    service = triack_world.machine("a").start(asyncio.to_thread, int, "no number")
    await triack_world.advance(1)
    assert service.work.died_unnoticed
    assert isinstance(service.error, ValueError)
    assert not service.work.died_unnoticed
