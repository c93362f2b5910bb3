"""The publish window of a node: transactions, lists, requests, topics, clients and cancelled calls wait for it."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.mission.ends import LISTEN, Q, two
from tests.node.nodes import SOON, WAIT, cancel_at_every_turn, make
from triack.testing import World

NOWHERE = "udp://127.0.0.1:9/q"
FIVE = replace(triack.policies.solace(window=5), close_timeout_s=0.01)
pytestmark = pytest.mark.gate


async def waits(world: World, call: Awaitable[Any]) -> "asyncio.Task[Any]":
    """A call that is still waiting after ten seconds."""
    task = asyncio.ensure_future(call)
    await world.advance(10)
    assert not task.done()
    return task


def outgoing(node: triack.Node, queue: str = "q") -> triack.OutgoingStats:
    (found,) = [it for it in node.stats().outgoing if it.queue == queue]
    return found


async def test_a_transaction_waits_for_the_window(triack_world: World) -> None:
    """As a whole; one that is larger waits until all places are free."""
    async with two(triack_world, FIVE) as (a, _):
        triack_world.cut("a", "b")

        async def commit(count: int) -> None:
            async with a.transaction() as tx:
                await tx.send_many(Q, [b"x"] * count)

        await commit(3)
        first = await waits(triack_world, commit(3))
        large = await waits(triack_world, commit(8))
        assert outgoing(a).messages == 3
        triack_world.heal()
        await triack_world.until(lambda: first.done() and large.done())
        await first
        await large
        await a.drain()


async def test_each_destination_has_a_window_for_lists_and_requests(triack_world: World) -> None:
    async with two(triack_world, FIVE) as (a, b):
        triack_world.cut("a", "b")
        many = await waits(triack_world, a.send_many(Q, [b"%d" % number for number in range(12)]))
        asked = [asyncio.ensure_future(a.request(f"{LISTEN}/asked", b"?", timeout=60)) for _ in range(6)]
        await triack_world.advance(10)
        assert [outgoing(a, queue).messages for queue in ("q", "asked")] == [5, 5]
        for task in asked:
            task.cancel()
        triack_world.heal()
        await triack_world.until(many.done)
        await a.drain()
        assert b.queue_lengths()["q"] == 13


async def test_a_publish_to_a_topic_waits_for_the_window(triack_world: World) -> None:
    """A topic of this node has a message when it is on the disk, which is its acknowledgement."""
    async with two(triack_world, FIVE) as (a, _):
        triack_world.machine("a").disk_delay = 30
        async with a.subscribe("news.#") as reader:
            for number in range(5):
                await a.publish("news.rain", b"%d" % number)
            sixth = await waits(triack_world, a.publish("news.rain", b"5"))
            assert [(await reader.get(60)).body for _ in range(6)] == [b"%d" % number for number in range(6)]
            assert sixth.done()


async def test_a_cancelled_wait_leaves_nothing_behind(triack_world: World) -> None:
    """Neither a message nor a place, whenever it is cancelled; a cancelled commit is a rollback."""
    async with two(triack_world, FIVE) as (a, b):
        await b.send("jobs", b"job")
        triack_world.cut("a", "b")
        for _ in range(5):
            await a.send(Q, b"x")

        async def commit() -> None:
            async with a.transaction() as tx:
                await tx.send_many(f"{LISTEN}/large", [b"x"] * 6)
                await tx.send(f"{LISTEN}/large", b"x")

        await a.send(f"{LISTEN}/large", b"first")
        await cancel_at_every_turn(lambda: a.send(Q, b"never"))
        await cancel_at_every_turn(commit)
        await triack_world.advance(10)
        assert [outgoing(a, queue).messages for queue in ("q", "large")] == [5, 1]
        triack_world.heal()
        await a.drain()
        assert [b.queue_lengths()[queue] for queue in ("q", "large")] == [6, 1]
        for _ in range(5):
            a.send_nowait(Q, b"x")


async def test_what_is_stored_has_its_places_after_a_restart(triack_world: World) -> None:
    async with two(triack_world, FIVE) as (a, _):
        triack_world.cut("a", "b")
        await a.send_many(Q, [b"x"] * 4, until="queued")
        await a.close()
        with triack_world.machine("a"):
            again = triack.open("a", data="a", insecure=True, settings=FIVE)
        async with again:
            await again.send(Q, b"5")
            sixth = await waits(triack_world, again.send(Q, b"6"))
            triack_world.heal()
            await triack_world.until(sixth.done)


async def test_the_window_holds_for_a_client(tmp_path: Path) -> None:
    """Of `triack.connect`: a send waits, a cancelled one sends nothing, and a commit waits."""
    async with make("a", tmp_path, settings=FIVE) as a, triack.connect(tmp_path) as client:
        for _ in range(5):
            await client.send(NOWHERE, b"x")
        for call in (lambda: client.send(NOWHERE, b"6"), lambda: client.send_many(NOWHERE, [b"6", b"7"])):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call(), SOON)
        transaction = client.transaction()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transaction.send(NOWHERE, b"6"), SOON)
        await transaction.rollback()
        await client.flush()
        assert outgoing(a).messages == 5
        sixth = asyncio.ensure_future(client.send(NOWHERE, b"6"))
        await a.purge(NOWHERE)
        async with asyncio.timeout(WAIT):
            await sixth
        assert outgoing(a).messages == 1
