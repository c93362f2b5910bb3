"""Keeps session logs for as long as ``NodeSettings.log_keep_s`` says: runs ``triack log prune``, and again each day.

Pruning judges everything that it removes, which keeps a processor busy. So it runs as a separate process: the node
continues, and may end it at any moment (``tools/replay/engines/prune.py``).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from triack.node.files import operator_log

EVERY_S = 86_400
"""A segment has the records of a day at most (``base/log_lines.py``), so nothing is gained by looking more often."""
SAID_LETTERS_MAX = 500
"""Of what the command says; more is no sentence about one problem."""


PruneLog = Callable[[Path, str, float], Awaitable[str]]
"""Prunes the logs of one node in a folder; returns why that failed, or nothing."""


async def keep_log(folder: Path, node: str, keep_s: float, prune: PruneLog) -> None:
    """Prune the logs of a node now and then, until cancelled. A failure is logged, and removes nothing."""
    while True:
        said = await prune(folder, node, keep_s)
        if said:
            operator_log.warning(f"old session logs in {folder} stay: {said}", folder=str(folder))
        await asyncio.sleep(EVERY_S)


async def prune_log(folder: Path, node: str, keep_s: float) -> str:
    """Run ``triack log prune`` once; return why it failed, or nothing."""
    # Without the directory that the process happens to run in, which may have modules of the same names.
    program = (sys.executable, "-P", "-m", "triack", "log", "prune")
    options = (str(folder), "--keep", f"{keep_s:.0f}s", "--node", node)
    none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*program, *options, stdin=none, stdout=none, stderr=pipe)
    except OSError as error:
        return f"cannot run triack log prune: {error.strerror}"
    try:
        _, told = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()  # or its transport stays open
    if not process.returncode:
        return ""
    lines = told.decode(errors="replace").strip().splitlines() or [f"triack log prune ended with {process.returncode}"]
    return lines[-1].removeprefix("triack log prune: ")[:SAID_LETTERS_MAX]
