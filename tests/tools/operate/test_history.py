"""What session logs say of one message, for ``triack trace --log``."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import WAIT, quick
from tests.tools.testing.services import B
from triack.testing import World
from triack.tools.operate.history import steps_of

Work = Callable[[triack.Node], Awaitable[None]]
LEAVES = ["queued", "packet_sent", "ack_received", "store_ack_received", "order_ack_received"]
ARRIVES = ["packet_received", "committed", "order_ack_sent"]


async def at(name: str, work: Work, listen: str | None = None) -> None:
    async with triack.open(name, data=name, listen=listen, insecure=True) as node:
        await work(node)


async def events_of(world: World, folder: Path, send: Work, read: Work, ids: list[str]) -> list[dict[str, list[str]]]:
    """Let ``a`` send while ``b`` reads. Returns, for each id, what the log of each has of it."""
    reader, sender = world.machine("b").start(at, "b", read, B), world.machine("a").start(at, "a", send)
    await reader
    await sender
    world.write_logs(folder)
    steps = steps_of(ids, [folder])
    return [{node: [it.event for it in steps if (it.id, it.node) == (one, node)] for node in "ab"} for one in ids]


async def test_each_message_of_a_packet_has_its_own_steps(triack_world: World, tmp_path: Path) -> None:
    ids: list[str] = []

    async def send(node: triack.Node) -> None:
        receipts = await node.send_many(f"{B}/q", [b"0", b"1", b"2"])
        ids.extend(receipt.id for receipt in receipts)
        await receipts.reached("ordered")

    async def read(node: triack.Node) -> None:
        async with node.receive("q", ack="manual") as messages:
            (await messages.get()).ack()
            (await messages.get()).reject()
            (await messages.get()).ack()
            (await messages.get()).ack()

    first, second, _ = await events_of(triack_world, tmp_path, send, read, ids)
    assert first["a"] == second["a"] == LEAVES
    assert first["b"] == [*ARRIVES, "handed", "settled"]
    assert second["b"] == [*ARRIVES, "handed", "returned", "handed", "settled"]


async def test_a_message_that_could_not_arrive_ends_with_the_reason(triack_world: World, tmp_path: Path) -> None:
    ids: list[str] = []

    async def send(node: triack.Node) -> None:
        receipt = await node.send(f"{B}/q", b"x", time_to_reach_queue=1.5)
        ids.append(receipt.id)
        with pytest.raises(triack.DeliveryFailed):
            await receipt.ordered()

    await triack_world.machine("a").start(at, "a", send)
    triack_world.write_logs(tmp_path)
    queued, removed = steps_of(ids, [tmp_path])
    assert (queued.event, removed.event, removed.why) == ("queued", "removed", "reason expired")


async def test_large_messages_and_topics(triack_world: World, tmp_path: Path) -> None:
    """A message in many packets is the neighbour of no other; a subscription has it by its place in the topic."""
    ids: list[str] = []

    async def send(node: triack.Node) -> None:
        await asyncio.sleep(1)
        receipts = [await node.send(f"{B}/topic:news.{at}", bytes(60_000 * at)) for at in range(3)]
        ids.extend(receipt.id for receipt in receipts)
        await receipts[-1].ordered()

    async def read(node: triack.Node) -> None:
        async with node.subscribe("news.*") as messages:
            for _ in range(3):
                (await messages.get()).ack()

    steps = await events_of(triack_world, tmp_path, send, read, ids)
    for it in steps:
        assert [it["b"].count(event) for event in ("placed", "handed", "settled", "content_freed")] == [1, 1, 1, 1]
    assert steps[0]["a"] == LEAVES
    assert steps[2]["a"].count("packet_sent") > 1


async def test_a_held_message_shows_why_and_one_that_has_ended_does_not(triack_world: World, tmp_path: Path) -> None:
    ids: list[str] = []

    async def send(node: triack.Node) -> None:
        for number in range(2):
            receipt = await node.send(f"{B}/q", b"%d" % number)
            ids.append(receipt.id)
            if number == 0:
                await receipt.ordered()
        await asyncio.sleep(5)

    async def read(node: triack.Node) -> None:
        await node.set_quota("q", messages=1)
        await asyncio.sleep(10)

    first, second = await events_of(triack_world, tmp_path, send, read, ids)
    assert first["a"] == LEAVES
    assert second["a"][-1] == "hold_received"


async def test_a_relay_passes_the_order_ack_of_a_message_on_once(tmp_path: Path) -> None:
    """Those of later messages tell nothing of it."""
    here: dict[str, Any] = {"log": tmp_path / "logs", "settings": quick(), "listen": "udp://127.0.0.1:0"}
    async with (
        triack.open("hub", data=tmp_path / "hub", **here) as hub,
        triack.open("b", data=tmp_path / "b", **here) as b,
        triack.open("a", data=tmp_path / "a", routes=[triack.Route("b", "hub")], **here) as a,
    ):
        await a.trust("hub", hub.key, hub.address, relays_for=["b"])
        await hub.trust("a", a.key, a.address, may_relay=["b"])
        await hub.trust("b", b.key, b.address, may_relay=["a"])
        await b.trust("hub", hub.key, send=["q"], relays_for=["a"])
        receipts = []
        for _ in range(3):
            receipts.append(await a.send("b/q", b"x"))
            await receipts[-1].ordered(WAIT)
    for receipt in receipts:
        events = [step.event for step in steps_of([receipt.id], [tmp_path / "logs"]) if step.node == "hub"]
        assert events.count("control_relayed") == 1
