"""Nodes of the command line know each other by keys, and by the names that each chooses for the other."""

import time
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.tools.processes import Finished, Server, triack
from triack.tools.commands.tally import STORED

pytestmark = pytest.mark.slow


def key_of(data: Path) -> str:
    return triack("keygen", "--data", data).stdout.decode().strip()


def complaint(failed: Finished) -> str:
    """The last line that it prints, after what its node said."""
    return failed.stderr.decode().splitlines()[-1].removeprefix("triack: ")


def trust(data: Path, *arguments: str | Path) -> None:
    done = triack("trust", *arguments, "--data", data)
    assert done.returncode == 0, done.stderr


def test_two_that_trust_each_other(tmp_path: Path) -> None:
    """Messages by name, until one of them is trusted no more; while the other runs."""
    a, b = tmp_path / "a", tmp_path / "b"
    with Server(b, insecure=False) as server:
        trust(a, "add", "plant-b", key_of(b), "--address", server.address)
        sent = triack("send", "plant-b/orders", "--data", a, "--timeout", "1", stdin=b"too early\n")
        assert complaint(sent) == f"line 1 not yet ordered: not after 1 s; {STORED}"

        trust(b, "add", "plant-a", key_of(a), "--send", "orders")
        sent = triack("send", "plant-b/orders", "--data", a, stdin=b"1\n2\n")
        assert sent.returncode == 0, sent.stderr
        got = triack("receive", "orders", "--data", b, "--count", "3")
        assert got.stdout == b"too early\n1\n2\n"
        assert triack("send", f"{server.address}/orders", "--data", a, stdin=b"by address\n").returncode == 0
        refused = triack("send", "plant-b/bills", "--data", a, stdin=b"x\n")
        assert complaint(refused) == "line 1 not ordered: access-denied"

        trust(b, "remove", "plant-a")
        late = ("send", "plant-b/orders", "--data", a, "--timeout", "1")
        taken, end_s = b"by address\n", time.monotonic() + PATIENCE_S
        while (sent := triack(*late, stdin=b"late\n")).returncode == 0:  # until the node looks at its peers again
            assert time.monotonic() < end_s
            taken += b"late\n"
        assert complaint(sent) == f"line 1 not yet ordered: not after 1 s; {STORED}"
        assert triack("receive", "orders", "--data", b, "--timeout", "2").stdout == taken


def test_keys_survive_a_kill(tmp_path: Path) -> None:
    """As everything else does; what was sent meanwhile arrives."""
    a, b = tmp_path / "a", tmp_path / "b"
    with Server(b, insecure=False) as server:
        trust(a, "add", "plant-b", key_of(b), "--address", server.address)
        trust(b, "add", "plant-a", key_of(a))
        assert triack("send", "plant-b/orders", "--data", a, stdin=b"1\n").returncode == 0
        server.kill()
        queued = triack("send", "plant-b/orders", "--data", a, "--until", "queued", stdin=b"2\n")
        assert queued.returncode == 0
        server.start()
        assert triack("send", "plant-b/orders", "--data", a, stdin=b"3\n").returncode == 0
        assert triack("receive", "orders", "--data", b, "--count", "3").stdout == b"1\n2\n3\n"


def test_who_runs_without_keys_gets_silence(tmp_path: Path) -> None:
    with Server(tmp_path / "b", insecure=False) as server:
        sent = triack(
            *("send", f"{server.address}/q", "--data", tmp_path / "s", "--insecure", "--timeout", "1"), stdin=b"x\n"
        )
        assert complaint(sent) == f"line 1 not yet ordered: not after 1 s; {STORED}"
