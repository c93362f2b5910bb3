"""Statistics of topics."""

import json

from tests.node.nodes import make
from triack.node.shell.topic_stats import describe_topics, read_topics


async def test_each_subscription_shows_what_is_pending_for_it() -> None:
    async with make() as node, node.subscribe("Games.#", durable="audit"), node.subscribe("Games.#", name="me") as it:
        await node.publish("Games.Cricket", b"x")
        await node.flush()
        message = await it.get(10)
        found = node.stats()
        games = found.topics["Games"]
        assert (games.strategy, games.messages, games.arrived, games.waiting) == ("discard_none", 1, 1, 0)
        shown = {one.name: (one.durable, one.pending, one.in_hand, one.readers) for one in games.subscriptions}
        assert shown == {"audit": (True, 1, 0, 1), "$1": (False, 1, 1, 1)}
        assert "topic:Games" not in found.queues | node.queue_lengths()
        assert read_topics(json.loads(json.dumps(describe_topics(found.topics)))) == found.topics
        assert message.topic == "Games.Cricket"
