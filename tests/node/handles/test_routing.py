"""The verbs of a node about its routes, between real nodes: a sensor, a gateway and a cloud."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import triack
from tests.node.nodes import WAIT, quick, until

UDP = "udp://127.0.0.1:0"


class Line(NamedTuple):
    """Three nodes; the sensor listens nowhere."""

    sensor: triack.Node
    gateway: triack.Node
    cloud: triack.Node


@asynccontextmanager
async def line(tmp_path: Path) -> AsyncIterator[Line]:
    """Three nodes that trust their neighbours; the sensor has a default route."""
    routes = [triack.Route("*", via="gateway")]
    async with (
        triack.open("sensor", data=tmp_path / "sensor", routes=routes, settings=quick()) as sensor,
        triack.open("gateway", data=tmp_path / "gateway", listen=UDP, settings=quick()) as gateway,
        triack.open("cloud", data=tmp_path / "cloud", listen=UDP, settings=quick()) as cloud,
    ):
        await sensor.trust("gateway", gateway.key, gateway.address, relays_for=["cloud"])
        await gateway.trust("sensor", sensor.key, may_relay=["cloud"])
        await gateway.trust("cloud", cloud.key, cloud.address, may_relay=["sensor"])
        await cloud.trust("gateway", gateway.key, gateway.address, relays_for=["sensor"])
        yield Line(sensor, gateway, cloud)


@pytest.mark.slow
@pytest.mark.gate
async def test_a_message_passes_a_relay_with_all_that_it_says(tmp_path: Path) -> None:
    """Its sender, its id, its headers and its time are those of the origin; ``ordered`` means that the cloud has it."""
    async with line(tmp_path) as (sensor, _, cloud), cloud.receive("readings") as readings:
        receipt = await sensor.send("cloud/readings", b"21.5", headers={"unit": "C"}, time_to_be_received=3_600)
        await receipt.ordered(timeout=WAIT)
        message = await readings.get(WAIT)
        assert (message.body, message.id, message.headers) == (b"21.5", receipt.id, {"unit": "C"})
        assert message.sender == "sensor@gateway"
        assert message.receive_by is not None


async def test_a_request_is_answered_over_a_relay(tmp_path: Path) -> None:
    """The answer goes back by the neighbour that has brought the question."""
    async with line(tmp_path) as (sensor, _, cloud):
        asking = asyncio.create_task(sensor.request("cloud/questions", b"well?", timeout=WAIT))
        async with cloud.receive("questions") as questions:
            question = await questions.get(WAIT)
            assert question.reply_to == "sensor@gateway/$replies"
            await cloud.reply(question, b"well.")
        answer = await asking
        assert (answer.body, answer.sender) == (b"well.", "cloud@gateway")


async def test_routes_change_while_a_node_runs(tmp_path: Path) -> None:
    """What a name means is explained by the rules that apply, the first of which counts."""
    async with line(tmp_path) as (sensor, _, cloud):
        assert sensor.routes() == [triack.Route("*", via="gateway")]
        await sensor.set_routes([])
        with pytest.raises(triack.AddressError, match="unknown peer far"):
            await sensor.send("far/q", b"1")
        assert await sensor.explain_route("far") == []
        await sensor.set_routes([triack.Route("far", via="gateway", rename="cloud"), triack.Route("f*", via="gateway")])
        assert await sensor.explain_route("far") == [
            "the route for far leads by gateway, which calls it cloud",
            "the route for f* leads by gateway",
        ]
        await sensor.send("far/q", b"1")
        async with cloud.receive("q") as messages:
            assert (await messages.get(WAIT)).body == b"1"


async def test_what_is_no_route_is_refused_at_once(tmp_path: Path) -> None:
    """Names are checked where they are written."""
    for wrong in ({"to": ""}, {"to": "a/b"}, {"to": "a@b"}, {"to": "*", "rename": "c"}, {"to": 5}):
        with pytest.raises(triack.UsageError, match="Route"):
            triack.Route(**{"via": "hub"} | wrong)
    with pytest.raises(triack.AddressError):
        triack.Route("a", via="no name")
    with pytest.raises(triack.UsageError, match="routes must be a list"):
        triack.open("a", data=None, routes="*")  # type: ignore[arg-type]
    async with triack.open("a", data=tmp_path, settings=quick()) as node:
        with pytest.raises(triack.UsageError, match="a route"):
            await node.set_routes(["*"])  # type: ignore[list-item]


async def test_what_waits_at_a_relay_is_seen_and_can_be_removed(tmp_path: Path) -> None:
    """A recoverable message is a dead letter at the relay, which has acknowledged it; a transactional one at home."""
    async with line(tmp_path) as (sensor, gateway, cloud):
        await cloud.close()
        await sensor.send("cloud/q", b"1", delivery=triack.RECOVERABLE)
        receipt = await sensor.send("cloud/q", b"2", delivery=triack.TRANSACTIONAL)
        await until(lambda: sum(it.messages for it in gateway.stats().transit) == 2)
        waiting = gateway.stats().transit[0]
        assert (waiting.final, waiting.queue, waiting.came_by, waiting.via) == ("cloud", "q", "sensor", "cloud")
        assert await gateway.purge_transit("cloud") == 2
        with pytest.raises(triack.DeliveryFailed):
            await receipt.ordered(timeout=WAIT)
        await until(lambda: gateway.queue_lengths()["dead-letter"] == 1)
        assert gateway.stats().transit == []


async def test_another_process_has_the_same_verbs(tmp_path: Path) -> None:
    """By the control socket of the node."""
    async with line(tmp_path) as (sensor, _, _cloud), triack.connect(tmp_path / "sensor") as client:
        assert await client.routes() == sensor.routes()
        await client.set_routes([triack.Route("c*", via="gateway")])
        assert sensor.routes() == [triack.Route("c*", via="gateway")]
        assert await client.explain_route("cloud") == ["the route for c* leads by gateway"]
        assert await client.purge_transit("cloud") == 0
        assert (await client.stats()).transit == []


@pytest.mark.slow
@pytest.mark.gate
async def test_a_message_is_sealed_for_its_destination(tmp_path: Path) -> None:
    """Once the ends know each other's keys; its reader sees that, in another process as well."""
    async with line(tmp_path) as (sensor, _, cloud):
        with pytest.raises(triack.UsageError, match="cannot seal messages for it: it has no key of cloud"):
            await sensor.send("cloud/readings", b"21.5", seal=True)
        with pytest.raises(triack.UsageError, match="seal"):
            await sensor.send("cloud/readings", b"21.5", seal="yes")  # type: ignore[arg-type]
        await sensor.set_routes([triack.Route("cloud", via="gateway")])
        await sensor.trust("cloud", cloud.key)
        await cloud.trust("sensor", sensor.key)
        await (await sensor.send("cloud/readings", b"21.5", seal=True)).ordered(timeout=WAIT)
        await (await sensor.send("cloud/readings", b"22.5")).ordered(timeout=WAIT)
        async with cloud.receive("readings") as readings:
            message = await readings.get(WAIT)
            assert (message.body, message.sealed, message.sender) == (b"21.5", True, "sensor@gateway")
            assert not (await readings.get(WAIT)).sealed
        await sensor.trust("cloud", seal=True)
        await (await sensor.send("cloud/readings", b"23.5")).ordered(timeout=WAIT)
        async with triack.connect(tmp_path / "cloud") as client, client.receive("readings") as readings:
            assert (await readings.get(WAIT)).sealed


@pytest.mark.slow
async def test_a_large_body_leaves_sealed_where_all_is_sealed_for_its_destination(tmp_path: Path) -> None:
    """Its parts have a stream of their own: what one message wants is refused, and never sent in the clear."""
    body = bytes(range(250)) * 20_000
    async with line(tmp_path) as (sensor, _gateway, cloud):
        await sensor.set_routes([triack.Route("cloud", via="gateway")])
        await sensor.trust("cloud", cloud.key)
        await cloud.trust("sensor", sensor.key)
        with pytest.raises(triack.UsageError, match="parts are sealed only where the peer or the route says so"):
            await sensor.send_stream("cloud/readings", body, seal=True)
        await sensor.trust("cloud", seal=True)
        await cloud.trust("gateway", sealed_only=True)
        await (await sensor.send_stream("cloud/readings", body, seal=True)).ordered(timeout=WAIT)
        async with cloud.receive("readings") as readings:
            message = await readings.get(WAIT)
            assert (message.size, message.sealed) == (len(body), True)
            assert b"".join([chunk async for chunk in message.stream()]) == body
