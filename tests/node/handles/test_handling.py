"""Handlers that belong to a node or a client, from its start to its end."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import make, until


async def test_a_declared_handler_runs_as_long_as_its_node(tmp_path: Path) -> None:
    """Declared before the start or after it; the end of the node waits for a call that runs."""
    node = make("a", tmp_path)
    done: list[bytes] = []
    begun = asyncio.Event()

    @node.handler("early")
    async def early(message: triack.Message) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        done.append(message.body)

    async with node:

        @node.handler("late")
        def late(message: triack.Message) -> None:
            done.append(message.body)

        await node.send("late", b"2")
        await until(lambda: done == [b"2"])
        await node.send("early", b"1")
        await begun.wait()
    assert done == [b"2", b"1"]
    async with make("a", tmp_path) as node:
        assert node.queue_lengths() == {"dead-letter": 0, "early": 0, "late": 0}


async def test_a_handler_of_a_client_outlives_the_process_of_the_node(tmp_path: Path) -> None:
    """And the client's patience: it goes on as soon as the node is back."""
    done: list[bytes] = []
    async with make("a", tmp_path) as node:
        client = triack.connect(tmp_path, patience=0)
        client.handler("q")(lambda message: done.append(message.body))
        client.handler("t", transaction=True)(lambda message, _tx: done.append(message.body))
        await client.start()
        await node.send("q", b"1")
        await until(lambda: done == [b"1"])
    async with make("a", tmp_path) as node:
        await node.send("q", b"2")
        await until(lambda: done[-1] == b"2")
        await node.send("t", b"3")
        await until(lambda: done[-1] == b"3")
        await client.close()
        await node.send("q", b"4")
        await node.flush()
        assert node.queue_lengths()["q"] == 1


async def test_consume_returns_when_its_node_is_closed(tmp_path: Path) -> None:
    async with make("a", tmp_path) as node, triack.connect(tmp_path) as client:
        here = asyncio.create_task(node.consume("q", print))
        there = asyncio.create_task(client.consume("q", print))
        await until(lambda: "q" in node.queue_lengths())
        await client.close()
        await there
    await here


async def test_a_handler_of_a_queue_that_cannot_be_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the log for one that is declared, and by its call for the other."""
    async with make("a", tmp_path, queues=["q"]) as node:
        node.handler("p")(print)
        with pytest.raises(triack.QueueNotFound):
            await node.consume("p", print)
        await until(lambda: "the handler of queue p has ended: queue p does not exist" in caplog.text)
