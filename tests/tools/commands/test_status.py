"""``triack status``, on a node that runs inside a program and on a directory at rest."""

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, open_sync, quick
from tests.tools.processes import SECONDS, start
from tests.tools.processes import triack as command
from triack.tools.ports import free_port


def run(*arguments: str | Path, code: int = 0) -> list[str]:
    """The lines that the command writes."""
    finished = command("status", *arguments)
    assert (finished.returncode, finished.stderr) == (code, b""), finished.stderr.decode()
    return finished.stdout.decode().splitlines()


@pytest.mark.slow
def test_what_runs_says_where_and_with_whom(tmp_path: Path) -> None:
    """A peer that is there, one that is not, and what waits; a directory that nobody runs is looked at, too."""
    nobody = f"udp://127.0.0.1:{free_port()}"
    settings = quick(close_timeout_s=0.0)
    with open_sync("b", listen=True) as b:
        peers = {"b": b.address, "c": nobody}
        with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, settings=settings) as a:
            a.send("b/orders", b"x").ordered(WAIT)
            a.send_many("c/orders", [b"x", b"y"]).queued(WAIT)
            a.send("here", b"x").ordered(WAIT)
            wait_until(lambda: a.stats().troubles)
            runs, node_id, room, unread, trouble, remedy, head, *peers_told = run("--data", tmp_path)
            most_first = run("--data", tmp_path, "--sort", "waiting")[-2:]
            found = json.loads(run("--data", tmp_path, "--json")[0])
            assert (runs, node_id) == ("a runs, listens nowhere", f"node id {a.node_id}")
    assert room.startswith("room on the disk: ")
    assert unread == "unread: 1, dead letters: 0"
    assert trouble.startswith("trouble: c does not answer: nothing came back (for ")
    assert remedy.startswith("  to do: check that a node runs there")
    assert [line.split()[0] for line in most_first] == ["c", "b"]
    assert head.split() == ["PEER", "LINK", "ADDRESS", "ON", "THE", "WAY", "WAITS", "FOR"]
    assert [line.split() for line in peers_told] == [
        ["b", "up", peers["b"], "0", "-"],
        ["c", "down", "-", "2", "answer"],
    ]
    assert (found["running"], found["name"], found["listening"]) == (True, "a", None)
    assert {field.name for field in fields(triack.NodeStats)} <= found.keys()
    assert run("--data", tmp_path, code=3)[:2] == ["no process runs it", node_id]
    assert json.loads(run("--data", tmp_path, "--json", code=3)[0])["running"] is False


@pytest.mark.slow
def test_who_has_what_and_what_has_no_room_is_shown(tmp_path: Path) -> None:
    """At the node that has no room, and at the one that waits for it."""
    full = quick(limits=triack.Limits(queue_quota={"orders": triack.Quota(2)}), messages_per_packet=1)
    with triack.sync.open("b", data=tmp_path / "b", listen="udp://127.0.0.1:0", insecure=True, settings=full) as b:
        peers = {"b": b.address}
        with triack.sync.open("a", data=tmp_path / "a", insecure=True, peers=peers, settings=quick()) as a:
            a.send_many("b/orders", [b"x"] * 2).ordered(WAIT)
            a.send("b/orders", b"x").queued(WAIT)
            held = b.receive("orders", ack="manual", name="packer").get(WAIT)
            wait_until(lambda: a.stats().outgoing[0].held == "queue-full" and b.stats().holds)
            assert [(it.peer, it.queue, it.reason) for it in b.stats().holds] == [("a", "orders", "queue-full")]
            waits = run("--data", tmp_path / "a")[-1].split()
            told = run("--data", tmp_path / "b")
            here = [line.split() for line in told[-4:]]
            listed = command("queue", "list", "--data", tmp_path / "a").stdout.decode().splitlines()[-1]
    assert waits[-2:] == ["room:", "queue-full"]
    assert "trouble: queue orders has reached its quota" in told
    assert listed.endswith("room: queue-full")
    assert here[0] == ["NO", "ROOM", "FOR", "TO", "QUEUE", "CLASS", "AS"]
    assert here[1] == ["a", "orders", "transactional", "queue-full"]
    assert here[3][:4] == ["orders", "packer", "-", "1"]
    assert held.body == b"x"


def wait_until(condition: Callable[[], object]) -> None:
    """Nothing tells of it."""
    end_s = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.mark.slow
def test_a_link_by_address_is_up_under_that_name(tmp_path: Path) -> None:
    with open_sync("b", listen=True) as b, open_sync("a", tmp_path) as a:
        a.send(f"{b.address}/q", b"x").ordered(WAIT)
        (row,) = [line.split() for line in run("--data", tmp_path) if line.startswith("udp://")]
    assert row == [b.address, "up", b.address, "0", "-"]


@pytest.mark.slow
def test_it_is_shown_again_and_again(tmp_path: Path) -> None:
    """Until somebody has seen enough."""
    with open_sync("a", tmp_path):
        watching = start("status", "--data", tmp_path, "--json", "--watch", "0.05")
        assert watching.stdout is not None
        assert [json.loads(watching.stdout.readline())["name"] for _ in range(3)] == ["a"] * 3
        watching.terminate()
        watching.communicate(timeout=SECONDS)
    assert watching.wait() == 143


def test_a_directory_without_a_node_has_no_status(tmp_path: Path) -> None:
    """And none is made of it."""
    finished = command("status", "--data", tmp_path)
    assert finished.returncode == 2
    assert b"there is no node in" in finished.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_a_failing_handler_waits_for_is_shown(tmp_path: Path) -> None:
    """With its error, while its message waits in its queue, and no more when it has succeeded."""
    away = threading.Event()
    away.set()

    def store(_message: triack.Message) -> None:
        if away.is_set():
            raise ConnectionError("the database is away")

    with open_sync("a", tmp_path) as a:
        a.handler("orders", redelivery=triack.Redelivery(first_wait_s=0.2, max_wait_s=0.2), name="packer")(store)
        a.send("orders", b"x")
        failing = re.compile("packer .* ConnectionError: the database is away$")
        wait_until(lambda: any(map(failing.search, run("--data", tmp_path))))
        away.clear()
        wait_until(lambda: not a.queue_lengths()["orders"])
        assert not [line for line in run("--data", tmp_path) if "packer" in line]
