"""A node keeps its logs for as long as its setting says."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from triack.node.shell import log_keeper
from triack.node.shell.log_keeper import keep_log, prune_log


async def test_logs_are_pruned_at_the_start_and_each_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_keeper, "EVERY_S", 0)
    runs: list[tuple[Path, str, float]] = []

    async def prune(folder: Path, node: str, keep_s: float) -> str:
        runs.append((folder, node, keep_s))
        if len(runs) == 3:
            raise asyncio.CancelledError
        return ""

    with pytest.raises(asyncio.CancelledError):
        await keep_log(tmp_path, "a1", 60.0, prune)
    assert runs == [(tmp_path, "a1", 60.0)] * 3


async def test_a_failure_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def prune(_folder: Path, _node: str, _keep_s: float) -> str:
        return "No space left on device"

    caplog.set_level(logging.WARNING)
    keeping = asyncio.create_task(keep_log(tmp_path, "a1", 60.0, prune))
    async with asyncio.timeout(PATIENCE_S):
        while "No space left" not in caplog.text:  # noqa: ASYNC110 - the other task tells
            await asyncio.sleep(0)
    keeping.cancel()
    assert f"old session logs in {tmp_path} stay: No space left on device" in caplog.text


@pytest.mark.slow
async def test_the_command_says_why_it_failed(tmp_path: Path) -> None:
    assert await prune_log(tmp_path / "nowhere", "a1" * 16, 60.0) == f"no such directory: {tmp_path / 'nowhere'}"


async def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert await prune_log(tmp_path, "a1" * 16, 60.0) == "cannot run triack log prune: No such file or directory"


@pytest.mark.slow
async def test_a_node_removes_its_old_segments(tmp_path: Path) -> None:
    """Those of its earlier starts, once it has written in this one."""
    data, log = tmp_path / "data", tmp_path / "log"
    for _ in range(2):
        async with triack.open("a", data=data, log=log):
            pass
    assert len(list(log.glob("*.jsonl"))) == 2
    settings = triack.NodeSettings(log_keep_s=0.001)
    async with triack.open("a", data=data, log=log, settings=settings), asyncio.timeout(PATIENCE_S):
        while list(log.glob("a-000001-*")):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)
    assert (log / "pruned.summary").exists()
