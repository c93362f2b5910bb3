"""What HornetQ says of sends, acknowledgements and its confirmation window, at nodes with ``policies.HORNETQ``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

import triack
from triack import policies
from triack.testing import World

pytestmark = pytest.mark.gate

B = "udp://127.0.0.1:7802"
Q = f"{B}/q"
ROUND_TRIP_S = 0.000_25


@asynccontextmanager
async def two(
    world: World, settings: triack.NodeSettings = policies.HORNETQ, of_b: triack.NodeSettings = policies.HORNETQ
) -> AsyncIterator[tuple[triack.Node, triack.Node]]:
    """A client and its server, which have begun a session."""
    with world.machine("b"):
        b = triack.open("b", data="b", listen=B, insecure=True, settings=replace(of_b, close_timeout_s=0.01))
    with world.machine("a"):
        a = triack.open("a", data="a", insecure=True, settings=replace(settings, close_timeout_s=0.01))
    async with b, a:
        await a.send(Q, b"hello", until="stored")
        yield a, b


async def test_block_on_durable_send_is_true_by_default(triack_world: World) -> None:
    """A send of a durable message returns only after the server's response."""
    assert policies.HORNETQ.blocking == triack.Blocking(durable="stored", express=None, acknowledge=False)
    async with two(triack_world) as (a, _):
        triack_world.cut("a", "b")
        for delivery in (triack.RECOVERABLE, triack.TRANSACTIONAL):
            send = asyncio.ensure_future(a.send(Q, b"x", delivery=delivery))
            await triack_world.advance(10)
            assert not send.done()
            triack_world.heal()
            await triack_world.until(send.done)
            await (await send).stored(timeout=0)
            triack_world.cut("a", "b")


async def test_block_on_non_durable_send_is_false_by_default(triack_world: World) -> None:
    async with two(triack_world) as (a, _):
        triack_world.cut("a", "b")
        began = triack_world.now
        await a.send(Q, b"x", delivery=triack.EXPRESS)
        assert triack_world.now == began


async def test_blocking_at_a_round_trip_of_a_quarter_millisecond_sends_4000_a_second(triack_world: World) -> None:
    """At most: with disks that take no time."""
    triack_world.set_delay(ROUND_TRIP_S / 2)
    async with two(triack_world) as (a, _):
        for name in "ab":
            triack_world.machine(name).disk_delay = 0
        began = triack_world.now
        for _ in range(100):
            await a.send(Q, b"x")
        assert 100 / (triack_world.now - began) == pytest.approx(4_000)


async def test_a_commit_waits_for_the_disk_of_its_node(triack_world: World) -> None:
    async with two(triack_world) as (a, _):
        triack_world.cut("a", "b")
        triack_world.machine("a").disk_delay = 1
        began = triack_world.now
        async with a.transaction() as tx:
            await tx.send(Q, b"x")
        assert triack_world.now - began >= 0.5


async def test_a_confirmation_window_of_minus_one_is_off(triack_world: World) -> None:
    """No number of bytes is confirmed at once: all of it is at the flush, two seconds after the first."""
    off = policies.hornetq(confirmation_window_bytes=-1, block_on_durable_send=False)
    assert off.session.trigger.bytes_ is None
    async with two(triack_world, off, off) as (a, _):
        await triack_world.advance(10)
        began = triack_world.now
        receipt = (await a.send_many(Q, [b"x"] * 50, delivery=triack.EXPRESS))[49]
        events = a.acknowledgements(Q, delivery=triack.EXPRESS)
        assert (await anext(events)).first == 1
        assert triack_world.now - began == pytest.approx(2, abs=0.1)
        await receipt.received(timeout=0)


@pytest.mark.parametrize(("window_bytes", "lost"), [(-1, 1), (1024**2, 0)])
async def test_without_a_window_there_is_no_reattachment(triack_world: World, window_bytes: int, lost: int) -> None:
    """What was sent and not confirmed when the session is lost does not go again; with a window it does."""
    settings = policies.hornetq(
        confirmation_window_bytes=window_bytes, block_on_durable_send=False, client_failure_check_period_s=4
    )
    async with two(triack_world, settings, settings) as (a, b):
        triack_world.cut("a", "b")
        receipt = await a.send(Q, b"x")
        await triack_world.advance(60)
        assert a.queue_lengths().get("dead-letter", 0) == lost
        triack_world.heal()
        if lost:
            with pytest.raises(triack.DeliveryFailed) as failed:
                await receipt.ordered()
            assert failed.value.reason == "session-lost"
        else:
            await receipt.ordered()
        assert b.queue_lengths()["q"] == 2 - lost


@pytest.mark.parametrize("ack", ["auto", "manual"])
async def test_block_on_acknowledge_waits_for_the_disk_before_the_next_message(triack_world: World, ack: str) -> None:
    """False by default: then the next message comes at once."""
    for blocks in (False, True):
        name = f"node-{blocks}"
        with triack_world.machine(name):
            node = triack.open(name, data=name, insecure=True, settings=policies.hornetq(block_on_acknowledge=blocks))
        async with node:
            for body in (b"1", b"2"):
                await node.send("q", body)
            await node.flush()
            triack_world.machine(name).disk_delay = 1
            async with node.receive("q", ack=ack) as reader:  # type: ignore[arg-type]
                first = await reader.get()
                began = triack_world.now
                if ack == "manual":
                    first.ack()
                await reader.get()
                assert (triack_world.now - began >= 0.5) is blocks
