"""A demo whose processes fail says which one, and why."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.machine import PATIENCE_S
from triack.base.errors import TriackError, WaitTimeout
from triack.tools.demo import run
from triack.tools.demo.run import Plan, Transfer, transfer

MANY = 1_000_000

Processes = list[asyncio.subprocess.Process]


def plan(messages: int) -> Plan:
    """A demo on a good network."""
    return Plan(messages, 100, loss=0, duplicate=0, reorder=0, seed=1, transport="udp", timeout=PATIENCE_S)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """The processes that were started."""
    started: Processes = []
    start = asyncio.create_subprocess_exec

    async def note(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", note)
    return started


async def until_it_runs(progress: Transfer) -> None:
    """Wait until messages arrive."""
    async with asyncio.timeout(PATIENCE_S):
        while not progress.delivered:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.gate
async def test_a_node_that_cannot_open_is_reported(tmp_path: Path, processes: Processes) -> None:
    (tmp_path / "receiver").write_text("no directory")
    with pytest.raises(TriackError, match=rf"^the receiver failed: .*{tmp_path}/receiver"):
        await transfer(plan(1), tmp_path, Transfer())
    assert len(processes) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "at"), [("receiver", 0), ("sender", 1)])
async def test_a_killed_process_is_reported(tmp_path: Path, processes: Processes, name: str, at: int) -> None:
    progress = Transfer()
    work = asyncio.create_task(transfer(plan(MANY), tmp_path, progress))
    await until_it_runs(progress)
    processes[at].kill()
    with pytest.raises(TriackError, match=f"^the {name} ended with code -9$"):
        await work
    assert [process.returncode for process in processes] == [-9, -9]


@pytest.mark.slow
async def test_a_process_that_ends_too_early_is_reported(tmp_path: Path, processes: Processes) -> None:
    """In good order, as it does at the end of its input; but not everything has arrived."""
    progress = Transfer()
    work = asyncio.create_task(transfer(plan(MANY), tmp_path, progress))
    await until_it_runs(progress)
    assert processes[0].stdin is not None
    processes[0].stdin.close()
    with pytest.raises(TriackError, match=r"^the receiver ended too early$"):
        await work
    assert processes[0].returncode == 0


@pytest.mark.slow
async def test_a_process_that_does_not_close_is_ended(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "END_S", 0)
    with pytest.raises(WaitTimeout, match=r"^the sender did not close within 0 s$"):
        await transfer(plan(1), tmp_path, Transfer())
    assert [process.returncode is None for process in processes] == [False, False]
