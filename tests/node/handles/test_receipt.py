"""Waiting for a message: each wait ends, and says why."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, Face, bodies, make, quick, until
from triack.node.handles.receipt import NodeReceipt
from triack.node.node import port_of

NOWHERE = "udp://127.0.0.1:9/q"
LAST = {triack.RECOVERABLE: "stored", triack.TRANSACTIONAL: "ordered"}


@pytest.fixture
async def alone() -> AsyncIterator[triack.Node]:
    """A node without data, which nobody answers."""
    async with make(settings=quick(close_timeout_s=0.05)) as node:
        yield node


async def test_a_wait_that_ends_says_what_for(alone: triack.Node) -> None:
    """WaitTimeout names stage and destination; the message is still on its way and can be waited for again."""
    receipt = await alone.send(NOWHERE, b"x")
    await receipt.queued(WAIT)
    for _ in range(2):
        with pytest.raises(triack.WaitTimeout, match=rf"{NOWHERE} not ordered after 0\.01 s: no \w+ \w+ at "):
            await receipt.ordered(0.01)
    with pytest.raises(TimeoutError):
        await receipt.received(0)


async def test_who_is_cancelled_in_the_turn_of_the_end_is_cancelled(alone: triack.Node) -> None:
    """A task that went on would hang, although it was cancelled."""
    receipt = await alone.send(NOWHERE, b"x")
    waiting = asyncio.create_task(receipt.ordered(WAIT))
    await asyncio.sleep(0)
    assert isinstance(receipt, NodeReceipt)
    receipt._outgoing.stages.fail_all("gone")  # noqa: SLF001 - an end in this very turn
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


@pytest.mark.parametrize("delivery", [triack.RECOVERABLE, triack.TRANSACTIONAL])
async def test_a_queue_that_is_not_there_fails_the_delivery(delivery: triack.Delivery) -> None:
    """DeliveryFailed with the reason; the message is in the dead-letter queue, with all that it had."""
    async with make("b", scheme="udp", queues=["orders"]) as b, make("a") as a:
        destination = f"{b.address}/order"
        receipt = await a.send(destination, b"x", delivery=delivery, label="l")
        stage = getattr(receipt, LAST[delivery])
        for _ in range(2):
            with pytest.raises(triack.DeliveryFailed, match=destination) as failure:
                await stage(WAIT)
            assert failure.value.reason == "queue-not-found"
        dead = await a.receive("dead-letter").get(WAIT)
        assert (dead.body, dead.label) == (b"x", "l")
        assert dead.properties["dead_reason"] == "queue-not-found"
        assert dead.properties["dead_destination"] == destination
        await (await a.send(f"{b.address}/orders", b"y", delivery=delivery)).stored(WAIT)


@pytest.mark.parametrize("timeout", [-1, "5", float("nan"), True])
async def test_a_time_to_wait_is_seconds_everywhere(alone: triack.Node, timeout: float) -> None:
    receipt = await alone.send("q", b"x")
    for wait in (
        lambda: receipt.ordered(timeout),
        lambda: receipt.reached("queued", timeout),
        lambda: alone.receive("q").get(timeout),
        lambda: alone.transaction().receive("q", timeout),
    ):
        with pytest.raises(triack.UsageError, match="timeout must be a number of seconds of at least 0"):
            await wait()


@pytest.mark.parametrize(
    ("times", "reason", "cause"),
    [
        ({"time_to_reach_queue": 0.2}, "reach-queue-timeout", ": no .* at udp://127.0.0.1:9$"),
        ({"time_to_be_received": 0.2, "time_to_reach_queue": 60}, "receive-timeout", "$"),
    ],
)
async def test_what_dies_on_its_way_is_told_and_kept(alone: triack.Node, times: Any, reason: str, cause: str) -> None:
    """By whichever time: the receipt says why, and what kept it from leaving; its letter says so, and stays."""
    receipt = await alone.send(NOWHERE, b"x", **times)
    with pytest.raises(triack.DeliveryFailed, match=f"not delivered: {reason}{cause}") as failed:
        await receipt.ordered(WAIT)
    assert failed.value.reason == reason
    assert str(failed.value).endswith(failed.value.cause)
    dead = await alone.receive("dead-letter").get(WAIT)
    said = [dead.properties[f"dead_{it}"] for it in ("reason", "destination", "maybe_delivered")]
    assert said == [reason, NOWHERE, False]


async def test_a_message_with_a_key_is_accepted_once(tmp_path: Path) -> None:
    """The receipt is that of the first: in this start, and in later ones, on its way, arrived and dead."""
    async with make("b", scheme="udp") as b:
        address = b.address
    ids: dict[str, set[str]] = {"on": set(), "in": set(), "dead": set()}
    async with make("a", tmp_path) as a:
        ids["on"] |= {(await a.send(f"{address}/q", b"x", key="k")).id for _ in range(3)}
        async with a.transaction() as tx:
            await tx.send(f"{address}/q", b"x", key="k")
            await tx.send("own", b"y", key="k")
            await tx.send("own", b"y", key="k")
        ids["in"] |= {(await a.send("own", b"y", key="k")).id}
        dead = await a.send(f"{address}/dead", b"z", key="k", time_to_reach_queue=0.01)
        with pytest.raises(triack.DeliveryFailed):
            await dead.ordered(WAIT)
        ids["dead"] |= {dead.id}
    async with make("a", tmp_path) as a:
        receipt = await a.send(f"{address}/q", b"x", key="k")
        await receipt.queued(WAIT)
        with pytest.raises(triack.WaitTimeout):
            await receipt.ordered(SOON)
        old = await a.send("own", b"y", key="k")
        await old.ordered(0)
        dead = await a.send(f"{address}/dead", b"z", key="k")
        with pytest.raises(triack.DeliveryFailed, match="reach-queue-timeout"):
            await dead.ordered(0)
        with pytest.raises(triack.UsageError, match="recoverable messages have no such stage"):
            await (await a.send("own", b"w", key="r", delivery=triack.RECOVERABLE)).ordered(0)
        async with triack.open("b", data=None, listen=address, insecure=True) as b:
            await receipt.ordered(WAIT)
            assert await bodies(b, "q", 1) == [b"x"]
            assert b.queue_lengths() == {"dead-letter": 0, "q": 0}
        assert a.queue_lengths()["own"] == 2
        ids["on"].add(receipt.id)
        ids["in"].add(old.id)
        ids["dead"].add(dead.id)
    assert [len(found) for found in ids.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("key", "delivery", "told"),
    [
        ("", triack.TRANSACTIONAL, "a key is text of 1 to 255 bytes, not ''"),
        ("\udc80", triack.TRANSACTIONAL, "a key is text of 1 to 255 bytes"),
        ("x" * 256, triack.TRANSACTIONAL, "a key is text of 1 to 255 bytes"),
        (7, triack.TRANSACTIONAL, "a key is text of 1 to 255 bytes, not 7"),
        ("k", triack.EXPRESS, "express messages are on no disk, and neither are keys"),
    ],
)
async def test_what_is_no_key_is_refused(alone: triack.Node, key: Any, delivery: triack.Delivery, told: str) -> None:
    with pytest.raises(triack.UsageError, match=told):
        await alone.send("q", b"x", key=key, delivery=delivery)


async def test_what_was_accepted_with_its_key_needs_no_room() -> None:
    """The same send again finds its message, though nothing new would be accepted: full queues, a full disk."""
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=1, when_full="reject")})
    async with make(settings=quick(limits=limits, pending_limit_bytes=100)) as node:
        first = await node.send("q", b"1", key="k")
        await first.ordered(WAIT)
        with pytest.raises(triack.QueueFull):
            await node.send("q", b"2", key="other")
        assert (await node.send("q", b"1", key="k")).id == first.id
        far = node.send_nowait(NOWHERE, b"x" * 200, key="k")
        with pytest.raises(triack.WouldBlock):
            node.send_nowait(NOWHERE, b"y", key="other")
        assert node.send_nowait(NOWHERE, b"x" * 200, key="k").id == far.id
        port_of(node).engine.inbox.admission.disk_room.handle_room(-1)  # as when the disk is full
        with pytest.raises(triack.NoRoom):
            await node.send("p", b"1")
        assert (await node.send("q", b"1", key="k")).id == first.id
        async with node.transaction() as tx:
            await tx.send("q", b"1", key="k")


@pytest.mark.parametrize("stage", ["queued", "received", "stored", "ordered"])
async def test_send_returns_when_the_message_has_come_so_far(face: Face, stage: triack.StageName) -> None:
    async with make("b", scheme="udp") as b:
        receipt = await face.send(f"{b.address}/q", b"x", until=stage, timeout=WAIT)
        await receipt.reached(stage, timeout=0)
        receipts = await face.send_many(f"{b.address}/q", [b"y"] * 300, until=stage, timeout=WAIT)
        await receipts.reached(stage, timeout=0)
        async with face.transaction() as tx:
            await tx.send(f"{b.address}/q", b"z")
            for receipt in await tx.commit(until=stage, timeout=WAIT):
                await receipt.reached(stage, timeout=0)


async def test_what_a_message_never_reaches_is_refused_before_it_is_accepted(node: triack.Node, face: Face) -> None:
    """So is a time without a stage: the caller believes that the call ends by then, but it may wait for room."""
    wrong: list[tuple[Awaitable[object], str]] = [
        (face.send("q", b"x", delivery=triack.RECOVERABLE, until="ordered"), "no such stage"),
        (face.send("q", b"x", until="arrived"), "stages are"),  # type: ignore[arg-type]
        (face.send("q", b"x", until="stored", timeout=-1), "timeout must be"),
        (face.send_many("q", [b"x"], delivery=triack.EXPRESS, until="stored"), "no such stage"),
        (face.send("q", b"x", timeout=5), "timeout=5 is how long to wait for a stage"),
        (face.send_many("q", [b"x"], timeout=5), "timeout=5 is how long to wait for a stage"),
    ]
    for call, why in wrong:
        with pytest.raises(triack.UsageError, match=why):
            await call
    tx = face.transaction()
    await tx.send("q", b"x", delivery=triack.RECOVERABLE)
    with pytest.raises(triack.UsageError, match="recoverable messages have no such stage"):
        await tx.commit(until="ordered")
    with pytest.raises(triack.UsageError, match="until= names none"):
        await tx.commit(timeout=5)
    assert node.queue_lengths().get("q", 0) == 0
    await tx.commit(until="stored", timeout=WAIT)
    assert node.queue_lengths()["q"] == 1


async def test_a_wait_that_ends_leaves_the_message_on_its_way(face: Face) -> None:
    async with make("b", scheme="udp") as b:
        to = f"{b.address}/q"
    with pytest.raises(triack.WaitTimeout, match=r"not stored after 0\.05 s"):
        await face.send(to, b"x", until="stored", timeout=0.05)
    tx = face.transaction()
    await tx.send(to, b"y")
    with pytest.raises(
        triack.WaitTimeout, match=r"1 message of a transaction not all stored after 0\.2 s: no \w+ \w+ at"
    ):
        await tx.commit(until="stored", timeout=SOON)
    async with triack.open("b", data=None, listen=to.rpartition("/")[0], insecure=True, settings=quick()) as b:
        assert await bodies(b, "q", 2) == [b"x", b"y"]


async def test_a_receipt_shows_its_message_and_where_it_goes(alone: triack.Node) -> None:
    """In a log or at a prompt; a queue of the node itself has no peer to name. A list may be of a million messages."""
    receipt = await alone.send(NOWHERE, b"x")
    assert repr(receipt) == f"<Receipt of message {receipt.id} to {NOWHERE}, transactional>"
    near = await alone.send("orders", b"x", delivery=triack.EXPRESS)
    assert repr(near) == f"<Receipt of message {near.id} to orders, express>"
    assert repr(await alone.send_many("orders", [b"x", b"y"])) == "<Receipts of 2 messages to orders>"


async def test_a_wait_for_a_peer_without_room_says_so() -> None:
    full = quick(limits=triack.Limits(quota=triack.Quota(messages=1)))
    async with (
        make("b", scheme="udp", settings=full) as b,
        make("a", settings=quick(messages_per_packet=1, close_timeout_s=0.05)) as a,
    ):
        receipts = [await a.send(f"{b.address}/q", b"x") for _ in range(5)]
        await until(lambda: any(it.held for it in a.stats().outgoing))
        with pytest.raises(triack.WaitTimeout) as late:
            await receipts[-1].ordered(SOON)
        assert late.value.cause == f"{b.address} has no room: queue-full"


async def test_a_wait_for_a_peer_that_must_call_says_so(tmp_path: Path) -> None:
    async with triack.open("a", data=tmp_path / "a", settings=quick(close_timeout_s=0.05)) as a:
        async with triack.open("b", data=None) as b:
            await a.trust("b", b.key)
        receipt = await a.send("b/q", b"x")
        with pytest.raises(triack.WaitTimeout, match="no address of b is known, and it has not called"):
            await receipt.ordered(SOON)
        with pytest.raises(triack.WaitTimeout, match="no address of b is known"):
            await a.drain(SOON)
