"""A client, its consumers, transactions and uploads."""

import asyncio
import os
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import triack
import triack.sync
from tests.node.nodes import SOON, WAIT, alive, cancel_at_every_turn, make, until
from triack.node.client import connection
from triack.node.client.client import Client
from triack.node.control import calls, control_frames
from triack.node.handles.consumer import Consumer
from triack.node.handles.message import Message
from triack.node.handles.transaction import Transaction
from triack.node.node import port_of
from triack.queues.messages import MAX_BODY_BYTES

# Another process uses a node: over a real socket, but in the same loop: processes are in stories.


async def test_a_client_knows_its_node(node: triack.Node, client: Client) -> None:
    assert (client.name, client.address, client.node_id) == ("a", node.address, node.node_id)
    await node.flush()
    told = before = None
    async with asyncio.timeout(WAIT):
        while before != (before := replace(node.stats(), store_busy_s=None)):  # until a commit of the start has ended
            told = replace(await client.stats(), store_busy_s=None)
    assert told == before
    assert await client.queue_lengths() == node.queue_lengths()


@pytest.mark.gate
async def test_more_queues_than_a_frame_takes_are_listed(
    node: triack.Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts; those for which nobody waits any more are nobody's."""
    for number in range(100):
        await node.send(f"queue-{number}", b"x")
    await node.flush()
    monkeypatch.setattr(control_frames, "FRAME_BYTES_MAX", 1_000)
    monkeypatch.setattr(calls, "PART_BYTES", 500, raising=False)
    assert await client.queue_lengths() == node.queue_lengths()
    assert len((await client.stats()).queues) == 101
    asked = asyncio.create_task(client.stats())
    await asyncio.sleep(0)
    asked.cancel()
    assert await client.queue_lengths() == node.queue_lengths()


def ageless(stats: triack.NodeStats) -> triack.NodeStats:
    """Without the states of streams, which say how long ago something was."""
    return replace(stats, streams=triack.StreamsStats())


async def test_what_a_client_sends_is_the_nodes(node: triack.Node, client: Client) -> None:
    """With all that it set, the same id, and each stage to wait for."""
    async with make("b", scheme="udp") as b:
        receipt = await client.send(f"{b.address}/q", b"x" * 70_000, label="l", headers={"a": "b"})
        for stage in triack.Stage:
            await receipt.reached(stage, WAIT)
        await receipt.ordered(WAIT)
        message = await b.receive("q").get(WAIT)
    assert (message.id, message.body, message.label, message.headers) == (receipt.id, b"x" * 70_000, "l", {"a": "b"})
    assert message.id.startswith(node.node_id)
    async with asyncio.timeout(WAIT):
        while ageless(stats := await client.stats()) != ageless(node.stats()):
            pass  # the store was busy while one of them looked
    assert stats.links
    assert [it.queue for it in stats.streams.outgoing] == ["q"]


async def test_a_drain_waits_for_all_that_the_node_has(node: triack.Node, client: Client) -> None:
    """It covers the messages of the node and of the client. If it takes too long, the error says what is left."""
    async with make("b", scheme="udp") as b:
        await node.send(f"{b.address}/q", b"1")
        await client.send(f"{b.address}/q", b"2")
        await client.drain(WAIT)
        assert b.queue_lengths()["q"] == 2
    await (await client.send("udp://127.0.0.1:9/q", b"x")).queued(WAIT)
    with pytest.raises(
        triack.WaitTimeout,
        match=r"^still 1 message .* on the way from node a after 0\.01 s: no \w+ \w+ at udp://127\.0\.0\.1:9$",
    ):
        await client.drain(0.01)
    with pytest.raises(triack.UsageError, match=r"^drain: timeout must be"):
        await client.drain(-1)


async def test_questions_and_answers(node: triack.Node, client: Client, tmp_path: Path) -> None:
    """One process asks, another answers; what is cancelled here is cancelled there."""
    async with triack.connect(tmp_path / "a") as other:
        asking = asyncio.create_task(client.request("questions", b"1", timeout=WAIT, label="l"))
        async with client.transaction() as tx:
            question = await tx.receive("questions", WAIT)
            assert (question.label, question.sender) == ("l", "")
            await tx.reply(question, b"one")
        answer = await asking
        answer.ack()  # it is done already
        assert answer.body == b"one"
        asking = asyncio.create_task(client.request("questions", b"2", timeout=WAIT))
        question = await other.receive("questions").get(WAIT)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await client.flush()
        await other.reply(question, b"two")
        await until(lambda: node.stats().drops.get("late-answer") == 1)
        with pytest.raises(triack.RequestTimeout, match="no answer to a request to nobody after"):
            await client.request("nobody", b"3", timeout=0.05)


async def test_what_cannot_be_said_to_the_node_is_named(node: triack.Node, client: Client) -> None:
    any_client: Any = client
    transaction = any_client.transaction()
    nested: list[Any] = []
    nested.append(nested)
    for call, why in (
        (any_client.send("q", b"x", label=b"x"), "send: label is of a wrong type: b'x'"),
        (any_client.send("q", b"x", headers={"a": nested}), "send: a is of a wrong type: "),
        (any_client.send_many("q", 5), "send to q: bodies must be an Iterable, not 5"),
        (any_client.move({"q"}, "p"), "move: queue must be text, not set"),
        (any_client.purge("q", 5), "ids of messages must be a list of texts, not 5"),
        (any_client.acknowledgements("q", handler=5), "handler must be a Callable, not 5"),
    ):
        with pytest.raises(triack.UsageError, match=re.escape(why)):
            await asyncio.wait_for(call, WAIT)
    with pytest.raises(triack.UsageError, match="remember 'k': keys are text"):
        transaction.remember("k", "text")
    with pytest.raises(TypeError, match=r"recall\(\): missing a required argument: 'key'"):
        await any_client.recall()
    with pytest.raises(TypeError, match=r"purge\(\): got an unexpected keyword argument 'size'"):
        await any_client.purge("q", size=1)
    await client.flush()


async def test_a_client_is_used_in_its_own_event_loop_only(node: triack.Node, client: Client) -> None:
    """In another loop its answers would never come: the call raises instead."""
    await client.send("q", b"x")
    message = await client.receive("q", ack="manual").get(WAIT)
    for elsewhere in (lambda: asyncio.run(client.flush()), message.ack):
        with pytest.raises(triack.UsageError, match=r"the client of .* belongs to the event loop in which"):
            await asyncio.to_thread(elsewhere)
    message.ack()
    await client.flush()
    assert node.queue_lengths()["q"] == 0


async def test_nobody_there_is_said(tmp_path: Path) -> None:
    client = triack.connect(tmp_path / "a")
    with pytest.raises(triack.NodeClosed, match=f"connect to the node of {tmp_path}/a: no process runs one there"):
        await client.start()
    with pytest.raises(triack.NodeClosed, match="was not started"):
        await client.flush()


async def test_a_client_connects_once_at_a_time(node: triack.Node, client: Client) -> None:
    """A second start would leave the first connection to nobody; after its end it may connect again."""
    with pytest.raises(triack.UsageError, match="it is connected already"):
        await client.start()
    await client.close()
    async with client:
        assert client.node_id == node.node_id


async def test_a_node_that_ends_ends_every_call(tmp_path: Path) -> None:
    """So does a client that is closed. No caller is left waiting."""
    async with make("a", tmp_path / "a"):
        client = await triack.connect(tmp_path / "a", patience=0).start()
        events = await client.events()
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(client.receive("q").get()) for _ in range(2)]
        waiting.append(asyncio.create_task(anext(events)))
        await asyncio.sleep(SOON)
    for call in (*waiting, anext(events), client.send("q", b"x")):
        with pytest.raises(triack.NodeClosed, match="ended"):
            await asyncio.wait_for(call, WAIT)
    await client.close()
    await client.close()


async def test_a_client_says_whose_it_is(node: triack.Node, client: Client, tmp_path: Path) -> None:
    """At a prompt; so do what it lends, and one that is not connected."""
    receipt = await client.send("q", b"x")
    shown = [client, receipt, client.receive("q"), client.transaction(), triack.connect(tmp_path / "b")]
    assert [repr(one) for one in shown] == [
        f"<Client of node {node.name}>",
        f"<ClientReceipt of message {receipt.id}>",
        "<ClientConsumer of queue q>",
        "<ClientTransaction, open>",
        f"<Client of the node of {tmp_path / 'b'}, not connected>",
    ]


async def test_who_has_too_many_calls_waits_until_one_ends_or_is_cancelled(
    node: triack.Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here: at the node nothing that comes behind one call too many would be heard."""
    for module in (calls, connection):
        monkeypatch.setattr(module, "CALLS_MAX", 2)
    async with triack.connect(tmp_path / "a") as client:
        reader = client.receive("empty")
        first, second = (asyncio.create_task(reader.get()) for _ in range(2))
        await until(lambda: "empty" in node.queue_lengths())
        third = asyncio.create_task(client.stats())
        await asyncio.sleep(0)
        first.cancel()
        assert "empty" in (await asyncio.wait_for(third, WAIT)).queues
        second.cancel()


async def read_once(client: Client) -> None:
    await client.receive("q").get()


async def receive_once(client: Client) -> None:
    async with client.transaction() as tx:
        await tx.receive("q")


@pytest.mark.parametrize(("kind", "begin"), [(Consumer, read_once), (Transaction, receive_once)])
async def test_a_call_that_is_cancelled_at_once_leaves_nothing_behind(
    node: triack.Node, client: Client, kind: type, begin: Callable[[Client], Coroutine[Any, Any, None]]
) -> None:
    """A service may give up its first wait a million times."""
    before = alive(kind)
    await cancel_at_every_turn(lambda: begin(client))
    await until(lambda: alive(kind) <= before)


async def test_an_answer_for_which_nobody_waits_any_more_goes_to_the_next(node: triack.Node, client: Client) -> None:
    """At whatever turn of the loop the wait is cancelled, and while its reader goes on."""
    reader = client.receive("q", ack="manual")
    for turns in range(40):
        await node.send("q", b"x")
        waiting = asyncio.create_task(reader.get(WAIT))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        async with node.receive("q", ack="manual") as other:
            message = await other.get(WAIT) if waiting.cancelled() else waiting.result()
            message.ack()
        await client.flush()
    assert node.queue_lengths()["q"] == 0


async def test_who_asks_twice_at_once_is_one_reader(node: triack.Node, client: Client) -> None:
    """So that its end gives back all that it holds, as no failure."""
    await node.send_many("q", [b"1", b"2"])
    async with client.receive("q", ack="manual") as reader:
        held = await asyncio.gather(reader.get(WAIT), reader.get(WAIT))
    assert sorted(message.body for message in held) == [b"1", b"2"]
    async with node.receive("q") as other:
        again = [await other.get(WAIT) for _ in range(2)]
    assert [(it.body, it.redelivered, it.failures) for it in again] == [(b"1", True, 0), (b"2", True, 0)]


@pytest.mark.slow
async def test_a_list_is_no_longer_than_a_frame(node: triack.Node, client: Client) -> None:
    """By the properties of its messages, too, be it a reader's or a transaction's."""
    await node.send_many("q", [b"hi"] * 1_000, headers={f"h{at}": "x" * 1_000 for at in range(10)})
    await node.flush()
    got = 0
    async with client.receive("q") as reader:
        while got < 300:
            got += len(await reader.get_many(timeout=WAIT))
    async with client.transaction() as tx:
        got += len(await tx.receive_many("q", timeout=WAIT))
    await client.flush()
    assert node.queue_lengths()["q"] == 1_000 - got


async def test_what_a_reader_leaves_unsettled_is_in_its_queue_alone(node: triack.Node, client: Client) -> None:
    """A connection may outlive thousands of readers."""
    await node.send_many("q", [b"x"] * 10)
    before = alive(Message)
    for _ in range(3):
        async with client.receive("q", ack="manual") as reader:
            assert len(await reader.get_many(10, WAIT)) == 10
    await client.flush()
    assert alive(Message) == before
    assert node.queue_lengths()["q"] == 10


# Large messages over a client: sent, read and saved in another process's node, and freed with the connection.

BODY = os.urandom(MAX_BODY_BYTES + 500_000)


async def read(message: triack.Message) -> bytes:
    return b"".join([chunk async for chunk in message.stream()])


@pytest.mark.gate
async def test_a_client_sends_and_reads_a_large_message(tmp_path: Path) -> None:
    async with triack.open("a", data=tmp_path / "a") as node, triack.connect(tmp_path / "a") as client:
        receipt = await client.send_stream("q", iter([BODY]), content_length=len(BODY), label="film")
        await receipt.ordered()
        async with client.receive("q", ack="manual") as reader:
            message = await reader.get()
            assert (message.id, message.label, message.size) == (receipt.id, "film", len(BODY))
            with pytest.raises(triack.LargeBody):
                _ = message.body
            assert await message.save(tmp_path / "film") == len(BODY)
            message.ack()
        assert (tmp_path / "film").read_bytes() == BODY
        async with client.transaction() as tx:
            await tx.send_stream("q", BODY)
        async with client.transaction() as tx:
            assert await read(await tx.receive("q")) == BODY
        await node.flush()
        assert not port_of(node).engine.queues.bodies.by_id


@pytest.mark.gate
async def test_a_client_that_fails_or_leaves_frees_what_has_arrived(tmp_path: Path) -> None:
    async with triack.open("a", data=tmp_path / "a") as node:
        bodies = port_of(node).engine.queues.bodies
        async with triack.connect(tmp_path / "a") as client:
            with pytest.raises(triack.UsageError, match="bytes that were said"):
                await client.send_stream("q", iter([BODY]), content_length=len(BODY) + 1)
            tx = client.transaction()
            await tx.send_stream("q", BODY)
            await tx.rollback()
            await node.flush()
            assert not bodies.by_id
            left = await client.call("upload", destination="q", delivery="TRANSACTIONAL", size=9**8, properties={})
            await client.call("upload_part", BODY, upload=left[0]["upload"])
            assert bodies.by_id
        while bodies.by_id:  # the node notices that the client has gone
            await node.flush()
