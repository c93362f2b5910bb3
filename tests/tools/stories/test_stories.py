"""Commands together, on real processes."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Any

import pytest

from tests.certificates import make_certificate
from tests.machine import PATIENCE_S
from tests.tools.forkserver import Forked
from tests.tools.processes import SECONDS, Server, exists, message_of, numbered, start, text, triack, wait_until
from triack.tools.commands.tally import stored_but

pytestmark = pytest.mark.slow

LINES = 4_000
KILLS = 3
PORTIONS = 20


def feed(pipe: IO[bytes], lines: list[bytes], seconds: float = 2.5) -> None:
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
    assert b"through the process that serves" in process.stderr.readline()
    return process


def received(server: Server, count: int) -> list[bytes]:
    finished = triack("receive", "orders", "--data", server.data, "--count", str(count), "--timeout", "300")
    assert finished.returncode == 0, finished.stderr
    assert triack("receive", "orders", "--data", server.data, "--timeout", "0.3").stdout == b""
    return finished.stdout.splitlines()


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
    """Opening the directory itself would keep the node out that is just being started again.

    Where it does not come back, the first command clears away what it left; the next ones do not look again.
    """
    with Server(tmp_path / "b") as server:
        triack("send", f"{server.address}/orders", "--data", tmp_path / "s", "--insecure", stdin=b"kept\n")
        server.kill()
        reader = start("receive", "orders", "--data", server.data, "--count", "1", "--timeout", "300", "--insecure")
        server.start()
        output, complaints = reader.communicate(timeout=SECONDS)
        assert (reader.returncode, output, complaints) == (0, b"kept\n", b"")
        server.kill()
        assert (server.data / "node.json").exists()
        triack("receive", "orders", "--data", server.data, "--timeout", "0.2", "--insecure")
        assert not (server.data / "node.json").exists()


def line_of(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode().strip()


def inviting(data: Path, *options: str) -> tuple[Forked, str]:
    process = start("enrol", "invite", *options, "--data", data)
    return process, line_of(process.stdout)


def peers(data: Path) -> str:
    """What is written down, without the keys."""
    listed = triack("trust", "list", "--data", data).stdout.decode()
    return "\n".join(line for line in listed.splitlines() if "  key" not in line)


def test_a_running_node_joins(tmp_path: Path) -> None:
    """Both sides hear of it; messages go both ways, also after both were killed."""
    a, b = tmp_path / "a", tmp_path / "b"
    with Server(a, insecure=False) as left, Server(b, insecure=False) as right:
        waiting, code = inviting(b, "--as", "plant-a", "--send", "orders")
        joined = triack("enrol", "join", code, right.address, "--as", "plant-b", "--data", a)
        assert joined.stdout.decode() == f"trusts plant-b at {right.address}\n", joined.stderr
        said, _ = waiting.communicate(timeout=SECONDS)
        assert (waiting.returncode, said.decode()) == (0, f"trusts plant-a at {left.address}\n")
        assert peers(a) == f"plant-b\n  address  {right.address}\n  send     *"
        assert peers(b) == f"plant-a\n  address  {left.address}\n  send     orders"
        left.restart()
        right.restart()
        assert triack("send", "plant-b/orders", "--data", a, stdin=b"there\n").returncode == 0
        assert triack("send", "plant-a/answers", "--data", b, stdin=b"back\n").returncode == 0
        assert triack("receive", "orders", "--data", b, "--count", "1").stdout == b"there\n"
        assert triack("receive", "answers", "--data", a, "--count", "1").stdout == b"back\n"


def test_a_node_at_rest_joins_over_tls(tmp_path: Path) -> None:
    """With a code that nobody waits for, and another suite, by which both speak then; and the code is used up."""
    certificate = make_certificate(tmp_path)
    options = ("--tls-cert", certificate, "--suite", "25519_ChaChaPoly_BLAKE2s")
    with Server(tmp_path / "b", *options, listen="tcp://127.0.0.1:0", insecure=False) as server:
        code = triack("enrol", "invite", "--no-wait", "--data", tmp_path / "b").stdout.decode().strip()
        join = ("enrol", "join", code, server.address, "--name", "plant-a", "--tls-ca", certificate, *options[2:])
        joined = triack(*join, "--address", "tcp://127.0.0.1:9", "--data", tmp_path / "a")
        assert joined.stdout.decode() == f"trusts b at {server.address}\n", joined.stderr
        assert peers(tmp_path / "b") == "plant-a\n  address  tcp://127.0.0.1:9\n  send     *"
        ours = ("--tls-ca", certificate, *options[2:], "--data", tmp_path / "a")
        late = triack("send", "plant-a/bills", "--timeout", "1", "--data", tmp_path / "b", stdin=b"due\n")
        other = triack("send", "b/orders", "--timeout", "2", *ours[:2], *ours[-2:], stdin=b"no\n")
        assert (late.returncode, other.returncode) == (3, 3)
        assert triack("send", "b/orders", *ours, stdin=b"12 valves\n").returncode == 0
        assert triack("receive", "bills", "--count", "1", *ours).stdout == b"due\n"
        assert triack("receive", "orders", "--count", "2", "--data", tmp_path / "b").stdout == b"no\n12 valves\n"
        failed = triack(*join, "--timeout", "0.5", "--data", tmp_path / "c")
        assert failed.returncode == 1
        assert message_of(failed).startswith(f"enrol at {server.address}: no answer. The code is wrong, used or")


def test_a_code_ends_with_the_command_that_waits_for_it(tmp_path: Path) -> None:
    """Interrupted, it takes the code back; a node that ends takes it along."""
    with Server(tmp_path / "b", insecure=False) as server:
        waiting, code = inviting(tmp_path / "b")
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=SECONDS)
        assert waiting.returncode == 130
        late = triack("enrol", "join", code, server.address, "--timeout", "0.5", "--data", tmp_path / "a")
        assert late.returncode == 1
        waiting, _ = inviting(tmp_path / "b")
        server.stop()
        _, complaint = waiting.communicate(timeout=SECONDS)
        assert waiting.returncode == 1
        assert any(words in complaint for words in (b"was closed", b"has ended", b"went away"))
    assert peers(tmp_path / "b") == ""


def key_of(data: Path) -> str:
    return triack("keygen", "--data", data).stdout.decode().strip()


def trust(data: Path, *arguments: str | Path) -> None:
    done = triack("trust", *arguments, "--data", data)
    assert done.returncode == 0, done.stderr


def test_two_that_trust_each_other(tmp_path: Path) -> None:
    """Messages by name, until one of them is trusted no more; while the other runs."""
    a, b = tmp_path / "a", tmp_path / "b"
    with Server(b, insecure=False) as server:
        trust(a, "add", "plant-b", key_of(b), "--address", server.address)
        sent = triack("send", "plant-b/orders", "--data", a, "--timeout", "1", stdin=b"too early\n")
        late_line = f"triack: line 1 not yet ordered: not after 1 s; {stored_but('answer')}"
        assert sent.stderr.decode().splitlines()[-1] == late_line

        trust(b, "add", "plant-a", key_of(a), "--send", "orders")
        sent = triack("send", "plant-b/orders", "--data", a, stdin=b"1\n2\n")
        assert sent.returncode == 0, sent.stderr
        got = triack("receive", "orders", "--data", b, "--count", "3")
        assert got.stdout == b"too early\n1\n2\n"
        assert triack("send", f"{server.address}/orders", "--data", a, stdin=b"by address\n").returncode == 0
        refused = triack("send", "plant-b/bills", "--data", a, stdin=b"x\n")
        assert refused.stderr.splitlines()[-1] == b"triack: line 1 not ordered: access-denied"

        trust(b, "remove", "plant-a")
        late = ("send", "plant-b/orders", "--data", a, "--timeout", "1")
        taken, end_s = b"by address\n", time.monotonic() + PATIENCE_S
        while (sent := triack(*late, stdin=b"late\n")).returncode == 0:  # until the node looks at its peers again
            assert time.monotonic() < end_s
            taken += b"late\n"
        assert sent.stderr.decode().splitlines()[-1] == late_line
        assert triack("receive", "orders", "--data", b, "--timeout", "2").stdout == taken


def demo(tmp_path: Path, *options: str) -> dict[str, Any]:
    finished = triack("demo", "--json", "--report", tmp_path / "page.html", *options)
    assert finished.returncode == 0, finished.stderr.decode() + finished.stdout.decode()
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    assert result["engine"] == "local"  # a plain installation has no other, and so few need none
    return result


def test_every_message_arrives_over_a_bad_network(tmp_path: Path) -> None:
    """A kept run has a file of keys for each node, and can be replayed; nothing is put beside it."""
    kept = tmp_path / "kept"
    result = demo(tmp_path, "--messages", "1000", "--keep", str(kept))
    assert (result["sent"], result["delivered"], result["lost"]) == (1000, 1000, 0)
    assert (result["duplicates_delivered"], result["out_of_order"], result["verdict"]) == (0, 0, "pass")
    assert result["relay"]["to_target"]["dropped"] > 0
    assert result["resends"] > 0
    assert result["seconds"] > 0
    assert result["report"] == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 0
    assert len(list(kept.glob("*/identity"))) == 2
    replayed = triack("replay", kept / "logs", "--engine", "local", "--json")
    assert replayed.returncode == 0, replayed.stderr
    again = triack("demo", "--engine", "local", "--keep", kept)
    said = f"--keep {kept}: the directory is not empty; see triack demo --help"
    assert (again.returncode, message_of(again)) == (2, said)


def test_every_message_arrives_over_tcp(tmp_path: Path) -> None:
    options = ("--transport", "tcp", "--loss", "0", "--duplicate", "0", "--reorder", "0", "--size", "5000")
    result = demo(tmp_path, "--messages", "300", *options)
    assert (result["delivered"], result["relay"], result["verdict"]) == (300, {}, "pass")


def test_a_demo_that_cannot_finish_gives_up(tmp_path: Path) -> None:
    finished = triack("demo", "--engine", "local", "--loss", "0.9", "--timeout", "1", "--json")
    assert finished.returncode == 1
    assert message_of(finished).startswith("demo given up: not done after 1 s; ")
    assert finished.stdout == b""


def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    process = start("demo", "--engine", "local", "--messages", "1000000", "--keep", kept)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.communicate()
        pytest.skip("the system does not tell which children a process has")
    wait_until((kept / "sender" / "store.db").exists, "both nodes run")
    pids = [int(pid) for pid in children.read_text().split()]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert len(pids) == 2
    assert not any(exists(pid) for pid in pids)


COUNT = 20_000
STILL_S = (0.5, 1.0, 4.0)


def test_processes_that_stood_still_are_late_at_most(tmp_path: Path) -> None:
    """Each is stopped while messages flow; all of them arrive once, in order, and the verdict says so."""
    logs = tmp_path / "logs"
    with Server(tmp_path / "b", "--log", logs) as there, Server(tmp_path / "a", "--log", logs) as here:
        lines = tmp_path / "lines"
        lines.write_bytes(text(numbered(COUNT)))
        with lines.open("rb") as given:
            sending = start("send", f"{there.address}/orders", "--data", here.data, "--insecure", stdin=given.fileno())
        for still_s in STILL_S:
            for server in (there, here):
                os.kill(server.pid, signal.SIGSTOP)
                time.sleep(still_s)
                os.kill(server.pid, signal.SIGCONT)
                time.sleep(0.2)
        sending.communicate()
        assert sending.wait() == 0
        got = triack("receive", "orders", "--data", there.data, "--count", str(COUNT), "--insecure")
        assert got.stdout == text(numbered(COUNT))
        assert here.stop() == there.stop() == 0
    replayed = triack("replay", logs, "--engine", "local", "--json")
    verdict = json.loads(replayed.stdout.splitlines()[-1])
    assert (replayed.returncode, verdict["violations"], verdict["delivered"]) == (0, {}, COUNT)
    assert b"woke_late" in b"".join(path.read_bytes() for path in logs.rglob("*.jsonl"))


BODY = os.urandom(20_000_000)


def listed(server: Server) -> bytes:
    return triack("queue", "list", "--data", server.data).stdout


def test_a_file_whose_sender_and_server_are_killed(tmp_path: Path) -> None:
    """Two senders die with -9, each in the middle, and the server once; the next one's file is there once."""
    big, copy, data = tmp_path / "big", tmp_path / "copy", tmp_path / "a"
    big.write_bytes(BODY)
    with Server(tmp_path / "b") as server:
        sending = ("send", f"{server.address}/films", "--insecure", "--file", big, "--data", data)
        for _ in range(2):
            sender = start(*sending)
            wait_until(lambda: b"$large.films" in listed(server), "a part is there")
            sender.kill()
            sender.communicate()
        server.restart()
        sent = triack(*sending)
        assert sent.returncode == 0, sent.stderr
        saved = triack("receive", "films", "--save", copy, "--timeout", "20", "--data", server.data)
        assert saved.returncode == 0, saved.stderr
        assert copy.read_bytes() == BODY
        assert b"0 waiting" in triack("queue", "show", "films", "--data", server.data).stdout
        wait_until(lambda: b"$large" not in listed(server), "nothing is left")
