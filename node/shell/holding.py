"""Who reads, by the tasks of this process, and the handler that a task works for."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from triack.base.checks import check_kind
from triack.stats.holding import Reader


def reader_of(queue: str, name: object) -> Reader:
    """A reader of this process with this name, or its task's for None. Raises UsageError unless the name is text."""
    check_kind(f"receive from {queue}: name", name, str | None)
    return Reader(str(name or ""))


def task_name() -> str:
    """The name of the task that runs now; empty: none."""
    task = asyncio.current_task()
    return "" if task is None else task.get_name()


@dataclass(slots=True)
class Working:
    """What a handler that runs works on: its messages leave their queue when it returns.

    Attributes:
        queue: their queue.
        leaving: how many of them leave room that the handler has not used yet.
        on_wait: told what the handler waits for, for people.
        owner: the node or client that calls the handler; None once it has returned.
    """

    queue: str
    leaving: int
    on_wait: Callable[[str], None]
    owner: object


WORKING: ContextVar[Working | None] = ContextVar("triack-working", default=None)
"""Of the handler in whose call this is; None outside of handlers."""


def works_for(owner: object) -> bool:
    """Whether this is in a call of a handler of a node or client, which cannot end before that call does."""
    working = WORKING.get()
    return working is not None and working.owner is owner
