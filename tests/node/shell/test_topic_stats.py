"""Statistics of topics."""

import json
from contextlib import AsyncExitStack

import pytest

from tests.node.nodes import make
from triack.node.shell.topic_stats import describe_topics, read_topics
from triack.queues.topics.subscription import Subscription


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


async def test_subscriptions_that_have_read_everything_cost_no_look_at_their_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def look(one: Subscription) -> int:
        looked.append(one.title)
        return 0

    monkeypatch.setattr(Subscription, "oldest_ms", property(look), raising=False)
    async with make() as node, AsyncExitStack() as readers:
        for _ in range(20):
            await readers.enter_async_context(node.subscribe("Games.Chess"))
        busy = await readers.enter_async_context(node.subscribe("Games.Cricket"))
        await node.publish("Games.Cricket", b"x")
        message = await busy.get(10)
        assert message.body == b"x"
        assert [one.pending for one in node.stats().topics["Games"].subscriptions] == [0] * 20 + [1]
    assert looked == ["$21"]
