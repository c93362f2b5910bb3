"""The life of a node: its states and the moves between them, as a table, and the one place that makes them.

    NEW --> STARTING --> OPEN --> CLOSING --> CLOSED
     ^         |          |          |
     +---------+          +--------> FAILED

Promise: whoever asks gets the same answer at the same moment: a node works while it is OPEN or CLOSING, and else says
why not. A start that fails or is cancelled leaves a node that can be started. FAILED is for ever: the store is
finished, and closing such a node only lets go of what it holds.
"""

import asyncio
from enum import Enum

from triack.base.errors import NodeClosed, TriackError, UsageError
from triack.node.event_loop import check_home, running_loop

__all__ = ["MOVES", "Life", "LifeState"]


class LifeState(Enum):
    """Where a node is in its life."""

    NEW = "new"
    """Made, and not started."""
    STARTING = "starting"
    """Opening its store and its endpoint."""
    OPEN = "open"
    """Running."""
    CLOSING = "closing"
    """Finishing what it has; it still takes what it is given, and makes it durable."""
    CLOSED = "closed"
    """Over, as it was asked to."""
    FAILED = "failed"
    """Over, as its store failed."""


MOVES: dict[LifeState, frozenset[LifeState]] = {
    LifeState.NEW: frozenset({LifeState.STARTING}),
    LifeState.STARTING: frozenset({LifeState.OPEN, LifeState.NEW}),
    LifeState.OPEN: frozenset({LifeState.CLOSING, LifeState.FAILED}),
    LifeState.CLOSING: frozenset({LifeState.CLOSED, LifeState.FAILED}),
    LifeState.CLOSED: frozenset(),
    LifeState.FAILED: frozenset(),
}
"""From each state, the states that may follow it."""

_ALIVE = frozenset({LifeState.OPEN, LifeState.CLOSING})


class Life:
    """Where one node is in its life.

    Args:
        name: the node's name, for what is said to people.

    Attributes:
        state: where it is; only ``move`` changes it.
        is_alive: whether it works in that state.
    """

    __slots__ = ("_error", "_failed", "_home", "_whose", "is_alive", "state")

    def __init__(self, name: str) -> None:
        self.state = LifeState.NEW
        self.is_alive = False
        self._whose = f"node {name}"
        self._home: asyncio.AbstractEventLoop | None = None
        self._error: TriackError | None = None
        self._failed = asyncio.Event()

    def move(self, state: LifeState) -> None:
        """Go on to another state.

        Raises:
            UsageError: that state does not follow the present one. Users can only start a node too often.
        """
        if state not in MOVES[self.state]:
            raise UsageError(f"start {self._whose}: it was started before, and is {self.state.value}")
        self.state = state
        self.is_alive = state in _ALIVE
        if state is LifeState.STARTING:
            self._home = asyncio.get_running_loop()

    def fail(self, error: TriackError) -> None:
        """The store is finished, or a task died of a bug. The first error is the one that everybody gets."""
        if self.is_alive:
            self._error = error
            self.move(LifeState.FAILED)
            self._failed.set()

    def check_alive(self) -> None:
        """Raises NodeClosed before the start and after the end, StoreFailed after the store failed.

        And UsageError in another event loop than the node's, or in none: what it does there may never be seen.
        """
        if self.is_alive:
            if running_loop() is not self._home:
                check_home(self._whose, self._home)
            return
        if self._error is not None:
            raise self._error
        raise NodeClosed(f"{self._whose} is not open")

    async def failed(self) -> TriackError:
        """Wait until the node fails. Returns the error."""
        await self._failed.wait()
        assert self._error is not None
        return self._error
