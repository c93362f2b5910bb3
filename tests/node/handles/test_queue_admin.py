"""Looking into the queues of a real node, and steering what waits there."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import triack
from tests.node.nodes import SOON, WAIT, Face, bodies, make, quick, until
from triack.node.handles.queue_admin import PAGE_MESSAGES
from triack.node.node import open_at_rest, port_of
from triack.queues.messages import Outgoing

NOBODY = "udp://127.0.0.1:9/orders"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    """One whose messages die with their first failure."""
    async with make("a", tmp_path / "node", settings=quick(max_redeliveries=0)) as node:
        yield node


async def seen(node: Face, queue: str) -> list[bytes]:
    return [message.body async for message in node.browse(queue)]


async def kill(node: triack.Node, queue: str, *messages: bytes) -> None:
    """Let messages fail until they are dead."""
    for body in messages:
        await node.send(queue, body, label="l", time_to_be_received=60)
    async with node.receive(queue, ack="manual") as reader:
        for _ in messages:
            (await reader.get(WAIT)).reject()
    await node.flush()


async def test_dead_letters_are_looked_at_and_sent_again(node: triack.Node, face: Face) -> None:
    """As the issue with a handler that was mended: why, from where, how often; and once more each."""
    await kill(node, "orders", b"1", b"2", b"3")
    letters = [message async for message in face.browse("dead-letter")]
    assert [(it.body, it.reason, it.destination, it.attempts) for it in letters] == [
        (body, "max-redeliveries", "orders", 1) for body in (b"1", b"2", b"3")
    ]
    assert await seen(face, "dead-letter") == [b"1", b"2", b"3"]
    assert await face.requeue([letters[1].id]) == 1
    assert await seen(face, "dead-letter") == [b"1", b"3"]
    assert await face.requeue() == 2
    async with face.receive("orders") as reader:
        again = [await reader.get(WAIT) for _ in range(3)]
    assert [(it.body, it.properties, it.failures) for it in again] == [
        (b, {"label": "l"}, 0) for b in (b"2", b"1", b"3")
    ]
    assert node.queue_lengths()["dead-letter"] == 0


async def test_what_is_sent_again_or_moved_keeps_its_priority(node: triack.Node) -> None:
    """A class that has priorities carries it; what is transactional stays so."""
    for priority in (0, 2, 7):
        await node.send("orders", b"%d" % priority, delivery=triack.RECOVERABLE, priority=priority)
    async with node.receive("orders", ack="manual") as reader:
        for _ in range(3):
            (await reader.get(WAIT)).reject(dead=True)
    await node.flush()
    letters = [(it.body, it.priority) async for it in node.browse("dead-letter")]
    assert letters == [(b"7", 7), (b"2", 2), (b"0", 0)]
    assert await node.requeue() == 3
    waiting = [(it.body, it.priority, it.delivery) async for it in node.browse("orders")]
    assert waiting == [(b"7", 7, triack.RECOVERABLE), (b"2", 2, triack.RECOVERABLE), (b"0", 0, triack.TRANSACTIONAL)]
    assert await node.move("orders", "other") == 3
    assert [(it.body, it.priority) async for it in node.browse("other")] == [(b"7", 7), (b"2", 2), (b"0", 0)]


async def test_what_was_moved_to_the_dead_letters_stays_when_they_are_sent_again(node: triack.Node) -> None:
    """It never was on its way anywhere; named, it is refused."""
    await node.send("other", b"moved")
    await node.move("other", "dead-letter")
    await kill(node, "orders", b"1")
    (moved, _) = [message async for message in node.browse("dead-letter")]
    assert await node.requeue() == 1
    assert (await seen(node, "dead-letter"), await seen(node, "orders")) == ([b"moved"], [b"1"])
    with pytest.raises(triack.UsageError, match="no dead letter of a node, and has no destination"):
        await node.requeue([moved.id])


@pytest.mark.gate
async def test_what_may_have_arrived_is_sent_again_only_on_demand(tmp_path: Path) -> None:
    """Its acknowledgement is missing as its time ends: it has arrived, and would arrive twice."""
    async with make("b", tmp_path / "b", scheme="udp") as b, make("a", tmp_path / "a") as a:
        await (await a.send(f"{b.address}/q", b"first")).ordered()
        to = f"{b.address}/q"
    async with make("a", tmp_path / "a") as a:
        await a.send(to, b"nobody is there", time_to_reach_queue=0.2)
        await until(lambda: a.queue_lengths().get("dead-letter") == 1)
        (sure,) = [message async for message in a.browse("dead-letter")]
        assert not sure.maybe_delivered
    async with make("a", tmp_path / "a") as a:
        await a.send(to, b"sent in another life", time_to_reach_queue=3)
    async with make("a", tmp_path / "a") as a:
        await until(lambda: a.queue_lengths()["dead-letter"] == 2)
        letters = {message.maybe_delivered: message.id async for message in a.browse("dead-letter")}
        with pytest.raises(triack.UsageError, match="it may have arrived, and would arrive twice"):
            await a.requeue([letters[True]])
        assert await a.requeue() == 1
        assert [it.id async for it in a.browse("dead-letter")] == [letters[True]]
        async with triack.connect(tmp_path / "a") as client:
            assert await client.requeue(maybe_delivered=True) == 1


@pytest.mark.parametrize(("why", "what"), [({}, "sealed"), ({"dead_part": 4_000}, "part of a large message")])
async def test_what_a_relay_cannot_read_is_not_sent_again(node: triack.Node, why: dict[str, int], what: str) -> None:
    engine = port_of(node).engine  # as a relay writes it
    properties = {"dead_reason": "purged", "dead_destination": "b/q", "dead_unread": 1}
    turn = engine.jobs.turn(time.monotonic_ns())
    engine.queues.put_dead_letter(Outgoing(bytes(9), {**properties, **why}), bytes(16), 7, turn)
    await node.flush()
    (letter,) = [message async for message in node.browse("dead-letter")]
    assert await node.requeue() == 0
    with pytest.raises(triack.UsageError, match=f"cannot read it: it is {what}"):
        await node.requeue([letter.id])


async def test_others_have_their_turn_between_two_pages(node: triack.Node) -> None:
    """Also when all is in memory, and nothing has to be waited for."""
    await node.send_many("orders", [b"x"] * (3 * PAGE_MESSAGES))
    await node.flush()
    turns: list[int] = []
    seen = 0

    async def count() -> None:
        while True:
            turns.append(seen)
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    async for _ in node.browse("orders"):
        seen += 1
    other.cancel()
    assert {PAGE_MESSAGES, 2 * PAGE_MESSAGES} <= set(turns)


async def test_messages_move_between_queues_with_all_that_they_have(node: triack.Node, face: Face) -> None:
    sent = [b"%d" % number for number in range(2 * PAGE_MESSAGES + 10)]
    for body in sent:
        await node.send("orders", body, headers={"a": "b"})
    reader = face.receive("orders")
    assert (await reader.get(WAIT)).body == b"0"
    assert await face.move("orders", "later") == len(sent) - 1
    assert node.queue_lengths() == {"dead-letter": 0, "later": len(sent) - 1, "orders": 1}
    async with face.receive("later") as other:
        found = [await other.get(WAIT) for _ in sent[1:]]
    assert [it.body for it in found] == sent[1:]
    assert {str(it.headers) for it in found} == {str({"a": "b"})}
    # Into itself: all of it once, and it ends.
    await kill(node, "orders", b"y", b"z")
    assert await face.move("dead-letter", "dead-letter") == 2
    assert await seen(face, "dead-letter") == [b"y", b"z"]


async def test_no_message_makes_no_queue(node: triack.Node) -> None:
    """If there is nothing to move, no queue is made; the destination is checked all the same."""
    await node.send("orders", b"x")
    for destination in ("later", NOBODY):
        assert await node.move("orders", destination, ["nope"]) == 0
        assert await node.move("dead-letter", destination) == 0
        with pytest.raises(triack.AddressError):
            await node.move("dead-letter", "nobody/orders")
    assert (node.queue_lengths(), node.stats().outgoing) == ({"dead-letter": 0, "orders": 1}, [])


async def test_purged_messages_are_gone_or_dead_letters(node: triack.Node, face: Face) -> None:
    """Gone from queues of the node; dead when they were on their way elsewhere, and then they can go again."""
    for number in range(3):
        await node.send("orders", b"%d" % number)
        await node.send(NOBODY, b"away %d" % number)
    await node.flush()
    second = [message async for message in face.browse("orders")][1]
    assert await face.purge("orders", [second.id]) == 1
    assert await seen(face, "orders") == [b"0", b"2"]
    assert await face.purge("orders") == 2
    assert await seen(face, NOBODY) == [b"away 0", b"away 1", b"away 2"]
    with pytest.raises(triack.UsageError, match="purge all of it"):
        await face.purge(NOBODY, ["x"])
    with pytest.raises(triack.UsageError, match="is on its way to another node"):
        await face.move(NOBODY, "orders")
    assert await face.purge(NOBODY) == 3
    letters = [message async for message in face.browse("dead-letter")]
    assert {(it.reason, it.destination) for it in letters} == {("purged", NOBODY)}
    assert node.stats().outgoing[0].messages == 0
    assert await face.requeue() == 3
    assert await seen(face, NOBODY) == [b"away 0", b"away 1", b"away 2"]


async def test_nothing_is_done_with_names_that_do_not_exist(node: triack.Node) -> None:
    await node.send("orders", b"x")
    with pytest.raises(triack.QueueNotFound, match="no queue ordres; did you mean orders"):
        await seen(node, "ordres")
    with pytest.raises(triack.QueueNotFound, match=r"there is dead-letter, orders"):
        await node.purge("udp://127.0.0.1:9/q")
    with pytest.raises(triack.QueueNotFound):
        await node.move("a b", "orders")
    with pytest.raises(triack.UsageError, match="must be a list of texts, not 'an-id'"):
        await node.purge("orders", "an-id")
    with pytest.raises(triack.UsageError, match="text"):
        await seen(node, None)  # type: ignore[arg-type]
    assert await node.requeue(["x"]) == 0
    with pytest.raises(triack.NodeClosed):
        make().browse("orders")


@pytest.mark.gate
async def test_a_directory_at_rest_is_steered_and_sends_nothing(tmp_path: Path) -> None:
    """Dead letters that are sent again there go out when the node runs."""
    async with make("b", scheme="udp") as b:
        async with make("a", tmp_path, settings=quick(max_redeliveries=0, close_timeout_s=0.0)) as node:
            await (await node.send(f"{b.address}/orders", b"first")).ordered(WAIT)
            await node.send(f"{NOBODY}", b"away")
            await kill(node, "orders", b"1")
        async with open_at_rest(tmp_path) as rest:
            assert await seen(rest, NOBODY) == [b"away"]
            assert await rest.requeue() == 1
            assert await rest.move("orders", f"{b.address}/orders") == 1
            assert rest.stats().sessions == []
        assert b.queue_lengths()["orders"] == 1
        async with make("a", tmp_path):
            assert await bodies(b, "orders", 2) == [b"first", b"1"]
    with pytest.raises(triack.UsageError, match="there is no node in"):
        open_at_rest(tmp_path / "typo")
    assert not (tmp_path / "typo").exists()


async def test_a_node_with_keys_is_steered_at_rest_by_what_it_trusts(tmp_path: Path) -> None:
    """Its peers are where its directory says; a node that is not listed there is no destination."""
    async with triack.open("a", data=tmp_path, settings=quick(max_redeliveries=0)) as node:
        await kill(node, "orders", b"1")
    async with open_at_rest(tmp_path) as rest:
        with pytest.raises(triack.AddressError):
            await rest.move("dead-letter", "stranger/orders")
        assert await rest.requeue() == 1
        assert await seen(rest, "orders") == [b"1"]


async def test_readers_wait_while_their_queue_is_paused(node: triack.Node) -> None:
    """A message in hand stays there. Nothing comes by its id, or into a transaction, either."""
    sent = await node.send_many("orders", [b"1", b"2"])
    async with node.receive("orders", ack="manual") as reader:
        first = await reader.get(WAIT)
        await node.pause("orders")
        async with node.transaction() as tx:
            for wait in (reader.get(SOON), reader.get_by_id(sent[1].id), tx.receive("orders", timeout=SOON)):
                with pytest.raises(triack.WaitTimeout):
                    await wait
        first.ack()
        waiting = asyncio.create_task(reader.get(WAIT))
        await node.resume("orders")
        assert (await waiting).body == b"2"


async def test_a_queue_is_paused_and_limited_before_its_first_message(tmp_path: Path) -> None:
    """A topic is as well. The pauses and the quotas outlive the process."""
    names = "orders", "topic:Games"
    async with make("a", tmp_path) as node:
        for name in names:
            await node.pause(name, arrivals=name == "orders")
            await node.set_quota(name, messages=2)
        assert node.stats().queues["orders"].paused_s is not None
    async with make("a", tmp_path) as node, node.subscribe("Games.#", durable="audit") as audit:
        with pytest.raises(triack.WouldBlock):
            node.send_nowait("orders", b"1")
        await node.publish("Games.Go", b"2")
        with pytest.raises(triack.WaitTimeout):
            await audit.get(SOON)
        assert [await node.resume(name) for name in names] == [True, True]
        assert (await audit.get(WAIT)).body == b"2"
        for name in names:
            await node.send_many(name, [b"3", b"4"], until="queued")
            with pytest.raises(triack.WouldBlock):
                node.send_nowait(name, b"5")


async def test_a_fixed_set_of_queues_has_no_others_to_pause() -> None:
    async with make(queues=["orders"]) as node:
        for work in (node.pause("ordres"), node.set_quota("ordres", messages=1)):
            with pytest.raises(triack.QueueNotFound, match="did you mean orders"):
                await work


async def test_what_cannot_be_paused_is_named(node: triack.Node) -> None:
    await node.send("orders", b"1")
    for name, arrivals, error, what in (
        ("topic:Games.Go", False, triack.UsageError, "one queue: name topic:Games"),
        ("dead-letter", False, triack.UsageError, "the node itself works with that queue"),
        ("nowhere/orders", False, triack.AddressError, "nowhere"),
        (NOBODY, True, triack.UsageError, "only a queue of this node has arrivals"),
        (7, False, triack.UsageError, "pause 7: the name of a queue is text"),
    ):
        with pytest.raises(error, match=what):
            await node.pause(name, arrivals=arrivals)  # type: ignore[arg-type]
    assert not await node.resume("orders")
    for work in (node.resume("ordres"), node.set_quota("ordres")):
        with pytest.raises(triack.QueueNotFound, match="no queue ordres of this node; did you mean orders"):
            await work


async def test_what_routes_lead_to_is_paused_by_its_name(tmp_path: Path) -> None:
    """No queue of that name is made, and no drain waits. What a pattern leads to may be a queue, so it has a stroke."""
    routes = [triack.Route("cloud", via="hub"), triack.Route("*", via="hub")]
    async with triack.open("a", data=tmp_path, routes=routes) as node, triack.open("hub", data=None) as hub:
        await node.trust("hub", hub.key)
        for name in ("cloud", "plant-b/"):
            await node.pause(name)
            await node.send(f"{name.removesuffix('/')}/orders", b"1")
        await node.drain(WAIT)
        assert [it.paused_s is None for it in node.stats().outgoing] == [False, False]
        assert list(node.stats().queues) == ["dead-letter"]
        assert await node.resume("cloud")


async def test_dead_letters_are_sent_again_by_reason_and_age(node: triack.Node) -> None:
    """Of the system's queue, or of one that their sender has chosen."""
    await kill(node, "orders", b"1")
    await node.send("orders", b"2", dead_letter="mine", label="l")
    async with node.receive("orders", ack="manual") as reader:
        (await reader.get(WAIT)).reject(dead=True)
    await node.flush()
    assert await node.requeue(reason="max-redeliveries", older_than=3_600) == 0
    assert await node.requeue(reason="purged") == 0
    assert await node.requeue(queue="mine", reason="reader-refused", older_than=0) == 1
    assert await seen(node, "orders") == [b"2"]
    assert await node.requeue(reason="max-redeliveries") == 1
    async with node.receive("orders") as reader:
        again = await reader.get(WAIT)
        assert again.properties == {"label": "l", "dead_letter": "mine"}
    with pytest.raises(triack.QueueNotFound):
        await node.requeue(queue="nowhere")


async def test_a_purge_is_told_to_the_sender_and_a_move_is_not(node: triack.Node) -> None:
    """Of the messages that asked for it; one that is moved is another message, of this node."""
    acks = triack.Acks.NOT_ACKNOWLEDGE_RECEIVE | triack.Acks.POSITIVE_RECEIVE
    await node.send("orders", b"0", admin_queue="acks", acks=acks)
    assert await node.move("orders", "others") == 1
    async with node.receive("others") as reader:
        assert (await reader.get(WAIT)).properties == {}
    await node.send("orders", b"1", admin_queue="acks", acks=acks)
    await node.send("orders", b"2")
    assert await node.purge("orders") == 2
    async with node.receive("acks") as reader:
        told = await reader.get(WAIT)
    assert (told.message_class, told.body, told.reply_to) == (triack.MessageClass.QUEUE_PURGED, b"1", "orders")
    assert node.queue_lengths()["acks"] == 0
    assert node.stats().admin_acks == {"queue-purged": 1}
