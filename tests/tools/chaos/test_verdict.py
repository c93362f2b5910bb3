"""The verdict over a simulated world: nothing that any judge can find is missed, and nobody is excused for too much."""

import json

import pytest

from tests.tools.replay.builder import World, brief
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.tools.chaos.verdict import judge_logs


def logs_of(world: World) -> dict[str, bytes]:
    return {log.name: "".join(json.dumps(record) + "\n" for record in log.records).encode() for log in world.logs}


@pytest.mark.parametrize("name", PLANTED)
def test_every_known_fault_is_found(name: str) -> None:
    """The responsible side finds it: the local engine, or a rule."""
    world, expected = plant(name)
    assert brief(judge_logs(logs_of(world))) >= expected


def test_what_is_unusual_but_right_needs_no_excuse() -> None:
    """Crashes, resends, removals and waiting packets: the verdict of the worlds that have whole records is clean."""
    for name in ("express_lost_in_a_crash", "no_threshold", "expired_between_attempts", "acked_just_in_time"):
        world = HARMLESS[name]()
        world.number()
        assert judge_logs(logs_of(world)) == [], name
