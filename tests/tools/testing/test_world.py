"""The simulated world: its network, its time, its own checks, and that all depends on the seed."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import triack
import triack.testing
from tests.tools.testing.services import B, collect, feed, numbers
from triack.testing import World
from triack.tools.replay.run import replay

TCP = B.replace("udp", "tcp")


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("address", [B, TCP])
async def test_a_bad_network_loses_and_repeats_nothing(triack_world: World, address: str) -> None:
    triack_world.set_loss(0.3)
    triack_world.set_duplicate(0.2)
    triack_world.set_reorder(0.3)
    triack_world.set_delay(0.02, jitter=0.01)
    got: list[bytes] = []
    triack_world.machine("b").start(collect, got, address)
    triack_world.machine("a").start(feed, 100, address, 0.05)
    await triack_world.until(lambda: len(got) == 100)
    assert got == numbers(100)
    assert triack_world.network.counts["lost" if address == B else "arrived"] > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "fault", "one_way"), [(B, "cut", False), (B, "clog", True), (TCP, "cut", True), (TCP, "clog", False)]
)
async def test_machines_that_are_parted_meet_again(
    triack_world: World, address: str, fault: str, one_way: bool
) -> None:
    """First delivery within a second and three round trips after the way is free."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    b.start(collect, got, address)
    a.start(feed, 100, address, 0.1)
    await triack_world.advance(2)
    (triack_world.cut if fault == "cut" else triack_world.clog)(a, "b", one_way=one_way)
    await triack_world.advance(0.1)
    before = len(got)
    await triack_world.advance(600)
    assert len(got) == before
    triack_world.heal()
    await triack_world.until(lambda: len(got) > before, timeout=1.03)
    await triack_world.until(lambda: len(got) == 100)
    assert got == numbers(100)


async def test_until_says_how_long_it_waited_and_who_died(triack_world: World) -> None:
    service = triack_world.machine("a").start(asyncio.to_thread, int, "no number")
    with pytest.raises(
        triack.WaitTimeout, match=r"not true after 7 s of virtual time; to_thread on a died: ValueError"
    ):
        await triack_world.until(lambda: False, timeout=7)
    assert triack_world.now == 7
    assert isinstance(service.error, ValueError)


async def test_until_sees_every_instant(triack_world: World) -> None:
    """A condition that is true for a nanosecond is seen, and at that nanosecond."""
    loop, now = asyncio.get_running_loop(), [False]
    loop.call_later(5, now.__setitem__, 0, True)
    loop.call_later(5 + 1e-9, now.__setitem__, 0, False)
    await triack_world.until(lambda: now[0])
    assert triack_world.now == 5


def exchange(seed: int) -> World:
    """A world in which much has happened."""

    async def test() -> None:
        b = world.machine("b")
        b.start(collect, got)
        world.set_loss(0.2)
        world.machine("a").start(feed, 40, B, 0.1)
        await world.advance(1)
        b.lose_power()
        await world.advance(1)
        b.restart()
        await world.until(lambda: len(set(got)) == 40)

    got: list[bytes] = []
    world = World(seed)
    with world:
        world.run(test())
    return world


@pytest.mark.slow
@pytest.mark.gate
def test_a_seed_says_it_all() -> None:
    assert exchange(1).trace == exchange(1).trace
    assert exchange(1).trace != exchange(2).trace


@pytest.mark.slow
def test_a_seed_says_it_all_in_other_processes() -> None:
    """Hash seeds, optimisation and a collector that runs at every turn change nothing."""
    program = "from tests.tools.testing.test_world import exchange; print(exchange(3).trace)"
    greedy = "import gc; gc.set_threshold(1); "
    traces = set()
    for hash_seed, options, code in (("0", [], program), ("1", ["-O"], program), ("77", [], greedy + program)):
        done = subprocess.run(
            [sys.executable, *options, "-c", code],
            cwd=Path(__file__).parents[3],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        traces.add(done.stdout)
    assert traces == {exchange(3).trace + "\n"}


def test_the_logs_can_be_replayed(tmp_path: Path) -> None:
    world = exchange(5)
    tmp_path /= "logs"
    world.write_logs(str(tmp_path))
    names = ("a-a-000001-000001", "b-b-000001-000001", "b-b-000002-000002")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.jsonl" for name in names]
    verdict = replay([tmp_path], engine="local")
    assert (verdict.verdict, verdict.delivered, verdict.nodes) == ("pass", 40, 2)


def test_a_world_without_nodes_has_nothing_to_check() -> None:
    with World() as world:
        assert world.run(asyncio.sleep(1, "done")) == "done"


def test_the_story_of_a_test() -> None:
    async def test() -> None:
        world.set_loss(0.25)
        await world.advance(3)
        world.cut(world.machine("a"), world.machine("b"), one_way=True)
        world.machine("a").crash()

    with World(9) as world:
        world.run(test())
    lines = world.story().splitlines()
    assert lines[0] == f"seed 9, 3.000 s of virtual time, trace {world.trace}"
    assert [line.split(" s  ")[1] for line in lines[1:]] == ["network: loss 0.25", "network: cut a -> b", "a: crash"]


def test_the_package_has_what_it_says_and_no_more() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Wrold'"):
        triack.testing.Wrold  # noqa: B018


async def test_what_cannot_be_is_refused_by_name(triack_world: World) -> None:
    """A percentage, a machine that is not there, a time that is none."""
    triack_world.machine("plant")
    triack_world.machine("shop")
    changes: list[tuple[Callable[[], None], str]] = [
        (lambda: triack_world.set_loss(30), "loss must be between 0 and 1, not 30"),
        (lambda: setattr(triack_world.faults, "duplicate", 2), "duplicate must be between 0 and 1, not 2"),
        (lambda: triack_world.set_delay(-1), "set_delay: seconds must be between 0 and 3162240000, not -1"),
        (lambda: setattr(triack_world.machine("shop").disk.faults, "write", 5), "write must be between 0 and 1, not 5"),
        (lambda: triack_world.cut("plnt"), "there is no machine plnt; did you mean plant?"),
        (lambda: triack_world.clog("shop", "quay"), "there is no machine quay; there is plant, shop"),
        (lambda: triack_world.cut(5), "there is no machine 5; there is plant, shop"),  # type: ignore[arg-type]
    ]
    for change, why in changes:
        with pytest.raises(triack.UsageError, match=f"^{re.escape(why)}$"):
            change()
    with pytest.raises(triack.UsageError, match=r"advance: seconds must be between 0 and .*, not -1"):
        await triack_world.advance(-1)
    for no_question in (True, asyncio.sleep):  # what an async function gives is always true
        asked: Any = no_question
        with pytest.raises(triack.UsageError, match=r"until: .* is no function that says yes or no at once"):
            await triack_world.until(asked)
    for settings, why in (
        ({"seed": "7"}, "seed must be a whole number of at least 0, not '7'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"max_events": 0}, "max_events must be a whole number of at least 1, not 0"),
    ):
        with pytest.raises(triack.UsageError, match=f"^World: {why}$"):
            World(**settings)
    assert [machine.name for machine in triack_world.machines] == ["plant", "shop"]
