"""The container: its file is linted, and a node runs as it does there: as process 1, on a file system of its own."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.pages import ROOT
from tests.tools.processes import triack

LINT = Path(sys.executable).with_name("hadolint")
FILE = ROOT / "Containerfile"
INSIDE = """
mount --bind "$1" "$1" && mount -o remount,bind,ro / && mount -o remount,bind,rw "$1" || exit 97
touch /tmp/probe 2>/dev/null && exit 98
exec "$2" -m triack serve
"""


@pytest.mark.skipif(not LINT.exists(), reason="hadolint has a file for Linux on x86-64 alone")
def test_the_file_has_no_findings() -> None:
    done = subprocess.run([LINT, FILE], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_runs_as_nobody_in_particular_and_gets_the_signal() -> None:
    """A shell in between would be process 1 in its place, and ignore SIGTERM."""
    lines = FILE.read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 7801:7801"]
    assert lines[-1] == 'ENTRYPOINT ["triack", "serve"]'
    assert "STOPSIGNAL SIGTERM" in lines
    copied = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "setup.py", "api", "node", "tools"} <= copied


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare(1)")
def test_a_node_is_process_1_on_a_read_only_file_system(tmp_path: Path) -> None:
    """With the variables of the image; commands reach it, and SIGTERM ends it in good order."""
    tmp_path.chmod(0o700)
    image = dict(
        part.split("=", 1)
        for line in FILE.read_text().replace("\\\n", "").splitlines()
        if line.startswith("ENV ")
        for part in line.split()[1:]
    )
    kept = {name: value.replace("/var/lib/triack", str(tmp_path)) for name, value in image.items() if name != "PATH"}
    kept["TRIACK_NODE__LISTEN"] = "udp://127.0.0.1:0"
    namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]
    shell = ["sh", "-c", INSIDE, "sh", str(tmp_path), sys.executable]
    with subprocess.Popen(
        [*namespaces, *shell], env={**os.environ, **kept}, stdout=subprocess.PIPE, bufsize=0
    ) as outer:
        assert outer.stdout is not None
        line = outer.stdout.readline()
        if not line and outer.wait(PATIENCE_S) in (1, 97):
            pytest.skip("no namespaces of this kind here")
        assert line.startswith(b"listening udp://127.0.0.1:")
        (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        status = triack("status", "--data", tmp_path / "node")
        assert b"node runs, listens on" in status.stdout, status.stderr
        os.kill(int(inner), signal.SIGTERM)
        assert outer.wait(PATIENCE_S) == 0
    assert not (tmp_path / "node" / "store.db-wal").exists(), "it was killed"
