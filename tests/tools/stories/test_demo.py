"""The demo, small: it proves what it says, on UDP and TCP."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.tools.processes import SECONDS, exists, message_of, start, triack, wait_until

pytestmark = pytest.mark.slow


def demo(tmp_path: Path, *options: str) -> dict[str, Any]:
    """Run a demo that succeeds."""
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


def test_it_runs_without_keys_for_comparison(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    result = demo(tmp_path, "--messages", "50", "--keep", str(kept), "--insecure")
    assert (result["delivered"], result["verdict"]) == (50, "pass")
    assert not list(kept.glob("*/identity"))


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
