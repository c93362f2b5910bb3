"""The order service on three simulated machines, over networks, crashes and power cuts that cost no real time.

pytest examples/test_orders_service.py
"""

from pathlib import Path

import pytest
from orders_service import run_office, run_plant, run_shop

from triack.testing import World


def start(world: World, count: int, pause: float = 0.0) -> list[str]:
    """The three services, each on a machine of its own; returns the ledger."""
    ledger: list[str] = []
    world.machine("office").start(run_office, Path("data"), ledger)
    world.machine("plant").start(run_plant, Path("data"))
    world.machine("shop").start(run_shop, Path("data"), count, pause)
    return ledger


def invoices(count: int) -> list[str]:
    """The content of the ledger in the end."""
    return [f"invoice {number + 1}: order {number}" for number in range(count)]


async def test_an_outage_of_ten_minutes_loses_nothing(triack_world: World) -> None:
    """Orders keep coming while the plant is cut off; after that each is invoiced, once and in order."""
    ledger = start(triack_world, 100, pause=5.0)
    await triack_world.advance(30)
    triack_world.cut("plant")
    await triack_world.advance(600)
    assert len(ledger) < 10
    triack_world.heal()
    await triack_world.until(lambda: len(ledger) == 100, timeout=5)
    assert ledger == invoices(100)


async def test_a_bad_network_changes_nothing(triack_world: World) -> None:
    """A third of the packets is lost, others come twice, or late."""
    triack_world.set_loss(0.3)
    triack_world.set_duplicate(0.1)
    triack_world.set_reorder(0.2)
    ledger = start(triack_world, 200)
    await triack_world.until(lambda: len(ledger) == 200)
    assert ledger == invoices(200)


@pytest.mark.parametrize("effects", range(0, 60, 6))
async def test_a_crash_at_any_moment_changes_nothing(triack_world: World, effects: int) -> None:
    """The plant dies before its next datagram, or its next write to the disk, and so on, and starts again."""
    ledger = start(triack_world, 5)
    plant = triack_world.machine("plant")
    plant.crash_after(effects)
    await triack_world.advance(1)
    plant.restart()
    await triack_world.until(lambda: len(ledger) == 5)
    await triack_world.advance(60)
    assert ledger == invoices(5)


@pytest.mark.triack(seeds=5)
async def test_power_cuts_change_nothing(triack_world: World) -> None:
    """Again and again the power fails, for plant and shop; what the disk had not synced is gone, torn or shuffled."""
    chance = triack_world.chance("power cuts")
    ledger = start(triack_world, 200, pause=0.1)
    for _ in range(10):
        await triack_world.advance(2 * chance.random())
        machine = triack_world.machine(chance.choice(["plant", "shop"]))
        machine.lose_power()
        await triack_world.advance(chance.random())
        machine.restart()
    await triack_world.until(lambda: len(ledger) == 200)
    assert ledger == invoices(200)
