"""``triack stream``: why a stream does not move, and when it is sent again, on a running node and at rest."""

import json
from pathlib import Path

import pytest

from tests.node.nodes import WAIT, open_sync
from tests.tools.processes import triack as command

NOBODY = "udp://127.0.0.1:9/orders"


def run(*arguments: str | Path, code: int = 0) -> list[str]:
    """The lines that a command writes."""
    finished = command("stream", *arguments)
    assert finished.returncode == code, finished.stderr.decode()
    return (finished.stdout or finished.stderr).decode().splitlines()


@pytest.mark.slow
def test_one_command_says_why_a_stream_does_not_move_and_when_it_is_sent(tmp_path: Path) -> None:
    with open_sync("b", tmp_path / "b", listen=True) as b, open_sync("a", tmp_path / "a") as a:
        at = ("--data", tmp_path / "a")
        a.send(f"{b.address}/q", b"x").ordered(WAIT)
        a.send(NOBODY, b"away").queued(WAIT)
        waits, moves = (line.split() for line in run("list", *at)[1:])
        assert (waits[:4], waits[-3:-1]) == ([NOBODY, "out", "transactional", "0"], ["waiting", "answer"])
        assert moves == [f"{b.address}/q", "out", "transactional", "0", "0", "1", "connected", "-", "-"]
        assert [line.split()[0] for line in run("list", "--waiting", *at)[1:]] == [NOBODY]
        head, why, when, what, *_ = run("show", NOBODY, *at)
        assert head == f"{NOBODY}: outgoing transactional stream 2, priority 0, sequence 2"
        assert why == "  waiting: the peer does not answer"
        assert when.startswith("  calls the peer again in ")
        assert what == "  packet 1 is not acknowledged: 1 to send, 0 sent"
        assert "  last order ack: packet 1, " in "\n".join(run("show", f"{b.address}/q", *at))
        (row,) = (json.loads(line) for line in run("show", "q", "--json", "--data", tmp_path / "b"))
        assert (row["kind"], row["stream"], row["accepted"], row["acked"]) == ("in", "q", 1, 1)
        (text,) = run("show", "nowhere", *at, code=2)
        assert text.startswith("triack: no stream leads to or from nowhere")


@pytest.mark.slow
def test_at_rest_it_tells_what_the_store_knows(tmp_path: Path) -> None:
    with open_sync("b", tmp_path / "b", listen=True) as b, open_sync("a", tmp_path / "a") as a:
        a.send(f"{b.address}/q", b"x").ordered(WAIT)
        a.send(NOBODY, b"away").queued(WAIT)
    head, why, what, *_ = run("show", NOBODY, "--data", tmp_path / "a")
    assert (head.split(":")[-1], why) == (
        " outgoing transactional stream 2, priority 0, sequence 2",
        "  waiting: no process runs the node",
    )
    assert what == "  packet 1 is not acknowledged: 1 to send, 0 sent"
    lines = run("show", "q", "--data", tmp_path / "b")
    assert "  accepted up to packet 1; 0 wait for others before them" in lines
    assert "  no session brings packets of it now" in lines
