"""Another process gets acknowledgements as the program of a node does: over a real socket, in the same loop."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import WAIT, make, quick, take_acknowledgements, until
from triack import AckEvent, AckKind
from triack.node.client.client import Client
from triack.node.node import port_of


def watched(node: triack.Node, to: str) -> int:
    """How many read what becomes of the messages to a queue."""
    port = port_of(node)
    return len(port.outgoing_stream(to, triack.TRANSACTIONAL).readers)


async def test_a_client_gets_acks_of_what_it_sends_and_of_what_the_node_does(node: triack.Node, client: Client) -> None:
    """In the order of sending, with the numbers of receipts; by a trigger as one event."""
    async with make("b", scheme="udp") as b:
        to = f"{b.address}/q"
        single = await client.acknowledgements(to, every="message")
        ranged = await client.acknowledgements(to, every=triack.AckTrigger(window_share=None, count=5, delay_s=100.0))
        receipts = await client.send_many(to, [b"x"] * 3)
        await node.send(to, b"y")
        last = await client.send(to, b"z")
        assert await take_acknowledgements(single, 5) == [1, 2, 3, 4, 5]
        assert await take_acknowledgements(ranged, 5) == [5]
        assert [receipt.number for receipt in (*receipts, last)] == [1, 2, 3, 5]


async def test_a_failure_comes_with_its_reason(node: triack.Node, client: Client) -> None:
    """That of a message of a transaction as well."""
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


async def test_a_handler_is_called_in_this_process(node: triack.Node, client: Client) -> None:
    """Its exceptions go to the event loop of this process, and the next event goes to the handler."""
    told: list[int] = []
    errors: list[dict[str, Any]] = []

    async def handle(event: AckEvent) -> None:
        await asyncio.sleep(0)
        told.append(event.last)
        if event.last == 2:
            raise RuntimeError("of the application")

    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
    async with make("b", scheme="udp") as b:
        await client.acknowledgements(f"{b.address}/q", every="message", handler=handle)
        await client.send_many(f"{b.address}/q", [b"x"] * 4)
        await until(lambda: len(told) == 4)
    assert told == [1, 2, 3, 4]
    assert [str(error["exception"]) for error in errors] == ["of the application"]


async def test_events_that_are_closed_tell_what_is_unread_and_end(node: triack.Node, client: Client) -> None:
    async with make("b", scheme="udp") as b:
        to = f"{b.address}/q"
        events = await client.acknowledgements(to, every="message")
        await client.send_many(to, [b"x"] * 2, until="ordered", timeout=WAIT)
        events.close()
        events.close()
        await client.send(to, b"y", until="ordered", timeout=WAIT)
        async with asyncio.timeout(WAIT):
            assert [event.last async for event in events] == [1, 2]
            assert await events.get_many() == []


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


async def test_the_end_of_the_node_ends_the_events(tmp_path: Path) -> None:
    """As an end, or as an error: a process may go without a word."""
    node = make("a", tmp_path / "a", "udp", settings=quick())
    await node.start()
    async with triack.connect(tmp_path / "a", patience=0) as client:
        events = await client.acknowledgements("udp://127.0.0.1:9/q")
        reading = asyncio.create_task(anext(events))
        await client.flush()
        await node.close()
        with pytest.raises((StopAsyncIteration, triack.NodeClosed)):
            async with asyncio.timeout(WAIT):
                await reading
        with pytest.raises((StopAsyncIteration, triack.NodeClosed)):
            await anext(events)


@pytest.mark.parametrize(
    ("destination", "how", "says"),
    [
        ("plant/q", {"every": "always"}, "every must be an AckTrigger or 'message'"),
        (5, {}, "a destination is text"),
        ("plant/q", {"delivery": "fast"}, "a class is a triack.Delivery"),
        ("udp://plant", {}, "udp://plant"),
    ],
)
async def test_mistakes_raise_what_they_raise_at_a_node(
    node: triack.Node, client: Client, destination: Any, how: dict[str, Any], says: str
) -> None:
    with pytest.raises(triack.TriackError, match=says):
        await client.acknowledgements(destination, **how)
