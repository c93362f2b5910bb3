"""The command line with real processes: what works, and one clear line for what does not."""

import json
import os
import re
import resource
import select
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import triack as library
from tests.tools.processes import SECONDS, TRIACK, Server, message_of, numbered, start, text, triack, wait_until
from triack.tools.cli import main
from triack.tools.commands.tally import stored_but
from triack.tools.ports import free_port

SOON = "2"
"""Seconds: nobody takes longer to hand out what is there."""

pytestmark = pytest.mark.slow

NOBODY = "udp://127.0.0.1:9"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "b") as running:
        yield running


def test_lines_come_back_as_they_were(tmp_path: Path, server: Server) -> None:
    """Any bytes but a newline; empty lines; a last line without its newline."""
    to = ("send", f"{server.address}/orders", "--data", tmp_path / "s", "--insecure")
    sent = triack(*to, stdin=b"a\n\n\xff\x00\r\nend")
    assert (sent.returncode, sent.stderr) == (0, b"")
    got = triack("receive", "orders", "--data", server.data, "--count", "4")
    assert (got.returncode, got.stdout, got.stderr) == (0, b"a\n\n\xff\x00\r\nend\n", b"")


def test_each_class_arrives_from_its_own_node_and_through_a_serving_one(tmp_path: Path, server: Server) -> None:
    for delivery in ("express", "recoverable", "transactional"):
        to = ("send", f"{server.address}/{delivery}", "--class", delivery, "--data")
        own = triack(*to, tmp_path / "s", "--insecure", stdin=b"own\n")
        served = triack(*to, server.data, stdin=b"served\n")
        assert (own.returncode, served.returncode) == (0, 0), own.stderr + served.stderr
        assert triack("receive", delivery, "--data", server.data, "--count", "2").stdout == b"own\nserved\n"


def test_receive_can_listen_itself(tmp_path: Path) -> None:
    at = ("--data", tmp_path / "r", "--listen", "tcp://127.0.0.1:0", "--insecure")
    reader = start("receive", "orders", "--count", "2", *at)
    address = reader.stderr.readline().decode().removeprefix("listening ").strip()
    assert triack("send", f"{address}/orders", "--data", tmp_path / "s", "--insecure", stdin=b"1\n2\n").returncode == 0
    output, _ = reader.communicate(timeout=SECONDS)
    assert (reader.returncode, output) == (0, b"1\n2\n")


@pytest.mark.parametrize("served", [True, False])
def test_a_queue_that_is_not_there_is_made_only_when_that_is_said(tmp_path: Path, served: bool) -> None:
    """Most likely its name is wrong; what may have been meant is said, and nothing is waited for."""
    b = tmp_path / "b"
    assert triack("send", "orders", "--data", b, "--insecure", stdin=b"1\n").returncode == 0
    with Server(b) if served else nullcontext():
        for typed, hint in (("oders", "did you mean orders?"), ("x", "there is dead-letter, orders")):
            got = triack("receive", typed, "--data", b, "--insecure")
            said = f"receive from {typed}: node b has no such queue; {hint} (--create makes it)"
            assert (got.returncode, message_of(got)) == (2, said)
        got = triack("receive", "oders", "--data", b, "--timeout", "0.2", "--insecure", "--create")
        assert (got.returncode, got.stdout) == (0, b"")
        assert triack("receive", "oders", "--data", b, "--timeout", "0.2", "--insecure").returncode == 0


def test_a_directory_without_a_node_is_made_one_only_when_that_is_said(tmp_path: Path) -> None:
    """A typo leaves nothing behind, and is answered with the nearest name."""
    assert triack("send", "orders", "--data", tmp_path / "plant", "--insecure", stdin=b"1\n").returncode == 0
    for typed, hint in (("plnt", f"did you mean {tmp_path / 'plant'}?"), ("x", "--create makes one")):
        got = triack("receive", "orders", "--data", tmp_path / typed, "--insecure")
        said = f"receive from {tmp_path / typed}: there is no node in it; {hint}"
        assert (got.returncode, message_of(got)) == (2, said)
        assert not (tmp_path / typed).exists()
    got = triack("receive", "orders", "--data", tmp_path / "x", "--insecure", "--create", "--timeout", "0.2")
    assert (got.returncode, got.stderr) == (0, b"")
    assert (tmp_path / "x").exists()


def test_what_is_not_there_in_time_is_reported_and_sent_later(tmp_path: Path) -> None:
    with Server(tmp_path / "b") as server:
        address = server.address
    at = ("--data", tmp_path / "s", "--insecure", "--timeout", "2")
    late = triack("send", f"{address}/orders", *at, stdin=b"1\n2\n")
    assert late.returncode == 3
    *warnings, last = late.stderr.decode().splitlines()
    assert last == f"triack: lines 1-2 not yet ordered: not after 2 s; {stored_but('answer')}"
    assert f"stored until it is opened again: 2 messages for {address}/orders" in warnings[-1]
    with Server(tmp_path / "b", listen=address), Server(tmp_path / "s"):
        got = triack("receive", "orders", "--data", tmp_path / "b", "--count", "2", "--timeout", "300", "--create")
    assert got.stdout == b"1\n2\n"


def test_what_is_wrong_is_said_however_little_time_there_is(tmp_path: Path) -> None:
    """A node that has messages on their way takes its time to close, and that is no reason to say that time ran out."""
    at = ("--data", tmp_path / "s", "--insecure")
    triack("send", f"udp://127.0.0.1:{free_port()}/orders", "--until", "queued", *at, stdin=b"1\n")
    wrong = triack("send", "nobody/orders", "--timeout", "0.1", *at, stdin=b"1\n")
    assert wrong.returncode == 2
    last = wrong.stderr.decode().splitlines()[-1]
    assert last == "triack: send to nobody/orders: unknown peer nobody; there is none yet"


def test_an_input_with_a_key_is_accepted_once(tmp_path: Path) -> None:
    """By a node of its own, by another process of it, and by one that was killed meanwhile."""
    with Server(tmp_path / "b") as server:
        address = server.address
    order = ["send", f"{address}/orders", "--data", str(tmp_path / "s"), "--key", "monday", "--timeout", "2"]
    for _ in range(2):
        assert triack(*order, "--insecure", stdin=b"1\n2\n").returncode == 3
    with Server(tmp_path / "s") as own:
        assert triack(*order, stdin=b"1\n2\n").returncode == 3
        own.kill()
    with Server(tmp_path / "s"), Server(tmp_path / "b", listen=address):
        assert triack(*order[:-1], "300", stdin=b"1\n2\n3\n").returncode == 0
        got = triack("receive", "orders", "--data", tmp_path / "b", "--timeout", SOON)
    assert got.stdout == b"1\n2\n3\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("send udp://127.0.0.1:1/q --class golden", "'golden' is not one of"),
        ("send udp://127.0.0.1:1/q --until eaten", "'eaten' is not one of"),
        ("send udp://127.0.0.1:1/q --class express --until stored", "express messages have no such stage"),
        ("send udp://127.0.0.1:1/q", "this node trusts no peer at udp://127.0.0.1:1; `triack trust add`"),
        ("send plant-b/q", "unknown peer plant-b"),
        ("send udp://127.0.0.1:1 --insecure", "the queue is missing"),
        ("send plant-b/orders --insecure", "unknown peer plant-b"),
        ("serve --name x --listen pigeon://home --insecure", "it must start with one of"),
        ("serve --name x --listen udp://0.0.0.0:0 --insecure", "loopback addresses only"),
        ("serve --name 'not a name' --listen udp://127.0.0.1:0 --insecure", "' ' is not a letter"),
        ("serve --name x --window 0", "--window: session.max_unacked_packet: must be 1 to 65535"),
        ("receive 'a queue' --insecure", "' ' is not a letter"),
        ("receive q --count 0", "0 is not in the range"),
        ("zzyzx", "no such command zzyzx; see triack --help"),
        *((group, f"Missing command; see triack {group} --help") for group in ("queue", "trust", "enrol", "policy")),
        ("trust lst", "see triack trust --help"),
        ("recieve", "no such command recieve; did you mean receive?; see triack --help"),
        ("send udp://127.0.0.1:1/q --lable x", "'--label'"),
        ("send udp://127.0.0.1:1/q --header x --insecure", "--header x: it must be NAME=VALUE"),
        ("send udp://127.0.0.1:1/q --file nowhere", "File 'nowhere' does not exist; see triack send --help"),
        ("send c/q --peer b=udp://127.0.0.1:1 --insecure", "unknown peer c"),
    ],
)
def test_what_is_asked_wrongly_is_one_clear_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: str, reason: str
) -> None:
    """In this process, which is in nobody's way, as nothing has begun yet."""
    data = [] if " " not in arguments else ["--data", str(tmp_path / "d")]
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(arguments), *data])
    complaint = capfd.readouterr().err
    assert (ended.value.code, complaint.startswith("triack: "), complaint.count("\n")) == (2, True, 1)
    assert reason in complaint


def test_a_directory_has_one_server(server: Server) -> None:
    second = triack("serve", "--name", "c", "--listen", "udp://127.0.0.1:0", "--data", server.data, "--insecure")
    in_use = r"in use by another node: process \d+ on \S+; another process uses that node by "
    assert (second.returncode, bool(re.search(in_use, message_of(second)))) == (1, True)
    got = triack("receive", "orders", "--data", server.data, "--listen", "udp://127.0.0.1:0")
    assert (got.returncode, message_of(got).endswith("so leave --listen out")) == (2, True)
    assert triack("send", "orders", "--data", server.data, stdin=b"still there\n").returncode == 0


def test_a_store_that_fails_ends_the_server_and_the_sender_goes_on_at_the_next(tmp_path: Path) -> None:
    """A limit on the size of files, set while it runs, stands in for a disk that takes no more."""
    lines = [line.ljust(100_000, b".") for line in numbered(20)]
    (tmp_path / "lines").write_bytes(text(lines))
    with Server(tmp_path / "b") as server:
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (500_000, hard))
        with (tmp_path / "lines").open("rb") as file:
            sender = start("send", "orders", "--data", server.data, stdin=file.fileno())
        code, complaints = server.wait()
        assert code == 1
        assert complaints.splitlines()[-1].startswith("triack: commit store ")
    with Server(tmp_path / "b") as server:
        _, complaint = sender.communicate(timeout=SECONDS)
        assert sender.returncode == 0
        assert [b"went away; waiting for it" in line for line in complaint.splitlines()] == [True]
        assert triack("receive", "orders", "--data", server.data, "--count", "20").stdout == text(lines)
        assert triack("receive", "orders", "--data", server.data, "--timeout", "0.2").stdout == b""


@pytest.mark.parametrize("by_a_server", [True, False])
def test_a_copy_of_a_served_directory_is_a_directory_of_its_own(server: Server, by_a_server: bool) -> None:
    """Work on the copy leaves the node of the original alone, and the place where that is found."""
    backup = server.data.with_name("backup")
    triack("send", "orders", "--data", server.data, stdin=b"kept\n")
    shutil.copytree(server.data, backup)
    with Server(backup) if by_a_server else nullcontext():
        assert triack("queue", "purge", "orders", "--all", "--data", backup).returncode == 0
    received = triack("receive", "orders", "--data", server.data, "--timeout", SOON)
    assert (received.returncode, received.stdout, received.stderr) == (0, b"kept\n", b"")


def stored(data: Path) -> int:
    """The messages that a command's node has accepted for others, and holds on its disk."""
    shown = triack("status", "--data", data, "--json")
    return sum(row["accepted"] for row in json.loads(shown.stdout)["outgoing"]) if shown.stdout else 0


def test_an_interrupted_send_says_what_is_missing(tmp_path: Path) -> None:
    sender = start("send", f"{NOBODY}/q", "--data", tmp_path / "s", "--insecure", stdin=subprocess.PIPE)
    assert sender.stdin is not None
    sender.stdin.write(text([b"x" * 100_000] * 2))
    sender.stdin.flush()
    wait_until(lambda: stored(tmp_path / "s") == 2, "the lines are in the store")
    sender.terminate()
    assert sender.wait(timeout=SECONDS) == 143
    _, complaints = sender.communicate()
    assert complaints.decode().splitlines()[-2:] == [
        f"triack: lines 1-2 not yet ordered: interrupted; {stored_but('answer')}",
        "triack: what follows line 2 was not sent: interrupted",
    ]


def test_version_and_help() -> None:
    """By the command as it is started everywhere but in tests."""
    version = subprocess.run([*TRIACK, "--version"], capture_output=True, check=True, timeout=SECONDS)
    assert version.stdout.decode() == f"triack {library.__version__}\n"
    shown = triack("--help").stdout.decode()
    assert all(name in shown for name in ("serve", "send", "receive", "demo", "replay", "completion"))
    assert triack("-h").stdout.decode() == shown
    assert "--header NAME=VALUE" in triack("send", "-h").stdout.decode()


@pytest.mark.parametrize("group", ["queue", "trust", "enrol", "policy", "log"])
def test_no_line_of_a_list_of_commands_is_cut_short(group: str) -> None:
    """On a screen of 80 columns the line of a command is whole, with its end."""
    # In a process of its own: a group remembers its options, and in the tests of its file it has none above it.
    said = triack(group, "-h")
    assert (said.returncode, said.stderr) == (0, b"")
    listed = said.stdout.decode().partition("Commands:")[2].partition("Example:")[0].rstrip().splitlines()
    assert len(listed) > 1
    assert [line for line in listed if line and (not line.endswith(".") or line.endswith("..."))] == []


def test_an_address_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """The message waits, and the operator learns why, once."""
    sender = start("send", "tcp://127.0.0.1:9/q", "--data", tmp_path, "--insecure", stdin=subprocess.PIPE)
    assert sender.stdin is not None
    sender.stdin.write(b"1\n")
    sender.stdin.close()
    assert select.select([sender.stderr], [], [], SECONDS)[0]
    assert b"no process listens at tcp://127.0.0.1:9" in sender.stderr.readline()
    wait_until(lambda: stored(tmp_path) == 1, "the line is in the store")
    sender.terminate()
    assert b"no process listens at" not in sender.communicate(timeout=SECONDS)[1]


def test_a_reader_who_is_busy_keeps_nothing_from_others(server: Server) -> None:
    """Of fifty messages the one that it writes, and perhaps the next."""
    triack("send", "orders", "--data", server.data, stdin=text(numbered(50)))
    with library.sync.connect(server.data) as client:
        busy = start("receive", "orders", "--data", server.data)
        assert os.read(busy.stdout.fileno(), 7) == b"line 0\n"
        wait_until(lambda: client.queue_lengths()["orders"] == 49, "the first is done")
        got = triack("receive", "orders", "--data", server.data, "--count", "40", "--timeout", SOON)
        assert got.stdout.splitlines() in [numbered(50)[first:][:40] for first in (2, 3)]
        assert client.receive("orders").get(SECONDS).body in (b"line 42", b"line 43")
        busy.kill()
        busy.communicate(timeout=SECONDS)


def test_with_a_count_no_more_is_taken(server: Server) -> None:
    """A message that nobody ever had does not come as redelivered."""
    triack("send", "orders", "--data", server.data, stdin=text(numbered(3)))
    count = ("receive", "orders", "--data", server.data, "--count", "1", "--json")
    got = [json.loads(triack(*count).stdout) for _ in range(3)]
    assert [(it["body"], it["redelivered"]) for it in got] == [(f"line {at}", False) for at in range(3)]


@pytest.mark.parametrize("served", [True, False])
def test_a_reader_who_takes_one_line_takes_one_message(tmp_path: Path, served: bool) -> None:
    """``triack receive | head -1``: the others are still there, in order."""
    data = tmp_path / "b"
    with Server(data) if served else nullcontext():
        assert triack("send", "orders", "--data", data, "--insecure", stdin=text(numbered(500))).returncode == 0
        reader = start("receive", "orders", "--data", data, "--insecure")
        head = subprocess.run(["head", "-1"], stdin=reader.stdout, capture_output=True, check=True, timeout=SECONDS)
        reader.stdout.close()
        _, complaints = reader.communicate(timeout=SECONDS)
        assert (reader.returncode, complaints, head.stdout) == (1, b"", b"line 0\n")
        rest = triack("receive", "orders", "--data", data, "--insecure", "--timeout", SOON)
        assert rest.stdout.splitlines() == numbered(500)[1:]


@pytest.mark.parametrize("served", [True, False])
def test_a_file_is_sent_whole_with_all_that_was_said_of_it(tmp_path: Path, served: bool) -> None:
    """And it is received as JSON with its properties; the peer is given by its name."""
    (tmp_path / "photo").write_bytes(b"\xff\n\x00")
    (tmp_path / "note").write_bytes(b"one\ntwo\n")
    files: list[str | Path] = ["--file", tmp_path / "photo", "--file", tmp_path / "note"]
    said = ["--label", "spring", "--ttl", "60", "--reply-to", "a/answers"]
    said += ["--header", "kind=picture", "--header", "n=1"]
    with Server(tmp_path / "b") as server, Server(tmp_path / "a") if served else nullcontext():
        peer: list[str | Path] = ["--peer", f"plant={server.address}", "--data", tmp_path / "a", "--insecure"]
        sent = triack("send", "plant/album", *files, *said, *peer, "--json")
        told = {"read": 2, "stored": 2, "stage": "ordered", "reached": 2, "failures": []}
        assert json.loads(sent.stdout) == told, sent.stderr
        got = triack("receive", "album", "--data", server.data, "--count", "2", "--json")
    first, second = map(json.loads, got.stdout.splitlines())
    assert (first["body_base64"], second["body"]) == ("/woA", "one\ntwo\n")
    assert first["id"].partition("-")[0] == second["id"].partition("-")[0]
    assert first["queue"] == "album"
    assert first["receive_by"] > first["sent_at"]
    told = {"label": "spring", "reply_to": "a/answers", "headers": {"kind": "picture", "n": "1"}}
    assert first["properties"] == told
