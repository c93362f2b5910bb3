"""A client's way to its node: one connection after the other, until the client is closed.

    NEW --> CONNECTING --> OPEN <--> WAITING --> AWAY
     ^          |            ^                    |
     +----------+            +--------------------+          CLOSED: after ``close``, or if no process can be used

Promise: a call is made on an open connection or not at all. While there is none, calls wait, until the process has been
away for longer than the client's patience; from then on they fail immediately. In both cases the line looks for the
next process, so that calls work again once it is there. Each connection has a number, its epoch: what the node gave out
on a connection ends with it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

from triack.base.errors import NodeClosed, ProtocolError, TriackError, WaitTimeout
from triack.base.transitions import next_state
from triack.node.client.connection import Connection
from triack.node.control.control_frames import Link
from triack.node.files import operator_log
from triack.node.shell.event_loop import end_tasks

FIRST_PAUSE_S = 0.02
"""After the first look for the next process: one that a supervisor restarts immediately is there after a few."""
LONGEST_PAUSE_S = 0.25
"""After further looks, with twice the pause each: a look reads a small file, and no one feels a quarter of a second."""


GREET_S = 5.0
"""How long a process that has accepted may take to greet. One that closes at that moment may leave the connection open
and say nothing; one that is stopped continues later."""


class LineState(Enum):
    """The states of a line."""

    NEW = "new"
    """Not begun."""
    CONNECTING = "connecting"
    """Begun, and not connected for the first time."""
    OPEN = "open"
    WAITING = "waiting"
    """The process ended: calls wait for the next one."""
    AWAY = "away"
    """It has been away for too long: calls fail, and the line still looks for the next one."""
    CLOSED = "closed"
    """Ended."""


class LineEvent(Enum):
    """The events of a line."""

    START = "start"
    CONNECTED = "connected"
    REFUSED = "refused"
    """There was none at the first attempt."""
    LOST = "lost"
    PATIENCE_OVER = "patience over"
    """The process has been away for longer than calls wait."""
    GIVEN_UP = "given up"
    """The line does not look for another process, or cannot use the one that it found."""
    CLOSE = "close"


TRANSITIONS: dict[LineState, dict[LineEvent, LineState]] = {
    LineState.NEW: {LineEvent.START: LineState.CONNECTING, LineEvent.CLOSE: LineState.NEW},
    LineState.CONNECTING: {
        LineEvent.CONNECTED: LineState.OPEN,
        LineEvent.REFUSED: LineState.NEW,
        LineEvent.CLOSE: LineState.CLOSED,
    },
    LineState.OPEN: {LineEvent.LOST: LineState.WAITING, LineEvent.CLOSE: LineState.CLOSED},
    LineState.WAITING: {
        LineEvent.CONNECTED: LineState.OPEN,
        LineEvent.PATIENCE_OVER: LineState.AWAY,
        LineEvent.GIVEN_UP: LineState.CLOSED,
        LineEvent.CLOSE: LineState.CLOSED,
    },
    LineState.AWAY: {
        LineEvent.CONNECTED: LineState.OPEN,
        LineEvent.GIVEN_UP: LineState.CLOSED,
        LineEvent.CLOSE: LineState.CLOSED,
    },
    LineState.CLOSED: {LineEvent.START: LineState.CONNECTING, LineEvent.CLOSE: LineState.CLOSED},
}

Dial = Callable[[], Awaitable[Link | None]]
"""Looks for the process once; None: there is none."""


class Line:
    """The line of one client."""

    def __init__(self, whose: str, dial: Dial | None, patience_s: float | None) -> None:
        self.state = LineState.NEW
        self.connection: Connection | None = None
        self._whose = whose
        self._dial = dial  # None: it ends with its first connection
        self._patience_s = patience_s  # how long calls wait for the next process; None: without end
        self._epoch = 0
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        # Why calls fail in AWAY and CLOSED.
        self._error: TriackError = NodeClosed(f"{whose}: the client was not started")

    def _handle(self, event: LineEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def epoch(self) -> int | None:
        """The number of the open connection; None while there is none."""
        return self._epoch if self.state is LineState.OPEN else None

    @property
    def reconnects(self) -> bool:
        """Whether it looks for the next process when one has ended."""
        return self._dial is not None

    # ---- life

    def start(self) -> None:
        """Begin. Raises IllegalTransition while it runs."""
        self._handle(LineEvent.START)

    def refuse(self) -> None:
        """Note that there is no process to begin with."""
        if self.state is LineState.CONNECTING:
            self._handle(LineEvent.REFUSED)

    async def open(self, link: Link) -> None:
        """Begin with this link. Raises as ``greet``, and NodeClosed if the client was closed meanwhile."""
        connection = await Connection.begin(self._whose, link, self._next_epoch())
        if self.state is not LineState.CONNECTING:
            await connection.close()
            raise self._error
        self._connect(connection)
        self._running = asyncio.create_task(self._run(), name="triack-client")

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _connect(self, connection: Connection) -> None:
        self.connection = connection
        self._handle(LineEvent.CONNECTED)

    async def close(self, goodbye_s: float) -> None:
        """End it; the node may take ``goodbye_s`` to notice. A second call does nothing."""
        closed = NodeClosed(f"{self._whose}: the client is closed")
        if self.state in (LineState.NEW, LineState.CLOSED):
            return
        was_open = self.state is LineState.OPEN
        self._error = closed
        self._handle(LineEvent.CLOSE)
        if was_open and self.connection is not None:
            await self.connection.say_goodbye(closed, goodbye_s)
        if self._running is not None:
            await end_tasks([self._running])
        if self.connection is not None:
            await self.connection.close(closed)

    async def _run(self) -> None:
        """Hear the connection, and look for the next one when it has ended, until the client is closed."""
        while self.connection is not None:
            await self.connection.ended.wait()
            if self.state is not LineState.OPEN:
                return
            await self.connection.close()
            self._handle(LineEvent.LOST)
            if self._dial is None:
                self._give_up(NodeClosed(self._ended))
                return
            found = await self._look(self._dial, self.connection.welcome.get("node_id"))
            if found is None:
                return
            self._connect(found)
            operator_log.info(f"{self._whose} is back; going on with it")

    @property
    def _ended(self) -> str:
        return f"{self._whose} has ended"

    def _give_up(self, error: TriackError) -> None:
        self._error = error
        self._handle(LineEvent.GIVEN_UP)

    # ---- the next connection

    async def _look(self, dial: Dial, node_id: object) -> Connection | None:
        """Look for the next process; None if the one that was found cannot be used."""
        operator_log.warning(f"{self._whose} went away; waiting for it")
        loop = asyncio.get_running_loop()
        patience = None
        if self._patience_s is not None:
            patience = loop.call_later(self._patience_s, self._lose_patience)
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                try:
                    found = await self._try(dial)
                except ProtocolError as error:  # it is of another version
                    self._give_up(error)
                    return None
                if found is not None:
                    return await self._check(found, node_id)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        finally:
            if patience is not None:
                patience.cancel()

    async def _try(self, dial: Dial) -> Connection | None:
        try:
            link = await dial()
            if link is None:
                return None
            async with asyncio.timeout(GREET_S):
                return await Connection.begin(self._whose, link, self._next_epoch())
        except ProtocolError:
            raise
        except (OSError, TriackError) as error:  # it has just ended, is stopped, or has too many clients
            operator_log.info(f"{self._whose} cannot be used yet: {error}")
            return None

    async def _check(self, found: Connection, node_id: object) -> Connection | None:
        """Refuse another node in the directory of the first: it knows nothing of what this client has done."""
        if found.welcome.get("node_id") == node_id:
            return found
        await found.close()
        why = f"another node serves it now, {found.welcome.get('node_id')}, and not {node_id}"
        self._give_up(NodeClosed(f"{self._whose}: {why}; connect again to use that one"))
        return None

    def _lose_patience(self) -> None:
        if self.state is LineState.WAITING:
            why = f"{self._whose} has been away for {self._patience_s:g} s" if self._patience_s else self._ended
            operator_log.warning(f"{why}; calls fail until it is back")
            self._error = NodeClosed(why)
            self._handle(LineEvent.PATIENCE_OVER)

    # ---- calls

    async def left(self, connection: Connection) -> None:
        """Wait until no call uses that connection any more."""
        while self.connection is connection and self.state is LineState.OPEN:
            await self._changed.wait()

    def check(self) -> None:
        """Raise NodeClosed, or the error that ended it, in states in which calls fail immediately."""
        if self.state in (LineState.NEW, LineState.AWAY, LineState.CLOSED):
            raise self._error.with_traceback(None)

    async def opened(self, end: float | None = None, *, patient: bool = False) -> Connection:
        """The open connection; waits for it, at most until ``end`` of the event loop's clock.

        With ``patient`` it waits even in a state in which calls fail, as long as the line looks for the next process.

        Raises:
            WaitTimeout: there was none in time.
            NodeClosed: the process has been away for too long, or the client is closed.
            TriackError: why the process that was found cannot be used.
        """
        while self.state is not LineState.OPEN:
            if not (patient and self.state is LineState.AWAY):
                self.check()
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                raise WaitTimeout(f"{self._whose} went away, and did not come back in time") from None
        assert self.connection is not None
        return self.connection

    async def is_back(self) -> bool:
        """Wait for a connection, however long it takes; False if there will be none. For handlers."""
        try:
            await self.opened(patient=True)
        except TriackError:
            return False
        return True
