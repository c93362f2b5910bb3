"""Planted worlds before the judge, which is quick."""

from tests.tools.replay.builder import World, ready
from tests.tools.replay.faults import FAULTS, RULE_FAULTS, restarted
from tests.tools.replay.relays import RELAY_FAULTS, Relayed
from tests.tools.replay.topic_faults import TOPIC_FAULTS
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.judges.judge import Judge
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
    judge = Judge()
    world.number()
    for log in world.logs:
        for start in range(1, log.incarnation + 1):
            judge.read(log.name, [record for record in log.records if record["incarnation"] == start])
    return judge.finish()


def checks_of(world: World) -> set[str]:
    world.number()
    return {it.check for it in judge_records([record for log in world.logs for record in log.records])}
