"""A batch is what is there: the first message is waited for, the others are not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import triack
from triack.node.control import batches
from triack.node.control.batches import take_batch


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    """A node that sends to itself."""
    async with triack.open("a", data=tmp_path, insecure=True) as node:
        yield node


async def put(node: triack.Node, *bodies: bytes) -> None:
    """Leave messages in the queue."""
    for body in bodies:
        await (await node.send("q", body)).ordered(10)


def bodies(batch: list[triack.Message]) -> list[bytes]:
    return [message.body for message in batch]


async def test_a_batch_is_what_is_there_in_order(node: triack.Node) -> None:
    """No longer than it was asked for."""
    await put(node, b"1", b"2", b"3", b"4", b"5")
    consumer = node.receive("q", ack="manual")
    assert bodies(await take_batch(consumer, most=2)) == [b"1", b"2"]
    assert bodies(await take_batch(consumer)) == [b"3", b"4", b"5"]


async def test_the_first_is_waited_for_only_so_long(node: triack.Node) -> None:
    with pytest.raises(triack.WaitTimeout):
        await take_batch(node.receive("q", ack="manual"), timeout=0.01)


async def test_a_batch_ends_with_the_message_that_fills_it(node: triack.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its bytes, or by its number, whatever was asked for; nothing that was taken is lost."""
    monkeypatch.setattr(batches, "BATCH_BYTES", 10)
    monkeypatch.setattr(batches, "BATCH_MESSAGES", 3)
    await put(node, b"12345", b"67890", b"", b"a" * 100, b"b", b"c", b"d", b"e")
    consumer = node.receive("q", ack="manual")
    taken = [bodies(await take_batch(consumer, most=1_000)) for _ in range(4)]
    assert taken == [[b"12345", b"67890"], [b"", b"a" * 100], [b"b", b"c", b"d"], [b"e"]]


async def test_nothing_of_a_batch_is_acknowledged(tmp_path: Path) -> None:
    """That is for whoever took it, when the messages are where they belong."""
    async with triack.open("a", data=tmp_path, insecure=True) as node:
        await put(node, b"1", b"2")
        assert len(await take_batch(node.receive("q", ack="manual"))) == 2
    async with triack.open("a", data=tmp_path, insecure=True) as node:
        assert node.queue_lengths()["q"] == 2
