"""Test your own services on simulated machines, over a network as bad as you like, in virtual time.

async def test_orders_survive_a_partition(triack_world): ...    # with pytest: a fixture, there as soon as triack is

with triack.testing.World(seed=7) as world:                     # without it
    world.run(main(world))
"""

from typing import TYPE_CHECKING

from triack.testing.errors import (
    MachineCrashed,
    NothingHappens,
    NotSimulated,
    PromiseBroken,
    ServiceDied,
    TooMuchHappens,
)

if TYPE_CHECKING:
    from triack.testing.machine import Machine
    from triack.testing.service import Service
    from triack.testing.world import World

__all__ = [
    "Machine",
    "MachineCrashed",
    "NotSimulated",
    "NothingHappens",
    "PromiseBroken",
    "Service",
    "ServiceDied",
    "TooMuchHappens",
    "World",
]


def __getattr__(name: str) -> object:
    # pytest imports this package wherever triack is installed; tests without a world must not wait for it.
    if name not in ("Machine", "Service", "World"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"triack.testing.{name.lower()}"), name)
