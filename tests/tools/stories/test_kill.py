"""Lines through the command line arrive once, in order, whatever process is killed on the way."""

import subprocess
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from tests.tools.forkserver import Forked
from tests.tools.processes import SECONDS, Server, numbered, start, text, triack, wait_until
from triack.node.control.handover import Served
from triack.node.files.notes import read_note

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


def hold(data: Path) -> Forked:
    """Start a ``send`` to a directory that nobody serves, and wait until others can work through it."""
    process = start("send", "orders", "--data", data, "--insecure", stdin=subprocess.PIPE)
    wait_until(lambda: read_note(data, Served) is not None, "the command has opened the directory")
    return process


def write(process: Forked, line: bytes) -> None:
    """Give a command a line, of more to come."""
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


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
    """A process that starts again knows of nothing that the one before it owed: a waiter for that has to ask."""
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


@pytest.mark.parametrize("killed", [True, False])
def test_senders_go_on_when_the_command_ends_that_has_the_directory(tmp_path: Path, killed: bool) -> None:
    """Nobody starts that one again: one of them opens the directory, and the other goes on through it."""
    first = hold(tmp_path / "d")
    others = [attach("send", "orders", "--data", tmp_path / "d", "--insecure") for _ in range(2)]
    for number, sender in enumerate((first, *others)):
        write(sender, b"%d begins\n" % number)
    begun = triack("receive", "orders", "--data", tmp_path / "d", "--count", "3", "--create").stdout
    if killed:
        first.kill()
    first.communicate(timeout=SECONDS)
    for number, sender in enumerate(others, 1):
        sender.communicate(b"%d ends\n" % number, timeout=SECONDS)
        assert sender.returncode == 0
    ended = triack("receive", "orders", "--data", tmp_path / "d", "--timeout", "2", "--insecure").stdout
    assert sorted(begun.splitlines()) == [b"0 begins", b"1 begins", b"2 begins"]
    assert sorted(ended.splitlines()) == [b"1 ends", b"2 ends"]


def test_a_reader_goes_on_when_the_command_ends_that_has_the_directory(tmp_path: Path) -> None:
    data = tmp_path / "d"
    sender = hold(data)
    reader = attach("receive", "orders", "--data", data, "--count", "2", "--create", "--insecure")
    write(sender, b"one\n")
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"one\n"
    sender.communicate(timeout=SECONDS)
    wait_until(
        lambda: (served := read_note(data, Served)) is not None and served.pid == reader.pid, "the reader has it"
    )
    assert triack("send", "orders", "--data", data, "--insecure", stdin=b"two\n").returncode == 0
    output, _ = reader.communicate(timeout=SECONDS)
    assert (reader.returncode, output) == (0, b"two\n")
