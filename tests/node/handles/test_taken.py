"""The messages that a transaction has in hand."""

import pytest

import triack
from tests.node.nodes import WAIT, make


async def test_a_step_that_is_undone_is_in_hand_no_more() -> None:
    async with make() as node:
        await node.send("q", b"1")
        transaction = node.transaction()
        await transaction.receive("q", WAIT)
        assert node.stats().queues["q"].in_hand == 1
        transaction.undo(transaction.last_step)
        assert node.stats().queues["q"].in_hand == 0
        assert await node.release("q") == 0
        await transaction.commit()


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_what_has_ended_holds_nothing(end: str) -> None:
    async with make() as node:
        await node.send("q", b"1")
        transaction = node.transaction()
        await transaction.receive("q", WAIT)
        await (transaction.commit() if end == "commit" else transaction.rollback(failed=False))
        assert node.stats().queues["q"].holders == []


async def test_only_the_queue_that_is_released_comes_back() -> None:
    """The rest of it comes back with the rollback that is left to do."""
    async with make() as node:
        for queue in ("one", "other"):
            await node.send(queue, b"1")
        transaction = node.transaction()
        for queue in ("one", "other"):
            await transaction.receive(queue, WAIT)
        assert await node.release("one") == 1
        assert [node.stats().queues[queue].in_hand for queue in ("one", "other")] == [0, 1]
        with pytest.raises(triack.HandOverEnded):
            await transaction.commit()
        assert node.stats().queues["other"].in_hand == 0
        assert (await node.receive("other").get(WAIT)).failures == 0
