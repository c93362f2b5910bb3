"""Sending by the list."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import SOON, WAIT, bodies, make, quick, until
from triack.node.node import port_of
from triack.node.shell.engine_handle import TURN_MESSAGES
from triack.queues.streams.ordinals import ORDINALS_BLOCK


@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_a_list_arrives_whole_and_in_order(delivery: triack.Delivery) -> None:
    """Over many packets, and over the end of a block of ids; each message has the id that its receipt says."""
    many = [b"%d" % number for number in range(ORDINALS_BLOCK + 500)]
    async with make("a") as a, make("b", scheme="udp") as b:
        receipts = await a.send_many(f"{b.address}/q", iter(many), delivery=delivery)
        await receipts.received(WAIT)
        async with b.receive("q") as reader:
            got = [await reader.get(WAIT) for _ in many]
    assert [message.body for message in got] == many
    assert [message.id for message in got] == [receipt.id for receipt in receipts]
    assert len({message.id for message in got}) == len(receipts) == len(many)


async def test_all_messages_of_a_list_have_its_properties() -> None:
    async with make() as node:
        await node.send_many("q", [b"1", b"2"], label="l", headers={"a": "b"})
        async with node.receive("q") as reader:
            for _ in range(2):
                message = await reader.get(WAIT)
                assert (message.label, message.headers) == ("l", {"a": "b"})


async def test_of_a_list_with_a_mistake_nothing_is_accepted() -> None:
    """It is checked before its first message is accepted."""
    async with make() as node:
        with pytest.raises(triack.MessageTooLarge):
            await node.send_many("q", [b"fine", b"x" * (4 * 1024 * 1024 + 1)])
        with pytest.raises(triack.UsageError, match="a body is bytes, not str"):
            await node.send_many("q", [b"fine", "not"])  # type: ignore[list-item]
        with pytest.raises(triack.UsageError, match="a key names one message"):
            await node.send_many("q", [b"fine"], key="k")
        with pytest.raises(triack.UsageError, match="no message property"):
            await node.send_many("q", [b"fine"], colour="red")  # type: ignore[call-arg]
        await node.flush()
        assert node.queue_lengths().get("q", 0) == 0
        receipts = await node.send_many("q", [])
        await receipts.ordered(0)
        assert len(receipts) == 0


async def test_a_list_waits_for_room_as_single_messages_do() -> None:
    """At the quota of a queue it stops, no more than a turn beyond it, and goes on when there is room."""
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=100)})
    many = [b"%d" % number for number in range(40 * TURN_MESSAGES)]
    async with make(settings=quick(limits=limits)) as node:
        sending = asyncio.create_task(node.send_many("q", many))
        await until(lambda: node.queue_lengths().get("q", 0) >= 100)
        await asyncio.sleep(SOON)
        assert not sending.done()
        assert 100 <= node.queue_lengths()["q"] <= 100 + TURN_MESSAGES
        async with node.receive("q") as reader:
            got: list[bytes] = []
            while len(got) < len(many):
                got += [message.body for message in await reader.get_many(timeout=WAIT)]
                assert node.queue_lengths()["q"] <= 100 + TURN_MESSAGES
        assert got == many
        await (await sending).ordered(WAIT)


async def test_who_is_cancelled_leaves_a_beginning_of_the_list() -> None:
    """In order, and without a hole."""
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=100)})
    many = [b"%d" % number for number in range(10_000)]
    async with make(settings=quick(limits=limits)) as node:
        sending = asyncio.create_task(node.send_many("q", many))
        await until(lambda: node.queue_lengths().get("q", 0) >= 100)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await node.flush()
        there = node.queue_lengths()["q"]
        assert 0 < there < len(many)
        assert await bodies(node, "q", there) == many[:there]


async def test_a_list_stops_at_the_limit_of_what_is_pending() -> None:
    """With the message that goes beyond, as single messages do; the rest follows when that is on the disk."""
    async with make(settings=quick(pending_limit_bytes=10_000)) as node:
        sending = asyncio.create_task(node.send_many("q", [b"x" * 1_000] * 25))
        await asyncio.sleep(0)
        assert port_of(node).outgoing_stream("q", triack.TRANSACTIONAL).submitted == 10
        assert len(await sending) == 25
        assert len(await bodies(node, "q", 25)) == 25


async def test_a_queue_that_refuses_ends_a_list_and_says_how_far_it_came() -> None:
    """Messages that were accepted before stay so."""
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=10, when_full="reject")})
    async with make(settings=quick(limits=limits)) as node:
        with pytest.raises(triack.QueueFull) as refused:
            await node.send_many("q", [b"x"] * 10_000)
        await node.flush()
        there = node.queue_lengths()["q"]
        assert TURN_MESSAGES - 1 <= there < 10_000
        assert refused.value.__notes__ == [f"{there} of 10,000 messages were accepted before"]


async def test_each_message_of_a_list_may_have_a_key(tmp_path: Path) -> None:
    """A list that is sent again after a crash adds what is new, and has the receipts of the rest."""
    async with make("a", tmp_path / "a") as node:
        first = await node.send_many("q", [b"1", b"2"], keys=["one", "two"])
        again = await node.send_many("q", [b"2", b"3", b"3"], keys=iter(["two", "three", "three"]), until="ordered")
        assert [receipt.id for receipt in again] == [first[1].id, again[1].id, again[1].id]
        async with node.transaction() as tx:
            await tx.send_many("q", [b"3", b"4"], keys=["three", "four"])
    async with make("a", tmp_path / "a") as node, triack.connect(tmp_path / "a") as client:
        assert await bodies(node, "q", 4) == [b"1", b"2", b"3", b"4"]
        known = await client.send_many("q", [b"1", b"5"], keys=["one", "five"], until="ordered")
        assert (known[0].id, node.queue_lengths()["q"]) == (first[0].id, 1)
        async with client.transaction() as remote:
            await remote.send_many("q", [b"5", b"6"], keys=["five", "six"])
        assert await bodies(node, "q", 2) == [b"5", b"6"]


async def test_keys_that_do_not_fit_their_list_are_refused() -> None:
    """Before anything is accepted."""
    settings = quick(keys=triack.KeySettings(most=2))
    async with make(settings=settings) as node:
        for keys, why in ((["a"], "1 keys for 2 messages"), ("ab", "must be a list of texts"), (["a", ""], "a key is")):
            with pytest.raises(triack.UsageError, match=why):
                await node.send_many("q", [b"1", b"2"], keys=keys)
        with pytest.raises(triack.UsageError, match="say keys="):
            await node.send_many("q", [b"1", b"2"], key="a")
        with pytest.raises(triack.UsageError, match="express messages are on no disk"):
            await node.send_many("q", [b"1"], keys=["a"], delivery=triack.EXPRESS)
        with pytest.raises(triack.TooManyKeys, match="keeps as many keys as it may"):
            await node.send_many("q", [b"1", b"2", b"3"], keys=["a", "b", "c"])
        assert node.queue_lengths()["q"] == 0
        await node.send_many("q", [b"1", b"2"], keys=["a", "b"])
        await node.send_many("q", [b"1", b"2"], keys=["a", "b"])


@pytest.mark.parametrize("how", ["node", "client"])
async def test_one_message_goes_to_several_destinations_or_to_none(tmp_path: Path, how: str) -> None:
    """A receipt for each, in the order of the destinations, from the node or from another process."""
    sending = make("a", tmp_path / "a", queues=["here"])
    async with make("b", scheme="udp") as b, sending as a, triack.connect(tmp_path / "a") as client:
        sender = a if how == "node" else client
        receipts = await sender.send_to(["here", f"{b.address}/q"], b"x", label="to both", until="stored")
        assert len(receipts) == 2
        for node, queue in ((a, "here"), (b, "q")):
            async with node.receive(queue) as reader:
                message = await reader.get(WAIT)
                assert (message.body, message.label) == (b"x", "to both")
                message.ack()
        with pytest.raises(triack.QueueNotFound):
            await sender.send_to(["here", "nowhere"], b"y")
        with pytest.raises(triack.UsageError, match="there is none in the list"):
            await sender.send_to([], b"y")
        with pytest.raises(triack.UsageError, match="express messages cannot be part"):
            await sender.send_to(["here"], b"y", delivery=triack.EXPRESS)
        with pytest.raises(triack.UsageError, match="send_to sends to several"):
            await sender.send(["here"], b"y")  # type: ignore[arg-type]
        await a.flush()
        assert a.queue_lengths()["here"] == 0
