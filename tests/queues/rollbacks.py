"""What tests of rollbacks share: two nodes, copies of their stores, and what both must say."""

from tests.queues.world import PlainWorld, SimNode, World
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.tools.sim.disk import Snapshot
from triack.tools.sim.faults import Faults


def pair(seed: int = 1, faults: Faults | None = None) -> tuple[World, SimNode, SimNode]:
    world = PlainWorld(seed, faults)
    return world, world.node("a"), world.node("b")


def deliver(world: World, a: SimNode, b: SimNode, *numbers: int, delivery: Delivery = Delivery.TRANSACTIONAL) -> None:
    """Send these numbers and wait until all is acknowledged, order acks included."""
    for number in numbers:
        a.send(b, "q", b"%d" % number, delivery=delivery)
    assert world.run(20 * SECOND, lambda: not a.busy)
    world.run(SECOND)


def put_back(node: SimNode, copy: Snapshot, lives: int = 1) -> None:
    """Crash a node, put an older copy in the place of its store, and start it as often as said."""
    node.crash()
    node.restore(copy)
    node.start()
    for _ in range(lives - 1):
        node.restart()


def roll_back(world: World, a: SimNode, b: SimNode) -> None:
    """Let the second node have a message of which the first one's store, an older copy, knows nothing."""
    deliver(world, a, b, 1)
    copy = a.copy_store()
    deliver(world, a, b, 2)
    put_back(a, copy)


def both_know(world: World, a: SimNode, b: SimNode, own: str = "own", peer: str = "peer") -> None:
    """The first node says that its own store was rolled back, the other that its peer's was."""
    assert world.run(30 * SECOND, lambda: a.rollbacks + b.rollbacks == [own, peer]), (a.rollbacks, b.rollbacks)


def arrived(node: SimNode) -> int:
    return len(node.log("packet_received", "committed", "handed"))
