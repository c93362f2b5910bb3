"""Many seeds: promises kept on all of them, and the same seeds give the same trace, however they are run."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from tests.machine import PATIENCE_S
from triack.base.units import SECOND
from triack.tools.chaos import campaign as campaigns
from triack.tools.chaos.campaign import Campaign, Report, run_campaign

SEEDS = 2_100
BLOCK = 300
# What every block of seeds must meet, or it does not look: faults, ends of processes, fates of datagrams.
MET = {
    *("kill", "power-loss", "pause", "stop", "cut", "cut-one-way", "clog", "rebind", "wall-jump", "disk-error"),
    *("disk-full", "lie", "rot", "old-copy", "clone", "killed", "closed"),
    *("net-lost", "net-duplicated-late", "net-corrupted", "net-truncated", "net-held"),
    *("clock-set", "second-opener", "refused"),
    *("move", "rotate", "revoke", "junk", "replay", "forge", "revoked", "access-denied"),
}
# Met by one seed of fifty: a block may lack one of them.
RARE = {"overtake", "held-back", "queue-full", "crashed-in-recovery", "net-overflowed"}


@pytest.mark.slow
@pytest.mark.parametrize("first", [pytest.param(0, marks=pytest.mark.gate), *range(BLOCK, SEEDS, BLOCK)])
def test_two_thousand_seeds_keep_every_promise(first: int) -> None:
    """The gate of every change: all goes wrong that can. ``triack chaos --seed N`` repeats one that fails."""
    campaign = run_campaign(first, BLOCK, jobs=1)
    assert not [(failure.seed, failure.violations[0]) for failure in campaign.failures]
    assert campaign.seeds == BLOCK
    assert not MET - campaign.runs_with.keys()
    assert len(RARE - campaign.runs_with.keys()) <= 1


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes() -> None:
    """Whatever the hash seed and the garbage collector do, in a process of its own."""
    ours = run_campaign(41, 3, jobs=1).trace
    for hash_seed, line in (("0", "gc.disable()"), ("12345", "gc.set_threshold(10)")):
        code = f"import gc; {line}\nfrom triack.tools.chaos.campaign import run_campaign\n"
        command = [sys.executable, "-c", f"{code}print(run_campaign(41, 3, jobs=1).trace)"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        assert done.stdout.strip() == ours
    assert run_campaign(42, 3, jobs=1).trace != ours


def report(seed: int, violations: list[tuple[str, str]] | None = None, **seen: int) -> Report:
    return Report(seed, violations or [], 2 * SECOND, 100, f"trace {seed}", Counter(seen))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which seeds were run, without running them: each tenth breaks a promise."""
    found: list[int] = []

    def run(seed: int) -> Report:
        found.append(seed)
        return report(seed, [("queue", "lost")] if seed % 10 == 9 else None)

    monkeypatch.setattr(campaigns, "_report", run)
    return found


def test_a_campaign_adds_up_what_its_runs_came_to() -> None:
    """And how many of them met a fault, however often each did."""
    campaign = Campaign(seconds=4.0)
    failed = report(2, [("queue", "lost"), ("once", "twice")], kill=1, cut=1)
    for one in (report(1, kill=3), failed):
        campaign.add(one)
    assert campaign.failures == [failed]
    assert (campaign.seen["kill"], campaign.runs_with["kill"], campaign.runs_with["cut"]) == (4, 2, 1)
    summary = campaign.summary()
    assert (summary["seeds"], summary["violations"], summary["failing_seeds"]) == (2, 1, [2])
    assert (summary["virtual_seconds"], summary["virtual_per_real"], summary["seeds_per_second"]) == (4.0, 1.0, 0.5)
    assert summary["first_violation"] == ("queue", "lost")
    assert summary["runs_with"] == {"cut": 1, "kill": 2}


def test_the_trace_tells_every_run_and_their_order() -> None:
    traces = set()
    for seeds in ((1, 2, 3), (1, 2), (2, 1, 3), (1, 2, 4)):
        campaign = Campaign()
        for seed in seeds:
            campaign.add(report(seed))
        traces.add(campaign.trace)
    assert len(traces) == 4


def test_seeds_are_run_in_order_and_the_first_failure_can_end_a_campaign(asked: list[int]) -> None:
    heard: list[int] = []
    campaign = run_campaign(8, 30, jobs=1, progress=lambda campaign: heard.append(campaign.seeds))
    assert asked == list(range(8, 38))
    assert heard == list(range(1, 31))
    assert (campaign.seeds, [failure.seed for failure in campaign.failures]) == (30, [9, 19, 29])
    asked.clear()
    assert run_campaign(0, 30, jobs=1, fail_fast=True).seeds == 10
    assert asked == list(range(10))


def test_time_ends_a_campaign_that_would_not_end(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[int] = count()
    monkeypatch.setattr("triack.tools.chaos.campaign.time.monotonic", lambda: next(clock))
    campaign = run_campaign(5, None, minutes=0.1, jobs=1)
    assert (campaign.seeds, campaign.seconds, asked) == (6, 6, list(range(5, 11)))


@pytest.mark.slow
def test_two_processes_do_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk, and the reports come in the order of the seeds."""
    monkeypatch.setattr(campaigns, "CHUNK_SEEDS", 2)
    one, two = (run_campaign(41, 5, jobs=jobs) for jobs in (1, 2))
    assert (two.trace, two.events, two.seen) == (one.trace, one.events, one.seen)
