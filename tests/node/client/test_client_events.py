"""Programs in other processes hear of what happens at a node."""

import asyncio
import gc
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make, open_sync, quick, until
from triack.base.news import LinkDown, LinkUp, PeerSilent
from triack.node.client.client import Client
from triack.node.shell.link_events import EVENTS_MAX, EventFeed


def feed_of(node: triack.Node) -> EventFeed:
    return node._port._driver.events  # noqa: SLF001 - whom the node itself tells


def tell(node: triack.Node, *numbers: int) -> None:
    """As the node's driver does when nobody answers."""
    for number in numbers:
        feed_of(node).put(PeerSilent(f"udp://b:{number}", "silent"))


async def test_a_client_hears_of_a_link(node: triack.Node, client: Client) -> None:
    """When it comes up, and when the other node goes; two readers hear the same."""
    events, others = await client.events(), await client.events()
    async with make("b", scheme="udp") as b:
        await client.send(f"{b.address}/q", b"x", until="ordered", timeout=WAIT)
        async with asyncio.timeout(WAIT):
            assert await anext(events) == LinkUp(b.address, "b", b.node_id)
    async with asyncio.timeout(WAIT):
        assert await anext(events) == LinkDown(b.address, "b", b.node_id, "peer-closed")
        assert [type(await anext(others)) for _ in range(2)] == [LinkUp, LinkDown]


async def test_a_slow_reader_loses_the_oldest_and_can_see_it(node: triack.Node, client: Client) -> None:
    """At the node, which keeps them for it: nothing comes before it is asked for."""
    events = await client.events()
    tell(node, *range(EVENTS_MAX + 3))
    async with asyncio.timeout(WAIT):
        assert (await anext(events), events.missed) == (PeerSilent("udp://b:3", "silent"), 3)
        rest = [await anext(events) for _ in range(EVENTS_MAX - 1)]
    assert rest[-1] == PeerSilent(f"udp://b:{EVENTS_MAX + 2}", "silent")


async def test_events_that_are_closed_tell_what_is_unread_and_end(node: triack.Node, client: Client) -> None:
    events = await client.events()
    tell(node, 1, 2)
    events.close()
    await client.flush()
    tell(node, 3)
    async with asyncio.timeout(WAIT):
        assert [event async for event in events] == [PeerSilent(f"udp://b:{number}", "silent") for number in (1, 2)]


async def test_who_reads_no_more_is_forgotten(node: triack.Node, client: Client) -> None:
    events = await client.events()
    readers = feed_of(node)._readers  # noqa: SLF001 - nothing else says how many there are
    assert len(readers) == 1
    del events
    gc.collect()
    await client.flush()
    await until(lambda: not readers)


async def test_who_has_given_up_to_wait_and_reads_no_more_is_forgotten(node: triack.Node, client: Client) -> None:
    """Although the node has not answered yet."""
    events = await client.events()
    readers = feed_of(node)._readers  # noqa: SLF001 - nothing else says how many there are
    waiting = asyncio.create_task(anext(events))
    await client.flush()
    waiting.cancel()
    await asyncio.wait([waiting])
    del events, waiting
    gc.collect()
    await client.flush()
    await until(lambda: not readers)


async def test_an_event_that_came_after_its_wait_had_ended_is_for_the_next_one(
    node: triack.Node, client: Client
) -> None:
    """Also for one that waited beside it."""
    events = await client.events()
    waiting, beside = asyncio.create_task(anext(events)), asyncio.create_task(anext(events))
    await client.flush()
    waiting.cancel()
    await asyncio.wait([waiting])
    tell(node, 1, 2)
    assert await beside == PeerSilent("udp://b:1", "silent")
    assert await anext(events) == PeerSilent("udp://b:2", "silent")


async def test_the_end_of_the_node_ends_the_events(tmp_path: Path) -> None:
    """As the end of the node that it is, for readers that wait and for those that ask afterwards."""
    node = make("a", tmp_path / "a", "udp", settings=quick())
    await node.start()
    async with triack.connect(tmp_path / "a", patience=0) as client:
        events = await client.events()
        reading = asyncio.create_task(anext(events))
        await client.flush()
        await node.close()
        for waiting in (reading, asyncio.create_task(anext(events))):
            with pytest.raises(triack.NodeClosed):
                async with asyncio.timeout(WAIT):
                    await waiting


def test_they_are_heard_without_async(tmp_path: Path) -> None:
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        heard = client.events()
        node.send("udp://127.0.0.1:9/q", b"x")
        assert isinstance(next(heard), PeerSilent)
