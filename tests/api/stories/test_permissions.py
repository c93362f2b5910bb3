"""What a peer with a key may do at a node: send to the queues that it was given, and nothing else at all.

Receiving, browsing and administration are for the owner of a node's data directory (``tests/node/control``): nothing on
the wire asks for them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import triack
from tests.node.nodes import WAIT, bodies, quick, until


@asynccontextmanager
async def pair(*may_send: str, **more: object) -> AsyncIterator[tuple[triack.Node, triack.Node]]:
    """Two nodes with keys; the second lets the first one send to these queues."""
    settings = quick(**more)
    async with (
        triack.open("a", data=None, settings=quick()) as a,
        triack.open("b", data=None, listen="udp://127.0.0.1:0", settings=settings) as b,
    ):
        await a.trust("plant-b", b.key, b.address)
        await b.trust("plant-a", a.key, send=list(may_send) or None)
        yield a, b


async def refused(node: triack.Node, queue: str, body: bytes, **more: object) -> tuple[str, triack.Message]:
    """Why a message was not delivered, and its dead letter."""
    receipt = await node.send(f"plant-b/{queue}", body, **more)  # type: ignore[arg-type]
    with pytest.raises(triack.DeliveryFailed) as caught:
        await receipt.stored(WAIT)
    async with node.receive("dead-letter") as consumer:
        return caught.value.reason, await consumer.get(WAIT)


@pytest.mark.parametrize("delivery", [triack.Delivery.RECOVERABLE, triack.Delivery.TRANSACTIONAL])
async def test_a_peer_sends_to_its_queues_and_no_others(delivery: triack.Delivery) -> None:
    """The refusal is definite: the receipt says why, and the dead letter is sure not to have been delivered."""
    async with pair("orders", "in-*") as (a, b):
        for queue in ("orders", "in-1"):
            await (await a.send(f"plant-b/{queue}", b"mine", delivery=delivery)).stored(WAIT)
        for queue in ("secret", "orders2", "in"):
            reason, letter = await refused(a, queue, b"not mine", delivery=delivery)
            assert reason == "access-denied"
            assert letter.body == b"not mine"
            found = letter.properties
            assert (found["dead_reason"], found["dead_destination"]) == ("access-denied", f"plant-b/{queue}")
            assert found["dead_maybe_delivered"] is False
        assert set(b.queue_lengths()) <= {"orders", "in-1", "dead-letter"}
        assert await bodies(b, "orders", 1) == [b"mine"]


@pytest.mark.parametrize("queue", ["dead-letter", "$control"])
async def test_the_queues_of_the_node_itself_take_nothing_from_outside(queue: str) -> None:
    """Whatever its peer may send to."""
    async with pair("*", queue) as (a, b):
        reason, letter = await refused(a, queue, b"forged")
        assert (reason, letter.properties["dead_maybe_delivered"]) == ("access-denied", False)
        assert not sum(b.queue_lengths().values())


async def test_a_permission_that_is_taken_back_counts_from_the_next_message() -> None:
    """Messages that were taken stay; the session goes on, and so does another queue."""
    async with pair("orders", "other") as (a, b):
        await (await a.send("plant-b/orders", b"before")).ordered(WAIT)
        await b.trust("plant-a", send=["other"])
        assert (await refused(a, "orders", b"after"))[0] == "access-denied"
        await (await a.send("plant-b/other", b"still")).ordered(WAIT)
        assert await bodies(b, "orders", 1) == [b"before"]
        assert len(b.stats().sessions) == 1


async def test_a_full_queue_that_refuses_says_so_for_good() -> None:
    """As definite as a permission; room later changes nothing for what was refused."""
    limits = triack.Limits(queue_quota={"small": triack.Quota(messages=1, when_full="reject")})
    async with pair(limits=limits) as (a, b):
        await (await a.send("plant-b/small", b"first")).ordered(WAIT)
        reason, letter = await refused(a, "small", b"second")
        assert (reason, letter.properties["dead_maybe_delivered"]) == ("queue-full", False)
        assert await bodies(b, "small", 1) == [b"first"]
        await until(lambda: not b.queue_lengths()["small"])
        await (await a.send("plant-b/small", b"third")).ordered(WAIT)
        assert await bodies(b, "small", 1) == [b"third"]
