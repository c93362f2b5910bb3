"""WSO2 Message Broker: delivery strategies of topics, durable subscriptions, redelivery."""

import asyncio

import pytest

import triack
from tests.mission.ends import alone
from tests.queues.topics.bench import Bench
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.node.handles.policies import wso2
from triack.testing import World

statement = pytest.mark.statement
PER_PACKET = pytest.mark.parametrize("per_packet", [1, 50])
HOUR = 3_600 * SECOND

# Strategies: a fast subscriber A and a slow one B.


@statement(
    "Configuring the Message Delivery Strategy",
    'wso2(strategy="discard_none")',
    "A has 1,000 messages, B has 1,000 pending",
)
@pytest.mark.gate
@PER_PACKET
def test_with_discard_none_no_subscriber_loses_a_message_and_a_fast_one_does_not_wait(per_packet: int) -> None:
    """And the slow one has them in constant memory."""
    bench = Bench(per_packet, max_unacked=3)
    fast, slow = bench.subscribe(), bench.subscribe()
    read: list[int] = []
    for _ in range(20):
        bench.publish(50)
        read += bench.read(fast)
    assert read == list(range(1_000))
    assert slow.mailbox.length == 1_000
    assert not slow.mailbox.reader.begun
    assert slow.mailbox.reader.done.gaps == 0
    assert bench.read(slow) == list(range(1_000))


@statement("code of Andes", "wso2(max_unacked_messages=3)", "3 of 5, then the 4th after the first ack")
@PER_PACKET
def test_with_discard_none_delivery_pauses_only_when_all_subscribers_are_saturated(per_packet: int) -> None:
    bench = Bench(per_packet, max_unacked=3)
    one, other = bench.subscribe(), bench.subscribe()
    bench.publish(5)
    assert (one.mailbox.length, other.mailbox.length, bench.root.dispatched) == (3, 3, 3)
    assert bench.read(other, 1) == [0]
    assert (one.mailbox.length, other.mailbox.length, bench.root.dispatched) == (4, 3, 4)


@statement(
    "Configuring the Message Delivery Strategy",
    'wso2(strategy="slowest_sub_rate")',
    "3 for both, then one for each ack of B",
)
@PER_PACKET
def test_with_slowest_sub_rate_all_subscribers_wait_for_the_slowest(per_packet: int) -> None:
    bench = Bench(per_packet, strategy="slowest_sub_rate", max_unacked=3)
    fast, slow = bench.subscribe(), bench.subscribe()
    bench.publish(10)
    assert bench.read(fast) == [0, 1, 2]
    assert slow.mailbox.length == 3
    assert bench.read(slow, 1) == [0]
    assert bench.read(fast) == [3]
    assert slow.mailbox.length == 3
    bench.topics.end(slow, "closed", bench.now_ns)
    bench.step()
    assert bench.read(fast) == [4, 5, 6, 7, 8, 9]


@statement(
    "broker.xml, deliveryTimeout",
    "wso2(delivery_timeout_s=60)",
    "at 60.000 s, also when nothing new comes; a late ack is counted",
)
@PER_PACKET
@pytest.mark.parametrize("max_unacked", [3, 1_000])
def test_with_discard_allowed_a_message_is_acknowledged_in_place_of_its_subscriber_after_the_delivery_timeout(
    per_packet: int, max_unacked: int
) -> None:
    bench = Bench(per_packet, strategy="discard_allowed", max_unacked=max_unacked, delivery_timeout_s=60)
    fast, slow = bench.subscribe(), bench.subscribe()
    for second in (0, 20, 40, 59):
        bench.now_ns = second * SECOND
        bench.publish(1)
        bench.read(fast)
    first = bench.take(slow)
    assert first is not None
    assert bench.topics.next_deadline() == 60 * SECOND
    bench.now_ns = 60 * SECOND - 1
    bench.step()
    assert (slow.mailbox.length, slow.discarded) == (4, 0)
    bench.now_ns = 60 * SECOND
    bench.step()
    assert (slow.mailbox.length, slow.discarded) == (3, 1)
    slow.mailbox.acknowledge(first)
    bench.step()
    assert (slow.mailbox.length, slow.late_acks) == (3, 1)
    bench.publish(1)
    assert bench.read(fast) == [4]
    assert (slow.mailbox.length, slow.discarded) == (4, 1)
    bench.now_ns = 119 * SECOND
    bench.step()
    assert bench.read(slow) == [4]
    bench.now_ns = HOUR
    bench.step()
    assert (slow.mailbox.length, slow.discarded, bench.topics.next_deadline()) == (0, 4, None)
    assert [(it["first"], it["last"]) for it in bench.of("discarded")] == [(1, 1), (2, 4)]


@statement("broker.xml, maxUnackedMessages", "wso2(max_unacked_messages=1000)", "1,000 of 1,001 for a subscriber")
@pytest.mark.gate
async def test_a_subscriber_has_at_most_max_unacked_messages_that_are_not_acknowledged(triack_world: World) -> None:
    settings = wso2(strategy="slowest_sub_rate")
    async with alone(triack_world, settings) as node, node.subscribe("Games.#", ack="manual") as reader:
        for at in range(1_001):
            await node.publish("Games.Chess", b"%d" % at)
        taken = [await reader.get() for _ in range(1_000)]
        last = asyncio.ensure_future(reader.get())
        await triack_world.advance(10)
        assert not last.done()
        taken[0].ack()
        assert (await last).body == b"1000"


@statement("Configuring the Message Delivery Strategy", "subscribe(durable=)", "all 3 of them; 1 of 3")
async def test_a_durable_subscription_recovers_what_was_published_while_it_was_away_and_another_loses_it(
    triack_world: World,
) -> None:
    async with alone(triack_world, wso2()) as node:
        for _ in range(2):
            async with node.subscribe("Games.#", durable="audit"), node.subscribe("Games.#"):
                pass
            await node.publish("Games.Chess", b"missed")
        async with node.subscribe("Games.#", durable="audit") as audit, node.subscribe("Games.#") as other:
            await node.publish("Games.Chess", b"last")
            assert (await other.get()).body == b"last"
            assert [(await audit.get()).body for _ in range(3)] == [b"missed", b"missed", b"last"]


@statement("broker.xml, allowSharedTopicSubscriptions", "subscribe(durable=, shared=True)", "one holder, or several")
async def test_a_durable_subscription_has_one_holder_unless_it_is_shared(triack_world: World) -> None:
    async with alone(triack_world, wso2()) as node:
        async with node.subscribe("Games.#", durable="one"):
            with pytest.raises(triack.SubscriptionBusy):
                node.subscribe("Games.#", durable="one")
        async with (
            node.subscribe("Games.#", durable="some", shared=True) as first,
            node.subscribe("Games.#", durable="some", shared=True) as second,
        ):
            for body in (b"1", b"2"):
                await node.publish("Games.Chess", body)
            assert {(await first.get()).body, (await second.get()).body} == {b"1", b"2"}


@statement("code of Andes", "", "9 of 10 never seen")
@PER_PACKET
def test_a_subscriber_gets_only_messages_that_arrived_after_it_subscribed(per_packet: int) -> None:
    """And no strategy asks it for room for the others."""
    bench = Bench(per_packet, strategy="slowest_sub_rate", max_unacked=3)
    slow = bench.subscribe()
    bench.publish(9)
    joiner = bench.subscribe(max_unacked=1)
    bench.publish(1)
    assert bench.read(joiner) == []
    assert bench.read(slow) == list(range(10))
    assert bench.read(joiner) == [9]


@statement("code of Andes", "subscriber.pause()", "8 of 12 missed, with each strategy")
@PER_PACKET
@pytest.mark.parametrize("strategy", ["discard_none", "slowest_sub_rate", "discard_allowed"])
def test_a_suspended_subscriber_is_skipped(per_packet: int, strategy: str) -> None:
    bench = Bench(per_packet, strategy=strategy, max_unacked=3)
    quick, other = bench.subscribe(), bench.subscribe()
    bench.publish(2)
    assert bench.read(other, 1) == [0]
    bench.topics.suspend(other, bench.now_ns)
    bench.publish(8)
    assert bench.read(quick) == list(range(10))
    assert (bench.take(other), other.mailbox.length) == (None, 1)
    bench.topics.resume(other, bench.now_ns)
    bench.publish(2)
    assert bench.read(quick) == [10, 11]
    assert bench.read(other) == [1, 10, 11]
    assert (
        other.mailbox.length,
        other.mailbox.size_bytes,
        other.mailbox.reader.done.gaps,
        bench.root.mailbox.length,
    ) == (0, 0, 0, 0)


@statement("code of Andes", "", "3 of 3, counted as no-subscriber")
def test_a_message_with_no_eligible_subscriber_is_dropped_and_deleted() -> None:
    bench = Bench(50)
    bench.subscribe("Games.Chess", durable="chess")
    bench.publish(3, delivery=Delivery.RECOVERABLE)
    bench.step()
    assert bench.drops[DropReason.NO_SUBSCRIBER] == 3
    assert not bench.rows
    assert bench.of("content_freed")[0]["reason"] == "nobody"


@statement("AMQSession, AndesAckWaitTimeOut", "wso2(ack_wait_s=60)", "60 s, exactly; a late ack is counted")
async def test_a_message_that_is_not_acknowledged_within_the_ack_wait_timeout_is_delivered_again(
    triack_world: World,
) -> None:
    async with alone(triack_world, wso2()) as node, node.subscribe("Games.#", ack="manual") as reader:
        await node.publish("Games.Chess", b"x")
        first, began = await reader.get(), triack_world.now
        await triack_world.until(lambda: node.stats().topics["Games"].subscriptions[0].redelivered)
        assert triack_world.now - began == pytest.approx(60, abs=0.1)
        again = await reader.get(3_600)
        first.ack()
        assert (again.redelivered, again.failures) == (True, 1)
        (shown,) = node.stats().topics["Games"].subscriptions
        assert shown.late_acks == 1


@statement(
    "broker.xml, maximumRedeliveryAttempts", "wso2(maximum_redelivery_attempts=10)", "11 tries, then a dead letter"
)
@pytest.mark.parametrize("where", ["queue", "subscription"])
async def test_a_message_goes_to_the_dead_letter_channel_after_ten_redelivery_attempts(
    triack_world: World, where: str
) -> None:
    async with alone(triack_world, wso2()) as node:
        reader = node.receive("q", ack="manual") if where == "queue" else node.subscribe("Games.#", ack="manual")
        async with reader:
            await (node.send("q", b"x") if where == "queue" else node.publish("Games.Chess", b"x"))
            for _ in range(11):
                assert node.queue_lengths().get("dead-letter", 0) == 0
                (await reader.get(3_600)).reject()
            await triack_world.until(lambda: node.queue_lengths().get("dead-letter") == 1)
