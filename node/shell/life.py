"""The life of a node: its states and the moves between them, as a table, and the one place that makes them.

    NEW --> STARTING --> OPEN --> CLOSING --> CLOSED
     ^         |          |          |
     +---------+          +--------> FAILED

Promise: all callers get the same answer at the same moment: a node works while it is OPEN or CLOSING, and otherwise
says why not. A start that fails or is cancelled leaves a node that can be started. FAILED is permanent: the store is
finished, and closing such a node only releases its resources.
"""

import asyncio
from enum import Enum

from triack.base.errors import NodeClosed, TriackError, UsageError
from triack.base.transitions import next_state
from triack.node.shell.event_loop import check_home, running_loop


class LifeState(Enum):
    """The states of a node."""

    NEW = "new"
    STARTING = "starting"
    """Opening its store and its endpoint."""
    OPEN = "open"
    CLOSING = "closing"
    """Finishing its work; it still accepts messages, and makes them durable."""
    CLOSED = "closed"
    FAILED = "failed"
    """Ended, as its store failed or a task died of a bug."""


class LifeEvent(Enum):
    """The events in the life of a node."""

    START = "start"
    STARTED = "started"
    GIVEN_UP = "given up"
    """They could not be opened, or the start was cancelled."""
    CLOSE = "close"
    CLOSED = "closed"
    FAILED = "failed"


TRANSITIONS: dict[LifeState, dict[LifeEvent, LifeState]] = {
    LifeState.NEW: {LifeEvent.START: LifeState.STARTING},
    LifeState.STARTING: {
        LifeEvent.STARTED: LifeState.OPEN,
        LifeEvent.GIVEN_UP: LifeState.NEW,
    },
    LifeState.OPEN: {LifeEvent.CLOSE: LifeState.CLOSING, LifeEvent.FAILED: LifeState.FAILED},
    LifeState.CLOSING: {LifeEvent.CLOSED: LifeState.CLOSED, LifeEvent.FAILED: LifeState.FAILED},
    LifeState.CLOSED: {},
    LifeState.FAILED: {},
}
"""State, then event, then the next state. Only a running node can fail."""

_ALIVE = frozenset({LifeState.OPEN, LifeState.CLOSING})


class Life:
    """The life of one node."""

    __slots__ = ("_error", "_failed", "_home", "_whose", "is_alive", "state")

    def __init__(self, name: str) -> None:
        self.state = LifeState.NEW
        self.is_alive = False
        self._whose = f"node {name}"
        self._home: asyncio.AbstractEventLoop | None = None
        self._error: TriackError | None = None
        self._failed = asyncio.Event()

    def handle(self, event: LifeEvent) -> None:
        """Handle an event. Raises UsageError: a second start; IllegalTransition: the event cannot happen now."""
        if event is LifeEvent.START and self.state is not LifeState.NEW:
            raise UsageError(f"start {self._whose}: it was started before, and is {self.state.value}")
        self.state = next_state(TRANSITIONS, self.state, event)
        self.is_alive = self.state in _ALIVE
        if event is LifeEvent.START:
            self._home = asyncio.get_running_loop()

    def fail(self, error: TriackError) -> None:
        """The store is finished, or a task died of a bug. All callers get the first error."""
        if self.is_alive:
            self._error = error
            self.handle(LifeEvent.FAILED)
            self._failed.set()

    def check_alive(self) -> None:
        """Raise NodeClosed before the start and after the end, StoreFailed after the store failed.

        Also raise UsageError in another event loop than the node's, or in none: the node might never notice such a
        call.
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
