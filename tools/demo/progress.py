"""Showing how far the demo has come: live on a terminal, a line a second elsewhere."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from triack.tools.demo.run import Transfer

TERMINAL_S = 0.2
PLAIN_S = 1.0


@contextlib.asynccontextmanager
async def shown(transfer: Transfer, messages: int, console: Console | None) -> AsyncIterator[None]:
    """Show a transfer while the block runs; ``console`` None shows nothing."""
    if console is None:
        yield
        return
    async with beside(_live(transfer, messages, console) if console.is_terminal else _plain(transfer, console)):
        yield


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Do this in a task while the block runs."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _live(transfer: Transfer, messages: int, console: Console) -> None:
    columns = (
        TextColumn("{task.description:9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        bars = {name: progress.add_task(name, total=messages, rate="") for name in ("sent", "ordered", "delivered")}
        rate = Rate()
        try:
            while True:
                await asyncio.sleep(TERMINAL_S)
                _update(progress, bars, transfer, rate)
        finally:
            _update(progress, bars, transfer, rate)


def _update(progress: Progress, bars: dict[str, TaskID], transfer: Transfer, rate: "Rate") -> None:
    speed = rate.of(transfer.delivered)
    for name, bar in bars.items():
        text = f"{speed:,.0f}/s" if name == "delivered" else ""
        progress.update(bar, completed=getattr(transfer, name), rate=text)
    progress.refresh()


async def _plain(transfer: Transfer, console: Console) -> None:
    rate = Rate()
    while True:
        await asyncio.sleep(PLAIN_S)
        speed = rate.of(transfer.delivered)
        console.print(
            f"sent {transfer.sent:,}  ordered {transfer.ordered:,}  delivered {transfer.delivered:,}  {speed:,.0f}/s"
        )


class Rate:
    """How fast a number grew since it was last looked at."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._value = 0

    def of(self, value: int) -> float:
        """Growth per second."""
        now = time.monotonic()
        speed = (value - self._value) / max(now - self._at, 1e-9)
        self._at, self._value = now, value
        return speed
