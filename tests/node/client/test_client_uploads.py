"""Large messages over a client: sent, read and saved in another process's node, and freed with the connection."""

import os
from pathlib import Path

import pytest

import triack
import triack.sync
from triack.node.node import port_of
from triack.queues.packing import MAX_BODY_BYTES

BODY = os.urandom(MAX_BODY_BYTES + 500_000)


async def read(message: triack.Message) -> bytes:
    return b"".join([chunk async for chunk in message.stream()])


@pytest.mark.slow
@pytest.mark.gate
async def test_a_client_sends_and_reads_a_large_message(tmp_path: Path) -> None:
    async with triack.open("a", data=tmp_path / "a") as node, triack.connect(tmp_path / "a") as client:
        receipt = await client.send_stream("q", iter([BODY]), content_length=len(BODY), label="film")
        await receipt.ordered()
        async with client.receive("q", ack="manual") as reader:
            message = await reader.get()
            assert (message.id, message.label, message.size) == (receipt.id, "film", len(BODY))
            with pytest.raises(triack.LargeBody):
                _ = message.body
            assert await message.save(tmp_path / "film") == len(BODY)
            message.ack()
        assert (tmp_path / "film").read_bytes() == BODY
        async with client.transaction() as tx:
            await tx.send_stream("q", BODY)
        async with client.transaction() as tx:
            assert await read(await tx.receive("q")) == BODY
        await node.flush()
        assert not port_of(node).engine.queues.bodies.by_id


@pytest.mark.slow
@pytest.mark.gate
async def test_a_client_that_fails_or_leaves_frees_what_has_arrived(tmp_path: Path) -> None:
    async with triack.open("a", data=tmp_path / "a") as node:
        bodies = port_of(node).engine.queues.bodies
        async with triack.connect(tmp_path / "a") as client:
            with pytest.raises(triack.UsageError, match="bytes that were said"):
                await client.send_stream("q", iter([BODY]), content_length=len(BODY) + 1)
            tx = client.transaction()
            await tx.send_stream("q", BODY)
            await tx.rollback()
            await node.flush()
            assert not bodies.by_id
            left = await client.call("upload", destination="q", delivery="TRANSACTIONAL", size=9**8, properties={})
            await client.call("upload_part", BODY, upload=left[0]["upload"])
            assert bodies.by_id
        while bodies.by_id:  # the node notices that the client has gone
            await node.flush()


@pytest.mark.slow
@pytest.mark.gate
def test_the_same_without_async(tmp_path: Path) -> None:
    with triack.sync.open("a", data=tmp_path / "a") as node:
        node.send_stream("q", BODY)
        with node.receive("q", ack="manual") as reader:
            message = reader.get()
            assert (message.size, message.is_large) == (len(BODY), True)
            assert b"".join(message.stream()) == BODY  # type: ignore[arg-type]
            assert message.save(tmp_path / "film") == len(BODY)  # type: ignore[comparison-overlap]
            message.ack()
        with node.transaction() as tx:
            tx.send_stream("q", BODY)
        with node.transaction() as tx:
            assert b"".join(tx.receive("q").stream()) == BODY  # type: ignore[arg-type]
    assert (tmp_path / "film").read_bytes() == BODY
