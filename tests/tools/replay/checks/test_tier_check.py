"""The resend tiers, by the settings in force and the clock."""

import pytest

from tests.tools.replay.harmless import held_back_for_longer_than_its_tier
from tests.tools.replay.judging import assert_found, breaking
from triack.tools.replay.engines.local_engine import judge_records

CHECKS = ("resend_tiers",)


@pytest.mark.parametrize("name", breaking(*CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)


def test_only_the_word_of_a_full_queue_excuses_a_wait() -> None:
    """What was sent again without it should have been sent when its tier ran out."""
    world = held_back_for_longer_than_its_tier()
    world.alpha.drop("hold_received", stop=True)
    world.alpha.drop("hold_received", stop=False)
    assert {found.check for found in judge_records(world.all_records())} == {"resend_tiers"}
