"""Messages are taken by their ids and correlation ids, whatever waits before them; the others stay in order."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, bodies, make, quick, until
from triack.node.handles import choosing
from triack.queues.mailboxes import lookup
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records


async def fill(node: triack.Node, count: int, **more: Any) -> list[str]:
    """Messages with the bodies 0, 1, 2 and so on, and the correlation ids c0, c1, c2. Returns their ids."""
    ids = [(await node.send("q", b"%d" % at, correlation_id=f"c{at}", **more)).id for at in range(count)]
    await node.flush()
    return ids


async def rest(node: triack.Node, count: int) -> list[int]:
    return [int(body) for body in await bodies(node, "q", count)]


def judged(log: Path) -> set[str]:
    """What replay finds broken in a log."""
    records = b"".join(file.read_bytes() for file in sorted(log.rglob("*.jsonl")))
    return {violation.check for violation in judge_records(parse_records(records))}


@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_one_is_taken_out_of_the_middle_and_the_others_keep_their_order(
    delivery: triack.Delivery, tmp_path: Path
) -> None:
    """Of each class; the log shows nothing wrong."""
    async with make("a", tmp_path / "a", log=tmp_path / "log") as node:
        ids = await fill(node, 200, delivery=delivery)
        async with node.receive("q", ack="manual") as reader:
            for message in (await reader.get_by_id(ids[150]), await reader.get_by_correlation_id("c60")):
                message.ack()
        expected = [at for at in range(200) if at not in (60, 150)]
        assert await rest(node, 198) == expected
        await node.flush()
        assert node.queue_lengths()["q"] == 0
    assert judged(tmp_path / "log") == set()


async def test_a_hole_outlives_a_restart(tmp_path: Path) -> None:
    async with make("a", tmp_path) as node:
        ids = await fill(node, 20)
        (await node.receive("q", ack="manual").get_by_id(ids[7])).ack()
        await node.flush()
    async with make("a", tmp_path) as node:
        reader = node.receive("q", ack="manual")
        with pytest.raises(triack.WaitTimeout, match=f"the id {ids[7]}"):
            await reader.get_by_id(ids[7])
        assert (await reader.get_by_id(ids[8])).redelivered
        reader.close()
        assert await rest(node, 19) == [at for at in range(20) if at != 7]


async def test_a_message_in_another_hand_is_waited_for() -> None:
    async with make() as node:
        ids = await fill(node, 3)
        first, second = node.receive("q", ack="manual"), node.receive("q", ack="manual")
        held = await first.get_by_id(ids[1])
        with pytest.raises(triack.WaitTimeout):
            await second.get_by_id(ids[1])
        waiting = asyncio.create_task(second.get_by_id(ids[1], WAIT))
        await asyncio.sleep(SOON)
        held.reject(failed=False)
        message = await waiting
        assert (message.body, message.redelivered) == (b"1", True)
        message.ack()


async def test_of_two_with_one_correlation_id_the_first_is_taken() -> None:
    async with make() as node:
        for body in (b"1", b"2"):
            await node.send("q", body, correlation_id="x")
        reader = node.receive("q", ack="manual")
        assert [(await reader.get_by_correlation_id("x", WAIT)).body for _ in range(2)] == [b"1", b"2"]


async def test_one_that_comes_later_is_waited_for() -> None:
    async with make() as node:
        waiting = asyncio.create_task(node.receive("q", ack="manual").get_by_correlation_id("x", WAIT))
        await asyncio.sleep(SOON)
        await node.send("q", b"another")
        await node.send("q", b"this", correlation_id="x")
        assert (await waiting).body == b"this"


async def test_an_expired_message_is_not_there() -> None:
    async with make() as node:
        id_ = (await node.send("q", b"x", time_to_be_received=0.05)).id
        await until(lambda: node.queue_lengths()["dead-letter"] == 1)
        with pytest.raises(triack.WaitTimeout):
            await node.receive("q").get_by_id(id_)


async def test_a_rollback_puts_it_back_in_its_place_and_a_commit_takes_it() -> None:
    async with make() as node:
        ids = await fill(node, 5)
        async with node.transaction() as undone:
            assert (await undone.receive_by_id("q", ids[3])).body == b"3"
            undone.rollback(failed=False)
        async with node.transaction() as tx:
            message = await tx.receive_by_correlation_id("q", "c3")
            assert message.redelivered
            with pytest.raises(triack.WaitTimeout):
                await tx.receive_by_id("q", ids[3])
            await tx.send("done", message.body)
        assert await rest(node, 4) == [0, 1, 2, 4]
        assert await bodies(node, "done", 1) == [b"3"]


async def test_bodies_that_only_the_disk_has_are_found_and_taken(tmp_path: Path) -> None:
    """A queue that is much larger than its memory; also when the index is full, and page by page."""
    settings = quick(body_cache_bytes=4_096, messages_per_packet=3)
    async with make("a", tmp_path, settings=settings) as node:
        ids = await fill(node, 600)
        reader = node.receive("q", ack="manual")
        taken = [await reader.get_by_id(ids[at]) for at in (599, 300, 301)]
        assert [message.body for message in taken] == [b"599", b"300", b"301"]
        assert taken[0].correlation_id == "c599"
        for message in taken[:2]:
            message.ack()
        taken[2].reject(failed=False)
        await node.flush()
        reader.close()
        assert await rest(node, 598) == [at for at in range(600) if at not in (300, 599)]


async def test_with_a_full_index_the_queue_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "ENTRIES_MAX", 10)
    monkeypatch.setattr(choosing, "PAGE_PACKETS", 3)
    async with make(settings=quick(messages_per_packet=2)) as node:
        ids = await fill(node, 100)
        reader = node.receive("q", ack="manual")
        assert (await reader.get_by_id(ids[97])).body == b"97"
        assert (await reader.get_by_correlation_id("c98")).body == b"98"


async def test_with_auto_the_message_is_acknowledged_by_the_next_call() -> None:
    async with make() as node:
        ids = await fill(node, 3)
        async with node.receive("q") as reader:
            assert (await reader.get(WAIT)).body == b"0"
            await reader.get_by_id(ids[2])
            assert (await reader.get(WAIT)).body == b"1"
        await node.flush()
        assert node.queue_lengths()["q"] == 0


async def test_a_closed_reader_and_an_ended_transaction_take_nothing() -> None:
    async with make() as node:
        (id_,) = await fill(node, 1)
        reader, tx = node.receive("q"), node.transaction()
        reader.close()
        tx.rollback()
        with pytest.raises(triack.NodeClosed):
            await reader.get_by_id(id_)
        with pytest.raises(triack.NodeClosed):
            await tx.receive_by_id("q", id_)


async def test_a_client_takes_messages_by_id_and_peeks(tmp_path: Path) -> None:
    """And browses behind a place."""
    async with make("a", tmp_path) as node, triack.connect(tmp_path) as client:
        ids = await fill(node, 5)
        assert (await client.peek("q", WAIT)).body == b"0"
        reader = client.receive("q", ack="manual")
        message = await reader.get_by_id(ids[3])
        assert message.body == b"3"
        message.ack()
        async with client.transaction() as tx:
            assert (await tx.receive_by_id("q", ids[1])).body == b"1"
            assert (await tx.receive_by_correlation_id("q", "c2")).body == b"2"
        with pytest.raises(triack.WaitTimeout):
            await reader.get_by_correlation_id("c3")
        assert [it.body async for it in client.browse("q", after=1)] == [b"4"]
        await client.close()


def test_callers_that_wait_have_the_same() -> None:
    with triack.sync.open("a", data=None, insecure=True, settings=quick()) as node:
        ids = [node.send("q", b"%d" % at, correlation_id=f"c{at}").id for at in range(4)]
        assert node.peek("q", WAIT).place == 1
        with node.receive("q", ack="manual") as reader:
            reader.get_by_id(ids[2], WAIT).ack()
            reader.get_by_correlation_id("c3").ack()
        with node.transaction() as tx:
            assert tx.receive_by_id("q", ids[1]).body == b"1"
        assert [it.body for it in node.browse("q")] == [b"0"]


async def test_peek_waits_for_the_first_message_and_leaves_it() -> None:
    async with make() as node:
        with pytest.raises(triack.WaitTimeout, match="no message waits in queue q"):
            await node.peek("q", 0)
        waiting = asyncio.create_task(node.peek("q"))
        await asyncio.sleep(SOON)
        await node.send("q", b"x")
        seen = await waiting
        assert (seen.body, seen.place) == (b"x", 1)
        message = await node.receive("q", ack="manual").get(WAIT)
        assert (message.body, message.place, message.redelivered) == (b"x", 1, False)


async def test_browse_goes_on_behind_a_place() -> None:
    async with make() as node:
        await fill(node, 5)
        async with node.receive("q", ack="manual") as reader:
            place = (await reader.get(WAIT)).place
            assert [it.body async for it in node.browse("q", after=place + 1)] == [b"2", b"3", b"4"]
        await node.send("udp://127.0.0.1:9/far", b"x")
        for queue, after in (("q", -1), ("q", True), ("udp://127.0.0.1:9/far", 1)):
            with pytest.raises(triack.UsageError):
                await anext(node.browse(queue, after=after))


async def test_a_paused_queue_gives_nothing_by_id_either() -> None:
    async with make() as node:
        (id_,) = await fill(node, 1)
        await node.pause("q")
        reader = node.receive("q", ack="manual")
        with pytest.raises(triack.WaitTimeout):
            await reader.get_by_id(id_)
        await node.resume("q")
        assert (await reader.get_by_id(id_, WAIT)).body == b"0"
