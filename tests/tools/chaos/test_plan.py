"""Plans: their description for people."""

import json
from dataclasses import replace

from triack.queues.node_settings import Limits, Quota
from triack.tools.chaos.drawing import draw


def test_a_plan_can_be_told_to_people() -> None:
    """As JSON, with its seed."""
    assert json.loads(json.dumps(draw(5).describe()))["seed"] == 5


def test_what_is_rare_is_described_too() -> None:
    """Other addresses, hosts with limits, streams that are forbidden."""
    plan = draw(5)
    first, *rest = plan.hosts
    limited = replace(first.settings, limits=Limits(Quota(3)))
    host = replace(first, settings=limited, others=("udp://a:3", "udp://a:2"))
    stream = replace(plan.streams[0], forbidden=True)
    told = replace(plan, hosts=(host, *rest), streams=(stream,)).describe()
    assert told["hosts"][0] == f"udp://a:3 udp://a:2 {first.address}"
    assert (told["limits"], " forbidden" in told["streams"][0]) == (["a"], True)
