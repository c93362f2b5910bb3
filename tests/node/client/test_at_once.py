"""A call that a client ends has ended, awaited or not; and calls that are plain on a node are plain here."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make, until


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    async with make("n", tmp_path) as found:
        await found.send("q", b"1")
        await found.flush()
        yield found


@pytest.mark.parametrize("awaits", [True, False])
async def test_what_is_to_be_remembered_is_remembered(node: triack.Node, tmp_path: Path, *, awaits: bool) -> None:
    """On a node and over a client, with the same lines."""
    async with triack.connect(tmp_path) as client:
        for where, key in ((node, "here"), (client, "there")):
            async with where.transaction() as tx:
                told = tx.remember(key, b"value")
                if awaits:
                    await told
            assert node.recall(key) == b"value"
        async with client.transaction() as tx:
            tx.remember("there", None)
        assert node.recall("there") is None


async def test_a_rollback_that_nobody_awaits_is_one(node: triack.Node, tmp_path: Path) -> None:
    """The block does not commit what was rolled back in it."""
    async with triack.connect(tmp_path) as client:
        for where in (node, client):
            async with where.transaction() as tx:
                await tx.send("done", b"1")
                await tx.receive("q", WAIT)
                tx.rollback(failed=False)
            await until(lambda: node.stats().queues["q"].in_hand == 0)
            assert node.queue_lengths().get("done", 0) == 0


async def test_a_reader_that_is_closed_without_a_wait_is_closed(node: triack.Node, tmp_path: Path) -> None:
    async with triack.connect(tmp_path) as client:
        reader = client.receive("q", ack="manual")
        await reader.get(WAIT)
        reader.close()
        await until(lambda: node.stats().queues["q"].in_hand == 0)


async def test_an_error_that_nobody_awaits_is_no_noise(
    node: triack.Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = await triack.connect(tmp_path, patience=0).start()
    transaction = client.transaction()
    await transaction.receive("q", WAIT)
    await node.close()
    transaction.rollback()
    with pytest.raises(triack.NodeClosed):
        await client.flush()
    await asyncio.sleep(0)
    await client.close()
    assert [record for record in caplog.records if record.name == "asyncio"] == []
