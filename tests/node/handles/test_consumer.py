"""Reading a queue of a real node."""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.mission.ends import alone
from tests.node.nodes import WAIT, Face, bodies, make, quick
from triack.node.handles.consumer import in_time
from triack.queues.mailboxes.mailbox import Mailbox, Notices
from triack.testing import World


async def fill(node: triack.Node, *texts: bytes, delivery: triack.Delivery = triack.TRANSACTIONAL) -> None:
    for text in texts:
        await node.send("q", text, delivery=delivery)
    await node.flush()


async def test_leaving_the_loop_gives_the_last_message_back(node: triack.Node, face: Face) -> None:
    """By break: the next reader has it at once, marked, although the loop's variable still holds it."""
    await fill(node, b"1", b"2", b"3")
    async for message in face.receive("q"):
        if message.body == b"2":
            break
    again = await face.receive("q").get(WAIT)
    assert (again.body, again.redelivered, again.failures) == (b"2", True, 0)


async def test_manual_leaves_it_to_the_caller(node: triack.Node, face: Face) -> None:
    """Nothing is done until ``ack``; ``ack`` twice or after ``reject`` does nothing. What was sent with it stays."""
    await node.send("q", b"1" * 100_000, label="l", headers={"a": "b"}, time_to_be_received=60)
    await fill(node, b"2")
    async with face.receive("q", ack="manual") as consumer:
        first, second = await consumer.get(WAIT), await consumer.get(WAIT)
        assert node.queue_lengths()["q"] == 2
        second.ack()
        second.ack()
        second.reject()
        await face.flush()
        assert node.queue_lengths()["q"] == 1
        first.reject()
        first.ack()
        again = await consumer.get(WAIT)
        for message in (first, again):
            assert (message.body, message.label, message.headers) == (b"1" * 100_000, "l", {"a": "b"})
        assert (first.redelivered, first.queue, again.redelivered, again.failures) == (False, "q", True, 1)
        assert (again.id, again.sent_at, again.properties) == (first.id, first.sent_at, first.properties)
        again.ack()
    assert node.queue_lengths()["q"] == 0


async def test_a_waiting_consumer_is_woken_by_what_arrives(node: triack.Node, face: Face) -> None:
    """And by what another gives back."""
    waiting = asyncio.create_task(face.receive("q").get(WAIT))
    await asyncio.sleep(0)
    await fill(node, b"1")
    assert (await waiting).body == b"1"
    del waiting
    other = face.receive("q", ack="manual")
    message = await other.get(WAIT)
    waiting = asyncio.create_task(face.receive("q").get(WAIT))
    await asyncio.sleep(0)
    message.reject()
    assert (await waiting).body == b"1"


@pytest.mark.parametrize("count", [1, 300])
async def test_a_cancelled_wait_loses_nothing(node: triack.Node, count: int) -> None:
    """Of one message or of a list, at whatever moment: before it, with it, and many times over."""
    consumer = node.receive("q", ack="manual")
    for number in range(20):
        waiting: asyncio.Task[Any] = asyncio.create_task(consumer.get() if count == 1 else consumer.get_many())
        for _ in range(number % 5):
            await asyncio.sleep(0)
        sending = asyncio.create_task(node.send_many("q", [b"%d" % number] * count))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        waiting.cancel()
        result = (await asyncio.gather(waiting, return_exceptions=True))[0]
        await (await sending).ordered(WAIT)
        got = [] if isinstance(result, BaseException) else [result] if count == 1 else list(result)
        while len(got) < count:
            got += await consumer.get_many(timeout=WAIT)
        assert [message.body for message in got] == [b"%d" % number] * count
        assert not any(message.redelivered for message in got)
        for message in got:
            message.ack()
    consumer.close()
    assert node.queue_lengths()["q"] == 0


async def test_a_wait_ends_in_time(node: triack.Node, face: Face) -> None:
    """With a WaitTimeout that names the queue, which is a TimeoutError too; the consumer goes on."""
    consumer = face.receive("q")
    with pytest.raises(triack.WaitTimeout, match=r"queue q after 0\.01 s"):
        await consumer.get(0.01)
    with pytest.raises(TimeoutError):
        await consumer.get(0)
    await fill(node, b"1")
    assert (await consumer.get(0)).body == b"1"


@pytest.mark.parametrize("way", ["one", "list", "transaction"])
async def test_polling_finds_what_only_the_disk_has(tmp_path: Path, way: str) -> None:
    """It waits in the queue, and that its body has to be fetched is nothing that a reader sees."""
    wanted = [b"%05d" % number * 200 for number in range(100)]
    async with make(data=tmp_path) as node:
        await fill(node, *wanted)
    async with (
        make(data=tmp_path, settings=quick(body_cache_bytes=4_096)) as node,
        node.receive("q") as reader,
        node.transaction() as tx,
    ):

        async def poll() -> bytes:
            if way == "list":
                return (await reader.get_many(1, timeout=0))[0].body
            return (await (reader.get(timeout=0) if way == "one" else tx.receive("q", timeout=0))).body

        assert [await poll() for _ in wanted] == wanted
        with pytest.raises(triack.WaitTimeout, match="after 0 s"):
            await poll()


async def test_what_comes_with_the_end_of_the_time_is_looked_at() -> None:
    mailbox, arrived = Mailbox(1, "q", Notices(Counter())), asyncio.Event()

    async def take() -> str:
        if arrived.is_set():
            return "it"
        asyncio.get_running_loop().call_soon(arrived.set)
        return await asyncio.Future()

    assert await in_time(0, mailbox, arrived, take) == "it"


async def test_polling_waits_for_its_acknowledgement_and_then_looks(tmp_path: Path) -> None:
    """A node whose readers wait for the disk polls as others do."""
    blocking = triack.Blocking(acknowledge=True)
    async with make(data=tmp_path, settings=quick(blocking=blocking)) as node, node.receive("q") as reader:
        await fill(node, b"1", b"2")
        assert [(await reader.get(timeout=0)).body for _ in range(2)] == [b"1", b"2"]
        with pytest.raises(triack.WaitTimeout):
            await reader.get(timeout=0)


async def test_a_closed_consumer_says_so(node: triack.Node, face: Face) -> None:
    """Also to one that waits, and in the middle of a packet, of which the next reader gets the rest, unmarked."""
    consumer = face.receive("q")
    waiting = asyncio.create_task(consumer.get(WAIT))
    await asyncio.sleep(0)
    consumer.close()
    consumer.close()
    await fill(node, b"1", b"2")
    consumer = face.receive("q", ack="manual")
    first = await consumer.get(WAIT)
    first.ack()
    consumer.close()
    for call in (waiting, consumer.get(WAIT), consumer.get_by_id(first.id)):
        with pytest.raises(triack.NodeClosed, match="consumer is closed"):
            await call
    async with face.receive("q") as other:
        second = await other.get(WAIT)
    assert (second.body, second.redelivered) == (b"2", False)


async def get_one(face: Face) -> triack.Message:
    return await face.receive("q", ack="manual").get(WAIT)


async def get_list(face: Face) -> triack.Message:
    return (await face.receive("q", ack="manual").get_many(1, WAIT))[0]


@pytest.mark.parametrize("get", [get_one, get_list])
async def test_a_message_keeps_the_reader_that_nobody_else_keeps(
    node: triack.Node, face: Face, get: Callable[[Face], Awaitable[triack.Message]]
) -> None:
    """Manual acks work in one line, too. A message that is dropped goes back, without the garbage collector."""
    await fill(node, b"1", b"2", b"3")
    gc.disable()
    try:
        first, second = await get(face), await get(face)
        assert (first.body, second.body) == (b"1", b"2")
        first.ack()
        second.reject(delay=0)
        del second
        (await get(face)).ack()
        await get(face)
        await face.flush()
        assert await bodies(node, "q", 1) == [b"3"]
    finally:
        gc.enable()
    assert node.queue_lengths()["q"] == 0


async def test_a_message_that_another_thread_settles_stays_in_hand(node: triack.Node) -> None:
    """Where nobody could see it, it is refused; in its own loop it can still be done."""
    await fill(node, b"1")
    message = await get_one(node)
    for settle in (message.ack, message.reject):
        with pytest.raises(triack.UsageError, match="a message of queue q belongs to the event loop"):
            await asyncio.to_thread(settle)
    message.ack()
    assert node.queue_lengths()["q"] == 0


async def test_a_wrong_mode_is_refused(node: triack.Node, face: Face) -> None:
    with pytest.raises(triack.UsageError, match="'auto' or 'manual'"):
        face.receive("q", ack="never")  # type: ignore[arg-type]


@pytest.mark.parametrize("delivery", [triack.RECOVERABLE, triack.TRANSACTIONAL])
async def test_what_was_acknowledged_before_closing_does_not_come_again(
    tmp_path: Path, delivery: triack.Delivery
) -> None:
    """Also half of a packet, with no flush in between; the other half comes marked."""
    async with make(data=tmp_path) as node:
        await fill(node, *(b"%d" % number for number in range(10)), delivery=delivery)
        async with node.receive("q", ack="manual") as consumer:
            for message in [await consumer.get(WAIT) for _ in range(7)]:
                if message.body in b"0246":
                    message.ack()
    async with make(data=tmp_path) as node:
        assert node.queue_lengths()["q"] == 6
        async with node.receive("q") as consumer:
            again = [await consumer.get(WAIT) for _ in range(6)]
        assert [message.body for message in again] == [b"1", b"3", b"5", b"7", b"8", b"9"]
        assert all(message.redelivered for message in again)


async def test_messages_with_a_deadline_are_looked_at_one_by_one(triack_world: World) -> None:
    """Neighbours in one packet: the second dies while the application is busy with the first."""
    async with alone(triack_world, triack.NodeSettings()) as node:
        await node.send("q", b"1", time_to_be_received=60)
        await node.send("q", b"2", time_to_be_received=3)
        await node.send("q", b"3", time_to_be_received=60)
        await node.flush()
        async with node.receive("q") as consumer:
            assert (await consumer.get()).body == b"1"
            await triack_world.advance(5)
            third = await consumer.get()
            assert (third.body, third.redelivered) == (b"3", False)
        assert await bodies(node, "dead-letter", 1) == [b"2"]


async def test_a_reader_in_the_middle_of_a_packet_hears_that_the_node_has_ended() -> None:
    """It could not acknowledge the next message any more."""
    node = await make().start()
    await fill(node, b"1", b"2", b"3")
    consumer = node.receive("q", ack="manual")
    assert (await consumer.get(WAIT)).body == b"1"
    await node.close()
    with pytest.raises(triack.NodeClosed):
        await consumer.get(WAIT)


async def test_reject_with_a_delay() -> None:
    """The consumer says how long, and that younger messages may pass."""
    async with make() as node:
        await fill(node, b"1", b"2")
        passing = triack.Redelivery(keep_order=False)
        async with node.receive("q", ack="manual", redelivery=passing) as consumer:
            (await consumer.get(WAIT)).reject(delay=0.1)
            assert (await consumer.get(WAIT)).body == b"2"
            again = await consumer.get(WAIT)
            assert (again.body, again.failures) == (b"1", 1)
            again.reject(failed=False, delay=0.1)
            assert (await consumer.get(WAIT)).failures == 1
            for delay in (-1, "1", float("nan"), True):
                with pytest.raises(triack.UsageError, match="delay must be a number of seconds"):
                    again.reject(delay=delay)  # type: ignore[arg-type]


async def test_a_rollback_waits_too() -> None:
    """A transaction that fails is not tried again at once."""
    async with make(settings=quick(redelivery=triack.Redelivery(first_wait_s=0.3))) as node:
        await fill(node, b"1")
        tx = node.transaction()
        await tx.receive("q", WAIT)
        tx.rollback()
        with pytest.raises(triack.WaitTimeout):
            await node.transaction().receive("q", 0.1)
        assert (await node.transaction().receive("q", WAIT)).failures == 1
