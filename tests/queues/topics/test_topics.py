"""All subscriptions of a node: how they begin and end, and what the session log has of them."""

import pytest

from tests.queues.topics.bench import Bench
from triack.base.delivery import Delivery
from triack.base.errors import SubscriptionMismatch
from triack.base.news import AckWaitOver, MessagesDiscarded
from triack.base.reasons import DeadReason
from triack.base.units import SECOND
from triack.queues.mailboxes.redelivery import Return
from triack.queues.node_settings import NodeSettings, Topic


def test_the_same_name_finds_the_same_durable_subscription_and_another_pattern_is_refused() -> None:
    bench = Bench()
    audit = bench.subscribe("Games.*", durable="audit")
    assert bench.subscribe("Games.*", durable="audit") is audit
    with pytest.raises(SubscriptionMismatch, match="unsubscribe audit first"):
        bench.subscribe("Games.#", durable="audit")
    with pytest.raises(SubscriptionMismatch):
        bench.subscribe("Games.*", durable="audit", shared=True)


def test_a_durable_subscription_is_in_the_next_commit() -> None:
    """A crash before its caller has heard of it leaves it there, and asking again finds it."""
    bench = Bench()
    bench.subscribe("Games.*", durable="audit")
    bench.step()
    assert [row.name for row in bench.store.subscriptions] == ["audit"]
    assert "audit" in bench.restart().topics.subscriptions


def test_a_subscription_without_a_holder_ends_unless_it_is_durable() -> None:
    bench = Bench()
    one, audit = bench.subscribe(), bench.subscribe(durable="audit")
    for subscription in (one, audit):
        subscription.listeners.append(print)
        subscription.leave(print)
    bench.step()
    assert (one.has_ended, audit.has_ended) == (True, False)
    assert bench.of("unsubscribed") == [{"topic": "Games", "subscription": "$1", "reason": "closed"}]


def test_the_log_has_each_step_of_a_message_in_order() -> None:
    bench = Bench(50)
    one = bench.subscribe(max_unacked=2)
    bench.publish(3, delivery=Delivery.TRANSACTIONAL)
    bench.read(one)
    told = [name for name, _ in bench.records]
    assert told[:4] == ["topic_opened", "subscribed", "placed", "dispatched"]
    assert bench.of("topic_opened") == [
        {"topic": "Games", "strategy": "discard_none", "delivery_timeout_ns": 60 * SECOND, "first": 1}
    ]
    (placed,) = bench.of("placed")
    assert (placed["below"], placed["counts"], placed["at_place"]) == ("Cricket", [[1, 3]], 1)
    assert [(it["first"], it["last"]) for it in bench.of("dispatched")] == [(1, 2), (3, 3)]
    assert [it["count"] for it in bench.of("assigned")] == [2, 1]
    assert [it["ranges"] for it in bench.of("handed")] == [it["ranges"] for it in bench.of("settled")]
    assert bench.of("content_freed") == [{"topic": "Games", "ranges": [(1, 3)], "reason": "all"}]


def test_another_strategy_is_in_force_at_once() -> None:
    bench = Bench(strategy="slowest_sub_rate", max_unacked=1)
    one, _ = bench.subscribe(), bench.subscribe()
    bench.publish(3)
    assert bench.read(one) == [0]
    bench.topics.handle_settings(NodeSettings(topics={"Games": Topic("discard_none", 1)}))
    bench.step()
    assert bench.read(one) == [1, 2]
    assert [it["strategy"] for it in bench.of("topic_opened")] == ["slowest_sub_rate", "discard_none"]


def test_dropped_and_overdue_messages_are_reported_at_most_once_a_second() -> None:
    bench = Bench(strategy="discard_allowed", max_unacked=1, delivery_timeout_s=1)
    fast, _ = bench.subscribe(), bench.subscribe()
    bench.publish(1)
    bench.read(fast)
    news = []
    for tenth in range(20, 40):
        bench.now_ns = tenth * SECOND // 10
        bench.publish(1)
        bench.read(fast)
        news += bench.topics.take_news(bench.now_ns)
    assert len(news) == 2
    assert all(it == MessagesDiscarded("Games", "$2", it.messages) for it in news)
    lease = bench.take(fast)
    assert lease is None
    bench.publish(1)
    lease = bench.take(fast)
    assert lease is not None
    way = Return(failed=True, delay_ms=0, reason=DeadReason.HAND_OVER_TIMEOUT)
    bench.queues.give_back(fast, lease, way, bench.turn())
    bench.step()
    assert AckWaitOver("Games", "$1", 1) in bench.topics.take_news(bench.now_ns)
    assert bench.of("returned")[0]["overdue"] is True
