"""Worlds in which something is unusual but right; each of them must pass."""

from collections.abc import Callable

from tests.tools.replay.acts import tiers
from tests.tools.replay.builder import MS, World, ready, scheduled
from tests.tools.replay.faults import TX
from tests.tools.replay.relays import HONEST
from tests.tools.replay.telling import told

# What is unusual but right; each of them must pass.
HARMLESS: dict[str, Callable[[], World]] = {
    **HONEST,
    **{one.name: one.on(ready) for one in told("harmless.txt")},
}


def harmless(build: Callable[[], World]) -> Callable[[], World]:
    HARMLESS[build.__name__] = build
    return build


@harmless
def taken_over_by_an_open_session() -> World:
    """Two sessions are open; when the one that carries the stream fails, the other begins with the first attempt."""
    world = ready()
    tiers(world)
    failing, other = world.session, world.open()
    world.session = failing
    numbers = world.queue(TX, 1)
    world.send(TX, numbers, lost=(1,))
    world.clock.tick(30 * MS)
    scheduled(world, 1, 30 * MS)
    world.close("ack-timeout")
    world.session, world.packets = other, 0
    arrived = world.send(TX, numbers)
    world.ack(arrived, store=False)
    world.clock.tick(30 * MS)
    scheduled(world, 1, 30 * MS)
    world.commit(TX, numbers)
    world.order_ack(1)
    world.hand(TX, numbers)
    return world
