"""The verdict over a simulated world: nothing that any judge can find is missed, and nobody is excused for too much."""

import gc
import json
import time
from itertools import count, islice

import pytest

from tests.tools.replay.builder import World, brief
from tests.tools.replay.faults import TX, ready
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import DISHONEST
from triack.tools.chaos.run import run_plan
from triack.tools.chaos.verdict import judge_logs

RUNS = 8


def logs_of(world: World) -> dict[str, bytes]:
    """The log of each node, as it would be in one file."""
    return {log.name: "".join(json.dumps(record) + "\n" for record in log.records).encode() for log in world.logs}


@pytest.mark.parametrize("name", PLANTED)
def test_every_known_fault_is_found(name: str) -> None:
    """Whoever is responsible finds it: the local engine, or a rule."""
    world, expected = plant(name)
    assert brief(judge_logs(logs_of(world))) >= expected


@pytest.mark.slow
def test_real_runs_break_no_rule() -> None:
    """What real nodes write in simulated worlds satisfies every rule; those that stand still or wake late say so."""
    for seed in islice(honest_seeds(), RUNS):
        outcome = run_plan(draw(seed))
        assert outcome.logs, f"seed {seed}"
        assert judge_logs(outcome.logs) == [], f"seed {seed}"


def honest_seeds() -> "filter[int]":
    """Seeds whose disks keep what they promised."""
    return filter(lambda seed: {fault.kind for fault in draw(seed).faults}.isdisjoint(DISHONEST), count())


@pytest.mark.slow
def test_the_verdict_keeps_up_with_a_campaign() -> None:
    """5,000 records take some 40 ms; no step grows with the square of the record."""
    small, large = (timed(packets) for packets in (1_200, 4_800))
    assert small < 0.3
    assert large < 10 * small


def timed(packets: int) -> float:
    """The least processor time, in seconds, that the verdict takes for a record with so many packets."""
    world = ready()
    for _ in range(packets // 8):
        world.deliver(TX, 8)
    world.number()
    logs, times = logs_of(world), []
    gc.disable()
    for _ in range(3):
        start = time.process_time()
        judge_logs(logs)
        times.append(time.process_time() - start)
    gc.enable()
    return min(times)


def test_what_is_unusual_but_right_needs_no_excuse() -> None:
    """Crashes, resends, removals and waiting packets: the verdict of the worlds that have whole records is clean."""
    for name in ("express_lost_in_a_crash", "no_threshold", "expired_between_attempts", "acked_just_in_time"):
        world = HARMLESS[name]()
        world.number()
        assert judge_logs(logs_of(world)) == [], name
