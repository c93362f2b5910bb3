"""Stories of users' tests."""

import asyncio
import contextlib
from contextlib import suppress
from typing import Any

import pytest

import triack
from tests.tools.testing.services import B
from tests.tools.testing.stories.swarm import Swarm
from triack.testing import Machine, World


async def send_for_ever(node: triack.Node) -> None:
    while True:
        await (await node.send("q", b"after")).queued()


@pytest.fixture
def a(triack_world: World) -> Machine:
    """A machine whose disk takes a while."""
    machine = triack_world.machine("a")
    machine.disk_delay = 0.05
    return machine


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(12))
async def test_a_commit_while_the_node_closes_ends(triack_world: World, a: Machine, moment: int) -> None:
    """With what was committed, or with NodeClosed and nothing of it done."""

    async def keep_on() -> int:
        number = 0
        while True:
            async with node.transaction() as transaction:
                transaction.remember("number", b"%d" % (number + 1))
                await transaction.send("q", b"%d" % number)
            number += 1

    with a:
        node = await triack.open("a", data="a", insecure=True).start()
        working = [asyncio.create_task(keep_on()), asyncio.create_task(keep_on())]
        await triack_world.advance(0.3 + moment * 0.01)
        await node.close()
        ended = await asyncio.wait_for(asyncio.gather(*working, return_exceptions=True), 0.1)
        assert [type(outcome) for outcome in ended] == [triack.NodeClosed, triack.NodeClosed]
        async with triack.open("a", data="a", insecure=True) as node:
            assert node.queue_lengths()["q"] > 0


@pytest.mark.parametrize("wait", ["receipt", "consumer", "transaction", "flush"])
async def test_every_wait_ends_with_its_node(triack_world: World, a: Machine, wait: str) -> None:
    with a:
        async with triack.open("a", data="a", insecure=True) as node:
            receipt = await node.send(f"{B}/q", b"to nobody")
            waits: dict[str, Any] = {
                "receipt": receipt.ordered(),
                "consumer": node.receive("nothing").get(),
                "transaction": node.transaction().receive("nothing"),
                "flush": node.flush(),
            }
            waiting = asyncio.create_task(waits.pop(wait))
            for other in waits.values():
                other.close()
            await triack_world.advance(0)
        [outcome] = await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), 0.1)
        assert outcome is None if wait == "flush" else isinstance(outcome, triack.NodeClosed)


@pytest.mark.parametrize("delay_ms", range(12))
async def test_closing_twice_is_closing_once(triack_world: World, a: Machine, delay_ms: int) -> None:
    """Whatever the first call is about when the second one comes."""
    a.disk_delay = 0.0002
    settings = triack.NodeSettings(close_timeout_s=0.01)
    with a:
        node = await triack.open("a", data="a", listen=B, insecure=True, settings=settings).start()
        await node.send("udp://127.0.0.1:9/q", b"to nobody")
        first = asyncio.create_task(node.close())
        await triack_world.advance(delay_ms / 1_000)
        await node.close()
        await first
        async with triack.open("a", data="a", listen=B, insecure=True) as again:
            assert [it.messages for it in again.stats().outgoing] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", range(0, 200, 10))
async def test_a_close_that_nobody_waits_for_any_more_goes_on(triack_world: World, a: Machine, delay_ms: int) -> None:
    with a:
        node = await triack.open("a", data="a", listen=B, insecure=True).start()
        receipt = await node.send("udp://127.0.0.1:9/q", b"to nobody")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(node.close(), delay_ms / 1_000)
        await node.close()
        with pytest.raises(triack.NodeClosed):
            await receipt.queued()
        async with triack.open("a", data="a", listen=B, insecure=True):
            pass


@pytest.mark.parametrize("delay_ms", range(0, 100, 5))
async def test_a_start_that_is_cancelled_leaves_nothing_open(triack_world: World, a: Machine, delay_ms: int) -> None:
    with a:
        opening = asyncio.create_task(triack.open("a", data="a", listen=B, insecure=True).start())
        await triack_world.advance(delay_ms / 1_000)
        if opening.cancel():
            with pytest.raises(asyncio.CancelledError):
                await opening
        else:
            await (await opening).close()
        async with triack.open("a", data="a", listen=B, insecure=True):
            pass


@pytest.mark.parametrize("share", [0.02, 1.0])
async def test_every_wait_ends_with_the_disk(triack_world: World, a: Machine, share: float) -> None:
    """Each gets the error that ended the node; the next start goes on with what was committed."""
    with a:
        node = await triack.open("a", data="a", insecure=True).start()
        async with node.transaction() as transaction:
            await transaction.send("q", b"before")
        receipt = await node.send(f"{B}/q", b"to nobody")
        waits: list[Any] = [receipt.ordered(), node.receive("nothing").get(), node.transaction().receive("nothing")]
        waiting = [asyncio.create_task(wait) for wait in [*waits, node.failed()]]
        a.disk.faults.write = a.disk.faults.sync = share
        with pytest.raises(triack.StoreFailed):
            await send_for_ever(node)
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
        assert {type(outcome) for outcome in outcomes} == {triack.StoreFailed}
        await node.close()
        a.mend_disk()
        async with triack.open("a", data="a", insecure=True) as node:
            assert (await node.receive("q").get(timeout=1)).body == b"before"


QUESTIONS = 6


async def run_plant(answered: list[bytes]) -> None:
    async with triack.open("plant", data="data", listen="udp://127.0.0.1:7802") as node:
        while True:
            async with node.transaction() as tx:
                question = await tx.receive("orders")
                await tx.reply(question, b"done: " + question.body)
            answered.append(question.body)


async def run_shop(answers: list[bytes]) -> None:
    async with triack.open("shop", data="data") as node:
        while len(answers) < QUESTIONS:
            with suppress(triack.RequestTimeout):
                answers.append((await node.request("plant/orders", b"%d" % len(answers), timeout=5)).body)


async def find_what_is_left() -> dict[str, int]:
    """How much is in the queues of the shop, a minute later."""
    async with triack.open("shop", data="data") as node:
        await asyncio.sleep(60)
        return node.queue_lengths()


@pytest.mark.slow
@pytest.mark.triack(seeds=5)
async def test_answers_reach_a_machine_behind_a_firewall(triack_world: World) -> None:
    """Through loss, an outage, and restarts of both ends."""
    world, answered, answers = triack_world, list[bytes](), list[bytes]()
    plant, shop = world.machine("plant"), world.machine("shop")
    world.set_loss(0.3)
    plant.start(run_plant, answered)
    asking = shop.start(run_shop, answers)
    for machine in (plant, shop, plant):
        before = len(answers)
        await world.until(lambda before=before: len(answers) > before, timeout=120)  # type: ignore[misc]
        machine.crash()
        await world.advance(7)
        machine.restart()
    world.cut(plant, shop)
    await world.advance(12)
    world.heal()
    await asking
    assert answers == [b"done: %d" % number for number in range(QUESTIONS)]
    assert await shop.run(find_what_is_left()) == {"$replies": 0, "dead-letter": 0}


@pytest.mark.slow
@pytest.mark.triack(seeds=3)
async def test_services_on_failing_machines(triack_world: World) -> None:
    """Nothing twice, nothing out of order, nothing lost that was committed, and nobody hangs."""
    swarm = Swarm(triack_world)
    await swarm.run()
    assert swarm.violations == []
