"""Whether a cancellation is the program's, and ends the task that it is thrown into, or that of something else.

A handler that awaits a task of its program, or a pool that is closed, ends with ``CancelledError`` although no one has
cancelled the handler. That is an error like any other, and nothing that the task must obey.
"""

import asyncio


def is_cancelled() -> bool:
    """Whether the running task is being cancelled: a ``CancelledError`` in it is its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_failure(kind: type[BaseException]) -> bool:
    """Whether an exception that has ended a block of this task says that the work in it failed.

    Not so the cancellation of the task, and what ends the program.
    """
    return issubclass(kind, Exception) or (issubclass(kind, asyncio.CancelledError) and not is_cancelled())


def may_wait(kind: type[BaseException] | None) -> bool:
    """Whether a block that this exception, or none, has ended may wait for a node, which may be stopped or away.

    Not when the task or the program is to end.
    """
    return not is_cancelled() and (kind is None or is_failure(kind))
