"""Receipts that wait."""

from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, open_sync


def test_a_call_waits_for_the_stage_that_it_names(tmp_path: Path) -> None:
    """Of a node of its own as of one that another process may run."""
    data = tmp_path / "a"
    with open_sync("b", listen=True) as b, open_sync("a", data) as a, triack.sync.connect(data) as it:
        for sender in (a, it):
            sender.send(f"{b.address}/q", b"1", until="ordered", timeout=WAIT)
            sender.send_many(f"{b.address}/q", [b"2", b"3"], until="stored", timeout=WAIT)
        assert b.queue_lengths()["q"] == 6
        with pytest.raises(triack.WaitTimeout):
            a.send("udp://127.0.0.1:9/q", b"x", until="received", timeout=0.1)
