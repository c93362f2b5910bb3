"""Views that are drawn again and again, until somebody has seen enough: ``--watch`` and ``triack top``."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from io import StringIO

import click

from triack.tools.commands.common import FloatRange, console_on

__all__ = ["repeat", "watch_option"]

Draw = Callable[[], Awaitable[None]]
"""Writes one view with ``click.echo``."""

watch_option = click.option(
    "--watch",
    "watch_s",
    type=FloatRange(min=0, min_open=True),
    metavar="S",
    help="Show it again every S seconds, until Ctrl-C.",
)


async def repeat(draw: Draw, every_s: float | None) -> None:
    """Draw a view once, or again and again: on a terminal in the same place, elsewhere one below the other.

    Args:
        draw: writes the view.
        every_s: seconds between two views; None: once.
    """
    if every_s is None:
        await draw()
        return
    if not sys.stdout.isatty():
        while True:
            await draw()
            sys.stdout.flush()
            await asyncio.sleep(every_s)
    from rich.live import Live
    from rich.text import Text

    with Live(console=console_on(), screen=True, auto_refresh=False) as live:
        while True:
            written = StringIO()
            with contextlib.redirect_stdout(written):
                await draw()
            live.update(Text(written.getvalue()), refresh=True)
            await asyncio.sleep(every_s)
