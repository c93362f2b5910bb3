"""What a client hears of: receipts, acknowledgements, events, topics."""

import asyncio
import gc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, make, until
from triack import AckEvent, AckKind
from triack.base.news import PeerSilent
from triack.node.client.client import Client
from triack.node.control.control_frames import Header
from triack.node.node import port_of
from triack.node.shell.link_events import EVENTS_MAX, EventFeed
from triack.tools.ports import free_port

# Another process gets acknowledgements as the program of a node does: over a real socket, in the same loop.


def watched(node: triack.Node, to: str) -> int:
    """How many read what becomes of the messages to a queue."""
    port = port_of(node)
    return len(port.outgoing_stream(to, triack.TRANSACTIONAL).readers)


async def test_a_failure_comes_with_its_reason(node: triack.Node, client: Client) -> None:
    async with make("b", scheme="udp", queues=["q"]) as b:
        to = f"{b.address}/nowhere"
        events = await client.acknowledgements(to)
        async with client.transaction() as tx:
            await tx.send(to, b"x")
        async with asyncio.timeout(WAIT):
            assert await anext(events) == AckEvent(AckKind.FAILURE, 1, 1, "queue-not-found")


async def test_who_is_cancelled_as_an_event_comes_takes_it_not_along(node: triack.Node, client: Client) -> None:
    """In the very turn of the loop: the event is for the next reader that asks."""
    events = await client.acknowledgements("q", every="message")
    waiting = asyncio.create_task(anext(events))
    await until(lambda: events._coming is not None)  # noqa: SLF001 - the turn in which it comes
    coming = events._coming  # noqa: SLF001
    assert coming is not None
    await asyncio.sleep(0)  # now it waits
    coming.add_done_callback(lambda _: waiting.cancel())
    await node.send("q", b"x")
    await asyncio.wait([waiting], timeout=WAIT)
    assert waiting.cancelled()
    async with asyncio.timeout(WAIT):
        assert (await anext(events)).last == 1


async def test_who_waits_no_longer_takes_no_event_along(node: triack.Node, client: Client) -> None:
    """An event that comes when nobody waits is for the next reader; two readers at once get each event once."""
    async with make("b", scheme="udp") as b:
        to = f"{b.address}/q"
        events = await client.acknowledgements(to, every="message")
        for number in range(1, 6):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(events), 0.001)
            await client.send(to, b"x", until="ordered", timeout=WAIT)
            async with asyncio.timeout(WAIT):
                assert (await anext(events)).last == number
        both = [asyncio.create_task(anext(events)) for _ in range(2)]
        await client.send_many(to, [b"x"] * 2)
        async with asyncio.timeout(WAIT):
            assert sorted([event.last for event in await asyncio.gather(*both)]) == [6, 7]


async def test_many_are_read_at_once(node: triack.Node, client: Client) -> None:
    async with make("b", scheme="udp") as b:
        to = f"{b.address}/q"
        events = await client.acknowledgements(to, every="message")
        await client.send_many(to, [b"x"] * 2_500, until="ordered", timeout=WAIT)
        told: list[AckEvent] = []
        async with asyncio.timeout(WAIT):
            while len(told) < 2_500:
                told += await events.get_many(700)
        assert [event.first for event in told] == list(range(1, 2_501))


async def test_what_nobody_holds_any_more_is_gathered_no_more(
    node: triack.Node, client: Client, tmp_path: Path
) -> None:
    """Events that are dropped, and those of a client that has gone: nobody's failures are to stop a sender."""
    to = "udp://127.0.0.1:9/q"
    events = await client.acknowledgements(to)
    async with triack.connect(tmp_path / "a") as other:
        await other.acknowledgements(to, handler=lambda _event: None)
        await other.flush()
        assert watched(node, to) == 2
    del events
    gc.collect()
    await client.flush()
    await until(lambda: watched(node, to) == 0)


def feed_of(node: triack.Node) -> EventFeed:
    return node._port._driver.events  # noqa: SLF001 - whom the node itself tells


def tell(node: triack.Node, *numbers: int) -> None:
    """As the node's driver does when nobody answers."""
    for number in numbers:
        feed_of(node).put(PeerSilent(f"udp://b:{number}", "silent"))


async def test_a_slow_reader_loses_the_oldest_and_can_see_it(node: triack.Node, client: Client) -> None:
    """At the node, which keeps them for it: nothing comes before it is asked for."""
    events = await client.events()
    tell(node, *range(EVENTS_MAX + 3))
    async with asyncio.timeout(WAIT):
        assert (await anext(events), events.missed) == (PeerSilent("udp://b:3", "silent"), 3)
        rest = await events.get_many()
    assert (len(rest), rest[-1]) == (EVENTS_MAX - 1, PeerSilent(f"udp://b:{EVENTS_MAX + 2}", "silent"))


async def test_events_of_a_node_that_are_closed_tell_what_is_unread_and_end(node: triack.Node, client: Client) -> None:
    events = await client.events()
    tell(node, 1, 2)
    events.close()
    await client.flush()
    tell(node, 3)
    async with asyncio.timeout(WAIT):
        assert [event async for event in events] == [PeerSilent(f"udp://b:{number}", "silent") for number in (1, 2)]


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


async def test_a_wait_for_a_list_has_one_time_for_all_of_it(tmp_path: Path) -> None:
    """However many frames it came in: what the first took of the time the others do not have."""
    async with make("a", tmp_path / "a", "udp"), triack.connect(tmp_path / "a") as client:
        receipts = await client.send_many("udp://127.0.0.1:9/q", [b"x"] * 3_500)
        await receipts.queued(WAIT)
        asked: list[float] = []
        call = client.call

        async def slow(do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
            asked.append(fields["timeout"])
            await asyncio.sleep(SOON)
            return await call(do, body, **fields | {"stage": "queued"})

        client.call = slow  # type: ignore[method-assign]
        await receipts.ordered(WAIT)
        assert len(asked) == 4
        assert all(later <= earlier - SOON for earlier, later in pairwise(asked))
        client.call = call  # type: ignore[method-assign]
        with pytest.raises(triack.WaitTimeout, match=r"3,500 messages not all ordered after 0\.2 s"):
            await receipts.ordered(SOON)
        with pytest.raises(triack.UsageError, match="timeout"):
            await receipts.ordered(-1)


def test_a_program_without_async_publishes_and_subscribes(tmp_path: Path) -> None:
    with triack.sync.open("a", data=tmp_path, insecure=True) as node:
        with node.subscribe("Games.#", durable="audit") as reader:
            node.publish("Games.Cricket", b"1")
            assert reader.get(WAIT).topic == "Games.Cricket"
            reader.pause()
            node.publish("Games.Cricket", b"2")
            with pytest.raises(triack.WaitTimeout):
                reader.get(0)
            reader.resume()
            assert reader.get(WAIT).body == b"2"
        node.unsubscribe("audit")


async def test_a_client_subscribes_to_topics_of_another_node(node: triack.Node, client: Client) -> None:
    async with make("hub", scheme="udp") as hub:
        topics = f"{hub.address}/topic:Games.#"
        async with client.subscribe(topics, durable="audit") as reader:
            sent = await hub.publish("Games.Cricket", b"1", label="l")
            message = await reader.get(WAIT)
            assert (message.id, message.body, message.topic) == (sent.id, b"1", "Games.Cricket")
            assert (message.sender, message.label) == (hub.address, "l")
        (shown,) = node.stats().subscriptions
        assert (shown.name, shown.state, shown.pattern, shown.readers) == ("audit", "live", "Games.#", 0)
        (told,) = (await client.stats()).subscriptions
        assert replace(told, since_s=shown.since_s) == shown
        await client.unsubscribe("audit")
        assert node.stats().subscriptions == []


async def test_a_call_that_is_cancelled_before_the_other_node_answers_leaves_nothing_to_complain_of(
    node: triack.Node, client: Client
) -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: complaints.append(about["message"]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), client.subscribe(f"udp://127.0.0.1:{free_port()}/topic:Games.#"):
            pass
    await client.close()
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
