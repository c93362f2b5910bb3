"""The rules of a simulation: each is broken in every way, in a record that is otherwise right, and found."""

import pytest

from tests.tools.chaos.rule_faults import RULE_FAULTS, restarted
from tests.tools.replay.builder import brief
from triack.tools.chaos.rules import RULES, check_rules
from triack.tools.replay.local_engine import judge_records
from triack.tools.replay.schema import CHECKS


@pytest.mark.parametrize("name", RULE_FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """A rule finds it as what it is, and no rule finds anything else."""
    world = restarted()
    expected = RULE_FAULTS[name](world)
    assert brief(check_rules(world.all_records())) == expected


def test_a_record_with_restarts_passes() -> None:
    """What the faults are planted in breaks neither a rule nor a check of replay."""
    assert check_rules(restarted().all_records()) == []
    assert judge_records(restarted().all_records()) == []


def test_every_rule_has_a_fault_and_a_name_of_its_own() -> None:
    """No rule without a test that sees it fail, and none is called like a check of replay."""
    found = set()
    for plant in RULE_FAULTS.values():
        world = restarted()
        plant(world)
        found |= {finding.check for finding in check_rules(world.all_records())}
    assert len(found) == 10
    assert found.isdisjoint(CHECKS)
    assert len(RULES) == 8
