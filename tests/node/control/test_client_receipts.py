"""Lists that another process sends and receives, by the node."""

from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make


async def test_lists_of_a_client_are_those_of_the_node(tmp_path: Path) -> None:
    """Over several frames, in order, with the ids that the receipts say; acknowledged as one."""
    many = [b"%d" % number for number in range(2_500)]
    async with make("a", tmp_path / "a", "udp"), triack.connect(tmp_path / "a") as client:
        receipts = await client.send_many("q", many)
        await receipts.ordered(WAIT)
        await receipts[-1].ordered(WAIT)
        with pytest.raises(triack.UsageError, match="stages are"):
            await receipts[3].reached("nowhere")
        got: list[triack.Message] = []
        async with client.receive("q") as reader:
            while len(got) < len(many):
                got += await reader.get_many(timeout=WAIT)
        assert [message.body for message in got] == many
        assert [message.id for message in got] == [receipt.id for receipt in receipts]
        await client.flush()
        assert (await client.queue_lengths())["q"] == 0
        tx = client.transaction()
        await tx.send_many("q", [b"1", b"2"])
        assert len(await tx.commit()) == 2
        tx = client.transaction()
        assert [message.body for message in await tx.receive_many("q", 5, WAIT)] == [b"1", b"2"]
        await tx.commit()
        assert (await client.queue_lengths())["q"] == 0
