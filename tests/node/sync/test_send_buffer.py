"""Messages that threads send one by one, and that the event loop takes as a list."""

import threading
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, interrupted, open_sync, quick
from triack.node.sync import send_buffer
from triack.node.sync.sync_loop import LoopThread


@pytest.mark.slow
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
