"""Several tasks of one conversation, which end together."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from triack.node.shell.event_loop import end_tasks


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Run all until the first ends, and cancel the others. Raises the first one's error."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(tasks)
    for task in done:
        task.result()
