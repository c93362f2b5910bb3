"""Lies about a topic: two or more for each promise to its subscriptions."""

from collections.abc import Callable

from tests.tools.replay.builder import MS
from tests.tools.replay.telling import Expected, Told, take_all, told, value_of
from tests.tools.replay.topic_logs import Topics

Lie = Callable[[], tuple[Topics, Expected]]
SECOND_NS = 1_000 * MS


def lie(tell: Lie) -> Lie:
    TOPIC_FAULTS[tell.__name__] = tell
    return tell


def lie_of(one: Told) -> Lie:
    """What a table tells; its first step says how it begins."""
    begin, *words = one.steps[0].split(" ")

    def tell() -> tuple[Topics, Expected]:
        world = BEGINNINGS[begin](*map(value_of, words))
        take_all(world, one.steps[1:])
        return world.stop(), one.expected

    return tell


def found(check: str, *places: int) -> Expected:
    return {(check, -1, -1, at) for at in places or (-1,)}


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


@lie
def a_reader_gets_what_it_missed() -> tuple[Topics, Expected]:
    """It was suspended while a packet was dispatched, and the packet was assigned to it."""
    world = plain()
    at = next(at for at, it in enumerate(world.beta.records) if it["event"] == "dispatched" and it["first"] == 11)
    before = world.beta.records[at]
    told = world.say("subscription_suspended", subscription="slow")
    told.update(at_ns=before["at_ns"], wall_ns=before["wall_ns"])
    world.beta.records.insert(at, world.beta.records.pop())
    return world.stop(), found("topic_astray", *range(11, 21))


@lie
def stopped_although_all_have_room() -> tuple[Topics, Expected]:
    world = Topics("slowest_sub_rate")
    slow = world.subscribe("slow", limit=3)
    world.publish()
    world.consume(slow, 1)
    # It lets nothing go from now on.
    at = world.beta.records.index(world.beta.all("dispatched")[-1])
    del world.beta.records[at : at + 2]
    world.clock.tick(SECOND_NS)
    world.take(slow, 1)
    return world.stop(), found("slowest_rule", 4)
