"""Planted worlds before the judge, which is quick."""

from tests.tools.replay.builder import World, ready
from tests.tools.replay.faults import FAULTS, RULE_FAULTS, restarted
from tests.tools.replay.relays import RELAY_FAULTS, Relayed
from tests.tools.replay.topic_faults import TOPIC_FAULTS
from triack.tools.replay.engines.local_engine import verdict_on
from triack.tools.replay.log.schema import Verdict

PLANTED = (*FAULTS, *RULE_FAULTS, *RELAY_FAULTS, *TOPIC_FAULTS)


def plant(name: str) -> tuple[World, set[tuple[str, int, int, int]]]:
    if name in RELAY_FAULTS:
        relayed = Relayed()
        expected = RELAY_FAULTS[name](relayed)
        relayed.end()
        relayed.number()
        return relayed, expected
    if name in TOPIC_FAULTS:
        topics, expected = TOPIC_FAULTS[name]()
        topics.number()
        return topics, expected
    world = restarted() if name in RULE_FAULTS else ready()
    expected = (FAULTS | RULE_FAULTS)[name](world)
    world.end()
    world.number(lacking=name == "records_missing")
    return world, expected


def verdict_of(world: World) -> Verdict:
    return verdict_on(world.all_records())


def checks_of(world: World) -> set[str]:
    return {it.check for it in verdict_of(world).findings}


def without(world: World, node: str) -> Verdict:
    """The verdict without the log of a node."""
    return verdict_on([record for record in world.all_records() if record["node"] != node])
