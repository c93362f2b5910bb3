"""The loop behind the calls without async: threads, handlers, sends."""

import asyncio
import concurrent.futures
import threading
import time
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, interrupted, open_sync, quick
from triack.base.errors import NodeClosed, UsageError
from triack.node.sync import send_buffer
from triack.node.sync.sync import SyncClient, SyncNode
from triack.node.sync.sync_loop import LoopThread

# An event loop in a thread: it waits, raises what is raised there, and ends.


async def double(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise LookupError(number)
    return 2 * number


def test_it_waits_for_results_and_errors() -> None:
    loop = LoopThread("test")
    assert loop.wait(double(21)) == 42
    with pytest.raises(LookupError, match="-1"):
        loop.wait(double(-1))
    told: list[int] = []
    loop.tell(lambda: told.append(1))
    assert told == [1]
    with pytest.raises(ValueError, match="not in list"):
        loop.tell(lambda: told.remove(2))
    loop.end()


def test_an_end_is_final() -> None:
    """A second one does nothing, and nothing waits for a loop that has gone."""
    loop = LoopThread("test")
    loop.end()
    loop.end()
    with pytest.raises(NodeClosed):
        loop.wait(double(1))


def test_its_end_ends_what_is_left() -> None:
    """A call that an interrupted caller has begun is cancelled and runs to its end; a waiting thread gets an error."""
    loop = LoopThread("test")
    begun, ended, told = threading.Semaphore(0), list[str](), list[str]()

    async def stay(name: str) -> None:
        begun.release()
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def begin() -> "asyncio.Task[None]":
        return asyncio.create_task(stay("left"))

    def wait() -> None:
        with pytest.raises(NodeClosed):
            loop.wait(stay("waited for"))
        told.append("closed")

    left = loop.wait(begin())
    waiting = threading.Thread(target=wait)
    waiting.start()
    for _ in range(2):
        assert begun.acquire(timeout=PATIENCE_S)
    loop.end()
    waiting.join()
    assert (sorted(ended), told, left.cancelled()) == (["left", "waited for"], ["closed"], True)


def test_what_came_for_a_thread_that_was_interrupted_is_taken_back() -> None:
    """In the loop, before anything that is asked for later; what had not come is cancelled."""
    loop = LoopThread("test")
    unseen: list[int] = []

    async def look() -> list[int]:
        return list(unseen)

    assert loop.wait(double(1), unseen.append) == 2
    with interrupted():
        loop.wait(double(2), unseen.append)
    assert loop.wait(look()) == [4]
    with interrupted(early=True):
        loop.wait(asyncio.sleep(PATIENCE_S, 6), unseen.append)
    with pytest.raises(LookupError):
        loop.wait(double(-1), unseen.append)
    assert loop.wait(look()) == [4]
    loop.end()


def test_its_own_thread_does_not_wait_for_itself() -> None:
    """It is refused whatever it would wait for, its end as well, and does at once what nobody has to wait for."""
    loop = LoopThread("test")
    told: list[int] = []

    async def ask() -> None:
        with pytest.raises(UsageError, match="this thread runs the node"):
            loop.wait(double(1))
        with pytest.raises(UsageError, match="this thread runs the node"):
            loop.end()
        loop.tell(lambda: told.append(1))

    loop.wait(ask())
    assert told == [1]
    assert loop.wait(double(21)) == 42
    loop.end()


def wait(holds: threading.Event) -> None:
    assert holds.wait(PATIENCE_S)


def check_threads(face: SyncNode | SyncClient, queue: str) -> None:
    """Two calls meet, each in a thread of its own, and each sends."""
    meeting, done = threading.Barrier(2), threading.Event()
    threads: set[str] = set()

    @face.handler(queue, concurrency=2)
    def handle(message: triack.Message) -> None:
        threads.add(threading.current_thread().name)
        face.send("out", message.body)
        meeting.wait(PATIENCE_S)
        done.set()

    face.send_many(queue, [b"1", b"2"])
    wait(done)
    assert len(threads) == 2


def test_a_handler_is_called_in_threads_and_may_use_the_node(tmp_path: Path) -> None:
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        check_threads(node, "here")
        check_threads(client, "there")
        while node.queue_lengths()["out"] < 4:
            time.sleep(0.01)


def test_a_transaction_is_one_for_threads(tmp_path: Path) -> None:
    with open_sync("a", tmp_path) as node:
        done, tries = threading.Event(), [0]

        @node.handler("q", transaction=True, redelivery=triack.Redelivery(first_wait_s=0.01))
        def forward(message: triack.Message, tx: triack.sync.SyncTransaction) -> None:
            tries[0] += 1
            tx.send("out", message.body)
            if tries[0] == 1:
                raise RuntimeError
            done.set()

        node.send("q", b"1")
        wait(done)
        with node.receive("out") as reader:
            assert reader.get(PATIENCE_S).body == b"1"
        assert forward.__name__ == "forward"


def test_consume_waits_until_the_node_is_closed(tmp_path: Path) -> None:
    with open_sync("a", tmp_path) as node:
        done = threading.Event()
        thread = threading.Thread(target=node.consume, args=("q", lambda batch: done.set()), kwargs={"batch": 10})
        thread.start()
        node.send("q", b"1")
        wait(done)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_handler_may_close_what_calls_it(tmp_path: Path) -> None:
    """And its message is done then: the next process does not get it as well."""
    for ends in ("node", "client"):
        with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
            face: SyncNode | SyncClient = node if ends == "node" else client
            node.send("q", b"quit")
            face.consume("q", lambda _message, face=face: face.close())
    with open_sync("a", tmp_path) as node:
        assert node.queue_lengths()["q"] == 0


@pytest.mark.parametrize("kind", [asyncio.CancelledError, concurrent.futures.CancelledError])
def test_a_cancellation_in_a_thread_is_a_failure(tmp_path: Path, kind: type[BaseException]) -> None:
    """What the thread waited for was cancelled: the message comes again, and the handler goes on."""
    with open_sync("a", tmp_path) as node:
        done, failures = threading.Event(), []

        @node.handler("q", redelivery=triack.Redelivery(first_wait_s=0.01))
        def handle(message: triack.Message) -> None:
            failures.append(message.failures)
            if len(failures) == 1:
                raise kind
            done.set()

        node.send("q", b"1")
        wait(done)
        assert failures == [0, 1]
        node.send("r", b"2")

        def in_a_transaction() -> None:
            with node.transaction() as tx:
                tx.receive("r", timeout=PATIENCE_S)
                raise kind

        with pytest.raises(kind):
            in_a_transaction()
        with node.receive("r") as reader:
            assert reader.get(PATIENCE_S).failures == 1


# Messages that threads send one by one, and that the event loop takes as a list.


@pytest.mark.gate
def test_a_send_takes_no_turn_of_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one does, as its destination is new. All are accepted in order, before what is asked for later."""
    with open_sync("a", tmp_path / "a") as node:
        node.send("q", b"0")
        with monkeypatch.context() as patch:
            patch.setattr(LoopThread, "wait", None)
            receipts = [node.send("q", b"%d" % number, label="l") for number in range(1, 500)]
        node.flush()
        assert node.queue_lengths()["q"] == 500
        assert receipts[-1].number == 500
        receipts[-1].ordered(WAIT)
        with node.receive("q") as reader:
            got = [reader.get(WAIT) for _ in range(500)]
    assert [message.body for message in got] == [b"%d" % number for number in range(500)]
    assert [message.id for message in got[1:]] == [receipt.id for receipt in receipts]
    assert repr(receipts[0]).startswith("<SyncReceipt: <Receipt of a message to q")


def test_what_the_loop_has_not_taken_at_the_end_is_on_the_disk(tmp_path: Path) -> None:
    with open_sync("a", tmp_path / "a") as node:
        for number in range(300):
            node.send("q", b"%d" % number)
    with pytest.raises(triack.NodeClosed):
        node.send("q", b"late")
    with open_sync("a", tmp_path / "a") as node:
        assert node.queue_lengths()["q"] == 300


def test_many_threads_send_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeps its order; beyond its limit the buffer makes senders wait."""
    monkeypatch.setattr(send_buffer, "MESSAGES_MAX", 7)

    def send(name: int) -> None:
        for number in range(100):
            node.send("q", b"%d %d" % (name, number))

    with open_sync("a", tmp_path / "a") as node:
        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with node.receive("q") as reader:
            got = [reader.get(WAIT).body.split() for _ in range(400)]
    for name in range(4):
        assert [int(number) for who, number in got if int(who) == name] == list(range(100))


def test_limits_and_mistakes_are_those_of_every_send(tmp_path: Path) -> None:
    """A quota is kept to the message; a mistake is raised by the call that makes it."""
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=5, when_full="reject")})
    with triack.sync.open("a", data=tmp_path / "a", insecure=True, settings=quick(limits=limits)) as node:
        for _ in range(5):
            node.send("q", b"x")
        with pytest.raises(triack.QueueFull):
            node.send("q", b"x")
        node.flush()
        assert node.queue_lengths()["q"] == 5
        node.send("p", b"x")
        with pytest.raises(triack.UsageError, match="transactional messages arrive in the order"):
            node.send("p", b"x", priority=5)
        with pytest.raises(triack.UsageError, match="a body is bytes"):
            node.send("p", "text")  # type: ignore[arg-type]
        with pytest.raises(triack.UsageError, match="names none"):
            node.send("p", b"x", timeout=1)
        ids = {node.send("p", b"x", key="k").id for _ in range(3)}
        node.flush()
        assert (len(ids), node.queue_lengths()["p"]) == (1, 2)


def test_an_interrupt_loses_no_message(tmp_path: Path) -> None:
    """Ctrl-C while a receipt is waited for."""
    with open_sync("a", tmp_path / "a") as node:
        node.send("q", b"1")
        receipt = node.send("q", b"2")
        with interrupted():
            receipt.queued()
        receipt.queued(WAIT)
        assert node.queue_lengths()["q"] == 2


def test_a_call_that_must_wait_for_a_stage_does(tmp_path: Path) -> None:
    """Also when the node's settings say so for every send."""
    settings = quick(blocking=triack.Blocking(durable="queued"))
    with triack.sync.open("a", data=tmp_path / "a", insecure=True, settings=settings) as node:
        node.send("q", b"x")
        node.send("q", b"x")
    with open_sync("a", tmp_path / "a") as node:
        node.send("q", b"x")
        node.send("q", b"x", until="ordered", timeout=WAIT)
        assert node.queue_lengths()["q"] == 4
