"""Plans with topics: each strategy and kind of subscriber comes to a share of the seeds; runs keep every promise."""

from collections import Counter

import pytest

from triack.tools.chaos.drawing import draw
from triack.tools.chaos.run import run_seed
from triack.tools.chaos.topics import GAMES, KINDS, MORE_KINDS, TOPICS_FROM
from triack.tools.replay.log.files import parse_records

SEEDS = range(TOPICS_FROM, TOPICS_FROM + 200)


def test_a_seed_keeps_its_plan() -> None:
    assert draw(TOPICS_FROM) == draw(TOPICS_FROM)
    assert not any(draw(seed).subscribers for seed in range(20))


def test_each_strategy_and_subscriber_comes_to_a_share_of_the_seeds() -> None:
    plans = [draw(seed) for seed in SEEDS]
    topics = [host.settings.topics[GAMES] for plan in plans for host in plan.hosts if host.settings.topics]
    assert len(topics) == len(plans)
    assert all(count >= 40 for count in Counter(topic.strategy for topic in topics).values())
    assert sum(topic.quota is not None for topic in topics) >= 40
    kinds = Counter((one.kind, bool(one.durable)) for plan in plans for one in plan.subscribers[1:])
    assert all(kinds[kind, durable] >= 20 for kind in KINDS for durable in (False, True))
    assert sum(any(fault.kind == "kill" and fault.after for fault in plan.faults) for plan in plans) >= 40


def test_half_of_the_seeds_draw_times_failures_pauses_and_shared_subscriptions() -> None:
    plans = [draw(seed) for seed in SEEDS]
    topics = [host.settings.topics[GAMES] for plan in plans for host in plan.hosts if host.settings.topics]
    assert sum(topic.ack_wait_s is not None for topic in topics) >= 30
    assert sum(any(stream.read_ms for stream in plan.streams) for plan in plans) >= 30
    assert sum(sum(one.shared for one in plan.subscribers) == 2 for plan in plans) >= 30
    kinds = Counter(one.kind for plan in plans for one in plan.subscribers)
    assert all(kinds[kind] >= 20 for kind in MORE_KINDS)


def test_disks_fail_at_both_ends_of_subscriptions_from_another_node() -> None:
    at_hub = at_subscriber = 0
    for plan in map(draw, SEEDS):
        full = {fault.host for fault in plan.faults if fault.kind == "disk-full"}
        at_hub += any(one.hub in full for one in plan.away)
        at_subscriber += any(one.host in full for one in plan.away)
    assert at_hub >= 30
    assert at_subscriber >= 15


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("seed", range(TOPICS_FROM, TOPICS_FROM + 8))
def test_every_promise_is_kept(seed: int) -> None:
    """``triack chaos --first 2000000`` goes on."""
    outcome = run_seed(seed)
    assert outcome.violations == []
    events = {record["event"] for log in outcome.logs.values() for record in parse_records(log)}
    assert {"topic_opened", "subscribed", "placed", "dispatched", "handed"} <= events
