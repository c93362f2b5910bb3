"""One receipt for a list."""

import pytest

import triack
from tests.node.nodes import SOON, WAIT, make

NOWHERE = "udp://127.0.0.1:9/q"


async def test_a_wait_is_for_all_and_each_has_a_receipt_of_its_own() -> None:
    async with make("a") as a, make("b", scheme="udp") as b:
        receipts = await a.send_many(f"{b.address}/q", [b"%d" % number for number in range(300)])
        for stage in triack.Stage:
            await receipts.reached(stage, WAIT)
        await receipts[-1].ordered(0)
        assert [one.id for one in receipts[10:12]] == [receipts[10].id, receipts[11].id]
        with pytest.raises(IndexError):
            receipts[300]


@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_a_wait_for_all_ends_with_the_slowest(delivery: triack.Delivery) -> None:
    """As many packets as it takes, in a class without order as well."""
    async with make("a") as a, make("b", scheme="udp") as b:
        receipts = await a.send_many(f"{b.address}/q", [b"x" * 700] * 200, delivery=delivery)
        await receipts.reached(triack.Stage.RECEIVED, WAIT)
        for receipt in receipts:
            await receipt.received(0)


async def test_a_wait_that_is_too_short_may_be_repeated() -> None:
    async with make() as node:
        receipts = await node.send_many(NOWHERE, [b"1", b"2"])
        await receipts.queued(WAIT)
        with pytest.raises(triack.WaitTimeout, match=r"2 messages .* not all ordered after [\d.]+ s: nobody \w+ at "):
            await receipts.ordered(SOON)
        with pytest.raises(triack.UsageError, match="no such stage"):
            await (await node.send_many(NOWHERE, [b""], delivery=triack.EXPRESS)).ordered(SOON)


async def test_a_wait_ends_when_one_of_them_will_never_arrive() -> None:
    """The one before it has; which of them failed, their own receipts say."""
    async with make("a") as a, make("b", scheme="udp", queues=["q"]) as b:
        receipts = await a.send_many(f"{b.address}/other", [b"1", b"2"])
        with pytest.raises(triack.DeliveryFailed) as failed:
            await receipts.ordered(WAIT)
        assert failed.value.reason == "queue-not-found"
        for receipt in receipts:
            with pytest.raises(triack.DeliveryFailed):
                await receipt.ordered(WAIT)


async def test_a_wait_ends_with_the_node() -> None:
    node = await make().start()
    receipts = await node.send_many(NOWHERE, [b"1", b"2"])
    await node.close()
    with pytest.raises(triack.NodeClosed):
        await receipts.ordered(WAIT)


async def test_receipts_show_how_many_and_where_they_go() -> None:
    """Without the messages themselves, which may be a million."""
    async with make("a") as a:
        assert repr(await a.send_many("orders", [b"x", b"y"])) == "<Receipts of 2 messages to orders>"
