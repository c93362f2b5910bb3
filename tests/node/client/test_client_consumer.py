"""Readers of a node's queue over its control socket."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, alive, cancel_at_every_turn, until
from triack.node.client.client import Client
from triack.node.handles.consumer import Consumer
from triack.node.handles.message import Message


async def test_what_a_client_receives_is_a_message_like_any_other(node: triack.Node, client: Client) -> None:
    await node.send("q", b"x" * 100_000, label="l", headers={"a": "b"}, time_to_be_received=60)
    async with client.receive("q", ack="manual") as reader:
        first = await reader.get(WAIT)
        first.reject()
        again = await reader.get(WAIT)
        here = node.stats().queues["q"]
        again.ack()
        again.reject()
        await client.flush()
    assert (first.body, first.label, first.headers, first.queue) == (b"x" * 100_000, "l", {"a": "b"}, "q")
    assert (again.id, again.sent_at, again.properties) == (first.id, first.sent_at, first.properties)
    assert ((first.redelivered, first.failures), (again.redelivered, again.failures)) == ((False, 0), (True, 1))
    assert (here.messages, node.stats().queues["q"].messages) == (1, 0)


@pytest.mark.parametrize("most", [1, 3])
async def test_a_wait_that_ends_as_a_message_comes_lets_nothing_overtake(client: Client, most: int) -> None:
    """At whatever turn of the loop that is: what came for it is for the next call, and nothing younger before it."""
    count, got = 60, list[int]()
    async with client.receive("q", ack="manual") as reader:
        for number in range(count):
            call = asyncio.create_task(reader.get_many(most))
            sending = asyncio.create_task(client.send("q", b"%d" % number))
            for _ in range(number % 20):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            if not call.cancelled():
                got += [int(body) for body in call.result().bodies]
            await sending
        while len(got) < count:
            got.append(int((await reader.get(WAIT)).body))
    assert got == list(range(count))


async def test_readers_acknowledge_as_those_of_a_node_do(node: triack.Node, client: Client, tmp_path: Path) -> None:
    """With the next message, and with a good end of the block; a bad one is a failure, a lost connection is none."""
    for number in range(4):
        await node.send("q", b"%d" % number)
    async with client.receive("q") as reader:
        assert [(await reader.get(WAIT)).body for _ in range(2)] == [b"0", b"1"]
    await client.flush()
    assert node.queue_lengths()["q"] == 2

    async def fail() -> None:
        async with client.receive("q") as reader:
            await reader.get(WAIT)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    async with triack.connect(tmp_path / "a") as other:
        lost = await anext(other.receive("q"))
        assert (lost.body, lost.failures) == (b"2", 1)
    message = await node.receive("q").get(WAIT)
    assert (message.body, message.failures, message.redelivered) == (b"2", 1, True)


async def test_a_call_that_is_cancelled_at_once_leaves_no_reader_behind(node: triack.Node, client: Client) -> None:
    """A service may give up its first wait a million times."""
    before = alive(Consumer)
    await cancel_at_every_turn(lambda: client.receive("q").get())
    await until(lambda: alive(Consumer) <= before)


async def test_a_wait_that_is_given_up_takes_no_message_along(node: triack.Node, client: Client) -> None:
    """Cancelled or timed out: what comes later is for others."""
    reader = client.receive("q")
    with pytest.raises(triack.WaitTimeout, match=r"no message in queue q after 0\.01 s"):
        await reader.get(0.01)
    for _ in range(20):
        waiting = asyncio.create_task(reader.get())
        await asyncio.sleep(0.005)
        node.send_nowait("q", b"x")
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        async with node.receive("q", ack="manual") as other:
            message = waiting.result() if not waiting.cancelled() else await other.get(WAIT)
            message.ack()
        await client.flush()
        assert node.queue_lengths()["q"] == 0


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
    """So that its end gives back all that it holds."""
    await node.send_many("q", [b"1", b"2"])
    async with client.receive("q", ack="manual") as reader:
        held = await asyncio.gather(reader.get(WAIT), reader.get(WAIT))
    assert sorted(message.body for message in held) == [b"1", b"2"]
    async with node.receive("q") as other:
        assert [(await other.get(WAIT)).body for _ in range(2)] == [b"1", b"2"]


async def test_a_message_keeps_the_reader_that_nobody_else_keeps(node: triack.Node, client: Client) -> None:
    """Manual acks work in one line, too. When reader and messages are gone, unacknowledged messages go back."""
    await node.send_many("q", [b"1", b"2", b"3"])
    first = await client.receive("q", ack="manual").get(WAIT)
    second = (await client.receive("q", ack="manual").get_many(1, WAIT))[0]
    first.ack()
    assert (await node.receive("q").get(WAIT)).body == b"3"
    del second
    again = await client.receive("q", ack="manual").get(WAIT)
    assert (again.body, again.redelivered) == (b"2", True)
    again.ack()
    await client.flush()
    assert node.queue_lengths()["q"] == 1


async def test_a_loop_that_is_left_gives_its_message_back(node: triack.Node, client: Client) -> None:
    """As on the node itself: at once, and not with the end of the client."""
    await node.send("q", b"1")
    async for _message in client.receive("q"):
        break
    again = await node.receive("q").get(WAIT)
    assert (again.body, again.redelivered) == (b"1", True)


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
