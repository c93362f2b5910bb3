"""``triack serve``: it says where it listens, can be found while it runs, and ends in good order or with its reason."""

import asyncio
import json
import signal
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.certificates import make_certificate
from tests.tools.processes import SECONDS, Server, message_of, start, triack
from triack import sync
from triack.base.errors import AddressError, ConfigError, StoreError
from triack.base.news import PeerSilent
from triack.node.control.handover import Served
from triack.node.files.notes import read_note
from triack.node.node import open_node
from triack.store.runs import Reading
from triack.tools.commands.serve import _start, serve

HERE = ("--listen", "udp://127.0.0.1:0", "--insecure")


def run(*arguments: str | Path) -> Result:
    """The command, in this process: only what ends before it serves."""
    return CliRunner().invoke(serve, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False)


def test_an_address_that_other_processes_cannot_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AddressError, match=r"^listen on memory://a: other processes cannot reach memory$"):
        run("--name", "a", "--listen", "memory://a", "--data", tmp_path, "--insecure")


def test_a_queue_that_can_have_no_such_name_is_refused(tmp_path: Path) -> None:
    """Before anything is made."""
    with pytest.raises(ConfigError, match=r"^--queue: node\.queues: name 'a/b': '/' is not a letter"):
        run("--name", "a", *HERE, "--queue", "a/b", "--data", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_found_while_it_runs_and_not_after(tmp_path: Path) -> None:
    """By its data directory."""
    with Server(tmp_path / "a") as server:
        served = read_note(server.data, Served)
        assert served is not None
        assert (served.pid, served.listen) == (server.pid, server.address)
        assert server.stop() == 0
        assert read_note(server.data, Served) is None


def test_it_has_the_name_of_its_directory_when_it_is_given_none(tmp_path: Path) -> None:
    """As the other commands name it, which open the same directory when nobody serves it."""
    process = start("serve", *HERE, "--json", "--data", tmp_path / "plant")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["name"] == "plant"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    assert process.wait() == 0


@pytest.mark.slow
def test_it_has_the_queues_that_were_asked_for_and_no_others(tmp_path: Path) -> None:
    with Server(tmp_path / "a", "--queue", "one", "--queue", "two") as server:
        for queue, failed in (("one", False), ("two", False), ("three", True)):
            sent = triack("send", f"{server.address}/{queue}", "--data", tmp_path / "b", "--insecure", stdin=b"line\n")
            assert (sent.returncode != 0) == failed, sent.stderr


@pytest.mark.slow
def test_a_second_one_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    """And the first can still be found."""
    with Server(tmp_path / "a") as server:
        second = triack("serve", "--name", "a", *HERE, "--data", server.data)
        assert second.returncode == 1
        assert "in use by another node" in message_of(second)
        assert read_note(server.data, Served) is not None


def test_a_hangup_has_files_read_again_and_ends_nothing(tmp_path: Path) -> None:
    """A user closes the terminal, or a service manager wants files read again: the node goes on."""
    certificate = make_certificate(tmp_path)
    tls = ("--listen", "tcp://127.0.0.1:0", "--tls-cert", certificate, "-v")
    for options, said in ((HERE, None), ((*tls, "--insecure"), f"TLS files read again: {certificate}")):
        process = start("serve", *options, "--data", tmp_path / "a")
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"listening ")
        process.send_signal(signal.SIGHUP)
        while said is not None and said.encode() not in process.stderr.readline():
            assert process.poll() is None
        assert triack("queue", "list", "--data", tmp_path / "a").returncode == 0
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
        assert process.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "in_json"),
    [
        (("--json",), True),
        (("--log-format", "json"), True),
        (("--json", "--log-format", "console"), False),
        ((), False),
    ],
)
def test_lines_of_the_log_are_as_the_options_say(options: tuple[str, ...], tmp_path: Path, *, in_json: bool) -> None:
    """With --json they are objects; and no visit of a command leaves one."""
    served = start("serve", *HERE, "--data", tmp_path / "a", "-v", *options)
    assert served.stdout is not None
    served.stdout.readline()
    for _ in range(3):
        assert triack("status", "--data", tmp_path / "a").returncode == 0
    with sync.connect(tmp_path / "a") as node:
        events = node.events()
        node.send("tcp://127.0.0.1:9/q", b"x")
        assert isinstance(next(events), PeerSilent)
    served.terminate()
    lines = served.communicate(timeout=SECONDS)[1].decode().splitlines()
    assert [line for line in lines if "conversation ended" in line] == []
    told = next(line for line in lines if "trying on" in line)
    if not in_json:
        assert "[warning" in told
        return
    said = json.loads(told)
    assert (said["level"], said["node"], said["to"]) == ("warning", "a", "tcp://127.0.0.1:9")
    assert said["event"] == "nobody listens at tcp://127.0.0.1:9; trying on"
    assert said["timestamp"].endswith("Z")


async def test_a_signal_ends_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start of a node with a million messages takes seconds, and nobody wants it any more."""
    async with open_node("a", data=tmp_path / "a", insecure=True) as node:
        await node.send("q", b"one of a million")
    begun = threading.Event()

    def never(reading: Reading) -> None:
        begun.set()
        while not reading.is_given_up:
            time.sleep(0.001)
        raise StoreError("given up")

    monkeypatch.setattr(Reading, "step", never)
    node, stopping = open_node("a", data=tmp_path / "a", insecure=True), asyncio.Event()
    async with AsyncExitStack() as stack:
        start = asyncio.create_task(_start(node, stack, stopping))
        await asyncio.to_thread(begun.wait)
        stopping.set()
        assert not await start
