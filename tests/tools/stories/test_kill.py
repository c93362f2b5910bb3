"""Lines through the command line arrive once, in order, whatever process is killed on the way."""

import subprocess
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from tests.tools.forkserver import Forked
from tests.tools.processes import SECONDS, Server, numbered, start, text, triack

LINES = 4_000
KILLS = 3
PORTIONS = 20

pytestmark = pytest.mark.slow


def feed(pipe: IO[bytes], lines: list[bytes], seconds: float = 2.5) -> None:
    """Write lines in portions, spread over a while."""
    portion = len(lines) // PORTIONS
    for at in range(0, len(lines), portion):
        pipe.write(text(lines[at : at + portion]))
        pipe.flush()
        time.sleep(seconds / PORTIONS)
    pipe.close()


def feed_and_kill(sender: Forked, lines: list[bytes], *victims: Server) -> None:
    """Kill the victims in turns while the sender is fed, and see it end well."""
    assert sender.stdin is not None
    feeder = threading.Thread(target=feed, args=(sender.stdin, lines))
    feeder.start()
    for turn in range(KILLS):
        time.sleep(0.2)
        victims[turn % len(victims)].restart(pause_s=0.05 * turn)
    feeder.join()
    sender.stdin = None
    _, complaints = sender.communicate(timeout=SECONDS)
    assert sender.returncode == 0, complaints.decode()


def attach(*arguments: str | Path) -> Forked:
    """Start a command, and wait until it works through the process that serves."""
    process = start(*arguments, "-v", stdin=subprocess.PIPE)
    assert process.stderr is not None
    assert b"through the process that serves" in process.stderr.readline()
    return process


def received(server: Server, count: int) -> list[bytes]:
    """Take that many lines, and see that there are no more."""
    finished = triack("receive", "orders", "--data", server.data, "--count", str(count), "--timeout", "300")
    assert finished.returncode == 0, finished.stderr
    assert triack("receive", "orders", "--data", server.data, "--timeout", "0.3").stdout == b""
    return finished.stdout.splitlines()


def test_the_receiving_node_may_be_killed(tmp_path: Path) -> None:
    lines = numbered(LINES)
    with Server(tmp_path / "a") as a, Server(tmp_path / "b") as b:
        sender = attach("send", f"{b.address}/orders", "--data", a.data, "--until", "ordered")
        feed_and_kill(sender, lines, b)
        assert received(b, LINES) == lines


def test_the_sending_node_may_be_killed_and_the_client_resumes(tmp_path: Path) -> None:
    lines = numbered(LINES)
    with Server(tmp_path / "a") as a, Server(tmp_path / "b") as b:
        sender = attach("send", f"{b.address}/orders", "--data", a.data)
        feed_and_kill(sender, lines, a)
        assert received(b, LINES) == lines


def test_a_sender_with_its_own_node_does_as_well(tmp_path: Path) -> None:
    lines = numbered(LINES)
    with Server(tmp_path / "b", listen="tcp://127.0.0.1:0") as b:
        sender = start("send", f"{b.address}/orders", "--data", tmp_path / "s", "--insecure", stdin=subprocess.PIPE)
        feed_and_kill(sender, lines, b)
        assert received(b, LINES) == lines


def test_a_reader_stays_attached_while_both_nodes_are_killed(tmp_path: Path) -> None:
    """A process that starts again knows of nothing that the one before it owed: whoever waits for that asks."""
    lines = numbered(LINES)
    with Server(tmp_path / "a") as a, Server(tmp_path / "b") as b:
        reader = attach("receive", "orders", "--data", b.data, "--count", str(LINES), "--timeout", "300", "--create")
        sender = attach("send", f"{b.address}/orders", "--data", a.data)
        feed_and_kill(sender, lines, b, a)
        output, complaints = reader.communicate(timeout=SECONDS)
        assert reader.returncode == 0, complaints.decode()
        assert output.splitlines() == lines
        assert triack("receive", "orders", "--data", b.data, "--timeout", "0.3").stdout == b""


def test_a_reader_waits_a_moment_for_a_killed_node(tmp_path: Path) -> None:
    """Opening the directory itself would keep the node out that is just being started again."""
    with Server(tmp_path / "b") as server:
        triack("send", f"{server.address}/orders", "--data", tmp_path / "s", "--insecure", stdin=b"kept\n")
        server.kill()
        reader = start("receive", "orders", "--data", server.data, "--count", "1", "--timeout", "300", "--insecure")
        server.start()
        output, complaints = reader.communicate(timeout=SECONDS)
    assert (reader.returncode, output, complaints) == (0, b"kept\n", b"")


def test_what_a_killed_node_left_behind_is_cleared_away(tmp_path: Path) -> None:
    """The first command afterwards looks for the node in vain; the next ones do not look again."""
    with Server(tmp_path / "b") as server:
        server.kill()
        assert (server.data / "node.json").exists()
        triack("receive", "orders", "--data", server.data, "--timeout", "0.2", "--insecure")
        assert not (server.data / "node.json").exists()
