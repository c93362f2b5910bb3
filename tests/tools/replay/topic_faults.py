"""Lies about a topic: two or more for each promise to its subscriptions."""

from collections.abc import Callable

from tests.tools.replay.builder import MS
from tests.tools.replay.telling import Expected, Told, take_all, told, value_of
from tests.tools.replay.topic_logs import Topics

Lie = Callable[[], tuple[Topics, Expected]]
SECOND_NS = 1_000 * MS


def lie_of(one: Told) -> Lie:
    """What a table tells; its first step says how it begins."""
    begin, *words = one.steps[0].split(" ")

    def tell() -> tuple[Topics, Expected]:
        world = BEGINNINGS[begin](*map(value_of, words))
        take_all(world, one.steps[1:])
        return world.stop(), one.expected

    return tell


def plain(strategy: str = "discard_none", ack_wait_ns: int = 0) -> Topics:
    """One reader that is quick, one that is slow, a durable one, and three packets of ten messages."""
    world = Topics(strategy)
    world.subscribe("quick", limit=1_000, ack_wait_ns=ack_wait_ns)
    world.subscribe("slow", limit=1_000)
    world.subscribe("audit", durable=True, limit=1_000)
    for _ in range(3):
        world.publish()
        world.consume(world.readers["quick"], 10)
        world.take(world.readers["audit"], 10)
        world.settle_all(world.readers["audit"])
    return world


def discarding() -> Topics:
    """A reader loses ten messages that it has not acknowledged for a minute, and gets ten others."""
    world = Topics("discard_allowed")
    quick = world.subscribe("quick", limit=1_000)
    world.subscribe("slow", limit=3)
    world.publish()
    world.consume(quick, 10)
    world.clock.tick(60 * SECOND_NS)
    world.discard()
    world.publish()
    return world


BEGINNINGS: dict[str, Callable[..., Topics]] = {"plain": plain, "discarding": discarding, "topic": Topics}
TOPIC_FAULTS: dict[str, Lie] = {one.name: lie_of(one) for one in told("topic_faults.txt")}
