"""``triack top``: rates between two looks, sorted."""

import json
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, open_sync, quick
from tests.tools.processes import SECONDS, start
from tests.tools.processes import triack as command
from triack.tools.operate.top import Rates


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


@pytest.mark.slow
def test_it_looks_again_until_it_is_ended(tmp_path: Path) -> None:
    with triack.sync.open("a", data=tmp_path, insecure=True, settings=quick()):
        watching = start("top", "--data", tmp_path, "--every", "0.1", "--json")
        assert watching.stdout is not None
        assert [json.loads(watching.stdout.readline())["name"] for _ in range(3)] == ["a"] * 3
        watching.terminate()
        watching.communicate(timeout=SECONDS)
    assert watching.wait() == 143


def test_without_a_process_there_is_nothing_to_watch(tmp_path: Path) -> None:
    done = command("top", "--data", tmp_path, "--once")
    assert (done.returncode, b"no process runs one there" in done.stderr) == (1, True)
