"""``triack ping``: through the process that runs the node, or without one."""

import json
from pathlib import Path

import pytest

import triack
from tests.node.nodes import open_sync, quick
from tests.tools.processes import triack as command
from triack.tools.ports import free_port

pytestmark = pytest.mark.slow


def test_answers_have_figures_and_the_end_has_statistics(tmp_path: Path) -> None:
    with open_sync("b", listen=True) as b:
        peers = {"b": b.address}
        with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, settings=quick()):
            done = command("ping", "b", "-n", "2", "--every", "0", "--data", tmp_path, "--json")
            told = command("ping", "b", "-n", "1", "--data", tmp_path).stdout.decode().splitlines()
    first, second, summary = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0
    assert (first["address"], first["handshake_s"] > 0, second["handshake_s"]) == (b_address(peers), True, None)
    assert (summary["asked"], summary["answered"]) == (2, 2)
    assert 0 < summary["min_s"] <= summary["mean_s"] <= summary["max_s"]
    assert abs(first["clock_ahead_s"]) <= first["round_trip_s"] + 0.002
    assert "its clock is" in told[0]
    assert "1 asked, 1 answered, 0 % lost" in told[-1]


def b_address(peers: dict[str, str]) -> str:
    return peers["b"]


def test_without_a_process_the_command_opens_the_directory(tmp_path: Path) -> None:
    """And with keys: nobody but a trusted peer answers."""
    with triack.sync.open("b", data=tmp_path / "b", listen="udp://127.0.0.1:0", settings=quick()) as b:
        key = command("keygen", "--data", tmp_path / "a").stdout.decode().strip()
        b.trust("a", key)
        command("trust", "add", "b", b.key, "--address", b.address, "--data", tmp_path / "a")
        assert command("ping", "b", "-n", "1", "--data", tmp_path / "a").returncode == 0


def test_silence_is_lost_and_has_a_cause(tmp_path: Path) -> None:
    peers = {"b": f"tcp://127.0.0.1:{free_port()}"}
    with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, settings=quick()):
        done = command("ping", "b", "-n", "1", "--timeout", "1", "--data", tmp_path)
    assert done.returncode == 1
    assert b"nobody listens at" in done.stdout
    assert b"100 % lost" in done.stdout
