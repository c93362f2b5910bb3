"""Messages that were received, handled and taken."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, Face, bodies, make, quick, until
from triack.base.delivery import Delivery
from triack.node.handles import choosing
from triack.node.handles.message import Drawn, Message
from triack.queues.mailboxes import lookup
from triack.queues.mailboxes.mailbox import QueuedPacket, Run
from triack.queues.messages import Outgoing
from triack.queues.packing import pack

ORIGIN = b"o" * 16


def message(properties: dict[str, object] | None = None) -> Message:
    """The second of two messages, the first of which has the ordinal 7; nobody holds it."""
    packed, _ = pack([Outgoing(b"first"), Outgoing(b"body", properties)], 1_000, 7, 123)
    packet = QueuedPacket([1], ORIGIN, 1, 1, 1, Delivery.TRANSACTIONAL, 2, 9, [packed[0].body])
    run = Run(packet, 0, 2, redelivered=True, failures={1: 3})
    nobody: Any = None
    return Message(run.lease(1).body, 1, Drawn("q", run, nobody, lambda _origin: "shop"))


def test_a_message_says_what_it_is() -> None:
    found = message({"label": "l", "correlation_id": "c", "dead_reason": "bad-body"})
    shown = (found.body, found.queue, found.redelivered, found.failures, found.sent_at)
    assert shown == (b"body", "q", True, 3, 0.123)
    assert found.id == f"{ORIGIN.hex()}-8"
    assert (found.label, found.correlation_id, found.reply_to) == ("l", "c", None)
    assert found.properties["dead_reason"] == "bad-body"
    assert repr(found) == f"<Message {found.id} of queue q, 4 bytes>"
    assert message().label is message({"label": 5}).label is None  # what another program set is no text


async def test_what_the_sender_set_can_be_sent_on_as_it_is() -> None:
    """All but times to live, and what is not the sender's."""
    headers = {"trace": "1", "größe": "L"}
    async with make(scheme="udp") as node:
        await node.send("q", b"x", headers=headers, label="l", reply_to="r", time_to_be_received=60)
        first = await node.receive("q").get(WAIT)
        await node.send("q2", first.body, **first.forwardable())
        second = await node.receive("q2").get(WAIT)
    assert first.headers == second.headers == headers
    assert second.properties == {"headers": headers, "label": "l", "reply_to": "r"}
    assert message({"dead_reason": "bad-body", "headers": 5}).forwardable() == {}


@pytest.mark.parametrize("how", ["node", "client"])
async def test_the_most_urgent_message_is_read_first_and_says_its_priority(tmp_path: Path, how: str) -> None:
    """At the sender and the reader. By default it is 3, and 0 of a transactional message."""
    async with make("a", tmp_path / "a", queues=["q"]) as a, triack.connect(tmp_path / "a") as client:
        user = a if how == "node" else client
        await user.send("q", b"transactional")
        await user.send("q", b"default", delivery=triack.RECOVERABLE)
        await user.send_many("q", [b"urgent"], delivery=triack.RECOVERABLE, priority=7)
        async with user.transaction() as tx:
            await tx.send("q", b"idle", delivery=triack.RECOVERABLE, priority=1)
        await user.flush()
        assert a.stats().queues["q"].by_priority == [1, 1, 0, 1, 0, 0, 0, 1]
        shown = [(message.body, message.priority) async for message in user.browse("q")]
        async with user.receive("q") as reader:
            read = [await reader.get(WAIT) for _ in range(4)]
            assert [(message.body, message.priority) for message in read] == shown
        assert shown == [(b"urgent", 7), (b"default", 3), (b"idle", 1), (b"transactional", 0)]
        for priority in (8, -1, True, "5"):
            with pytest.raises(triack.UsageError, match="a priority is a number from 0 to 7"):
                await user.send("q", b"x", delivery=triack.RECOVERABLE, priority=priority)  # type: ignore[arg-type]
        with pytest.raises(triack.UsageError, match="so all of them have priority 0, not 5"):
            await user.send("q", b"x", priority=5)
        await user.send("q", b"x", priority=0)


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


async def test_a_declared_handler_runs_as_long_as_its_node(tmp_path: Path) -> None:
    """Declared before the start or after it; the end of the node waits for a call that runs."""
    node = make("a", tmp_path)
    done: list[bytes] = []
    begun = asyncio.Event()

    @node.handler("early")
    async def early(message: triack.Message) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        done.append(message.body)

    async with node:

        @node.handler("late")
        def late(message: triack.Message) -> None:
            done.append(message.body)

        await node.send("late", b"2")
        await until(lambda: done == [b"2"])
        await node.send("early", b"1")
        await begun.wait()
    assert done == [b"2", b"1"]
    async with make("a", tmp_path) as node:
        assert node.queue_lengths() == {"dead-letter": 0, "early": 0, "late": 0}


async def test_a_handler_of_a_client_outlives_the_process_of_the_node(tmp_path: Path) -> None:
    """And the client's patience: it goes on as soon as the node is back."""
    done: list[bytes] = []
    async with make("a", tmp_path) as node:
        client = triack.connect(tmp_path, patience=0)
        client.handler("q")(lambda message: done.append(message.body))
        client.handler("t", transaction=True)(lambda message, _tx: done.append(message.body))
        await client.start()
        await node.send("q", b"1")
        await until(lambda: done == [b"1"])
    async with make("a", tmp_path) as node:
        await node.send("q", b"2")
        await until(lambda: done[-1] == b"2")
        await node.send("t", b"3")
        await until(lambda: done[-1] == b"3")
        await client.close()
        await node.send("q", b"4")
        await node.flush()
        assert node.queue_lengths()["q"] == 1


async def test_a_handler_of_a_queue_that_cannot_be_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the log for one that is declared, and by its call for the other."""
    async with make("a", tmp_path, queues=["q"]) as node:
        node.handler("p")(print)
        with pytest.raises(triack.QueueNotFound):
            await node.consume("p", print)
        await until(lambda: "the handler of queue p has ended: queue p does not exist" in caplog.text)


async def shout(node: triack.Node, queue: str = "questions") -> None:
    """Answer whatever is asked, in capitals."""
    while True:
        async with node.transaction() as tx:
            question = await tx.receive(queue)
            await tx.reply(question, question.body.upper())


@pytest.mark.parametrize("asker_listens", [False, True])
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_a_request_is_answered(scheme: str, asker_listens: bool) -> None:
    """Whether the one that asks listens or not: the answer takes the session that there is."""
    async with make("oracle", scheme=scheme) as oracle, make("asker", scheme="udp" if asker_listens else None) as asker:
        answering = asyncio.create_task(shout(oracle))
        answers = [await asker.request(f"{oracle.address}/questions", b"q%d" % n, timeout=WAIT) for n in range(3)]
        assert [answer.body for answer in answers] == [b"Q0", b"Q1", b"Q2"]
        answers[0].ack()  # it is done already
        assert asker.queue_lengths()["$replies"] == 0
        answering.cancel()


async def test_nodes_with_keys_ask_by_name_what_peers_may_send_elsewhere(tmp_path: Path) -> None:
    """The answer goes back to the peer by the name that it has there, though it may send to one queue only."""
    async with (
        triack.open("o", data=tmp_path / "o", listen="udp://127.0.0.1:0", settings=quick()) as oracle,
        triack.open("a", data=tmp_path / "a", settings=quick()) as asker,
    ):
        await oracle.trust("client-7", asker.key, send=["questions"])
        await asker.trust("oracle", oracle.key, oracle.address, send=["news"])
        asking = asyncio.create_task(asker.request("oracle/questions", b"x", timeout=WAIT))
        async with oracle.receive("questions") as questions:
            question = await questions.get(WAIT)
            assert (question.sender, question.reply_to) == ("client-7", "client-7/$replies")
            await oracle.reply(question, b"y", label="why")
        answer = await asking
        assert (answer.body, answer.label, answer.sender) == (b"y", "why", "oracle")


async def test_an_answer_to_a_bare_reply_to_goes_to_a_queue_of_the_sender() -> None:
    """Without a listener it is called by its id, also by a message that was moved; what this node sent stays."""
    async with make("a") as a, make("b", scheme="udp") as b:
        await a.send(f"{b.address}/in", b"1", reply_to="answers", until="ordered")
        assert await b.move("in", "later") == 1
        async with b.receive("later") as moved:
            assert (await moved.get(WAIT)).reply_to == f"{a.node_id}/answers"
        await a.send(f"{b.address}/in", b"1", reply_to="answers")
        async with b.receive("in") as reader:
            message = await reader.get(WAIT)
            assert (message.sender, message.reply_to) == (a.node_id, f"{a.node_id}/answers")
            assert message.forwardable() == {"reply_to": "answers"}
            await b.reply(message, b"2")
            assert await bodies(a, "answers", 1) == [b"2"]
            await b.send("in", b"3", reply_to="answers")
            own = await reader.get(WAIT)
            assert (own.sender, own.reply_to) == ("", "answers")


async def test_a_message_that_wants_no_answer_gets_none(node: triack.Node, face: Face) -> None:
    await node.send("q", b"1")
    async with face.receive("q") as reader:
        message = await reader.get(WAIT)
        with pytest.raises(triack.UsageError, match=f"reply to {message.id}: it wants no answer"):
            await face.reply(message, b"2")


@pytest.mark.gate
async def test_a_cancelled_request_leaves_nothing_behind() -> None:
    """It is sent no more when its time is over, and is no dead letter."""
    async with make("asker") as asker:
        asking = asyncio.create_task(asker.request("udp://127.0.0.1:9/q", b"x", timeout=1))
        await until(lambda: asker.stats().outgoing)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await until(lambda: asker.stats().drops.get("request-ended") == 1)
        assert asker.queue_lengths() == {"$replies": 0, "dead-letter": 0}
        assert asker.stats().dead_letters == {}
        await asker.drain(WAIT)


async def test_a_refused_request_says_why_at_once() -> None:
    async with make("oracle", scheme="udp", queues=["other"]) as oracle, make("asker") as asker:
        with pytest.raises(triack.DeliveryFailed, match="queue-not-found"):
            await asker.request(f"{oracle.address}/questions", b"x", timeout=WAIT)
        assert asker.queue_lengths()["dead-letter"] == 0


async def test_answers_to_what_an_earlier_life_asked_are_dropped(tmp_path: Path) -> None:
    """Nobody has to ask again for that: the queue is emptied as soon as the node runs."""
    async with make("oracle", scheme="udp") as oracle:
        async with make("asker", tmp_path) as asker:
            with pytest.raises(triack.RequestTimeout):
                await asker.request(f"{oracle.address}/questions", b"x", timeout=SOON)
        async with oracle.receive("questions") as questions:
            await oracle.reply(await questions.get(WAIT), b"y")
        async with make("asker", tmp_path) as asker:
            await until(lambda: asker.stats().drops.get("late-answer") == 1)


async def test_nobody_fills_the_queue_of_a_node_that_asked_nothing() -> None:
    async with make("a") as a, make("b", scheme="udp") as b:
        receipt = await a.send(f"{b.address}/$replies", b"x")
        with pytest.raises(triack.DeliveryFailed, match="queue-not-found"):
            await receipt.ordered(WAIT)


async def test_requests_end_with_the_node() -> None:
    async with make("asker") as asker:
        asking = asyncio.create_task(asker.request("udp://127.0.0.1:9/q", b"x", timeout=WAIT))
        await asyncio.sleep(0.05)
    with pytest.raises(triack.NodeClosed):
        await asking
    with pytest.raises(triack.NodeClosed):
        await asker.request("q", b"x")


async def test_what_a_request_sets_itself_cannot_be_given(node: triack.Node, face: Face) -> None:
    with pytest.raises(triack.UsageError, match="a request sets key itself"):
        await face.request("q", b"x", key="k")
    for timeout in (0, -1, True, "1", None, float("inf")):
        with pytest.raises(triack.UsageError, match="timeout must be a number of seconds"):
            await face.request("q", b"x", timeout=timeout)  # type: ignore[arg-type]


# Messages are taken by their ids and correlation ids, whatever waits before them; the others stay in order.


async def fill(node: triack.Node, count: int, **more: Any) -> list[str]:
    """Messages with the bodies 0, 1, 2 and so on, and the correlation ids c0, c1, c2. Returns their ids."""
    ids = [(await node.send("q", b"%d" % at, correlation_id=f"c{at}", **more)).id for at in range(count)]
    await node.flush()
    return ids


async def rest(node: triack.Node, count: int) -> list[int]:
    return [int(body) for body in await bodies(node, "q", count)]


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


async def test_a_message_in_another_hand_is_waited_for(node: triack.Node, face: Face) -> None:
    ids = await fill(node, 3)
    first, second = face.receive("q", ack="manual"), face.receive("q", ack="manual")
    held = await first.get_by_id(ids[1])
    with pytest.raises(triack.WaitTimeout):
        await second.get_by_id(ids[1])
    waiting = asyncio.create_task(second.get_by_id(ids[1], WAIT))
    await asyncio.sleep(SOON)
    held.reject(failed=False)
    message = await waiting
    assert (message.body, message.redelivered) == (b"1", True)
    message.ack()


async def test_of_two_with_one_correlation_id_the_first_is_taken(node: triack.Node, face: Face) -> None:
    for body in (b"1", b"2"):
        await node.send("q", body, correlation_id="x")
    reader = face.receive("q", ack="manual")
    assert [(await reader.get_by_correlation_id("x", WAIT)).body for _ in range(2)] == [b"1", b"2"]


async def test_a_rollback_puts_it_back_in_its_place_and_a_commit_takes_it(node: triack.Node, face: Face) -> None:
    ids = await fill(node, 5)
    async with face.transaction() as undone:
        assert (await undone.receive_by_id("q", ids[3])).body == b"3"
        await undone.rollback(failed=False)
    async with face.transaction() as tx:
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


async def test_peek_waits_for_the_first_message_and_leaves_it(node: triack.Node, face: Face) -> None:
    with pytest.raises(triack.WaitTimeout, match="no message waits in queue q"):
        await face.peek("q", 0)
    waiting = asyncio.create_task(face.peek("q"))
    await asyncio.sleep(SOON)
    await node.send("q", b"x")
    seen = await waiting
    assert (seen.body, seen.place) == (b"x", 1)
    message = await face.receive("q", ack="manual").get(WAIT)
    assert (message.body, message.place, message.redelivered) == (b"x", 1, False)


async def test_browse_goes_on_behind_a_place(node: triack.Node, face: Face) -> None:
    await fill(node, 5)
    places = [it.place async for it in face.browse("q")]
    async with face.receive("q", ack="manual") as reader:
        taken = [await reader.get(WAIT), *await reader.get_many(1, timeout=WAIT)]
        assert [it.place for it in taken] == places[:2]
        assert [it.body async for it in face.browse("q", after=taken[1].place)] == [b"2", b"3", b"4"]
    async with face.transaction() as tx:
        assert (await tx.receive("q", WAIT)).place in places
    await node.send("udp://127.0.0.1:9/far", b"x")
    for queue, after in (("q", -1), ("q", True), ("udp://127.0.0.1:9/far", 1)):
        with pytest.raises(triack.UsageError):
            await anext(face.browse(queue, after=after))
