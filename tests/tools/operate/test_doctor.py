"""``triack doctor``: each line says what, why and what to do, and nothing is changed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import open_sync, quick
from tests.tools.processes import Server
from tests.tools.processes import triack as command
from triack.tools.operate import doctor
from triack.tools.operate.doctor import directory, machine, network
from triack.tools.ports import free_port


def run(*arguments: str | Path) -> tuple[int, dict[str, dict[str, Any]]]:
    done = command("doctor", "--json", *arguments)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {it["what"]: it for it in found}


def test_the_machine_and_its_network_are_examined() -> None:
    """Whatever is found, a line that is not ok has a remedy."""
    found = [*machine(), *network()]
    assert {it.what for it in found} >= {
        "Python",
        "SQLite",
        "Java",
        "clock",
        "UDP receive buffer",
        "UDP offload",
        "IPv6",
    }
    assert all(it.verdict in ("ok", "warn", "fail") and bool(it.remedy) == (it.verdict != "ok") for it in found)


def test_what_is_too_old_or_too_little_has_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "PYTHON_LEAST", (99,))
    monkeypatch.setattr(doctor, "SQLITE_LEAST", (99, 0, 0))
    monkeypatch.setattr(doctor, "SOCKET_BUFFER_BYTES", 1 << 30)
    monkeypatch.setattr(doctor, "NO_LOCKS", (doctor._file_system(tmp_path),))  # noqa: SLF001 - whichever it is
    found = {it.what: it for it in (*machine(), *network(), *directory(tmp_path))}
    assert [found[what].verdict for what in ("Python", "SQLite", "file system")] == ["fail"] * 3
    assert found["UDP receive buffer"].remedy.startswith("sysctl -w net.core.rmem_max=")


@pytest.mark.slow
def test_a_running_node_and_its_peers_are_asked(tmp_path: Path) -> None:
    """One that answers, and one that does not."""
    with open_sync("b", listen=True) as b:
        peers = {"b": b.address, "c": f"tcp://127.0.0.1:{free_port()}"}
        with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, settings=quick()):
            code, found = run("--data", tmp_path, "--peer", "b")
            assert (code, found["peer b"]["verdict"], found["store"]["verdict"]) == (0, "ok", "ok")
            code, found = run("--data", tmp_path, "--peer", "c", "--timeout", "1")
            assert (code, found["peer c"]["verdict"]) == (1, "fail")
            assert "nobody listens" in found["peer c"]["why"]


@pytest.mark.slow
def test_files_names_and_ports_are_looked_at(tmp_path: Path) -> None:
    command("trust", "add", "b", "--address", "udp://nosuch.invalid:7801", "--data", tmp_path)
    command("keygen", "--data", tmp_path)
    (tmp_path / "identity").chmod(0o644)
    with open_sync("taken", listen=True) as taken:
        code, found = run("--data", tmp_path, "--listen", taken.address)
    assert code == 1
    assert [found[what]["verdict"] for what in ("mode of identity", "address of b", f"listen at {taken.address}")] == [
        "fail"
    ] * 3
    assert (found["peers"]["verdict"], found["process"]["verdict"]) == ("warn", "warn")
    assert run("--data", tmp_path, "--listen", f"udp://127.0.0.1:{free_port()}")[1].popitem()[1]["verdict"] == "ok"


@pytest.mark.slow
def test_a_process_that_hangs_is_found_out(tmp_path: Path) -> None:
    """As it would be by a person: it runs, and does not answer."""
    with Server(tmp_path / "a") as server:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            code, found = run("--data", tmp_path / "a", "--timeout", "0.1")
        finally:
            os.kill(server.pid, signal.SIGCONT)
    assert (code, found["process"]["verdict"]) == (1, "fail")
    assert "has not answered for 3 s" in found["process"]["why"]


def test_a_disk_without_inodes_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "lacks_inodes", lambda _: True)
    (found,) = [it for it in doctor.directory(tmp_path) if it.what == "inodes"]
    assert found.verdict == "fail"
