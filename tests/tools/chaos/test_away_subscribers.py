"""Subscribers on other machines than the topics."""

from random import Random

import pytest

from triack.base.delivery import Delivery
from triack.tools.chaos.away_subscribers import KINDS, draw_away
from triack.tools.chaos.run import run_seed
from triack.tools.chaos.topics import PATTERNS, TOPICS_FROM


@pytest.mark.slow
@pytest.mark.gate
def test_they_are_of_each_kind_and_never_on_the_machine_with_the_topics() -> None:
    drawn = [one for seed in range(200) for one in draw_away(Random(seed), 3, 2, PATTERNS)]
    assert {one.kind for one in drawn} == set(KINDS)
    assert {one.host for one in drawn} == {0, 1}
    assert {bool(one.durable) for one in drawn} == {True, False}
    assert all(one.delivery is not Delivery.EXPRESS for one in drawn if one.durable)
    assert draw_away(Random(1), 1, 0, PATTERNS) == ()


@pytest.mark.slow
@pytest.mark.gate
def test_a_run_with_some_keeps_all_promises() -> None:
    """The first seed that has them."""
    outcome = next(it for it in map(run_seed, range(TOPICS_FROM, TOPICS_FROM + 20)) if "away" in it.plan.describe())
    assert outcome.violations == []
