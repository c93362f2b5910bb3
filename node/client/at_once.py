"""Calls of a client that begin immediately, whether their callers wait or not.

A coroutine that is never awaited does nothing, and the warning comes too late. So calls that a forgotten ``await`` must
not lose begin immediately: the end of a transaction, of a reader, of an invitation.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from triack.base.errors import TriackError
from triack.node.shell.event_loop import begin


class Begun:
    """A call that continues, whether its caller waits or not."""

    __slots__ = ("_task",)

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for its end, and raise its error; cancelling the wait does not end it."""
        return asyncio.shield(self._task).__await__()


def begin_now(work: Coroutine[Any, Any, None]) -> Begun:
    """Begin a call."""
    task = begin(work, "triack-client")
    task.add_done_callback(_tell_bug)
    return Begun(task)


def _tell_bug(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and not isinstance(task.exception(), TriackError | None):
        task.get_loop().call_exception_handler(
            {"message": "a call of a client failed", "exception": task.exception(), "task": task}
        )
