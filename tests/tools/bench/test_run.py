"""One run reports its proof, and nothing else."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from triack.base.errors import TriackError
from triack.tools.bench import run
from triack.tools.bench.run import Outcome, Progress, follow, judge, run_once
from triack.tools.bench.systems.catalogue import SYSTEMS
from triack.tools.bench.work import Work

COUNT = 2_000
WORK = Work(messages=COUNT)


async def once(tmp_path: Path, system: str, work: Work = WORK) -> Outcome:
    return await run_once(SYSTEMS[system], work, tmp_path, {}, lambda _progress: None)


def progress(**other: Any) -> Progress:
    """A perfect run."""
    end = {"synced": True, "commits": 3, "looked": 1, "plain": 0, "log_bytes": 10}
    told = {"sent": 10, "delivered": 10, "first_ns": 1, "last_ns": 1_000_000_001, "done": True}
    return Progress(**{**told, "sender_facts": end, "receiver_facts": end, **other})


def test_a_perfect_run_has_all_guarantees() -> None:
    found = judge(Work(), progress())
    assert (found.verified, found.rate, found.goodput) == (True, 10, 1_000)
    assert found.guarantee == ["every message once, in order", "synced at both ends", "encrypted", "recorded"]


@pytest.mark.parametrize(
    ("other", "flaw"),
    [
        ({"delivered": 9}, "did not come: 1 message"),
        ({"delivered": 9, "missing": 2}, "did not come: 3 messages"),
        ({"late": 1}, "came again or late: 1 message"),
        ({"corrupt": 4}, "not what was sent: 4 messages"),
        ({"sent": 0, "delivered": 0}, "nothing came"),
    ],
)
def test_a_flaw_takes_every_guarantee(other: dict[str, int], flaw: str) -> None:
    found = judge(Work(), progress(**other))
    assert (found.verified, found.flaw, found.guarantee) == (False, flaw, [])


@pytest.mark.parametrize(
    ("changed", "lacking"),
    [
        ({"synced": False}, "synced at both ends"),
        ({"commits": 0}, "synced at both ends"),
        ({"plain": 1}, "encrypted"),
        ({"looked": 0}, "encrypted"),
        ({"log_bytes": 0}, "recorded"),
    ],
)
def test_what_was_not_seen_is_not_said(changed: dict[str, Any], lacking: str) -> None:
    ends = progress().sender_facts | changed
    found = judge(Work(), progress(sender_facts=ends, receiver_facts=ends))
    assert found.verified
    assert lacking not in found.guarantee


def test_a_run_that_is_cut_off_counts_its_whole_time() -> None:
    """Messages that came in the first second of five do not make a rate of that second."""
    found = judge(Work(seconds=5, complete=False), progress(sent=20))
    assert (found.verified, found.rate) == (True, 2)


@pytest.mark.slow
async def test_a_run_of_triack_is_verified(tmp_path: Path) -> None:
    found = await once(tmp_path, "triack")
    assert (found.sent, found.delivered, found.verified) == (COUNT, COUNT, True)
    assert found.guarantee == ["every message once, in order", "synced at both ends", "encrypted", "recorded"]
    assert found.facts["sender"]["wire_bytes"] > COUNT * WORK.size


@pytest.mark.slow
async def test_without_keys_and_log_it_says_less(tmp_path: Path) -> None:
    """Bodies are seen on the wire then."""
    found = await once(tmp_path, "triack", replace(WORK, insecure=True, log=False))
    assert found.guarantee == ["every message once, in order", "synced at both ends"]
    assert found.facts["sender"]["plain"]


@pytest.mark.slow
async def test_a_process_that_fails_is_reported(tmp_path: Path) -> None:
    (tmp_path / "receiver").write_text("no directory")
    with pytest.raises(TriackError, match="the receiver failed"):
        await once(tmp_path, "triack")


async def test_a_receiver_that_is_still_starting_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has come yet: that is no end of what comes."""
    monkeypatch.setattr(run, "QUIET_S", 0.0)
    monkeypatch.setattr(run, "AFTER_S", 0.0)
    told = Progress(sent=10, done=True)
    over = asyncio.create_task(follow((), WORK, told))
    await asyncio.sleep(5 * run.LOOK_S)
    assert not over.done()
    told.delivered = 10
    await over
