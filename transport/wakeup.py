"""An event that one task waits for, and all others set; and nothing to wait for.

It is ``asyncio.Event`` for a single waiter, without a list of waiters: for a single message in flight, every task of a
node waits and continues once or twice.
"""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any


class _Done:
    """What a call returns that might have had to wait, and did not: awaiting it takes no time."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


DONE: Awaitable[None] = _Done()


class Wakeup:
    """Set or clear; one task at a time waits until it is set. If ``is_set``, ``wait`` returns immediately."""

    __slots__ = ("_sleeper", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._sleeper: asyncio.Future[None] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether a task waits, and nothing lets it go on yet."""
        return self._sleeper is not None and not self._sleeper.done()

    def set(self) -> None:
        """Let the waiting task continue, and the next one not wait at all."""
        self.is_set = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def clear(self) -> None:
        """The next task waits."""
        self.is_set = False

    async def wait(self) -> None:
        """Wait until it is set. Cancelling the wait loses nothing."""
        if not self.is_set:
            self._sleeper = asyncio.get_running_loop().create_future()
            await self._sleeper
