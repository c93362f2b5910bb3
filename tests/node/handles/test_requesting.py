"""Requests and their answers, between real nodes."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

import triack
from tests.node.nodes import SOON, WAIT, bodies, make, quick, until


async def shout(node: triack.Node, queue: str = "questions") -> None:
    """Answer whatever is asked, in capitals."""
    while True:
        async with node.transaction() as tx:
            question = await tx.receive(queue)
            await tx.reply(question, question.body.upper())


def ask(address: str, text: bytes = b"really?", timeout: float = WAIT) -> tuple[str, bytes, float]:
    return f"{address}/questions", text, timeout


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


async def test_a_bare_reply_to_is_a_queue_of_the_sender() -> None:
    """Without a listener it is called by its id; what this node sent itself stays as it is."""
    async with make("a") as a, make("b", scheme="udp") as b:
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


async def test_what_is_moved_keeps_its_way_back() -> None:
    """The copy is this node's own message, and answers go to the sender of the original."""
    async with make("a") as a, make("b", scheme="udp") as b:
        await (await a.send(f"{b.address}/in", b"1", reply_to="answers")).ordered(WAIT)
        assert await b.move("in", "later") == 1
        async with b.receive("later") as reader:
            assert (await reader.get(WAIT)).reply_to == f"{a.node_id}/answers"


async def test_a_message_that_wants_no_answer_gets_none() -> None:
    async with make() as node:
        await node.send("q", b"1")
        async with node.receive("q") as reader:
            message = await reader.get(WAIT)
            with pytest.raises(triack.UsageError, match=f"reply to {message.id}: it wants no answer"):
                await node.reply(message, b"2")


async def test_a_late_answer_is_dropped_and_counted() -> None:
    """The request ended by its time; nothing is left in any queue."""
    async with make("oracle", scheme="udp") as oracle, make("asker") as asker:
        destination = f"{oracle.address}/questions"
        with pytest.raises(triack.RequestTimeout, match=f"no answer to a request to {destination} after 0.2 s"):
            await asker.request(destination, b"x", timeout=SOON)
        async with oracle.receive("questions") as questions:
            await oracle.reply(await questions.get(WAIT), b"y")
        await until(lambda: asker.stats().drops.get("late-answer") == 1)
        await until(lambda: asker.queue_lengths() == {"$replies": 0, "dead-letter": 0})


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


async def test_what_a_request_sets_itself_cannot_be_given() -> None:
    async with make() as node:
        with pytest.raises(triack.UsageError, match="a request sets key itself"):
            await node.request("q", b"x", key="k")
        for timeout in (0, -1, True, "1", None, float("inf")):
            with pytest.raises(triack.UsageError, match="timeout must be a number of seconds"):
                await node.request("q", b"x", timeout=timeout)  # type: ignore[arg-type]


@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_a_request_of_each_class_to_itself(delivery: triack.Delivery) -> None:
    async with make() as node:
        answering = asyncio.create_task(shout(node))
        assert (await node.request("questions", b"x", timeout=WAIT, delivery=delivery)).body == b"X"
        answering.cancel()
