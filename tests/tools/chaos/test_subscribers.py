"""Subscribers of a simulated world do what their kind says."""

from collections import Counter
from dataclasses import replace

import pytest

from triack.queues.node_settings import Topic
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import Plan
from triack.tools.chaos.run import run_plan
from triack.tools.chaos.topics import GAMES, TOPICS_FROM
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import Faults


def calm(kind: str) -> Plan:
    """A plan without faults with one subscriber of a kind beside the one that gets everything."""
    plan = next(plan for plan in map(draw, range(TOPICS_FROM, TOPICS_FROM + 100)) if len(plan.hosts) == 1)
    hosts = tuple(replace(host, settings=replace(host.settings, topics={GAMES: Topic()})) for host in plan.hosts)
    other = replace(plan.subscribers[0], kind=kind, durable="")
    return replace(plan, hosts=hosts, faults=(), network=Faults(), subscribers=(plan.subscribers[0], other))


@pytest.mark.parametrize("kind", ["quick", "slow", "dead", "flapping", "failing", "holding", "pausing"])
def test_a_subscriber_does_as_its_kind_says(kind: str) -> None:
    outcome = run_plan(calm(kind))
    assert outcome.violations == []
    records = [record for log in outcome.logs.values() for record in parse_records(log)]
    mine = [record for record in records if str(record.get("subscription", "")).startswith("$")]
    events = Counter(record["event"] for record in mine)
    assert events["subscribed"] >= 1
    assert (events["unsubscribed"] > 0) == (kind == "flapping")
    assert events["assigned"] > 0
    assert (events["subscription_suspended"] > 0) == (kind == "pausing")
    if kind in ("failing", "holding"):
        assert events["returned"] >= 5
