"""Requests from a machine that nobody can call: it listens nowhere."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

import triack
from triack.testing import World

QUESTIONS = 6


async def run_plant(answered: list[bytes]) -> None:
    """Answer what is asked, exactly once whatever happens to the machine."""
    async with triack.open("plant", data="data", listen="udp://127.0.0.1:7802") as node:
        while True:
            async with node.transaction() as tx:
                question = await tx.receive("orders")
                await tx.reply(question, b"done: " + question.body)
            answered.append(question.body)


async def run_shop(answers: list[bytes]) -> None:
    """Ask what is not answered yet, each until it is."""
    async with triack.open("shop", data="data") as node:
        while len(answers) < QUESTIONS:
            with suppress(triack.RequestTimeout):
                answers.append((await node.request("plant/orders", b"%d" % len(answers), timeout=5)).body)


def are_more(answers: list[bytes], before: int) -> bool:
    """Whether another answer has come."""
    return len(answers) > before


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
        await world.until(partial(are_more, answers, before), timeout=120)
        machine.crash()
        await world.advance(7)
        machine.restart()
    world.cut(plant, shop)
    await world.advance(12)
    world.heal()
    await asking
    assert answers == [b"done: %d" % number for number in range(QUESTIONS)]
    assert await shop.run(find_what_is_left()) == {"$replies": 0, "dead-letter": 0}
