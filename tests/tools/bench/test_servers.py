"""Servers of peers: started for themselves, found, and ended."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from triack.base.errors import TriackError
from triack.tools.bench.servers import SERVERS, cpu_seconds, running

WAITS = """#!{python}
import socket, sys, time
print("not today", file=sys.stderr)
if {works}:
    sock = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
    time.sleep(60)
"""


def program(folder: Path, *, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of the name and the options of Redis, first on the path."""
    import sys

    folder.mkdir(exist_ok=True)
    file = folder / "redis-server"
    file.write_text(WAITS.format(python=sys.executable, works=works))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert shutil.which("redis-server") == str(file)


async def test_a_server_runs_while_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", works=True, monkeypatch=monkeypatch)
    async with running("redis", tmp_path / "data") as server:
        assert server["port"] > 0
        os.kill(server["pid"], 0)
        assert cpu_seconds(server["pid"]) >= 0
    with pytest.raises(ProcessLookupError):
        os.kill(server["pid"], 0)


async def test_one_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", works=False, monkeypatch=monkeypatch)
    with pytest.raises(TriackError, match="did not start: not today"):
        async with running("redis", tmp_path / "data"):
            pass


async def test_a_peer_without_a_server_gets_none(tmp_path: Path) -> None:
    async with running("tcp", tmp_path / "data") as server:
        assert server == {}
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", SERVERS)
def test_every_server_keeps_to_loopback_and_its_folder(tmp_path: Path, name: str) -> None:
    command, places = SERVERS[name](4_711, tmp_path)
    files = [Path(word).read_text() for word in command if Path(word).is_file()]
    said = " ".join([*command, *places.values(), *files])
    assert "127.0.0.1" in said
    assert "4711" in said


def test_a_process_that_is_gone_has_used_nothing() -> None:
    assert cpu_seconds(2**22 + 1) == 0
