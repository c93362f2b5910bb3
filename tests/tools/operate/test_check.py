"""``triack check``: one line, an exit code, and performance data; in a loop it notices what goes wrong."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import WAIT, open_sync, quick
from tests.tools.processes import Server, wait_until
from tests.tools.processes import triack as command
from triack.base.reasons import Trouble
from triack.node.shell.troubles import TroubleStats
from triack.tools.operate.check import Level, Limits, Wanted, judge
from triack.tools.ports import free_port

LINE = re.compile(
    r"^TRIACK (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+(?: \| (?:'[^']+'=[\d.e+-]+s?;[\d.]*;[\d.]*;0; ?)+)?\n$"
)
"""As the Monitoring Plugins Development Guidelines have it."""
QUEUE = triack.QueueStats(0, 0, None, is_full=False, arrived=0, left=0)
NOTHING = Wanted(None, (), None, None, None, (), troubles=True)


def check(data: Path, *options: str) -> tuple[int, str]:
    """Exit code and line."""
    done = command("check", "--data", data, *options)
    assert done.stderr == b""
    line = done.stdout.decode()
    assert LINE.match(line), line
    assert Level(done.returncode).name == line.split()[1]
    return done.returncode, line


def stats(**changes: Any) -> triack.NodeStats:
    return triack.NodeStats(
        **{
            "queues": {"dead-letter": QUEUE},
            "outgoing": [],
            "links": {},
            "sessions": [],
            "drops": {},
            "closes": {},
            "rollbacks": {},
            "dead_letters": {},
            "store_low": False,
            "room_bytes": None,
            "survives": "power loss",
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("found", "wanted", "level"),
    [
        ({}, {}, Level.OK),
        ({"queues": {"dead-letter": replace(QUEUE, messages=1)}}, {"dead": Limits(1, 100)}, Level.WARNING),
        ({"queues": {"dead-letter": replace(QUEUE, messages=100)}}, {"dead": Limits(1, 100)}, Level.CRITICAL),
        ({"queues": {"dead-letter": replace(QUEUE, messages=100)}}, {"depth": Limits(1, 2)}, Level.OK),
        ({"queues": {"dead-letter": QUEUE, "$journal": replace(QUEUE, messages=9)}}, {"depth": Limits(1, 2)}, Level.OK),
        ({"queues": {"dead-letter": QUEUE, "q": replace(QUEUE, messages=2)}}, {"depth": Limits(2, 9)}, Level.WARNING),
        (
            {"queues": {"dead-letter": QUEUE, "q": replace(QUEUE, messages=2)}},
            {"depth": Limits(1, 2), "queues": (("q", Limits(5, 9)),)},
            Level.OK,
        ),
        ({}, {"queues": (("q", Limits(5, 9)),)}, Level.UNKNOWN),
        (
            {"queues": {"dead-letter": QUEUE, "q": replace(QUEUE, oldest_s=61.0)}},
            {"oldest": Limits(60, 300)},
            Level.WARNING,
        ),
        ({}, {"links": ("hub",)}, Level.CRITICAL),
        ({"store_low": True}, {}, Level.CRITICAL),
        ({"store_busy_s": 11.0}, {}, Level.CRITICAL),
        ({"troubles": [TroubleStats(Trouble.UNTRUSTED, "h", "a node calls", "trust it")]}, {}, Level.WARNING),
        ({"troubles": [TroubleStats(Trouble.UNTRUSTED, "h", "a", "b")]}, {"troubles": False}, Level.OK),
    ],
)
def test_each_limit_has_its_level(found: dict[str, Any], wanted: dict[str, Any], level: Level) -> None:
    report = judge(stats(**found), replace(NOTHING, **wanted))
    assert report.level is level
    assert (report.problems == []) == (level is Level.OK)


def test_a_stalled_stream_is_named() -> None:
    stalled = triack.OutgoingStats("hub", "q", triack.TRANSACTIONAL, 3, 1, 9, 3, stalled_s=301.0)
    report = judge(stats(outgoing=[stalled]), replace(NOTHING, stalled=Limits(60, 300)))
    assert (report.level, report.problems[0][1]) == (Level.CRITICAL, "nothing has arrived at hub/q for 5.0m")


def test_what_is_wrong_comes_before_what_is_unknown() -> None:
    report = judge(stats(store_low=True), replace(NOTHING, queues=(("q", Limits(5, 9)),)))
    assert report.level is Level.CRITICAL
    assert report.line("").endswith(
        "the disk has less room than the reserve; there is no queue q | " + " ".join(report.data)
    )


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


@pytest.mark.slow
def test_a_loop_notices_a_stalled_stream_and_its_end(tmp_path: Path) -> None:
    """A peer that is not there; the stream moves again when it is."""
    port = free_port()
    peers = {"b": f"udp://127.0.0.1:{port}"}
    with triack.sync.open("a", data=tmp_path / "a", insecure=True, peers=peers, settings=quick()) as a:
        receipt = a.send("b/q", b"x")
        limits = ("--stalled", "0.2,0.4", "--no-troubles")
        wait_until(lambda: check(tmp_path / "a", *limits)[0] == Level.CRITICAL, "it is stalled")
        assert "nothing has arrived at b/q" in check(tmp_path / "a", *limits)[1]
        with triack.sync.open("b", data=None, listen=peers["b"], insecure=True, settings=quick()):
            receipt.ordered(WAIT)
            assert check(tmp_path / "a", *limits, "--link", "b")[0] == Level.OK


def test_it_changes_nothing_at_rest(tmp_path: Path) -> None:
    """Not even the directory of a node that no process runs is opened."""
    with open_sync("a", tmp_path / "a") as a:
        a.send("q", b"x").ordered(WAIT)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    assert check(tmp_path / "a")[0] == Level.UNKNOWN
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()} == before


@pytest.mark.slow
@pytest.mark.gate
def test_a_node_that_does_not_run_costs_little() -> None:
    """No part of a node is loaded to find out that there is none."""
    program = "import sys, triack.tools.operate.check; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"triack.queues.manager.engine", "triack.node.node", "apsw", "rich"} & set(done.stdout.split()) == set()
