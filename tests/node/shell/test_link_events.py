"""Programs hear of links, as they come and go."""

import asyncio
import gc
import socket
import weakref
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, make, quick
from triack.base.news import GapFound, LinkDown, LinkUp, PeerSilent
from triack.node.shell.link_events import EVENTS_MAX, EventFeed


async def test_both_ends_hear_of_a_link() -> None:
    """When it comes up, and when the other node goes."""
    async with make("b", scheme="udp") as b:
        at_b = b.events()
        async with make("a", scheme="udp") as a:
            at_a = a.events()
            await (await a.send(f"{b.address}/q", b"x")).ordered(WAIT)
            assert await anext(at_a) == LinkUp(b.address, "b", b.node_id)
            assert await anext(at_b) == LinkUp(a.address, "a", a.node_id)
            a_address, a_id = a.address, a.node_id
        down = await asyncio.wait_for(anext(at_b), WAIT)
        assert isinstance(down, LinkDown)
        assert (down.address, down.peer, down.node_id, down.reason) == (a_address, "a", a_id, "peer-closed")
        assert [event async for event in at_a] == [LinkDown(b.address, "b", b.node_id, "drained")]


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("udp://localhost:1", "cannot resolve localhost: "),
        ("tcp://localhost:1", "cannot resolve localhost: "),
        ("tcp://127.0.0.1:9", "nobody listens at tcp://127.0.0.1:9"),
        ("memory://nobody", "nobody listens at memory://nobody"),
        ("udp://127.0.0.1:9", "no answer from udp://127.0.0.1:9"),
    ],
)
async def test_the_cause_of_silence_is_said_soon_and_once(
    address: str, cause: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the program and to the log; a name that cannot be resolved is no mere silence."""

    def fail(host: str, *more: Any, **options: Any) -> list[Any]:
        if host == "localhost":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *more, **options)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    async with make("a", settings=quick(close_timeout_s=0.05)) as a:
        events = a.events()
        await a.send(f"{address}/q", b"x")
        event = await asyncio.wait_for(anext(events), PATIENCE_S)
        assert isinstance(event, PeerSilent)
        assert (event.address, event.cause[: len(cause)]) == (address, cause)
        await asyncio.sleep(0.3)
    assert [event async for event in events] == []
    said, closing = [record.getMessage() for record in caplog.records]
    assert (said, "lost" in closing) == (f"{event.cause}; trying on", True)


async def test_a_slow_reader_loses_the_oldest_and_can_see_it() -> None:
    feed = EventFeed()
    reader = feed.read()
    for number in range(EVENTS_MAX + 3):
        feed.put(PeerSilent(f"udp://b:{number}", "silent"))
    feed.end()
    got = [event async for event in reader]
    assert (len(got), reader.missed, got[0]) == (EVENTS_MAX, 3, PeerSilent("udp://b:3", "silent"))


async def test_a_reader_that_is_gone_costs_nothing() -> None:
    feed = EventFeed()
    reader = weakref.ref(feed.read())
    gc.collect()
    assert reader() is None


async def test_events_end_with_the_node() -> None:
    """Also for a reader that asks afterwards; before the start there are none."""
    node = make()
    with pytest.raises(triack.NodeClosed):
        node.events()
    async with node:
        waiting = asyncio.ensure_future(anext(node.events(), None))
        await asyncio.sleep(0)
    assert await waiting is None
    assert [event async for event in node.events()] == []


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize("gap", ["warn", "error"])
async def test_a_peer_that_was_replaced_is_noticed(gap: Any, scheme: str, tmp_path: Path) -> None:
    """Its name leads to another key and an empty directory now: that is passed over, or an error by name."""
    settings = quick(reconnect=triack.Reconnect(first_s=0.01, most_s=0.05, gap=gap), close_timeout_s=0.1)
    listen = f"{scheme}://127.0.0.1:0"
    async with triack.open("a", data=tmp_path / "a", settings=settings) as a:
        async with triack.open("b", data=tmp_path / "b", listen=listen, settings=quick()) as b:
            await a.trust("b", b.key, b.address)
            await b.trust("a", a.key)
            await (await a.send("b/orders", b"1")).ordered(WAIT)
        waiting, events = await a.send("b/orders", b"2"), a.events()
        async with triack.open("b", data=tmp_path / "new", listen=listen, settings=quick()) as b:
            await b.trust("a", a.key)
            await a.revoke("b")
            await a.trust("b", b.key, b.address)
            async with asyncio.timeout(WAIT):
                found = await anext(event async for event in events if isinstance(event, GapFound))
            assert (found.peer, found.node_id, found.queues) == ("b", b.node_id, ("orders",))
            assert found.halts is (gap == "error")
            assert a.stats().links["b"].gaps == 1
            if gap == "warn":
                await waiting.ordered(WAIT)
                return
            with pytest.raises(triack.GapDetected, match="and has none of them") as raised:
                await waiting.ordered(WAIT)
            assert (raised.value.peer, raised.value.rolled_back) == (b.node_id, "peer")
            with pytest.raises(triack.GapDetected):
                await a.drain(WAIT)
            assert "orders" not in b.queue_lengths()
