"""Showing how far a measurement is: live on a terminal, a line for each run and now and then elsewhere."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from triack.tools.bench.options import Meter
from triack.tools.bench.run import Progress
from triack.tools.bench.work import Work
from triack.tools.demo.progress import Rate, beside

TERMINAL_S = 0.2
PLAIN_S = 5.0


class _Shown:
    """The current run, and its speed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._name = ""
        self._progress, self._rate = Progress(), Rate()

    def begin(self, name: str, work: Work) -> None:
        """A run begins."""
        self._name = f"{name}, {work.size:,} B"
        self.watch(Progress())

    def watch(self, progress: Progress) -> None:
        """Note its progress."""
        self._progress, self._rate = progress, Rate()

    def say(self, line: str) -> None:
        """A run has ended."""
        self._console.print(escape(line), soft_wrap=True)

    def line(self) -> str:
        """How far it is now."""
        progress, speed = self._progress, self._rate.of(self._progress.delivered)
        return f"{self._name}: sent {progress.sent:,}  delivered {progress.delivered:,}  {speed:,.0f}/s"


@contextlib.asynccontextmanager
async def shown(console: Console) -> AsyncIterator[Meter]:
    """Show a measurement while the block runs."""
    it = _Shown(console)
    async with beside(_live(it, console) if console.is_terminal else _plain(it, console)):
        yield Meter(it.begin, it.watch, it.say)


async def _live(it: _Shown, console: Console) -> None:
    with Status("", console=console) as status:
        while True:
            await asyncio.sleep(TERMINAL_S)
            status.update(escape(it.line()))


async def _plain(it: _Shown, console: Console) -> None:
    while True:
        await asyncio.sleep(PLAIN_S)
        console.print(escape(it.line()), soft_wrap=True)
