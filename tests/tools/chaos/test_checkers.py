"""The chaos checkers: each promise is broken once, in a record that is otherwise right, and found as what it is."""

import gc
import json
import time
from itertools import count, islice

import pytest

from tests.tools.chaos.extra_faults import EXTRA_FAULTS, TX, Expected, restarted
from tests.tools.replay.builder import World
from tests.tools.replay.faults import FAULTS, HARMLESS, ready
from triack.tools.chaos.checker import Record
from triack.tools.chaos.checkers import check, check_more, parse
from triack.tools.chaos.plan import DISHONEST, draw
from triack.tools.chaos.run import run_plan
from triack.tools.replay.schema import CHECKS, Violation

RUNS = 8


def records_of(world: World, *, number: bool = True) -> list[Record]:
    """All records of a world, each node's in its order."""
    for log in (world.alpha, world.beta) if number else ():
        log.number()
    return [*world.alpha.records, *world.beta.records]


def brief(findings: list[Violation]) -> Expected:
    return {(found.check, found.lane, found.sequence, found.number) for found in findings}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """The fault is found as what replay calls it, and nothing else is."""
    world = ready()
    expected = FAULTS[name](world)
    world.beta.number()
    assert brief(check(records_of(world, number=name != "records_missing"))) == expected


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_unusual_but_right_passes(name: str) -> None:
    """Crashes, resends, removals, forwarding and waiting packets break no promise."""
    assert check(records_of(HARMLESS[name]())) == []


@pytest.mark.parametrize("name", EXTRA_FAULTS)
def test_a_fault_that_replay_does_not_look_for_is_found(name: str) -> None:
    """The extra rules find it as what it is, and nothing else."""
    world = restarted()
    expected = EXTRA_FAULTS[name](world)
    assert brief(check_more(records_of(world))) == expected


def test_a_record_with_restarts_passes() -> None:
    """What the extra faults are planted in breaks no rule."""
    assert check_more(records_of(restarted())) == []
    assert check(records_of(restarted())) == []


def test_the_extra_rules_have_names_of_their_own() -> None:
    """Nothing that only the chaos checkers know is called like a check of replay."""
    assert {check for plant in EXTRA_FAULTS.values() for check, *_ in plant(restarted())}.isdisjoint(CHECKS)


@pytest.mark.slow
def test_real_runs_break_no_rule() -> None:
    """What real nodes write in simulated worlds, crashes and all, satisfies every rule."""
    for seed in islice(honest_seeds(), RUNS):
        outcome = run_plan(draw(seed))
        records = [record for log in outcome.logs.values() for record in parse(log)]
        assert records, f"seed {seed}"
        assert check(records) + check_more(records) == [], f"seed {seed}"


def honest_seeds() -> "filter[int]":
    """Seeds whose processes are never held up and whose disks keep what they promised."""

    def is_honest(seed: int) -> bool:
        plan = draw(seed)
        kinds = {fault.kind for fault in plan.faults}
        return kinds.isdisjoint({*DISHONEST, "pause"}) and not any(host.timer_slack_ns for host in plan.hosts)

    return filter(is_honest, count())


def test_a_torn_last_line_is_no_record() -> None:
    """What a crash left of the last line is skipped; a broken line elsewhere is an error."""
    records = records_of(restarted())
    log = "".join(json.dumps(record) + "\n" for record in records).encode()
    assert parse(log + b'{"v":1,"event":"pack') == parse(log) == records
    assert parse(b'{"v":1') == parse(b"") == []
    with pytest.raises(ValueError, match=r"Expecting|Illegal"):
        parse(b'{"v":1,\n' + log)


def test_the_checkers_keep_up_with_a_campaign() -> None:
    """5,000 records take some 20 ms; no step grows with the square of the record."""
    small, large = (timed(packets) for packets in (1_200, 4_800))
    assert small < 0.2
    assert large < 10 * small


def timed(packets: int) -> float:
    """The least processor time, in seconds, that ``check`` takes for a record with so many packets."""
    world = ready()
    for _ in range(packets // 8):
        world.deliver(TX, 8)
    records, times = records_of(world), []
    gc.disable()
    for _ in range(3):
        start = time.process_time()
        check(records)
        times.append(time.process_time() - start)
    gc.enable()
    return min(times)
