"""Commands of an operator."""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import triack
from tests.house import ROOT
from tests.node.nodes import WAIT, hanging_disk, make, open_sync, quick
from tests.tools.processes import SECONDS, Server, message_of, start, wait_until
from tests.tools.processes import triack as command
from triack import sync
from triack.base.reasons import Trouble
from triack.stats.troubles import TroubleStats
from triack.tools.cli import cli
from triack.tools.operate import doctor, notify
from triack.tools.operate.amounts import age_of, size_of
from triack.tools.operate.check import Level, Limits, Wanted, judge
from triack.tools.operate.doctor import directory, machine, network
from triack.tools.operate.notify import notifying, starting
from triack.tools.operate.systemd import unit
from triack.tools.operate.top import Rates
from triack.tools.ports import free_port

# ``triack check``: one line, an exit code, and performance data; in a loop it notices what goes wrong.
LINE = re.compile(
    r"^TRIACK (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+(?: \| (?:'[^']+'=[\d.e+-]+s?;[\d.]*;[\d.]*;0; ?)+)?\n$"
)
"""As the Monitoring Plugins Development Guidelines have it."""
QUEUE = triack.QueueStats(0, 0, None, is_full=False, arrived=0, left=0)
NOTHING = Wanted(None, (), None, None, None, (), troubles=True)
UNTRUSTED = {"troubles": [TroubleStats(Trouble.UNTRUSTED, "h", "a node calls", "trust it")]}


def holding(queue: str, messages: int = 0, **more: Any) -> dict[str, Any]:
    """What a node has to say of a queue that is not empty."""
    return {"queues": {"dead-letter": QUEUE, queue: replace(QUEUE, messages=messages, **more)}}


def check(data: Path, *options: str) -> tuple[int, str]:
    done = command("check", "--data", data, *options)
    assert done.stderr == b""
    line = done.stdout.decode()
    assert LINE.match(line), line
    assert Level(done.returncode).name == line.split()[1]
    return done.returncode, line


def stats(**changes: Any) -> triack.NodeStats:
    nothing: dict[str, Any] = {"outgoing": [], "sessions": [], "store_low": False, "room_bytes": None}
    nothing |= {name: {} for name in ("links", "drops", "closes", "rollbacks", "dead_letters")}
    return triack.NodeStats(**{**nothing, "queues": {"dead-letter": QUEUE}, "survives": "power loss", **changes})


@pytest.mark.parametrize(
    ("found", "wanted", "level"),
    [
        ({}, {}, Level.OK),
        (holding("dead-letter", 1), {"dead": Limits(1, 100)}, Level.WARNING),
        (holding("dead-letter", 100), {"dead": Limits(1, 100)}, Level.CRITICAL),
        (holding("dead-letter", 100), {"depth": Limits(1, 2)}, Level.OK),
        (holding("$journal", 9), {"depth": Limits(1, 2)}, Level.OK),
        (holding("$journal", 9), {"queues": (("$journal", Limits(5, 10)),)}, Level.WARNING),
        (holding("q", 2), {"depth": Limits(2, 9)}, Level.WARNING),
        (holding("q", 2), {"depth": Limits(1, 2), "queues": (("q", Limits(5, 9)),)}, Level.OK),
        ({}, {"queues": (("q", Limits(5, 9)),)}, Level.UNKNOWN),
        (holding("q", oldest_s=61.0), {"oldest": Limits(60, 300)}, Level.WARNING),
        ({}, {"links": ("hub",)}, Level.CRITICAL),
        ({"store_low": True}, {}, Level.CRITICAL),
        ({"store_busy_s": 11.0}, {}, Level.CRITICAL),
        (UNTRUSTED, {}, Level.WARNING),
        (UNTRUSTED, {"troubles": False}, Level.OK),
    ],
)
def test_each_limit_has_its_level(found: dict[str, Any], wanted: dict[str, Any], level: Level) -> None:
    report = judge(stats(**found), replace(NOTHING, **wanted))
    assert report.level is level
    assert (report.problems == []) == (level is Level.OK)


SENT = triack.OutgoingStats("hub", "q", triack.TRANSACTIONAL, 3, 1, 9, 3, stalled_s=301.0)
YOUNG = triack.TransitStats(
    "cloud", "q", triack.RECOVERABLE, "sensor", "cloud", 1, 1, 9, 5.0, None, None, "waiting", "answer"
)
OLD = replace(YOUNG, delivery=triack.TRANSACTIONAL, oldest_s=301.0)


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ({"outgoing": [SENT]}, {"stalled": Limits(60, 300)}, "nothing has arrived at hub/q for 5.0m"),
        # Each class and priority is a stream of its own.
        (
            {"transit": [OLD, YOUNG]},
            {"oldest": Limits(60, 300)},
            "the oldest message of cloud/q from sensor is 5.0m old",
        ),
        # What is wrong comes before what is unknown.
        (
            {"store_low": True},
            {"queues": (("q", Limits(5, 9)),)},
            "has less room than the reserve; there is no queue q",
        ),
    ],
)
def test_what_is_wrong_is_named(found: dict[str, Any], wanted: dict[str, Any], said: str) -> None:
    report = judge(stats(**found), replace(NOTHING, **wanted))
    assert report.level is Level.CRITICAL
    assert report.line("").endswith(f"{said} | {' '.join(report.data)}")


def test_copies_in_journals_and_dead_letters_are_not_unread() -> None:
    full = replace(QUEUE, messages=9, oldest_s=400.0)
    queues = {"dead-letter": full, "$journal": full, "$journal.q": full, "q": replace(QUEUE, messages=2, oldest_s=1.0)}
    data = [it.partition(";")[0] for it in judge(stats(queues=queues), NOTHING).data]
    assert [it for it in data if it.startswith(("'unread'", "'oldest'"))] == ["'unread'=2", "'oldest'=1s"]


def test_a_line_stays_one_line() -> None:
    """A bar would begin the performance data, whatever is in the name of a peer or queue."""
    trouble = TroubleStats("untrusted", "h", "a | b\nc", "")
    line = judge(stats(troubles=[trouble]), NOTHING).line("")
    assert (line.count("|"), "\n" in line) == (1, False)


@pytest.mark.parametrize("limits", ["5", "5,1", "a,b", "-1,2", "1,inf", "nan,2"])
def test_limits_that_are_none_are_a_mistake_of_the_caller(limits: str, tmp_path: Path) -> None:
    done = command("check", "--data", tmp_path, "--dead", limits)
    assert (done.returncode, b"WARNING,CRITICAL" in done.stderr) == (Level.UNKNOWN, True)
    assert command("check").returncode == Level.UNKNOWN


@pytest.mark.slow
def test_a_loop_notices_a_killed_node_a_hung_one_and_dead_letters(tmp_path: Path) -> None:
    data = tmp_path / "a"
    with Server(data) as server:
        assert check(data)[0] == Level.OK
        command("send", "dead-letter", "--data", data, stdin=b"x\n")
        assert check(data) == (Level.WARNING, check(data)[1])
        assert "1 dead letter" in check(data)[1]
        assert check(data, "--dead", "2,3")[0] == Level.OK
        os.kill(server.pid, signal.SIGSTOP)
        try:
            assert check(data, "--timeout", "0.3")[0] == Level.CRITICAL
        finally:
            os.kill(server.pid, signal.SIGCONT)
        server.kill()
        assert check(data)[0] == Level.UNKNOWN
        assert check(data, "--expect-running")[0] == Level.CRITICAL
    assert check(tmp_path / "none")[0] == Level.UNKNOWN


def test_it_changes_nothing_at_rest(tmp_path: Path) -> None:
    with open_sync("a", tmp_path / "a") as a:
        a.send("q", b"x").ordered(WAIT)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    assert check(tmp_path / "a")[0] == Level.UNKNOWN
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()} == before


@pytest.mark.gate
def test_a_node_that_does_not_run_costs_little() -> None:
    """No part of a node is loaded to find out that there is none."""
    program = "import sys, triack.tools.operate.check; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"triack.queues.manager.engine", "triack.node.node", "apsw", "rich"} & set(done.stdout.split()) == set()


# What a served node tells systemd: the test has the socket that systemd would have.
@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(WAIT)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield sock


def heard(sock: socket.socket) -> list[str]:
    return sock.recv(4096).decode().splitlines()


async def test_a_node_says_that_it_is_ready_and_that_it_stops(manager: socket.socket) -> None:
    async with make("a", scheme="udp") as node:
        async with notifying(node):
            ready = heard(manager)
        assert (ready[0], ready[2]) == ("READY=1", f"STATUS=a listens on {node.address}")
        assert heard(manager) == ["STOPPING=1"]


async def test_a_start_has_more_time_as_long_as_it_comes_nearer(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million messages take longer than systemd waits. A start that hangs says nothing more."""
    read: list[int] = [0]
    monkeypatch.setattr(notify, "TELL_S", 0.01)
    monkeypatch.setattr(notify, "rows_read", lambda _: read[-1])
    node = make("a")
    async with starting(node):
        for rows in (0, 5):
            read.append(rows)
            said = await asyncio.to_thread(heard, manager)
            assert said == ["EXTEND_TIMEOUT_USEC=60000000", f"STATUS=a starts: {rows} rows read"]
        for _ in range(5):
            await asyncio.sleep(0.01)
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            heard(manager)


async def test_the_watchdog_hears_of_a_node_only_while_its_disk_works(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    async with make("a", scheme="udp") as node, notifying(node):
        heard(manager)
        assert await asyncio.to_thread(heard, manager) == ["WATCHDOG=1"]
        said = ["WATCHDOG=1"]
        with hanging_disk(node, 11):
            while said == ["WATCHDOG=1"]:  # those that were sent before
                said = await asyncio.to_thread(heard, manager)
        assert said[0].startswith("STATUS=the disk of node a has not answered for")


@pytest.mark.slow
def test_a_real_process_says_it_in_order(manager: socket.socket, tmp_path: Path) -> None:
    served = start("serve", "--listen", "udp://127.0.0.1:0", "--insecure", "--data", tmp_path / "a")
    try:
        assert heard(manager)[0].startswith("EXTEND_TIMEOUT_USEC=")
        assert heard(manager)[:2] == ["READY=1", f"MAINPID={served.pid}"]
        os.kill(served.pid, signal.SIGTERM)
        assert heard(manager) == ["STOPPING=1"]
    finally:
        served.communicate(timeout=SECONDS)
    assert served.wait() == 0


async def test_a_watchdog_of_another_process_is_none(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without a manager nothing is said."""
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    async with make("a", scheme="udp") as node, notifying(node):
        assert heard(manager)[0] == "READY=1"
    assert heard(manager) == ["STOPPING=1"]
    monkeypatch.delenv("NOTIFY_SOCKET")
    async with make("a") as node, notifying(node):
        assert node.name == "a"
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        heard(manager)


# ``triack doctor``: each line says what, why and what to do, and nothing is changed.
def run(*arguments: str | Path) -> tuple[int, dict[str, dict[str, Any]]]:
    done = command("doctor", "--json", *arguments)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {it["what"]: it for it in found}


@pytest.mark.gate
def test_the_machine_and_its_network_are_examined() -> None:
    """Whatever is found, a line that is not ok has a remedy."""
    found = [*machine(), *network()]
    wanted = {"Python", "SQLite", "Java", "clock", "UDP receive buffer", "UDP offload", "IPv6"}
    assert {it.what for it in found} >= wanted
    assert all(it.verdict in ("ok", "warn", "fail") and bool(it.remedy) == (it.verdict != "ok") for it in found)


@pytest.mark.gate
def test_what_is_too_old_or_too_little_has_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "PYTHON_LEAST", (99,))
    monkeypatch.setattr(doctor, "SQLITE_LEAST", (99, 0, 0))
    monkeypatch.setattr(doctor, "SOCKET_BUFFER_BYTES", 1 << 30)
    monkeypatch.setattr(doctor, "NO_LOCKS", (doctor._file_system(tmp_path),))  # noqa: SLF001 - whichever it is
    monkeypatch.setattr(doctor, "lacks_inodes", lambda _: True)
    found = {it.what: it for it in (*machine(), *network(), *directory(tmp_path))}
    assert [found[what].verdict for what in ("Python", "SQLite", "file system", "inodes")] == ["fail"] * 4
    assert found["UDP receive buffer"].remedy.startswith("sysctl -w net.core.rmem_max=")


@pytest.mark.slow
def test_a_running_node_and_its_peers_are_asked(tmp_path: Path) -> None:
    with open_sync("b", listen=True) as b:
        peers = {"b": b.address, "c": f"tcp://127.0.0.1:{free_port()}"}
        with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, settings=quick()):
            code, found = run("--data", tmp_path, "--peer", "b", "--timeout", str(SECONDS))
            assert (code, found["peer b"]["verdict"], found["store"]["verdict"]) == (0, "ok", "ok")

            def why() -> str:
                code, found = run("--data", tmp_path, "--peer", "c", "--timeout", "1")
                assert (code, found["peer c"]["verdict"]) == (1, "fail")
                return str(found["peer c"]["why"])

            wait_until(lambda: "no process listens" in why(), "the address is tried")


@pytest.mark.slow
def test_files_names_and_ports_are_looked_at(tmp_path: Path) -> None:
    command("trust", "add", "b", "--address", "udp://nosuch.invalid:7801", "--data", tmp_path)
    command("keygen", "--data", tmp_path)
    (tmp_path / "identity").chmod(0o644)
    with open_sync("taken", listen=True) as taken:
        code, found = run("--data", tmp_path, "--listen", taken.address)
    wanted = ("mode of identity", "address of b", f"listen at {taken.address}", "peers", "process")
    assert (code, [found[what]["verdict"] for what in wanted]) == (1, ["fail"] * 3 + ["warn"] * 2)
    assert run("--data", tmp_path, "--listen", f"udp://127.0.0.1:{free_port()}")[1].popitem()[1]["verdict"] == "ok"


# ``triack support``: the bundle helps, and has neither content of messages nor keys, in any form.
BODY, LABEL, HEADER = b"top secret 4711", "hush-label", "hush-header"


@pytest.mark.slow
def test_neither_content_nor_keys_are_in_it(tmp_path: Path) -> None:
    """While the node runs, and at rest; with a stranger whose key is shown elsewhere, and a shared secret."""
    data = tmp_path / "a"
    psk = command("trust", "psk").stdout.decode().strip()
    with (
        sync.open("a", data=data, listen="udp://127.0.0.1:0", log=tmp_path / "log", settings=quick()) as a,
        sync.open("b", data=None, listen="udp://127.0.0.1:0", settings=quick()) as b,
    ):
        b.trust("a", a.key, a.address)
        b.send("a/q", b"x")
        a.trust("c", b.key, psk=psk)
        a.revoke("c")
        a.send("q", BODY, label=LABEL, headers={"h": HEADER}).ordered(WAIT)
        wait_until(lambda: bool(a.stats().troubles), "the stranger is seen")
        running = bundle(data, tmp_path / "running.tar.gz")
        a_key = a.key
    at_rest = bundle(data, tmp_path / "rest.tar.gz")
    private = re.findall("triack-private-[a-z2-7]+", (data / "identity").read_text())
    assert private
    content = [BODY.decode(), BODY.hex(), base64.b64encode(BODY).decode(), LABEL, HEADER]
    secrets = [*content, *(key.rpartition("-")[2] for key in (*private, psk, a_key))]
    for files in (running, at_rest):
        assert set(files) == {"doctor.jsonl", "session-log.jsonl", "status.json", "versions.json"}
        text = "\n".join(files.values())
        assert [secret for secret in secrets if secret in text] == []
    assert json.loads(running["status.json"])["queues"]["q"]["messages"] == 1
    assert "does not trust its key triack-public-..." in running["status.json"]
    assert '"event":"node_started"' in running["session-log.jsonl"]
    assert json.loads(running["versions.json"])["sqlite"]


def bundle(data: Path, path: Path) -> dict[str, str]:
    done = command("support", "--data", data, "--to", path)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as found:
        opened = {name.rpartition("/")[2]: found.extractfile(name) for name in found.getnames()}
        return {name: file.read().decode() for name, file in opened.items() if file}


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    done = command("support", "--data", tmp_path, "--to", tmp_path / "there")
    assert (done.returncode, (tmp_path / "there").read_text()) == (1, "mine")


# ``triack systemd``: units that systemd itself finds no fault with.
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
LISTEN = ("--listen", "udp://[::]:7801")


def verify(path: Path, *options: str) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(path.parent)}
    done = subprocess.run(
        ["systemd-analyze", *options, "verify", path], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.name in line]) == (0, [])


@needs_systemd
@pytest.mark.parametrize(
    ("options", "given"), [((), LISTEN), (("--user",), LISTEN), ((), ("--data", "/srv/a", "--log", "/srv/a %l $b"))]
)
def test_systemd_finds_no_fault(options: tuple[str, ...], given: tuple[str, ...], tmp_path: Path) -> None:
    done = command("systemd", "--name", "plant-b", *options, "--to", tmp_path, "--", *given)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "triack-plant-b.service"
    assert done.stdout.decode().startswith(f"{path}\nthen: systemctl {' '.join(options)}".rstrip())
    verify(path, *options)


@needs_systemd
def test_little_is_exposed(tmp_path: Path) -> None:
    path = tmp_path / "triack-a.service"
    path.write_text(unit("a", LISTEN, user="triack", program=("/usr/bin/true",)))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", path], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()[-200:]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--data", "data"), "--data data: systemd starts the node in another directory; say /"),
        (
            ("--data=/root/a",),
            "/root/a: the unit hides /root from the node .ProtectHome.; .* has /var/lib/triack/plant-b",
        ),
        (("--log", "/home/a/logs"), "/home/a/logs: the unit hides /home from the node .ProtectHome.; name a place"),
        (("--tls-cert", "/var/tmp/c"), "--tls-cert /var/tmp/c: the unit hides /var/tmp from the node .PrivateTmp."),
        (("--set", "node.log=/run/user/1/l"), "--set node.log=/run/user/1/l: the unit hides /run/user from the node"),
        (("--dta", "/srv/a"), "No such option '--dta'"),
    ],
)
def test_paths_that_the_node_would_not_find_are_refused(options: tuple[str, ...], what: str, tmp_path: Path) -> None:
    done = command("systemd", "--name", "plant-b", "--to", tmp_path, "--", *options)
    assert re.search(what, message_of(done)), message_of(done)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])


def test_paths_of_the_file_of_settings_count_and_a_unit_of_your_own_hides_none(tmp_path: Path) -> None:
    (file := tmp_path / "triack.toml").write_text('[node]\ndata = "d"\n')
    done = command("systemd", "--name", "a", "--user", "--", "--config", file)
    assert f"serve --config {file} --name a\n" in done.stdout.decode()
    text = unit("a", (), user="u", program=("/usr/bin/true",), paths={"data": "/srv/a", "log": "/srv/a %l"})
    assert 'ReadWritePaths=/srv/a "/srv/a %%l"\n' in text
    assert "# Make them before the start: install -d -m 0700 -o u /srv/a '/srv/a %l'\n" in text
    assert "ReadWritePaths" not in unit("a", (), user="u", program=("x",), paths={"data": "/var/lib/triack/a/d"})
    text = unit("a", ("--log", 'a %h "$HOME" b'), user="u", program=("/opt/tri ack",))
    assert 'ExecStart="/opt/tri ack" serve --log "a %%h \\"$$HOME\\" b" --name a --data %S/triack/a\n' in text
    text = unit("a", ("--data", "/srv/a"), user=None, program=("/usr/bin/triack",))
    assert ("%S" in text, "WantedBy=default.target" in text) == (False, True)
    assert command("systemd", "--name", "../a", "--to", tmp_path).returncode == 2


def test_a_program_in_a_home_is_not_hidden_from_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    for where, home, tmp in (("/opt", "yes", "yes"), ("/home/me", "read-only", "yes"), ("/tmp", "yes", "no")):
        said = unit("a", (), user="u", program=(f"{where}/bin/triack",))
        assert f"ProtectHome={home}\n" in said
        assert f"PrivateTmp={tmp}\n" in said
        assert ("# The program is in /home, so the node sees that" in said) == (home == "read-only")


# ``triack top``: rates between two looks, sorted.
@pytest.mark.slow
def test_rates_are_those_between_two_looks() -> None:
    with open_sync("b", listen=True) as b, open_sync("a") as a:
        a.send(f"{b.address}/q", b"x").ordered(WAIT)
        before = a.stats(), b.stats()
        a.send_many(f"{b.address}/q", [b"x"] * 10).ordered(WAIT)
        seen, there = Rates(before[0], a.stats(), 2.0), Rates(before[1], b.stats(), 2.0)
        [peer] = seen.peers()
        assert (peer["peer"], peer["state"], peer["sent_per_s"], peer["waiting"]) == (b.address, "up", 5.0, 0)
        [queue] = [it for it in there.queues() if it["queue"] == "q"]
        assert (queue["messages"], queue["in_per_s"], queue["out_per_s"]) == (11, 5.0, 0.0)
        assert sum(there.acks().values()) > 0
        assert Rates(before[0], a.stats(), 0.0).peers()[0]["sent_per_s"] == 0.0


@pytest.mark.slow
def test_one_look_is_a_table_or_an_object(tmp_path: Path) -> None:
    with triack.sync.open("a", data=tmp_path, insecure=True, settings=quick()) as a:
        a.send_many("full", [b"x"] * 3).queued(WAIT)
        a.send("empty", b"").queued(WAIT)
        for sort, first in (("name", "dead-letter"), ("messages", "full")):
            done = command("top", "--data", tmp_path, "--once", "--json", "--sort", sort)
            assert json.loads(done.stdout)["queues"][0]["queue"] == first
        told = command("top", "--data", tmp_path, "--once").stdout.decode()
        assert told.startswith("a: 0 sessions")
        assert "QUEUE" in told


# ``triack ping``: through the process that runs the node, or without one.
@pytest.mark.slow
def test_answers_have_figures_and_the_end_has_statistics(tmp_path: Path) -> None:
    """Silence is lost, and has a cause."""
    with open_sync("b", listen=True) as b:
        peers = {"b": b.address, "c": f"tcp://127.0.0.1:{free_port()}"}
        with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, settings=quick()):
            done = command("ping", "b", "-n", "2", "--every", "0", "--data", tmp_path, "--json")
            told = command("ping", "b", "-n", "1", "--data", tmp_path).stdout.decode().splitlines()
            silent = command("ping", "c", "-n", "1", "--timeout", "1", "--data", tmp_path)
    first, second, summary = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0
    assert (first["address"], first["handshake_s"] > 0, second["handshake_s"]) == (peers["b"], True, None)
    assert (summary["asked"], summary["answered"]) == (2, 2)
    assert 0 < summary["min_s"] <= summary["mean_s"] <= summary["max_s"]
    assert abs(first["clock_ahead_s"]) <= first["round_trip_s"] + 0.002
    assert "its clock is" in told[0]
    assert "1 asked, 1 answered, 0 % lost" in told[-1]
    assert (silent.returncode, b"100 % lost" in silent.stdout) == (1, True)
    assert b"no process listens at" in silent.stdout


@pytest.mark.slow
def test_a_node_behind_a_gateway_is_said_to_be_there_and_the_gateway_answers(tmp_path: Path) -> None:
    """Or is silent, and then that is said of the gateway."""
    route = [triack.Route("cloud", via="hub")]
    with open_sync("hub", listen=True) as hub:
        peers = {"hub": hub.address}
        with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, routes=route, settings=quick()) as a:
            first, answered, *_ = command("ping", "cloud", "-n", "1", "--data", tmp_path).stdout.decode().splitlines()
            assert first == "messages for cloud go by hub, which answers; a ping goes no further"
            assert answered.startswith(f"1: hub at {hub.address}, round trip")
            assert (a.ping("cloud").by, a.ping("hub").by) == ("hub", "")
            hub.close()
            silent = command("ping", "cloud", "-n", "1", "--timeout", "0.5", "--data", tmp_path).stdout.decode()
    assert silent.startswith("1: ping cloud by way of hub: ")


# ``triack request``: one message, and its answer.
def answer(node: sync.SyncNode, times: int) -> None:
    with node.receive("prices") as reader:
        for _ in range(times):
            asked = reader.get(WAIT)
            node.reply(asked, asked.body.upper(), label=asked.label)


@pytest.mark.slow
def test_the_answer_is_written(tmp_path: Path) -> None:
    """Of an argument, and of standard input; that there is none is an error, which names the time."""
    with open_sync("b", listen=True) as b:
        answering = threading.Thread(target=answer, args=(b, 2))
        answering.start()
        with sync.open("a", data=tmp_path / "a", listen="udp://127.0.0.1:0", insecure=True, settings=quick()):
            place = ("--data", tmp_path / "a")
            done = command("request", f"{b.address}/prices", "tea", *place)
            assert (done.returncode, done.stdout) == (0, b"TEA\n")
            done = command("request", f"{b.address}/prices", "--label", "l", "--json", *place, stdin=b"tea\n")
            assert json.loads(done.stdout) == {"body": "TEA\n", "label": "l", "headers": {}}
            unanswered = command("request", "q", "x", "--timeout", "0.2", *place)
            told = b"no answer to a request to q after 0.2 s" in unanswered.stderr
            assert (unanswered.returncode, told) == (1, True)
        answering.join(WAIT)


# ``triack msmq explain``: what a name of MSMQ is here.
def explained(name: str, *options: str) -> tuple[int, str]:
    done = command("msmq", "explain", name, *options)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_a_name_is_said_in_our_terms_or_why_it_is_none() -> None:
    code, said = explained(r"DIRECT=OS:plant-b\private$\orders")
    told = r"DIRECT=OS:plant-b\private$\orders: plant-b/orders"
    assert (code, said) == (0, f"{told}\n  know that node as a peer of the name plant-b\n")
    code, said = explained(r".\private$\x,DIRECT=HTTP://b/msmq/y", "--json")
    assert code == 1
    assert [json.loads(line)["destination"] for line in said.splitlines()] == ["x", None]
    refused = "triack: orders: a queue is HOST\\private$\\QUEUE, or .\\private$\\QUEUE on this machine\n"
    assert explained("orders") == (2, refused)


# Times and sizes as people say them.
def test_sizes_and_ages_are_as_people_say_them() -> None:
    sizes = ["0 bytes", "1,023 bytes", "1.5 KiB", "5.0 MiB", "1.5 GiB"]
    assert [size_of(it) for it in (0, 1_023, 1_536, 5 << 20, 3 << 29)] == sizes
    ages = ["-", "0s", "59s", "1.5m", "1.5h", "1.5d"]
    assert [age_of(it) for it in (None, 0.0, 59.0, 90.0, 5_400.0, 129_600.0)] == ages


# Pages of the documentation.
def test_each_page_for_users_is_a_topic() -> None:
    said = CliRunner().invoke(cli, ["help"]).output
    for page in [it for place in (".", "cookbook", "tutorials") for it in ROOT.glob(f"docs/{place}/*.md")]:
        if page.name == "README.md":
            continue
        topic = page.name.removesuffix(".md")
        assert f"\n{topic} " in said, topic
        assert CliRunner().invoke(cli, ["help", topic]).output == page.read_text()


def test_a_word_is_found_in_all_pages_or_in_one() -> None:
    found = CliRunner().invoke(cli, ["help", "--find", "HOP_COUNT_exceeded"]).output.splitlines()
    assert found
    assert all("hop_count_exceeded" in line.lower() for line in found)
    assert CliRunner().invoke(cli, ["help", "first-hour", "--find", "hop_count_exceeded"]).output == ""
    assert str(CliRunner().invoke(cli, ["help", "relays"]).exception) == "no page relays; did you mean relay?"
