"""What waits at a relay: it can be browsed, nobody moves it, and an operator purges it with a word to its origin."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

import triack
from triack.testing import World

pytestmark = pytest.mark.gate

HUB, CLOUD = "udp://127.0.0.1:7801", "udp://127.0.0.1:7802"
SMALL = triack.NodeSettings(body_cache_bytes=0, messages_per_packet=1, close_timeout_s=0.01)
DURABLE = [triack.RECOVERABLE, triack.TRANSACTIONAL]


class Line(NamedTuple):
    """Three nodes; the gateway keeps what waits there on its disk alone."""

    world: World
    sensor: triack.Node
    gateway: triack.Node
    cloud: triack.Node

    async def send(
        self, *bodies: bytes, queue: str = "readings", delivery: triack.Delivery = triack.TRANSACTIONAL
    ) -> Sequence[triack.Receipt]:
        """Send to the cloud, of which the gateway is cut off."""
        self.world.cut("gateway", "cloud")
        receipts = await self.sensor.send_many(f"cloud/{queue}", bodies, delivery=delivery)
        await self.world.until(lambda: self.waiting(queue) == len(bodies))
        await self.world.advance(1)  # until all of it is stored
        return receipts

    def waiting(self, queue: str) -> int:
        return sum(it.messages for it in self.gateway.stats().transit if it.queue == queue)


@asynccontextmanager
async def line(world: World, *, seal: bool = False) -> AsyncIterator[Line]:
    with world.machine("cloud"):
        cloud = triack.open("cloud", data="cloud", listen=CLOUD, settings=SMALL)
    with world.machine("gateway"):
        gateway = triack.open("gateway", data="gateway", listen=HUB, settings=SMALL)
    with world.machine("sensor"):
        routes = [triack.Route("cloud", via="gateway")]
        sensor = triack.open("sensor", data="sensor", routes=routes, settings=SMALL)
    async with cloud, gateway, sensor:
        await sensor.trust("gateway", gateway.key, HUB, relays_for=["cloud"])
        await gateway.trust("sensor", sensor.key, may_relay=["cloud"])
        await gateway.trust("cloud", cloud.key, CLOUD, may_relay=["sensor"])
        await cloud.trust("gateway", gateway.key, HUB, relays_for=["sensor"])
        if seal:
            await sensor.trust("cloud", cloud.key, seal=True)
            await cloud.trust("sensor", sensor.key)
        yield Line(world, sensor, gateway, cloud)


async def browsed(node: triack.Node, queue: str) -> list[triack.BrowsedMessage]:
    return [message async for message in node.browse(queue)]


@pytest.mark.parametrize("delivery", DURABLE)
async def test_what_waits_at_a_relay_can_be_browsed(triack_world: World, delivery: triack.Delivery) -> None:
    """In pages, with the ids that its sender knows, a large message whole; it changes nothing."""
    bodies = [*(b"%03d" % number for number in range(600)), b"large" * 50_000, b"last"]
    async with line(triack_world) as net:
        receipts = await net.send(*bodies, delivery=delivery)
        for _ in range(2):
            found = await browsed(net.gateway, "cloud/readings")
            assert [(it.body, it.id) for it in found] == [
                (body, it.id) for body, it in zip(bodies, receipts, strict=True)
            ]
            assert {(it.queue, it.place, it.delivery) for it in found} == {("cloud/readings", None, delivery)}
        triack_world.heal()
        await net.sensor.drain()
        await triack_world.until(lambda: net.cloud.queue_lengths().get("readings") == len(bodies))


async def test_what_is_sealed_is_shown_without_its_content(triack_world: World) -> None:
    async with line(triack_world, seal=True) as net:
        (receipt,) = await net.send(b"secret")
        (message,) = await browsed(net.gateway, "cloud/readings")
        assert (message.id, message.sealed, b"secret" in message.body) == (receipt.id, True, False)


async def test_what_waits_at_a_relay_is_moved_by_nobody(triack_world: World) -> None:
    async with line(triack_world) as net:
        await net.send(b"1")
        with pytest.raises(triack.UsageError, match="wait here on their way: they are not moved; purge it"):
            await net.gateway.move("cloud/readings", "elsewhere")
        with pytest.raises(triack.UsageError, match="they are not moved"):
            await net.gateway.requeue(queue="cloud/readings")
        with pytest.raises(triack.UsageError, match="purge all of it"):
            await net.gateway.purge("cloud/readings", ids=[f"{net.sensor.node_id}-1"])
        with pytest.raises(triack.QueueNotFound, match="there is no queue cloud/reading; "):
            await browsed(net.gateway, "cloud/reading")
        triack_world.heal()
        await net.sensor.drain()
        assert net.cloud.queue_lengths()["readings"] == 1


async def test_the_operator_purges_one_queue_with_a_word_to_the_origin(triack_world: World) -> None:
    """The origin of transactional messages has them as dead letters; what goes to another queue arrives."""
    bodies = [b"%03d" % number for number in range(1_000)]
    async with line(triack_world) as net:
        receipts = await net.send(*bodies)
        await net.send(b"kept", queue="other")
        assert await net.gateway.purge("cloud/readings") == 1_000
        assert (net.waiting("readings"), net.waiting("other")) == (0, 1)
        with pytest.raises(triack.DeliveryFailed) as failed:
            await receipts[999].ordered(60)
        assert failed.value.reason == "purged"
        assert sorted(it.body for it in await browsed(net.sensor, "dead-letter")) == bodies
        assert net.gateway.queue_lengths().get("dead-letter", 0) == 0
        triack_world.heal()
        await net.sensor.drain()
        assert (net.cloud.queue_lengths().get("readings"), net.cloud.queue_lengths()["other"]) == (None, 1)
