"""``triack support``: the bundle helps, and has neither content of messages nor keys, in any form."""

import base64
import json
import re
import tarfile
from pathlib import Path

import pytest

from tests.node.nodes import WAIT, quick
from tests.tools.processes import triack as command
from tests.tools.processes import wait_until
from triack import sync

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
        names = [it.name for it in found.getmembers()]
        return {
            name.rpartition("/")[2]: opened.read().decode() for name in names if (opened := found.extractfile(name))
        }


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    done = command("support", "--data", tmp_path, "--to", tmp_path / "there")
    assert (done.returncode, (tmp_path / "there").read_text()) == (1, "mine")
