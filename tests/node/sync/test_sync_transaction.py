"""Transactions that wait."""

from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, interrupted, open_sync


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    """Of a node of its own as of one that another process may run."""
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        for face in (node, client):
            node.send("orders", b"12 valves").ordered(WAIT)

            def fail(face: triack.sync.SyncNode | triack.sync.SyncClient = face) -> None:
                with face.transaction() as tx:
                    assert tx.receive("orders", WAIT).body == b"12 valves"
                    tx.send("invoices", b"never")
                    raise LookupError

            with pytest.raises(LookupError):
                fail()
            with face.transaction() as tx:
                assert tx.receive("orders", WAIT).failures == 1
                tx.send("invoices", b"for 12 valves")
                (receipt,) = tx.commit(until="ordered", timeout=WAIT)
            receipt.ordered(0)
            with pytest.raises(triack.NodeClosed):
                tx.send("invoices", b"late")
        assert node.queue_lengths() == {"dead-letter": 0, "invoices": 2, "orders": 0}


def test_a_forgotten_transaction_keeps_no_message(tmp_path: Path) -> None:
    with open_sync("a", tmp_path) as node, triack.sync.connect(tmp_path) as client:
        node.send("orders", b"12 valves").ordered(WAIT)
        for face in (node, client):
            tx = face.transaction()
            tx.receive("orders", WAIT)
            del tx
            with face.receive("orders", ack="manual") as reader:
                assert reader.get(WAIT).failures == 0


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
