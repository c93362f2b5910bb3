"""Transactions of a real node: all or nothing, over queues and machines."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, Face, bodies, make, quick, until
from triack.node.handles.transaction import LISTS_BYTES, Transaction
from triack.node.node import port_of
from triack.node.shell.prepared import MESSAGE_OVERHEAD_BYTES


async def fill(node: triack.Node, *texts: bytes) -> None:
    for text in texts:
        await node.send("in", text)
    await node.flush()


async def test_a_commit_sends_to_many_queues_near_and_far(node: triack.Node) -> None:
    """When it returns, the local messages are there; each send has its receipt, in order."""
    async with make("far", scheme="udp") as far:
        tx = node.transaction()
        for number in range(3):
            await tx.send("near", b"%d" % number)
            await tx.send(f"{far.address}/far", b"%d" % number, delivery=triack.RECOVERABLE)
            await tx.send(f"{far.address}/ordered", b"%d" % number, label="l")
        assert node.queue_lengths().get("near", 0) == 0
        receipts = await tx.commit()
        assert node.queue_lengths()["near"] == 3
        assert len(receipts) == 9
        await asyncio.gather(*(receipt.queued(WAIT) for receipt in receipts))
        await asyncio.gather(*(receipts[at].ordered(WAIT) for at in (2, 5, 8)))
        assert await bodies(far, "far", 3) == await bodies(far, "ordered", 3) == [b"0", b"1", b"2"]


async def fail_in_the_middle(face: Face) -> None:
    async with face.transaction() as tx:
        assert [(await tx.receive("in", WAIT)).body for _ in range(2)] == [b"1", b"2"]
        await tx.send("out", b"never")
        tx.remember("key", b"never")
        raise KeyError


async def test_leaving_the_block_commits_and_an_exception_rolls_back(node: triack.Node, face: Face) -> None:
    """Received messages come again in order, with a failure counted; messages to be sent are never sent."""
    await fill(node, b"1", b"2", b"3")
    with pytest.raises(KeyError):
        await fail_in_the_middle(face)
    await node.flush()
    assert node.queue_lengths() == {"dead-letter": 0, "in": 3, "out": 0}
    assert node.recall("key") is None
    async with face.transaction() as tx:
        again = [await tx.receive("in", WAIT) for _ in range(3)]
        assert [(message.body, message.failures) for message in again] == [(b"1", 1), (b"2", 1), (b"3", 0)]
        await tx.send("out", b"once")
    assert node.queue_lengths() == {"dead-letter": 0, "in": 0, "out": 1}


async def test_a_cancelled_transaction_is_no_failure(node: triack.Node, face: Face) -> None:
    """A service that is stopped again and again keeps its message, unlike one that fails."""
    await fill(node, b"1")

    async def wait_inside() -> None:
        async with face.transaction() as tx:
            await tx.receive("in", WAIT)
            taken.set()
            await asyncio.Event().wait()

    for _ in range(3):
        taken = asyncio.Event()
        task = asyncio.create_task(wait_inside())
        await taken.wait()
        task.cancel()
        await asyncio.wait([task])
    async with face.receive("in") as messages:
        message = await messages.get(WAIT)
    assert (message.body, message.failures, message.redelivered) == (b"1", 0, True)


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_forgotten_transaction_keeps_no_message(node: triack.Node, face: Face, *, elsewhere: bool) -> None:
    """With its last reference it is rolled back, in whatever thread that goes, and no failure is counted."""
    await fill(node, b"1", b"2")
    tx = face.transaction()
    message = await tx.receive("in", WAIT)
    await tx.send("out", b"never")
    held = [tx]
    del tx
    if elsewhere:
        await asyncio.to_thread(held.clear)
    held.clear()
    again = await face.receive("in").get(WAIT)
    assert (again.body, again.failures) == (message.body, 0) == (b"1", 0)
    assert node.queue_lengths()["out"] == 0


async def test_a_transaction_that_has_ended_gives_nothing_back_when_it_is_forgotten(node: triack.Node) -> None:
    await fill(node, b"1", b"2")
    for ends in (Transaction.commit, Transaction.rollback):
        tx = node.transaction()
        await tx.receive("in", WAIT)
        if (ending := ends(tx)) is not None:
            await ending
        del tx
    await node.flush()
    (again,) = await node.receive("in").get_many(10, WAIT)
    assert (again.body, again.failures) == (b"2", 1)


async def test_what_is_remembered_can_be_recalled_and_removed(tmp_path: Path) -> None:
    """Across restarts, before it is durable, and after the end; the last word of a transaction counts."""
    node = make(data=tmp_path)
    assert node.recall("a") is None
    async with node:
        async with node.transaction() as tx:
            tx.remember("a", b"1")
            tx.remember("a", b"2")
            tx.remember("b", b"")
            tx.remember("c", b"x")
        async with node.transaction() as tx:
            tx.remember("c", None)
        assert (node.recall("a"), node.recall("b"), node.recall("c")) == (b"2", b"", None)
        port_of(node).remember("d", b"last")
        assert node.recall("d") == b"last"
    assert (node.recall("a"), node.recall("d")) == (b"2", b"last")
    async with make(data=tmp_path) as node:
        assert [node.recall(key) for key in "abcd"] == [b"2", b"", None, b"last"]


async def test_a_commit_can_depend_on_a_value(node: triack.Node, face: Face) -> None:
    """Of two that read the same value, one commits: the other one does nothing, and loses nothing that it received."""
    await node.send("in", b"x", until="queued")
    faster, slower = face.transaction(), face.transaction()
    await slower.receive("in", WAIT)
    for number, tx in enumerate((faster, slower)):
        tx.expect("count", None)
        tx.remember("count", b"%d" % number)
        await tx.send("out", b"%d" % number)
    await faster.commit()
    with pytest.raises(triack.StateChanged, match="'count' has changed"):
        await slower.commit()
    with pytest.raises(triack.NodeClosed):
        await slower.commit()
    assert node.recall("count") == b"0"
    assert await bodies(node, "out", 1) == [b"0"]
    assert (await face.receive("in", ack="manual").get(WAIT)).failures == 0
    async with face.transaction() as tx:
        tx.expect("count", b"0")
        tx.remember("count", None)
    assert node.recall("count") is None


async def test_the_nodes_own_values_are_not_the_applications(tmp_path: Path) -> None:
    """A key is kept among what applications remember, and is not seen there."""
    for _ in range(2):
        async with make(data=tmp_path) as node:
            receipt = await node.send("q", b"x", key="k")
            await receipt.queued(WAIT)
            assert node.recall("$key:1:k") is None


@pytest.mark.parametrize(
    ("key", "value"), [("k", "text"), ("k", {"a": 1}), ("k", 1), (5, b""), ("\ud800", b""), ("$k", b"")]
)
async def test_only_bytes_can_be_remembered(node: triack.Node, face: Face, key: object, value: object) -> None:
    """Refused at once; it must not reach the disk, and the node goes on."""
    async with face.transaction() as tx:
        with pytest.raises(triack.UsageError):
            tx.remember(key, value)  # type: ignore[arg-type]
        await tx.send("out", b"fine")
    assert node.queue_lengths()["out"] == 1


async def test_express_cannot_be_part_of_it(node: triack.Node, face: Face) -> None:
    """Nor can what is wrong with any other send; the transaction itself goes on."""
    async with face.transaction() as tx:
        with pytest.raises(triack.UsageError, match="express"):
            await tx.send("out", b"x", delivery=triack.EXPRESS)
        with pytest.raises(triack.AddressError):
            await tx.send("nobody/out", b"x")
        with pytest.raises(triack.MessageTooLarge):
            await tx.send("out", bytes(4 * 1024 * 1024 + 1))
        await tx.send("out", b"fine")
    assert await bodies(node, "out", 1) == [b"fine"]


async def test_its_messages_are_settled_by_it_alone(node: triack.Node, face: Face) -> None:
    """A call of ``ack`` is refused by name. A rollback with a wrong delay ends nothing: they can be given back."""
    await fill(node, b"1")
    tx = face.transaction()
    message = await tx.receive("in", WAIT)
    with pytest.raises(triack.UsageError, match="transaction"):
        message.ack()
    with pytest.raises(triack.UsageError, match="delay"):
        tx.rollback(delay=-1)
    await tx.rollback(failed=False)
    assert await bodies(node, "in", 1) == [b"1"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_an_ended_transaction_does_nothing_more(node: triack.Node, face: Face, end: str) -> None:
    """It holds nothing, and a wait ends with it: if it took a message later, nobody would give it back."""
    await fill(node, b"1")
    tx = face.transaction()
    message = await tx.receive("in", WAIT)
    await tx.send("out", b"x")
    waiting = asyncio.create_task(tx.receive("in"))
    await asyncio.sleep(0)
    await getattr(tx, end)()
    assert node.stats().queues["in"].holders == []
    calls: list[Awaitable[object]] = [waiting, tx.send("out", b"y"), tx.receive("in"), tx.commit()]
    for call in (*calls, tx.receive_by_id("in", message.id)):
        with pytest.raises(triack.NodeClosed, match="ended"):
            await asyncio.wait_for(call, WAIT)
    with pytest.raises(triack.NodeClosed):
        tx.remember("k", b"")
    await fill(node, b"2")
    assert (await face.receive("in").get(WAIT)).body == (b"2" if end == "commit" else b"1")
    assert node.queue_lengths()["out"] == (end == "commit")


async def test_a_wait_in_a_transaction_ends_in_time_and_by_cancelling(node: triack.Node, face: Face) -> None:
    """Without taking anything, and without leaving a listener."""
    tx = face.transaction()
    with pytest.raises(triack.WaitTimeout, match="queue in"):
        await tx.receive("in", 0.01)
    waiting = asyncio.create_task(tx.receive("in"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await fill(node, b"1")
    assert (await tx.receive("in", WAIT)).body == b"1"
    await tx.commit()


async def test_a_list_that_was_received_comes_again_after_a_rollback(node: triack.Node, face: Face) -> None:
    """Each of its messages with a failure of its own, in order, over packets; a commit takes just these."""
    many = [b"%d" % number for number in range(300)]
    for part in (many[:100], many[100:]):
        await (await node.send_many("in", part)).ordered(WAIT)
    tx = face.transaction()
    taken = await tx.receive_many("in", 250, WAIT)
    assert [message.body for message in taken] == many[:250]
    await tx.rollback()
    tx = face.transaction()
    again = await tx.receive_many("in", 250, WAIT)
    assert [(message.body, message.failures) for message in again] == [(body, 1) for body in many[:250]]
    await tx.commit()
    assert node.queue_lengths()["in"] == 50
    async with face.transaction() as tx:
        left = await tx.receive_many("in", 30, WAIT)
    assert [(message.body, message.failures) for message in left] == [(body, 0) for body in many[250:280]]
    assert node.queue_lengths()["in"] == 20


@pytest.mark.gate
async def test_lists_of_a_transaction_have_a_limit(node: triack.Node, tmp_path: Path) -> None:
    """All of them together, and the message that goes beyond is taken; the list that is too long is left out whole."""
    fits = LISTS_BYTES // (1_000 + MESSAGE_OVERHEAD_BYTES)
    async with make("served", tmp_path) as served, triack.connect(tmp_path) as client:
        for tx, where in ((node.transaction(), node), (client.transaction(), served)):
            await tx.send_many("q", [b"x" * (4 * 1024 * 1024 - fits * (1_000 + MESSAGE_OVERHEAD_BYTES))])
            with pytest.raises(triack.UsageError, match=r"in a transaction: its lists would hold .* in several"):
                await tx.send_many("q", [b"x" * 1_000] * (fits + 2))
            await tx.send_many("q", [b"x" * 1_000] * fits)
            with pytest.raises(triack.UsageError, match="in several"):
                await tx.send_many("q", [b"x"])
            await tx.send("q", b"a single one waits for its turn")
            assert len(await tx.commit()) == fits + 2
            assert where.queue_lengths()["q"] == fits + 2


async def test_a_list_of_one_message_is_never_too_long(node: triack.Node) -> None:
    async with node.transaction() as tx:
        await tx.send_many("q", [b"x" * (4 * 1024 * 1024)])
        await tx.send_many("q", [])
    assert node.queue_lengths()["q"] == 1


async def test_what_was_prepared_goes_by_the_stream_that_is_there_then() -> None:
    """A stream may end while a transaction is open: its messages come all the same, behind those sent between."""
    settings = quick(retire_after_s=0.05)
    async with make("a", settings=settings) as a, make("b", scheme="udp", settings=settings) as b:
        tx = a.transaction()
        for to in ("q", f"{b.address}/q"):
            await tx.send(to, b"2")
            await tx.send_many(to, [b"3", b"4"])
        for to in ("q", f"{b.address}/q"):
            await a.send(to, b"1")
        await until(lambda: not a._port.engine.outbox.streams)  # noqa: SLF001 - their streams have ended
        receipts = await tx.commit(until="queued", timeout=WAIT)
        await asyncio.gather(*(receipt.ordered(WAIT) for receipt in receipts))
        for node in (a, b):
            assert await bodies(node, "q", 4) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("by_client", [False, True])
async def test_a_wait_for_room_ends_in_time_and_the_transaction_goes_on(tmp_path: Path, *, by_client: bool) -> None:
    settings = triack.NodeSettings(limits=triack.Limits(quota=triack.Quota(messages=1)))
    async with (
        triack.open("shop", data=tmp_path, settings=settings) as node,
        triack.connect(data=tmp_path) as client,
        (client if by_client else node).transaction() as tx,
    ):
        await node.send("full", b"1")
        with pytest.raises(triack.WaitTimeout, match="send to full: no room within 0 s: too many messages wait in"):
            await tx.send("full", b"2", timeout=0)
        with pytest.raises(triack.WaitTimeout, match=r"send to full: no room within 0\.01 s"):
            await tx.send_many("full", [b"3"], timeout=0.01)
        with pytest.raises(triack.UsageError, match="timeout must be"):
            await tx.send("free", b"never", timeout=-1)
        await tx.send("free", b"4", timeout=0)
        await tx.send_many("free", [b"5"], timeout=0)
        assert len(await tx.commit()) == 2
        assert await bodies(node, "free", 2) == [b"4", b"5"]
        assert node.queue_lengths()["full"] == 1
