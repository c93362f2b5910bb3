"""The reader is the one of the node, with spans."""

import pytest

import triack
from tests.tools.tracing.conftest import Spans
from triack.tracing import Tracing


async def test_it_acknowledges_gives_back_and_closes_as_ever(shop: triack.Node, spans: Spans) -> None:
    node = Tracing(spans.provider).watch(shop)
    await node.send_many("orders", [b"1", b"2"])
    reader = node.receive("orders")

    async def read() -> None:
        async with reader:
            async for message in reader:
                if message.body == b"2":
                    raise LookupError

    with pytest.raises(LookupError):
        await read()
    assert "orders" in repr(reader)
    reader.close()
    assert node.queue_lengths()["orders"] == 1
    assert (await node.receive("orders", ack="manual").get()).failures == 1
    assert spans.names.count("receive orders") == 3
