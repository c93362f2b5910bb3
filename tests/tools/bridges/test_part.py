"""What both directions of a bridge do."""

import pytest

import triack
from triack import Limits, NodeSettings, Quota, WaitTimeout
from triack.base.reasons import BridgeReason
from triack.bridges import BridgeTable
from triack.bridges.part import refuse
from triack.queues.messages import MAX_BODY_BYTES


@pytest.mark.parametrize("size", [1, MAX_BODY_BYTES + 1])
async def test_a_refused_message_does_not_wait_for_room_in_silence(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is; there is room again when the queue was read."""
    monkeypatch.setattr("triack.bridges.part.ROOM_S", 0.2)
    monkeypatch.setattr("triack.bridges.part.LARGE_ROOM_S", 0.2)
    table, why = BridgeTable("b", mqtt="mqtt://127.0.0.1", take=["a -> a"]), (BridgeReason.UNFIT, "it does not fit")
    settings = NodeSettings(limits=Limits(quota=Quota(messages=1)))
    async with triack.open("gate", data=None, insecure=True, settings=settings) as node:
        await node.send("b.refused", b"first")
        async with node.transaction() as tx:
            with pytest.raises(WaitTimeout):
                await refuse(tx, table, bytes(size), {}, why)
            async with node.receive("b.refused") as letters:
                (await letters.get()).ack()
            monkeypatch.undo()
            await refuse(tx, table, bytes(size), {}, why)
            await tx.commit()
        async with node.receive("b.refused") as letters:
            found = await letters.get()
            assert found.headers == {"mqtt-reason": "unfit", "mqtt-refused": "it does not fit"}
