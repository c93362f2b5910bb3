"""Real processes that are stopped and go on, as a laptop that is closed: nothing that their logs show is broken."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.tools.processes import Server, numbered, start, text, triack

pytestmark = pytest.mark.slow

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
