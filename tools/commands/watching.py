"""What is shown while a command runs: views that are drawn again and again, and how far long work is."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from io import StringIO
from threading import Event

import click

from triack.tools.commands.common import FloatRange, console_on

PLAIN_S = 5.0
"""Seconds between two lines about long work where there is no terminal: soon enough for a person who waits."""

Draw = Callable[[], Awaitable[None]]

watch_option = click.option(
    "--watch",
    "watch_s",
    type=FloatRange(min=0, min_open=True),
    metavar="S",
    help="Show it again every S seconds, until Ctrl-C.",
)


async def repeat(draw: Draw, every_s: float | None) -> None:
    """Draw a view once, or again and again: on a terminal in the same place, elsewhere one below the other."""
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


def until_interrupt() -> Event:
    """Return what the first Ctrl-C sets; a second one does not wait for what is done then."""
    stop = Event()

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop.set()

    signal.signal(signal.SIGINT, end)
    return stop


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say on stderr how far long work is, until the block ends. Nothing stays there of work that soon ends.

    On a terminal one line changes, and disappears at the end. Elsewhere there is a line every few seconds. Yields a
    function for the progress, a text, which any thread may call.
    """
    console = console_on(stderr=True)
    if console.is_terminal:
        from rich.markup import escape

        with console.status(what) as status:
            yield lambda text: status.update(f"{what}: {escape(text)}")
        return
    said_s = time.monotonic()

    def say(text: str) -> None:
        nonlocal said_s
        if time.monotonic() - said_s >= PLAIN_S:
            said_s = time.monotonic()
            click.echo(f"{what}: {text}", err=True)

    yield say
