"""Shared by the demo's processes.

A child gets its options as JSON in its first argument, reports as JSON lines on standard output, and ends when its
standard input does: also when its parent was killed.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from triack.base.errors import TriackError
from triack.node.shell import event_loop
from triack.tools.commands.common import log_to_stderr

SENDER = "sender"
RECEIVER = "receiver"
QUEUE = "demo"

REPORT_S = 0.2

Report = dict[str, Any]


def tell(report: Report) -> None:
    """Report to the parent."""
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


async def tell_regularly(progress: Callable[[], Report]) -> None:
    """Report the progress from time to time, until cancelled."""
    while True:
        await asyncio.sleep(REPORT_S)
        tell(progress())


async def _parent_gone() -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def look() -> None:
        if not os.read(0, 1):
            loop.remove_reader(0)
            ended.set()

    loop.add_reader(0, look)
    await ended.wait()


def run_child(work: Callable[[Report, asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a child: ``work(options, stopping)`` until it ends or, after ``stopping`` is set, closes in good order."""

    async def run() -> None:
        stopping = asyncio.Event()
        watcher = asyncio.create_task(_parent_gone())
        watcher.add_done_callback(lambda _: stopping.set())
        await work(json.loads(sys.argv[1]), stopping)
        watcher.cancel()

    log_to_stderr()
    try:
        event_loop.run(run())
    except (TriackError, OSError) as error:
        tell({"error": str(error)})
        sys.exit(1)
