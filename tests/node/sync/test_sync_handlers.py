"""Handlers in threads."""

import asyncio
import concurrent.futures
import threading
import time
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import open_sync
from triack.node.sync.sync import SyncClient, SyncNode


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
    """On a node and on a client of it."""
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        check_threads(node, "here")
        check_threads(client, "there")
        while node.queue_lengths()["out"] < 4:
            time.sleep(0.01)


def test_a_transaction_is_one_for_threads(tmp_path: Path) -> None:
    """A handler that raises is called again."""
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
