"""Transactions of a node over its control socket."""

import pytest

import triack
from tests.node.nodes import WAIT
from triack.node.control.client import Client


async def test_a_transaction_is_all_or_nothing(node: triack.Node, client: Client) -> None:
    await node.send("orders", b"12 valves")

    async def fail() -> None:
        async with client.transaction() as tx:
            assert (await tx.receive("orders", WAIT)).body == b"12 valves"
            await tx.send("invoices", b"never")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    async with client.transaction() as tx:
        message = await tx.receive("orders", WAIT)
        await tx.send("invoices", b"for " + message.body, correlation_id=message.id)
        await tx.remember("last", message.body)
        with pytest.raises(triack.UsageError, match="acknowledged by its commit"):
            message.ack()
        (receipt,) = await tx.commit()
    with pytest.raises(triack.NodeClosed):
        await tx.send("invoices", b"late")
    assert message.failures == 1
    assert {name: it.messages for name, it in node.stats().queues.items()} == {
        "dead-letter": 0,
        "invoices": 1,
        "orders": 0,
    }
    assert (await client.recall("last"), await client.recall("first")) == (b"12 valves", None)
    assert (await node.receive("invoices").get(WAIT)).id == receipt.id


async def test_a_transaction_takes_only_classes_that_are_on_disk(client: Client) -> None:
    tx = client.transaction()
    with pytest.raises(triack.UsageError, match="express messages cannot be part of one"):
        await tx.send_many("q", [b"x"], delivery=triack.EXPRESS)
    await tx.commit()
    assert (await client.queue_lengths()).get("q", 0) == 0


async def test_a_transaction_that_nobody_used_asks_the_node_nothing(node: triack.Node, client: Client) -> None:
    tx = client.transaction()
    await tx.rollback()
    await tx.rollback()
    with pytest.raises(triack.NodeClosed, match="has ended"):
        await tx.receive("q", 0)
    assert "q" not in node.queue_lengths()
