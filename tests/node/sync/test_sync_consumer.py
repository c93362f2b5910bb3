"""Readers of a queue that wait, and messages that any thread settles."""

import threading
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, interrupted, open_sync
from triack.node.handles.consumer import AckMode


def test_threads_share_a_node() -> None:
    """Each message goes to one of them, and waits do not hold others up."""
    with open_sync("a") as node:
        got: list[bytes] = []

        def work() -> None:
            with node.receive("q", ack="manual") as reader:
                try:
                    while True:
                        message = reader.get(timeout=0.5)
                        got.append(message.body)
                        message.ack()
                except triack.WaitTimeout:
                    return

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        sent = [b"%d" % number for number in range(100)]
        for body in sent:
            node.send("q", body)
        for thread in threads:
            thread.join(WAIT)
        assert sorted(got) == sorted(sent)
        assert node.queue_lengths()["q"] == 0


def test_a_message_keeps_its_reader(tmp_path: Path) -> None:
    """Received in one line, and settled later; the node has it back when it is dropped, in whatever thread that is."""
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        for face in (node, client):
            face.send_many("q", [b"1", b"2"])
            face.receive("q", ack="manual").get(WAIT).ack()
            assert face.receive("q", ack="manual").get(WAIT).body == b"2"
            again = face.receive("q", ack="manual").get(WAIT)
            assert (again.body, again.redelivered) == (b"2", True)
            again.ack()
            face.flush()
            assert face.queue_lengths()["q"] == 0


def test_lists_are_sent_and_received(tmp_path: Path) -> None:
    """By the node in this process and by a client of it, in transactions and without."""
    many = [b"%d" % number for number in range(300)]
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        for face in (node, client):
            receipts = face.send_many("q", iter(many), label="l")
            receipts.ordered(WAIT)
            receipts[7].stored(WAIT)
            assert len(receipts) == len({receipt.id for receipt in receipts[:]}) == 300
            with face.receive("q") as reader:
                got = reader.get_many(200, WAIT) + reader.get_many(timeout=WAIT)
            assert [(message.body, message.label) for message in got] == [(body, "l") for body in many]
            assert [message.id for message in got] == [receipt.id for receipt in receipts]
            face.flush()
            assert face.queue_lengths()["q"] == 0
            with face.transaction() as tx:
                tx.send_many("q", [b"1", b"2", b"3"])
            with face.receive("q", ack="manual") as reader:
                one, two, three = reader.get_many(timeout=WAIT)
                one.reject(failed=False)
                three.ack()
            with face.transaction() as tx:
                assert [message.body for message in tx.receive_many("q", timeout=WAIT)] == [one.body, two.body]
            assert face.queue_lengths()["q"] == 0
            with pytest.raises(triack.UsageError, match="whole number above 0"), face.receive("q") as reader:
                reader.get_many(0)


@pytest.mark.parametrize("ack", ["auto", "manual"])
def test_an_interrupted_call_has_acknowledged_nothing_unseen(tmp_path: Path, ack: AckMode) -> None:
    """Messages that had come are in the queue again, without a failure: no later call or end takes them for done."""
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        for face in (node, client):
            face.send_many("q", [b"1", b"2", b"3"])
            with face.receive("q", ack=ack) as reader:
                assert reader.get(WAIT).body == b"1"
                with interrupted():
                    reader.get(WAIT)
                (again,) = reader.get_many(1, WAIT)
                assert (again.body, again.redelivered, again.failures) == (b"2", True, 0)
                with interrupted():
                    reader.get_many(timeout=WAIT)
            face.flush()
            with face.receive("q") as reader:
                left = [message.body for message in reader.get_many(timeout=WAIT)]
            assert left == ([b"3"] if ack == "auto" else [b"1", b"2", b"3"])
