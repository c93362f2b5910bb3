"""``triack.connect`` in the simulated world: processes beside a machine use its nodes."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

import triack
from triack.testing import World

pytestmark = pytest.mark.slow


async def shop() -> None:
    async with triack.open("shop", data="shop") as node:
        await node.failed()


async def worker(numbers: range, accepted: list[int]) -> None:
    """As docs/cookbook/web-workers.md has it."""
    async with triack.connect("shop", patience=30, start_timeout=30) as client:
        for number in numbers:
            await client.send("orders", b"%d" % number, key=f"order-{number}", until="queued")
            accepted.append(number)


async def orders() -> list[int]:
    found: list[int] = []
    async with triack.connect("shop", start_timeout=30) as client, client.receive("orders") as messages:
        with suppress(triack.WaitTimeout):
            while True:
                found.append(int((await messages.get(timeout=60)).body))
    return found


@pytest.mark.gate
async def test_a_worker_reaches_the_node_of_its_machine(triack_world: World) -> None:
    machine = triack_world.machine("shop")
    desk = triack_world.machine("worker", beside=machine)
    accepted: list[int] = []
    done = desk.start(worker, range(3), accepted)
    machine.start(shop)  # later than its worker
    await done
    assert await desk.run(orders()) == accepted == [0, 1, 2]


async def test_a_service_reaches_a_node_of_its_own_process(triack_world: World) -> None:
    machine = triack_world.machine("shop")
    machine.start(shop)
    await machine.run(worker(range(3), []))
    assert await machine.run(orders()) == [0, 1, 2]


@pytest.mark.gate
@pytest.mark.parametrize("power", [False, True])
async def test_a_worker_goes_on_when_its_node_is_back(triack_world: World, power: bool) -> None:
    machine = triack_world.machine("shop")
    machine.start(shop)
    desk = triack_world.machine("worker", beside=machine)
    accepted: list[int] = []
    done = desk.start(worker, range(50), accepted)
    for most in (5, 20, 35):
        await triack_world.until(lambda many=most: len(accepted) >= many)  # type: ignore[misc]
        if power:
            machine.lose_power()
            assert not desk.is_up  # it is the same computer
            desk.restart()
        else:
            machine.crash()
            assert desk.is_up
        await triack_world.advance(1)
        machine.restart()
    await triack_world.until(lambda: 49 in accepted)
    await done
    assert Counter(await desk.run(orders())) == Counter(range(50))


@pytest.mark.gate
async def test_a_worker_crashes_at_each_step_and_each_order_is_there_once(triack_world: World) -> None:
    machine = triack_world.machine("shop")
    machine.start(shop)
    desk = triack_world.machine("worker", beside=machine)
    accepted: list[int] = []
    crashes = 0
    while True:
        desk.restart()
        desk.crash_after(crashes)
        done = desk.start(worker, range(3), accepted)
        try:
            await done
        except triack.testing.MachineCrashed:
            crashes += 1
        else:
            break
        desk.services.clear()
    assert crashes >= 4  # hello, and three sends
    desk.crash_after(None)
    assert Counter(await desk.run(orders())) == Counter(range(3))


async def test_messages_in_the_hands_of_a_worker_that_dies_come_again(triack_world: World) -> None:
    machine = triack_world.machine("shop")
    machine.start(shop)
    desk, other = [triack_world.machine(name, beside=machine) for name in ("worker", "other")]
    await desk.run(worker(range(3), []))
    taken: list[int] = []

    async def hold() -> None:
        async with triack.connect("shop") as client, client.receive("orders") as messages:
            taken.append(int((await messages.get()).body))
            await asyncio.sleep(3_600)

    desk.start(hold)
    await triack_world.until(lambda: taken)
    desk.crash()
    assert sorted(await other.run(orders())) == [0, 1, 2]


async def test_a_worker_that_is_paused_hears_the_answer_later(triack_world: World) -> None:
    machine = triack_world.machine("shop")
    machine.start(shop)
    desk = triack_world.machine("worker", beside=machine)
    accepted: list[int] = []
    done = desk.start(worker, range(50), accepted)
    await triack_world.until(lambda: len(accepted) > 5)
    desk.pause()
    before = len(accepted)
    await triack_world.advance(60)
    assert len(accepted) == before
    desk.resume()
    await done
    assert accepted == list(range(50))


async def test_a_node_of_another_machine_is_not_reached(triack_world: World) -> None:
    triack_world.machine("shop").start(shop)
    with pytest.raises(triack.NodeClosed, match="no process runs one there"):
        await triack_world.machine("far").run(worker(range(1), []))
    with pytest.raises(triack.UsageError, match="not beside machine shop"):
        triack_world.machine("far", beside=triack_world.machine("shop"))
    with pytest.raises(triack.UsageError, match="on no machine of the simulated world"):
        await worker(range(1), [])
