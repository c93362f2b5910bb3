"""A node without async: its calls, its handles, its loop."""

import logging
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, interrupted, open_sync, quick
from triack.node.handles.consumer import AckMode
from triack.tools.ports import free_port

SCRIPT = """
import triack
with triack.sync.open("shop", data={data!r}, insecure=True) as shop:
    receipt = shop.send({destination!r}, b"12 valves")
    receipt.ordered(timeout=600)
    print(receipt.id)
"""


@pytest.mark.gate
def test_a_script_of_five_lines_ends_when_its_message_has_arrived(tmp_path: Path) -> None:
    """No event loop in it, no thread left at its end."""
    with open_sync("warehouse", listen=True) as warehouse:
        script = SCRIPT.format(data=str(tmp_path), destination=f"{warehouse.address}/orders")
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        with warehouse.receive("orders") as reader:
            message = reader.get(timeout=0)
    assert (message.body, f"{message.id}\n", done.stderr) == (b"12 valves", done.stdout, "")
    assert len(script.strip().splitlines()) == 5


def test_send_receive_and_transactions(tmp_path: Path) -> None:
    """As in the README, line by line."""
    with open_sync("plant-b", tmp_path, listen=True) as b, open_sync("plant-a") as a:
        a.send(f"{b.address}/orders", b"12 valves", label="l", headers={"a": "b"}).ordered(WAIT)
        with b.transaction() as tx:
            message = tx.receive("orders", WAIT)
            tx.send("invoices", b"for " + message.body, **message.forwardable())
            tx.remember("last", message.body)
        for invoice in b.receive("invoices"):
            assert (invoice.body, invoice.label, invoice.headers) == (b"for 12 valves", "l", {"a": "b"})
            break
        assert b.recall("last") == b"12 valves"
        assert b.queue_lengths()["orders"] == 0
        assert (a.name, b.name) == ("plant-a", "plant-b")

        def fail() -> None:
            with b.transaction() as tx:
                tx.send("invoices", b"never")
                raise LookupError

        with pytest.raises(LookupError):
            fail()
        tx = b.transaction()
        tx.send("invoices", b"second")
        (receipt,) = tx.commit(until="ordered", timeout=WAIT)
        receipt.reached("ordered", 0)
        tx.rollback()
        assert b.stats().queues["invoices"].messages == 2
        assert b.node_id in receipt.id


def test_errors_are_those_of_triack(tmp_path: Path) -> None:
    """Also before the start, after the end, and when the start fails; no thread is left."""
    before = threading.active_count()
    node = open_sync("a", tmp_path)
    with pytest.raises(triack.NodeClosed, match="use it inside `with`"):
        node.send("q", b"x")
    with node:
        with pytest.raises(triack.WaitTimeout):
            node.receive("q").get(0.01)
        with pytest.raises(triack.StoreInUse):
            open_sync("b", tmp_path).__enter__()
        with pytest.raises(triack.AddressError):
            node.send("a b", b"x")
    node.close()
    with pytest.raises(triack.NodeClosed):
        node.send("q", b"x")
    with pytest.raises(triack.NodeClosed, match=re.escape(f"the node of {tmp_path}")):
        triack.sync.connect(tmp_path).__enter__()
    end = time.monotonic() + WAIT
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_node_can_be_started_and_closed_without_a_with_statement(tmp_path: Path) -> None:
    """Before its start, and after its end, to close it does nothing; it is begun once, and may be begun again."""
    node = open_sync("a", tmp_path)
    node.close()
    assert node.start() is node
    with pytest.raises(triack.UsageError, match="it is open already"):
        node.start()
    node.send("q", b"x").queued(WAIT)
    node.close()
    node.close()
    with node:
        assert node.queue_lengths()["q"] == 1


def test_all_that_a_node_tells(tmp_path: Path) -> None:
    """Its events, what has not arrived yet, and that an outgoing queue is full."""
    nobody = f"udp://127.0.0.1:{free_port()}"
    settings = quick(pending_limit_bytes=1, close_timeout_s=0.0)
    with triack.sync.open("a", data=tmp_path, insecure=True, peers={"b": nobody}, settings=settings) as node:
        events = node.events()
        node.send_nowait("b/q", b"x").queued(WAIT)
        event = next(events)
        assert isinstance(event, triack.PeerSilent)
        assert event.address == nobody
        with pytest.raises(triack.WaitTimeout, match="still 1 message for b/q"):
            node.drain(0.01)

        def fill() -> None:
            while True:
                node.send_nowait("b/q", b"x")

        with pytest.raises(triack.WouldBlock):
            fill()
    with pytest.raises(triack.NodeClosed):
        next(events)


@pytest.mark.slow
def test_an_interrupted_end_closes_everything(tmp_path: Path) -> None:
    """A second Ctrl-C, or one that comes while a node waits for its last acknowledgements, leaves no file open."""
    script = f"""
import signal, triack.sync
node = triack.sync.open("a", data={str(tmp_path / "a")!r}, insecure=True, peers={{"b": "udp://127.0.0.1:{free_port()}"}})
node.start()
node.send("b/q", b"x").queued()
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    node.close()
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
with node:
    print(len(node.stats().outgoing))
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.splitlines()[-1] == "1"
    assert "destroyed" not in done.stderr
    assert "unclosed" not in done.stderr


def test_nodes_come_to_know_each_other(tmp_path: Path) -> None:
    """By a code, or by keys; with a node of this process and with one that may be another's."""
    listen = "udp://127.0.0.1:0"
    with (
        triack.sync.open("a", data=None, listen=listen) as a,
        triack.sync.open("b", data=tmp_path, listen=listen) as b,
        triack.sync.connect(tmp_path) as client,
    ):
        invitation = client.invite("plant-a")
        assert a.enrol(invitation.code, b.address).key == client.key == b.key
        assert invitation.enrolled(WAIT).name == "plant-a"
        a.send("b/q", b"x").ordered(WAIT)
        client.revoke("plant-a")
        client.trust("plant-a", a.key)
        a.send("b/q", b"x").ordered(WAIT)
        for withdrawn in (a.invite(), client.invite()):
            withdrawn.withdraw()
            with pytest.raises(triack.EnrolmentFailed):
                withdrawn.enrolled()


def test_an_interrupted_reader_of_events_misses_none(tmp_path: Path) -> None:
    with open_sync("shop", tmp_path) as shop, triack.sync.connect(tmp_path) as client:
        for face in (shop, client):
            told = face.acknowledgements("q", every="message")
            numbers = [face.send("q", b"x").number for _ in range(3)]
            for _ in range(2):
                with interrupted():
                    next(told)
            assert [next(told).first for _ in range(3)] == numbers


def test_what_a_node_calls_itself_cannot_wait_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """Such as a handler of its log that sends by it: that is refused, and the node goes on."""
    refused: list[Exception] = []

    class Sends(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            for call in (lambda: node.send("log", record.getMessage().encode()), node.close):
                with pytest.raises(triack.UsageError, match="this thread runs the node") as error:
                    call()
                refused.append(error.value)

    handler = Sends()
    with open_sync("a") as node:
        logging.getLogger("triack").addHandler(handler)
        try:
            node.receive("orders")
            node.receive("order")
        finally:
            logging.getLogger("triack").removeHandler(handler)
        node.send("orders", b"x").queued(WAIT)
    assert refused
    assert "order" in caplog.text


def test_what_is_shown_is_what_is_inside() -> None:
    """A node, and what it lends, each with the name of its face."""
    node = open_sync("a")
    assert repr(node) == "<SyncNode: not open>"
    with node:
        assert repr(node) == "<SyncNode: <Node a, open>>"
        receipt = node.send("q", b"x")
        assert repr(receipt) == f"<SyncReceipt: <Receipt of message {receipt.id} to q, transactional>>"
        with node.receive("q") as reader:
            assert repr(reader) == "<SyncConsumer: <Consumer of queue q of node a>>"
        with node.transaction() as transaction:
            assert repr(transaction) == "<SyncTransaction: <Transaction of node a, open>>"


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


def test_an_interrupted_call_has_neither_sent_nor_received(tmp_path: Path) -> None:
    """A commit then takes nothing that nobody has seen, and what is sent again is not sent twice."""
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        for face in (node, client):
            node.send_many("orders", [b"1", b"2"])
            with face.transaction() as tx:
                for take in (tx.receive, tx.receive_many):
                    with interrupted():
                        take("orders", timeout=WAIT)
                for _ in range(2):
                    with interrupted():
                        tx.send("invoices", b"for 1")
                    with interrupted():
                        tx.send_many("invoices", [b"for 2"] * 1_500)
                assert tx.receive("orders", WAIT).body == b"1"
                tx.send("invoices", b"for 1")
            assert {name: node.queue_lengths()[name] for name in ("orders", "invoices")} == {"orders": 1, "invoices": 1}
            assert node.receive("orders").get(WAIT).failures == 0
            for queue in ("orders", "invoices"):
                node.purge(queue)
