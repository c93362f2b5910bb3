"""Lists that another process sends and receives, by the node."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, make
from triack.node.control.control_frames import Header
from triack.queues.stages import Stage


async def test_lists_of_a_client_are_those_of_the_node(tmp_path: Path) -> None:
    """Over several frames, in order, with the ids that the receipts say; acknowledged as one."""
    many = [b"%d" % number for number in range(2_500)]
    async with make("a", tmp_path / "a", "udp"), triack.connect(tmp_path / "a") as client:
        receipts = await client.send_many("q", many)
        await receipts.ordered(WAIT)
        await receipts[-1].ordered(WAIT)
        with pytest.raises(triack.UsageError, match="stages are"):
            await receipts[3].reached("nowhere")  # type: ignore[arg-type]
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


async def test_a_wait_for_a_list_has_one_time_for_all_of_it(tmp_path: Path) -> None:
    """However many frames it came in: what the first took of the time the others do not have."""
    async with make("a", tmp_path / "a", "udp"), triack.connect(tmp_path / "a") as client:
        receipts = await client.send_many("udp://127.0.0.1:9/q", [b"x"] * 3_500)
        await receipts.queued(WAIT)
        asked: list[float] = []
        call = client.call

        async def slow(do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
            asked.append(fields["timeout"])
            await asyncio.sleep(SOON)
            return await call(do, body, **fields | {"stage": "queued"})

        client.call = slow  # type: ignore[method-assign]
        await receipts.ordered(WAIT)
        assert len(asked) == 4
        assert all(later <= earlier - SOON for earlier, later in pairwise(asked))
        client.call = call  # type: ignore[method-assign]
        with pytest.raises(triack.WaitTimeout, match=r"3,500 messages not all ordered after 0\.2 s"):
            await receipts.ordered(SOON)
        with pytest.raises(triack.UsageError, match="timeout"):
            await receipts.ordered(-1)


async def test_of_a_clients_lists_just_what_was_taken_is_acknowledged(tmp_path: Path) -> None:
    """Each of it with the next that is asked for, though another reader has the neighbours, and over a restart."""
    async with make("a", tmp_path / "a"), triack.connect(tmp_path / "a") as client:
        await (await client.send_many("q", [b"%d" % number for number in range(100)])).ordered(WAIT)
        one, other = client.receive("q"), client.receive("q", ack="manual")
        await one.get_many(30, WAIT)
        held = await other.get_many(30, WAIT)
        await one.get_many(10, WAIT)
        await client.flush()
        assert (await client.queue_lengths())["q"] == 70
        held[4].ack()
        await client.flush()
        assert (await client.queue_lengths())["q"] == 69
    async with make("a", tmp_path / "a") as node, node.receive("q") as reader:
        again = [int(message.body) for message in await reader.get_many(timeout=WAIT)]
        assert again == [number for number in range(30, 100) if number != 34]


async def test_a_client_waits_for_the_stage_that_it_names(tmp_path: Path) -> None:
    """Or as long as it says; a stage that its messages do not have is refused before anything is sent."""
    async with make("b", scheme="udp") as b, make("a", tmp_path / "a"), triack.connect(tmp_path / "a") as client:
        await client.send(f"{b.address}/q", b"1", until="ordered", timeout=WAIT)
        await client.send_many(f"{b.address}/q", [b"2", b"3"], until=Stage.ORDERED, timeout=WAIT)
        assert b.queue_lengths()["q"] == 3
        with pytest.raises(triack.WaitTimeout, match=r"not received after 0\.2 s: nobody \w+ at udp://127\.0\.0\.1:9$"):
            await client.send("udp://127.0.0.1:9/q", b"x", until="received", timeout=SOON)
        for until, delivery in (("stored", triack.EXPRESS), ("delivered", triack.TRANSACTIONAL)):
            with pytest.raises(triack.UsageError, match=f"wait for '?{until}'?: "):
                await client.send(f"{b.address}/q", b"x", delivery=delivery, until=until)  # type: ignore[arg-type]
            with pytest.raises(triack.UsageError):
                await client.send_many(f"{b.address}/q", [b"x"], delivery=delivery, until=until)  # type: ignore[arg-type]
        assert b.queue_lengths()["q"] == 3
