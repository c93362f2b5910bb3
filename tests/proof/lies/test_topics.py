"""Lies about topics: those that change what a subscription gets are found, and the others say why they do not."""

from random import Random

import pytest

from proof.lies.harmless import reason_for
from proof.lies.logs import files_of, records_of
from proof.lies.mutate import Lie, Log, lies_about
from proof.lies.run import ANY, RIGHT, found_by
from proof.lies.topics import ABOUT_TOPICS
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.topics import TOPICS_FROM

LIES = 40


@pytest.fixture(scope="module")
def log() -> Log:
    return records_of(files_of(draw(TOPICS_FROM + 2)))


@pytest.fixture(scope="module")
def away() -> Log:
    """Messages are passed on to a subscription of another node."""
    return records_of(files_of(draw(TOPICS_FROM + 55)))


def lies(log: Log, about: tuple[str, ...]) -> list[Lie]:
    """Some lies about records of these events."""
    random = Random(1)
    places = [(start, at) for start, some in log.items() for at, it in enumerate(some) if it["event"] in about]
    return [random.choice(list(lies_about(log, *random.choice(places)))) for _ in range(LIES)]


@pytest.mark.slow
@pytest.mark.parametrize("about", [ABOUT_TOPICS, ("placed",), ("dispatched", "assigned"), ("handed", "settled")])
def test_a_lie_is_found_or_harmless(log: Log, about: tuple[str, ...]) -> None:
    for lie in lies(log, about):
        checks = found_by(lie)
        late = {"none_rule", "slowest_rule", "ack_wait", "topic_lost"} if lie.kind == "shift" else set()
        right = lie.kind == "swap" or checks & (RIGHT[lie.event] | ANY | late)
        assert right if checks else reason_for(lie, log), (lie.kind, lie.event, lie.field, lie.start, lie.at, checks)


@pytest.mark.slow
@pytest.mark.parametrize("about", [("passed_on",), ("subscribed", "unsubscribed"), ("queued",)])
def test_a_lie_about_subscriptions_of_other_nodes_is_found_or_harmless(away: Log, about: tuple[str, ...]) -> None:
    assert any(record["event"] == "passed_on" for records in away.values() for record in records)
    test_a_lie_is_found_or_harmless(away, about)
