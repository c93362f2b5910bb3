"""How far a measurement is: a line for each run, and the current run."""

import asyncio
from io import StringIO

import pytest
from rich.console import Console

from tests.machine import PATIENCE_S
from triack.tools.bench import progress
from triack.tools.bench.progress import shown
from triack.tools.bench.run import Progress
from triack.tools.bench.work import Work


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_S", 0.001)
    monkeypatch.setattr(progress, "TERMINAL_S", 0.001)


@pytest.mark.parametrize("terminal", [True, False])
async def test_it_says_what_runs_and_what_is_done(terminal: bool) -> None:
    out, now = StringIO(), Progress(sent=5_000, delivered=4_000)
    async with shown(Console(file=out, width=120, force_terminal=terminal, color_system=None)) as meter:
        meter.begin("T1 triack 1/5", Work())
        meter.watch(now)
        async with asyncio.timeout(PATIENCE_S):
            while "T1 triack 1/5, 100 B: sent 5,000  delivered 4,000" not in out.getvalue():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
        meter.say("T1 triack 1/5: done [once]")
    assert "T1 triack 1/5: done [once]" in out.getvalue()
