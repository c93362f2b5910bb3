"""Subscribing over the control socket, and without ``async``."""

import asyncio
import gc
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make
from triack.node.client.client import Client
from triack.tools.ports import free_port


async def test_a_client_publishes_and_subscribes(node: triack.Node, client: Client) -> None:
    async with client.subscribe("Games.#") as reader:
        await client.publish("Games.Cricket", b"1", label="l")
        message = await reader.get(WAIT)
        assert (message.body, message.topic, message.label) == (b"1", "Games.Cricket", "l")
    await client.flush()
    assert not node.stats().topics["Games"].subscriptions


async def test_a_client_pauses_its_reader(node: triack.Node, client: Client) -> None:
    async with client.subscribe("Games.#") as reader:
        await reader.pause()
        await node.publish("Games.Cricket", b"1", until="stored")
        with pytest.raises(triack.WaitTimeout):
            await reader.get(0)
        await reader.resume()
        await node.publish("Games.Cricket", b"2")
        assert (await reader.get(WAIT)).body == b"2"


async def test_a_client_reads_a_durable_subscription_and_ends_it(node: triack.Node, client: Client) -> None:
    async with client.subscribe("Games.#", durable="audit") as reader:
        await node.publish("Games.Cricket", b"1")
        assert (await reader.get(WAIT)).body == b"1"
        with pytest.raises(triack.SubscriptionBusy):
            async with client.subscribe("Games.#", durable="audit"):
                pass
    await node.publish("Games.Cricket", b"2")
    async with client.transaction() as tx:
        assert (await tx.receive("topic:Games.#/audit", WAIT)).body == b"2"
    (shown,) = (await client.stats()).topics["Games"].subscriptions
    assert (shown.name, shown.pending) == ("audit", 0)
    await client.unsubscribe("audit")
    assert not node.stats().topics["Games"].subscriptions


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
            await hub.publish("Games.Cricket", b"1")
            message = await reader.get(WAIT)
            assert (message.body, message.topic) == (b"1", "Games.Cricket")
        (shown,) = node.stats().subscriptions
        assert (shown.name, shown.state, shown.pattern, shown.readers) == ("audit", "live", "Games.#", 0)
        assert (await client.stats()).subscriptions == [shown]
        await client.unsubscribe("audit")
        assert node.stats().subscriptions == []


async def test_a_call_that_is_cancelled_before_the_other_node_answers_leaves_nothing_to_complain_of(
    node: triack.Node,
    client: Client,
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
