"""Handlers of queues: on a node, and over a client, with the same lines."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, Face, cancelled_by_others, make, quick, until
from triack.node.handles import consuming

QUICK = triack.Redelivery(first_wait_s=0.05, max_wait_s=0.1)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    async with make("a", tmp_path, settings=quick(max_redeliveries=2)) as node:
        yield node


class Handling:
    """A handler that runs, and what it has got; it fails with a body as often as ``fails`` says."""

    def __init__(self, face: Face, queue: str = "q", error: type[Exception] = ConnectionError, **options: Any) -> None:
        self.done: list[bytes] = []
        self.fails: Counter[bytes] = Counter()
        self.calls: Counter[bytes] = Counter()
        self._error = error
        face.handler(queue, redelivery=QUICK, **options)(self.handle)

    async def handle(self, message: triack.Message) -> None:
        self.calls[message.body] += 1
        if self.fails[message.body] > 0:
            self.fails[message.body] -= 1
            raise self._error("the database is away")
        self.done.append(message.body)


@pytest.mark.parametrize("transaction", [False, True])
async def test_a_handler_may_close_what_calls_it(
    node: triack.Node, face: Face, tmp_path: Path, transaction: bool
) -> None:
    """And its message is done then: the next process does not get it as well."""

    async def handle(_message: triack.Message, *_transaction: triack.Transaction) -> None:
        await face.close()

    await node.send_many("q", [b"quit", b"next"])
    await face.consume("q", handle, transaction=transaction)
    await node.close()
    async with make("a", tmp_path) as again, again.receive("q") as reader:
        assert (await reader.get(timeout=WAIT)).body == b"next"


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_more_is_taken_than_can_be_handled(node: triack.Node, face: Face, concurrency: int) -> None:
    """So a process that dies fails nothing but what it worked on."""
    in_hand: list[int] = []

    async def handle(_message: triack.Message) -> None:
        in_hand.append(node.stats().queues["q"].in_hand)
        await asyncio.sleep(0.002)

    await node.send_many("q", [b"x"] * 30, until="ordered")
    face.handler("q", concurrency=concurrency)(handle)
    await until(lambda: node.queue_lengths()["q"] == 0)
    assert 1 <= max(in_hand) <= concurrency


async def test_a_failure_is_tried_again_in_order_and_ends_nothing(node: triack.Node, face: Face) -> None:
    handling = Handling(face)
    handling.fails[b"1"] = 2
    await node.send_many("q", [b"1", b"2"])
    await until(lambda: len(handling.done) == 2)
    assert (handling.done, handling.calls[b"1"]) == ([b"1", b"2"], 3)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_what_a_handler_waits_for_is_in_the_stats(node: triack.Node, face: Face, concurrency: int) -> None:
    handling = Handling(face, name="packer", concurrency=concurrency)
    handling.fails[b"1"] = 1_000
    await node.send("q", b"1")

    def waiting() -> list[triack.HolderStats]:
        return [it for it in node.stats().queues["q"].holders if it.waits_for]

    await until(waiting)
    (seen,) = waiting()
    assert seen.name == "packer"
    assert str(seen.waits_for).startswith("ConnectionError: the database is away")
    handling.fails.clear()
    await until(lambda: handling.done == [b"1"])
    await until(lambda: node.stats().queues["q"].holders == [])


async def test_order_is_kept_by_key_and_others_go_on(node: triack.Node, face: Face) -> None:
    """Also behind a message that fails, and for messages that come while it waits."""
    handling = Handling(face, concurrency=4, ordered_by=lambda message: message.body[:1])
    handling.fails[b"a1"] = 2
    await node.send_many("q", [b"%c%d" % (key, number) for number in range(6) for key in b"abc"])
    await until(lambda: handling.calls[b"a1"] == 1)
    await node.send_many("q", [b"%c%d" % (key, number) for number in range(6, 9) for key in b"abc"])
    await until(lambda: len(handling.done) == 27)
    for key in b"abc":
        assert [body for body in handling.done if body[0] == key] == [b"%c%d" % (key, number) for number in range(9)]
    assert handling.done.index(b"b5") < handling.done.index(b"a1")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"transaction": True}], ids=["plain", "tx"])
async def test_order_is_kept_by_key_while_messages_keep_coming(
    node: triack.Node, face: Face, options: dict[str, Any]
) -> None:
    """A younger message may be on its way to the handler when an older one goes back."""
    chance, count = random.Random(7), 200
    done: list[int] = []

    async def handle(message: triack.Message, *_: object) -> None:
        if chance.random() < 0.3:
            raise OSError
        done.append(int(message.body))

    often = triack.Redelivery(first_wait_s=0.001, max_wait_s=0.002)
    how: dict[str, Any] = {"concurrency": 4, "redelivery": often, **options}
    face.handler("q", ordered_by=lambda it: int(it.body) % 2, **how)(handle)
    for number in range(count):
        await node.send("q", b"%d" % number)
        await asyncio.sleep(0.001)
    await until(lambda: len(done) + node.queue_lengths()["dead-letter"] == count and not node.queue_lengths()["q"])
    for key in range(2):
        mine = [number for number in done if number % 2 == key]
        assert mine == sorted(mine)


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}], ids=["one", "three"])
async def test_an_exception_decides_by_its_class(node: triack.Node, face: Face, options: dict[str, Any]) -> None:
    """The nearest base class counts: what can never succeed is a dead letter at once, and says why."""
    verdicts = {Exception: triack.OnError.RETRY, ValueError: triack.OnError.DEAD_LETTER}
    handling = Handling(face, error=UnicodeError, on_error=verdicts, **options)
    handling.fails[b"bad"] = 1_000
    await node.send_many("q", [b"bad", b"good"])
    await until(lambda: handling.done == [b"good"])
    assert (handling.calls[b"bad"], node.stats().dead_letters) == (1, {"reader-refused": 1})
    letter = await node.receive("dead-letter").get(WAIT)
    assert letter.properties["dead_reason"] == "reader-refused"


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}, {"transaction": True}], ids=["one", "three", "tx"])
async def test_an_outage_may_count_no_failure(
    node: triack.Node, face: Face, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """However often a message is rejected, it is no dead letter."""
    monkeypatch.setattr(consuming, "REJECT_WAIT_S", 0.01)
    failures: list[int] = []

    def handle(message: triack.Message, *_: object) -> None:
        failures.append(message.failures)
        if len(failures) < 8:
            raise OSError

    verdicts: dict[type[Exception], triack.OnError] = {OSError: triack.OnError.REJECT}
    face.handler("q", on_error=verdicts, **options)(handle)
    await node.send("q", b"1")
    await until(lambda: len(failures) == 8 and node.queue_lengths()["q"] == 0)
    assert failures == [0] * 8


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_what_a_handler_sends_happens_with_its_message(node: triack.Node, face: Face, concurrency: int) -> None:
    """All of a transaction or none, also when it fails in the middle."""
    tries: Counter[bytes] = Counter()

    async def forward(message: triack.Message, tx: triack.Transaction) -> None:
        tries[message.body] += 1
        await tx.send("out", message.body)
        if tries[message.body] == 1:
            raise RuntimeError

    options: dict[str, Any] = {"transaction": True, "concurrency": concurrency, "redelivery": QUICK}
    face.handler("q", **options)(forward)
    await node.send_many("q", [b"%d" % number for number in range(5)])
    await until(lambda: node.queue_lengths().get("out") == 5)
    assert (set(tries.values()), node.queue_lengths()["q"]) == ({2}, 0)


async def test_a_batch_is_done_or_fails_as_one(node: triack.Node, face: Face) -> None:
    batches: list[list[bytes]] = []

    def handle(messages: list[triack.Message]) -> None:
        batches.append([message.body for message in messages])
        if len(batches) == 1:
            raise RuntimeError

    await node.send_many("q", [b"%d" % number for number in range(5)])
    await node.flush()
    face.handler("q", batch=10, redelivery=QUICK)(handle)
    await until(lambda: node.queue_lengths()["q"] == 0)
    assert batches[0] == [b"0", b"1", b"2", b"3", b"4"]
    assert sorted(body for batch in batches[1:] for body in batch) == batches[0]


async def test_a_stop_lets_running_calls_end_and_gives_back_the_rest(node: triack.Node, face: Face) -> None:
    """A call that takes too long is cancelled, and its message comes again without a failure."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    done: list[bytes] = []

    async def handle(message: triack.Message) -> None:
        begun.set()
        await go_on.wait()
        done.append(message.body)

    await node.send_many("q", [b"1", b"2"])
    task = asyncio.create_task(face.consume("q", handle))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(SOON)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [b"1"]
    await until(lambda: node.queue_lengths()["q"] == 1)
    begun.clear()
    go_on.clear()
    task = asyncio.create_task(face.consume("q", handle, stop_timeout=0.01))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    message = await node.receive("q").get(WAIT)
    assert (message.body, message.failures) == (b"2", 0)


async def test_who_cancels_once_more_leaves_no_handler_behind(node: triack.Node) -> None:
    """The second cancellation gives the call no more time, and it has ended when ``consume`` has."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handle(message: triack.Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    await node.send("q", b"1")
    task = asyncio.create_task(node.consume("q", handle, stop_timeout=WAIT))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(SOON)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert ended.is_set()
    assert (await node.receive("q").get(WAIT)).failures == 0


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize("how", [cancelled_by_others, cancels_itself])
@pytest.mark.parametrize(
    "options",
    [{}, {"concurrency": 8}, {"concurrency": 8, "ordered_by": lambda _: "k"}, {"transaction": True}, {"batch": 1}],
    ids=["one", "eight", "keys", "transaction", "batch"],
)
async def test_a_cancellation_of_something_else_is_a_failure(
    node: triack.Node,
    face: Face,
    options: dict[str, Any],
    how: Callable[[], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is counted and told, it ends at a dead letter, and what is behind it is handled."""
    calls: Counter[bytes] = Counter()

    async def handle(message: Any, *_tx: Any) -> None:
        body = (message[0] if "batch" in options else message).body
        calls[body] += 1
        if body == b"poison":
            await how()

    task = asyncio.create_task(face.consume("q", handle, redelivery=QUICK, **options))
    await node.send_many("q", [b"poison", b"next"])
    await until(lambda: node.queue_lengths()["dead-letter"] == 1 and node.queue_lengths()["q"] == 0)
    assert calls == {b"poison": 3, b"next": 1}
    assert "failed, retry: CancelledError" in caplog.text
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_of_something_else_fails_a_block(node: triack.Node, face: Face) -> None:
    """A transaction, and a reader that acknowledges by itself, that it leaves: their messages have failed."""

    async def in_a_transaction() -> None:
        async with face.transaction() as tx:
            await tx.receive("q", timeout=WAIT)
            await cancelled_by_others()

    async def in_a_block() -> None:
        async with face.receive("q") as reader:
            assert (await reader.get(WAIT)).failures == 1
            await cancelled_by_others()

    await node.send("q", b"x")
    for work in (in_a_transaction, in_a_block):
        with pytest.raises(asyncio.CancelledError):
            await work()
    async with face.receive("q") as reader:
        assert (await reader.get(WAIT)).failures == 2


def cancelled_key(_message: triack.Message) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("key_of", [cancelled_key, lambda message: [message.body]])
async def test_a_key_that_cannot_be_had_stops_nothing(node: triack.Node, key_of: Callable[[Any], Any]) -> None:
    handling = Handling(node, concurrency=2, ordered_by=key_of)
    await node.send_many("q", [b"1", b"2"])
    await until(lambda: sorted(handling.done) == [b"1", b"2"])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"concurrency": 0}, "concurrency must be a number of calls"),
        ({"batch": 0}, "handle q"),
        ({"batch": 2, "ordered_by": len}, "a batch has no key"),
        ({"transaction": True, "hand_over_timeout": 1}, "a transaction has no hand_over_timeout"),
        ({"on_error": {ValueError: "retry"}}, "an OnError for each class"),
        ({"on_error": 5}, "on_error must be"),
        ({"redelivery": 5}, "redelivery must be"),
        ({"retries": 5}, "retries is no option of a handler; valid are concurrency, batch"),
        ({"stop_timeout": -1}, "timeout must be"),
    ],
    ids=str,
)
async def test_a_wrong_option_is_named(node: triack.Node, options: dict[str, Any], why: str) -> None:
    with pytest.raises(triack.UsageError, match=why):
        await node.consume("q", print, **options)
    with pytest.raises(triack.UsageError, match=why):
        node.handler("q", **options)(print)


async def test_what_is_no_handler_is_named(node: triack.Node) -> None:
    with pytest.raises(triack.UsageError, match="a handler is called, and 5 cannot be"):
        await node.consume("q", 5)  # type: ignore[arg-type]


FULL = triack.Limits(queue_quota={"q": triack.Quota(messages=4), "r": triack.Quota(messages=4)})


def fill(node: triack.Node, queue: str) -> None:
    with suppress(triack.WouldBlock):
        for _ in range(100):
            node.send_nowait(queue, b"x")
        pytest.fail("it takes any number of messages")


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[triack.Node]:
    """A node with two queues that take no more."""
    async with make("a", tmp_path, settings=quick(limits=FULL)) as node:
        for queue in ("q", "r"):
            fill(node, queue)
        await node.flush()
        yield node


async def test_a_message_is_moved_to_the_end_of_its_full_queue(full: triack.Node, tmp_path: Path) -> None:
    """In a transaction of the node or of a client: the commit adds as much as it takes."""
    async with triack.connect(tmp_path) as client:
        for face in (full, client):
            for _ in range(8):
                async with face.transaction() as tx:
                    message = await tx.receive("q", timeout=WAIT)
                    await tx.send("q", message.body, timeout=WAIT)
            async with face.transaction() as tx:
                await tx.receive("q", timeout=WAIT)
                await tx.send("q", b"x", timeout=WAIT)
                with pytest.raises(triack.WaitTimeout):
                    await tx.send("q", b"more", timeout=0.01)
    length = full.queue_lengths()["q"]
    assert 4 <= length <= 5


async def test_a_handler_sends_into_the_full_queue_that_it_reads(full: triack.Node) -> None:
    handled: list[bytes] = []

    async def handle(message: triack.Message) -> None:
        await full.send("q", message.body)
        handled.append(message.body)

    full.handler("q")(handle)
    await until(lambda: len(handled) > 20)
    assert full.queue_lengths()["q"] <= 5


async def test_handlers_that_feed_each_other_say_what_they_wait_for(full: triack.Node) -> None:
    async def forward(_message: triack.Message) -> None:
        await full.send("r", b"x")

    async def back(_message: triack.Message) -> None:
        await full.send("q", b"x")

    full.handler("q", stop_timeout=0.01)(forward)
    full.handler("r", stop_timeout=0.01)(back)

    def waits_for() -> set[str | None]:
        queues = full.stats().queues
        return {holder.waits_for for queue in ("q", "r") for holder in queues[queue].holders}

    await until(lambda: {"forward waits for room in queue r", "back waits for room in queue q"} <= waits_for())
