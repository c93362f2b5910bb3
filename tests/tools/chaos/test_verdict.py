"""The verdict over a simulated world: nothing that any judge can find is missed, and nobody is excused for too much."""

import gc
import json
import time
from itertools import count, islice

import pytest

from tests.tools.replay.ack_faults import ACK_FAULTS
from tests.tools.replay.builder import World, brief
from tests.tools.replay.faults import FAULTS, TX, ready
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import DISHONEST
from triack.tools.chaos.run import run_plan
from triack.tools.chaos.verdict import IN_TIME, judge_logs

RUNS = 8


def logs_of(world: World) -> dict[str, bytes]:
    """The log of each node, as it would be in one file."""
    return {
        log.name: "".join(json.dumps(record) + "\n" for record in log.records).encode()
        for log in (world.alpha, world.beta)
    }


@pytest.mark.parametrize("name", PLANTED)
def test_every_known_fault_is_found(name: str) -> None:
    """Whoever is responsible finds it: the local engine, or a rule."""
    world, expected = plant(name)
    assert brief(judge_logs(logs_of(world))) >= expected


@pytest.mark.parametrize("name", [*FAULTS, *ACK_FAULTS])
def test_the_late_are_excused_for_being_late_only(name: str) -> None:
    """A process that stood still acknowledges late, and breaks no other promise."""
    world, expected = plant(name)
    found = brief(judge_logs(logs_of(world), late=["alpha", "beta"]))
    assert found >= {it for it in expected if it[0] not in IN_TIME}
    assert not [it for it in found if it[0] in IN_TIME]


def test_nobody_is_excused_for_another() -> None:
    """Beta is late; that alpha stood still is no excuse."""
    world = ready()
    FAULTS["idle_delay_exceeded"](world)
    world.number()
    assert judge_logs(logs_of(world), late=["beta"]) == []
    assert {it.check for it in judge_logs(logs_of(world), late=["alpha"])} == {"idle_delay"}


@pytest.mark.slow
def test_real_runs_break_no_rule() -> None:
    """What real nodes write in simulated worlds, crashes and all, satisfies every rule, and in time."""
    for seed in islice(honest_seeds(), RUNS):
        outcome = run_plan(draw(seed))
        assert outcome.logs, f"seed {seed}"
        assert judge_logs(outcome.logs) == [], f"seed {seed}"


def honest_seeds() -> "filter[int]":
    """Seeds whose processes are never held up and whose disks keep what they promised."""

    def is_honest(seed: int) -> bool:
        plan = draw(seed)
        kinds = {fault.kind for fault in plan.faults}
        return kinds.isdisjoint({*DISHONEST, "pause"}) and not any(host.timer_slack_ns for host in plan.hosts)

    return filter(is_honest, count())


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
