"""The ground of a world: one clock for all, one story, and a context that belongs to no machine."""

import asyncio

from triack.testing.ground import Ground
from triack.tools.sim.world import START_NS


def test_all_parts_have_one_clock() -> None:
    """It begins at zero for the test, and every part sees it move."""
    ground = Ground(7, 1_000)
    assert ground.now == 0
    ground.loop.run_until_complete(asyncio.sleep(1.5))
    assert ground.now == 1.5
    assert ground.time.now_ns == START_NS + 1_500_000_000
    assert ground.network.world is ground.time
    assert ground.links.network is ground.network
    ground.loop.close()


def test_the_story_says_when() -> None:
    """To the microsecond."""
    ground = Ground(7, 1_000)
    ground.tell("something")
    ground.loop.run_until_complete(asyncio.sleep(12.25))
    ground.tell("something else")
    assert ground.told == ["    0.000000 s  something", "   12.250000 s  something else"]
    ground.loop.close()


def test_a_seed_is_all_of_its_chance() -> None:
    """The network's included."""
    draws = []
    for seed in (7, 7, 8):
        ground = Ground(seed, 1_000)
        draws.append((ground.seed, ground.time.chance("x").random()))
        ground.loop.close()
    assert draws[0] == draws[1]
    assert draws[0][1] != draws[2][1]
