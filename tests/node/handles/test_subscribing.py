"""Publishing and subscribing on a real node."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, Face, make
from triack.node.client.client_consumer import ClientSubscriber


async def read(subscriber: triack.Subscriber | ClientSubscriber, count: int) -> list[bytes]:
    return [(await subscriber.get(WAIT)).body for _ in range(count)]


async def test_each_subscription_gets_each_message_that_matches_once() -> None:
    async with make() as node, node.subscribe("Games.#") as one, node.subscribe("Games.*") as other:
        for delivery in triack.Delivery:
            await node.publish("Games.Cricket", delivery.label.encode(), delivery=delivery)
            await node.flush()
        await node.publish("Games.Cricket.Scores", b"deep", label="l")
        await node.publish("Plays.Hamlet", b"other")
        assert await read(one, 3) == await read(other, 3)
        last = await one.get(WAIT)
        assert (last.body, last.topic, last.label) == (b"deep", "Games.Cricket.Scores", "l")


async def test_a_durable_subscription_gets_all_that_came_while_nobody_read_it(tmp_path: Path) -> None:
    async with make(data=tmp_path) as node:
        async with node.subscribe("Games.#", durable="audit") as audit:
            await node.publish("Games.Cricket", b"1", until="queued")
            assert await read(audit, 1) == [b"1"]
        await node.publish("Games.Cricket", b"2", until="queued")
        await node.publish("Games.Cricket", b"y" * 100_000, until="queued")
    async with make(data=tmp_path) as node:
        await node.publish("Games.Cricket", b"3")
        async with node.subscribe("Games.#", durable="audit") as audit:
            assert await read(audit, 3) == [b"2", b"y" * 100_000, b"3"]
        await node.flush()
        assert node.stats().topics["Games"].messages == 0


async def test_a_paused_reader_takes_nothing_and_a_durable_subscription_keeps_it(node: triack.Node, face: Face) -> None:
    async with (
        face.subscribe("Games.#") as one,
        face.subscribe("Games.#", durable="audit") as audit,
        face.subscribe("Games.#") as other,
    ):
        waiting = asyncio.create_task(audit.get(WAIT))
        await asyncio.sleep(0)
        for reader in (one, audit):
            await reader.pause()
            await reader.pause()
        await node.publish("Games.Cricket", b"1")
        assert await read(other, 1) == [b"1"]
        with pytest.raises(triack.WaitTimeout):
            await one.get(0)
        assert not waiting.done()
        shown = node.stats().topics["Games"].subscriptions
        assert [it.suspended for it in shown] == [True, False, False]
        for reader in (one, audit):
            await reader.resume()
        await node.publish("Games.Cricket", b"2")
        assert await read(one, 1) == [b"2"]
        assert [(await waiting).body, *await read(audit, 1)] == [b"1", b"2"]


async def test_a_subscription_may_end_while_its_reader_is_paused(node: triack.Node, face: Face) -> None:
    async with face.subscribe("Games.#", durable="audit") as audit:
        await audit.pause()
        await face.unsubscribe("audit")
        await audit.resume()
        with pytest.raises(triack.SubscriptionEnded):
            await audit.get(WAIT)
        audit.close()
        with pytest.raises(triack.NodeClosed):
            await audit.pause()


async def test_a_transaction_receives_from_a_subscription(node: triack.Node, face: Face) -> None:
    async with face.subscribe("Games.#", durable="audit"):
        await node.publish("Games.Cricket", b"1")
        tx = face.transaction()
        message = await tx.receive("topic:Games.#/audit", WAIT)
        await tx.rollback(failed=False)
        async with face.transaction() as tx:
            again = await tx.receive(message.queue, WAIT)
            await tx.send("topic:Games.Chess", b"2")
        assert (again.id, again.redelivered) == (message.id, True)
        async with face.transaction() as tx:
            assert (await tx.receive(message.queue, WAIT)).topic == "Games.Chess"


async def test_the_end_of_a_subscription_reaches_its_reader_and_its_transaction(node: triack.Node, face: Face) -> None:
    async with face.subscribe("Games.#", durable="audit") as audit:
        await node.publish("Games.Cricket", b"1")
        tx = face.transaction()
        await tx.receive("topic:Games.#/audit", WAIT)
        waiting = asyncio.create_task(audit.get())
        await asyncio.sleep(0)
        await face.unsubscribe("audit")
        with pytest.raises(triack.SubscriptionEnded):
            await waiting
        with pytest.raises(triack.SubscriptionEnded):
            await tx.commit()
        with pytest.raises(triack.QueueNotFound, match="there is no such subscription"):
            await face.unsubscribe("audit")


async def test_a_dead_letter_of_a_subscription_is_moved_and_not_sent_again() -> None:
    async with make() as node, node.subscribe("Games.#", durable="audit", ack="manual") as audit:
        await node.publish("Games.Cricket", b"1")
        (await audit.get(WAIT)).reject(dead=True)
        await node.flush()
        (letter,) = [it async for it in node.browse("dead-letter")]
        assert letter.destination == "topic:Games.Cricket"
        assert await node.requeue() == 0
        with pytest.raises(triack.UsageError, match="it came by subscription audit: move it to a queue"):
            await node.requeue([letter.id])
        assert await node.move("dead-letter", "q") == 1


async def test_what_waits_for_a_subscription_is_browsed_and_purged_and_a_topic_is_not() -> None:
    async with make() as node, node.subscribe("Games.#", durable="audit"), node.subscribe("Games.#", durable="b"):
        await node.publish("Games.Cricket", b"1")
        assert [it.body async for it in node.browse("topic:Games.#/audit")] == [b"1"]
        assert [it.body async for it in node.browse("topic:Games")] == [b"1"]
        with pytest.raises(triack.UsageError, match="each of its subscriptions has its own messages"):
            await node.purge("topic:Games")
        assert await node.purge("topic:Games.#/audit") == 1
        pending = {one.name: one.pending for one in node.stats().topics["Games"].subscriptions}
        assert pending == {"audit": 0, "b": 1}


@pytest.mark.parametrize(
    ("pattern", "more"),
    [
        *((pattern, {}) for pattern in ("", "#", "*.Cricket", "Games.#.Scores", "Games..Cricket")),
        *(("Games.#", {"durable": name}) for name in ("a b", "$1")),
        *(("Games.#", {"max_unacked": most}) for most in (0, 1 << 70)),
        *(("Games.#", more) for more in ({"shared": True}, {"ack_wait_s": 0}, {"ack": "never"})),
    ],
)
async def test_arguments_that_make_no_subscription_are_refused(pattern: str, more: dict[str, object]) -> None:
    async with make() as node:
        with pytest.raises(triack.UsageError):
            node.subscribe(pattern, **more)  # type: ignore[arg-type]
        assert not node.stats().topics.get("Games")


async def test_a_node_with_a_fixed_set_of_queues_has_the_topics_in_it() -> None:
    async with make(queues=["topic:Games"]) as node, node.subscribe("Games.#") as reader:
        await node.publish("Games.Cricket", b"1")
        assert await read(reader, 1) == [b"1"]
        with pytest.raises(triack.QueueNotFound):
            node.subscribe("Plays.#")
        with pytest.raises(triack.QueueNotFound):
            await node.publish("Plays.Hamlet", b"1")


async def test_a_message_of_a_subscription_is_not_chosen() -> None:
    async with make() as node, node.subscribe("Games.#") as reader:
        receipt = await node.publish("Games.Cricket", b"1", until="queued")
        with pytest.raises(triack.UsageError, match="only come in their order"):
            await reader.get_by_id(receipt.id)
        assert await read(reader, 1) == [b"1"]


async def test_one_name_is_one_subscription_here_whatever_node_has_its_topics() -> None:
    async with make("hub", scheme="memory"), make("sub", peers={"hub": "memory://hub"}) as sub:
        async with sub.subscribe("hub/topic:Games.#", durable="audit"):
            with pytest.raises(triack.SubscriptionBusy):
                sub.subscribe("hub/topic:Games.#", durable="audit")
            with pytest.raises(triack.SubscriptionMismatch, match="unsubscribe audit first"):
                sub.subscribe("hub/topic:Games.*", durable="audit")
            with pytest.raises(triack.SubscriptionMismatch, match="to topics of another node"):
                sub.subscribe("Games.*", durable="audit")
        with pytest.raises(triack.AddressError, match="unknown peer"):
            sub.subscribe("nobody/topic:Games.#")
        with pytest.raises(triack.AddressError, match="must not begin with"):
            sub.subscribe("hub/topic:Games.#", durable="$audit")
