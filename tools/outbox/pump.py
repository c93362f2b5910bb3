"""The pump: it sends what is in an outbox, each row once, however often it is killed and wherever.

One transaction of Triack sends a batch of rows and remembers their ids. Only when it is on the disk, a transaction of
the database deletes these rows. The next batch is sent only after that deletion is on the disk, too, and only if the
remembered ids are still the ones that were deleted.

    killed before Triack's commit          the rows are in the outbox, and are sent later
    killed between the two commits         the ids are remembered: a pump that begins deletes their rows first
    two pumps read the same rows           the second commit finds other ids than it expects, and does nothing
    the answer of a commit is lost         as if killed: what is remembered says whether it happened

So rows leave once as long as one node sends them, which the table of the owner ensures.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from heapq import nsmallest
from inspect import isawaitable
from itertools import groupby
from typing import Any, TypeVar

from triack.base.checks import check_between
from triack.base.errors import (
    AddressError,
    ConnectionLost,
    NodeClosed,
    NotLoopback,
    QueueNotFound,
    StateChanged,
    StoreError,
    StoreFailed,
    TriackError,
    UsageError,
)
from triack.base.units import MS
from triack.node.client.client import Client
from triack.node.client.client_transaction import ClientTransaction
from triack.node.files import operator_log
from triack.node.handles.transaction import Transaction
from triack.node.node import Node
from triack.node.shell.platform import PLATFORM
from triack.outbox.database import OUTBOX, as_table
from triack.outbox.database_thread import DatabaseThread
from triack.outbox.errors import OutboxTaken
from triack.outbox.rows import LIVES, Row, Rows

T = TypeVar("T")

POLL_S = 0.1
"""A message waits this long at most without ``wake``; ten reads a second cost a database next to nothing."""
BACK_OFF_S = 0.1, 10.0
"""The first and the longest pause after a failure; each is twice the one before."""
HELD_BACK_OFF_S = 0.1, 2.0
"""The same for a destination without room. To try one costs a row that is read and one check of its queue."""
TRIED_MAX = 50
"""Destinations without room that are tried again between two batches: together they last as long as a small batch."""
HELD_MAX = 10_000
"""Destinations without room that are known at a time: some megabytes, and as many values as databases accept in one
statement. Of further ones the oldest are forgotten, and tried like any other."""
LATE_S = 5.0
"""A database that works answers in far less, and an operator does not look for a cause before that."""
LOST_S = 25.0
"""How much longer a database may need before the pump tries another connection: a failover to another server lasts ten
to twenty seconds. It is twice as long with each connection that was given up and still waits."""
STUCK_MAX = 8
"""Connections that were given up and still wait, each in a thread: that many within two hours. Then one must end."""
END_S = 1.0
"""How long the end of a pump waits for its database, so that the connection is closed in order."""
ID_BYTES = 16
_ENDS = (OutboxTaken, NodeClosed, StoreFailed, UsageError)
_OF_NODE = (NodeClosed, StoreError, ConnectionLost)
"""What keeps a node from sending anything. Any other error of a message is only for its destination."""
_HOLDS = (AddressError, QueueNotFound, NotLoopback)
"""The usage errors that may end, for all rows of a destination; any other is the fault of one row."""


class _Pause:
    """How long to wait after one more failure."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._next_s = first_s
        self._longest_s = longest_s

    def take(self) -> float:
        now_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return now_s


class _Batch:
    """What happens to the rows of one transaction.

    Attributes:
        tx: sends them.
        sent: ids.
        refused: ids of rows that can never be sent, and why.
        waiting: destinations to which no more of them are sent now.
    """

    def __init__(self, tx: Transaction | ClientTransaction) -> None:
        self.tx = tx
        self.sent: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.waiting: set[str] = set()


class Pump:
    """Sends what is in an outbox, in order, each row once. ``run`` works until it is cancelled.

    Any number of pumps of one node may run: beside it, in clients, in several processes. One of them sends at a time,
    and the others continue when it dies.

    Args:
        node: the node that sends, or a client of it. It needs a data directory: a node in memory would lose what was
            deleted from the outbox.
        connect: gives a connection as PEP 249 has it, or SQLAlchemy's; called in a thread of the pump, at the start and
            after every failure. The database must have on its disk what it has committed (PostgreSQL:
            ``synchronous_commit``, SQLite: ``synchronous=FULL``), or a loss of power there lets messages be sent twice.
        table: the outbox.
        poll_s: seconds between two reads of an outbox that was empty; see ``wake``.

    Attributes:
        sent: the number of rows sent by this pump.
        refused: the number of rows set aside by it.
        waits_for: by destination why its rows wait; under "" why the outbox cannot be read.
    """

    def __init__(
        self, node: Node | Client, connect: Callable[[], Any], *, table: str = OUTBOX, poll_s: float = POLL_S
    ) -> None:
        check_between("Pump: poll_s", poll_s, 0.001, 3_600)
        self.sent = 0
        self.refused = 0
        self.waits_for: dict[str, str] = {}
        self._node = node
        self._connect = connect
        self._table = as_table(table)
        self._poll_s = poll_s
        self._wake = asyncio.Event()
        self._database: DatabaseThread | None = None
        # Those before it that have not ended yet.
        self._stuck: list[DatabaseThread] = []
        self._back_off = _Pause(*BACK_OFF_S)
        self._runs = False
        # When each held destination is tried again, and the next pause. The newest are the last.
        self._held: dict[str, tuple[float, _Pause]] = {}

    def wake(self) -> None:
        """Read the outbox now: something was enqueued and committed. For the pump's own event loop."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled. A database that does not answer delays the end by a second.

        Raises:
            OutboxTaken: another node sends what is in this outbox.
            NodeClosed, StoreFailed: the node has ended, or was not started.
            UsageError: ``connect`` gives no connection; or this pump runs already.
        """
        if self._runs:
            raise UsageError(f"run the pump of table {self._table}: it runs already")
        self._runs = True
        try:
            while True:
                try:
                    await self._work()
                except _ENDS:
                    raise
                except StateChanged:
                    continue  # another pump was faster: begin with what it has left
                except Exception as error:  # noqa: BLE001 - each driver has other exceptions
                    await self._recover(error)
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                    await self._recover(error)  # code of others was cancelled, and this task was not
        finally:
            self._runs = False
            database, self._database = self._database, None
            if database is not None:
                database.end()
                await database.wait_end(END_S)

    async def _recover(self, error: BaseException) -> None:
        """Give up the connection, and wait until another one may be tried."""
        what = "the node did not take" if isinstance(error, TriackError) else "cannot read"
        self._tell_away(f"{what} messages of outbox {self._table}: {type(error).__name__}: {error}".strip())
        if self._database is not None:
            self._database.end()
            self._stuck.append(self._database)
            self._database = None
        while True:
            await asyncio.sleep(self._back_off.take())
            self._stuck = [it for it in self._stuck if not it.has_ended]
            if len(self._stuck) < STUCK_MAX:
                return

    async def _work(self) -> None:
        node_id = self._node.node_id
        name = "outbox:" + await self._in_thread(lambda it: self._rows(it, node_id).claim())
        remembered = await _settled(self._node.recall(name))
        # Another pump may have just remembered it: rows may be deleted when their messages are on the disk.
        await self._node.flush()
        done, refused = _ids(remembered), list[tuple[str, str]]()
        while True:
            sent, marked, held, tried = done, refused, list(self._held), self._due()
            rows = await self._in_thread(lambda it: self._rows(it, node_id).step(sent, marked, held, tried))  # noqa: B023 - awaited here
            self._tell_back()
            for destination in set(tried).difference(row.destination for row in rows):
                self._forget(destination)  # somebody else has sent or deleted its rows
            done, refused = [], []
            if not rows:
                await self._wait()
                continue
            done, refused = await self._send(rows, name, remembered)
            if done:
                remembered = b"".join(map(bytes.fromhex, done))
                self.sent += len(done)

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_s):
                await self._wake.wait()
        self._wake.clear()

    async def _in_thread(self, work: Callable[[Any], T]) -> T:
        def tell_late() -> None:
            self._tell_away(f"cannot read messages of outbox {self._table}: no answer of the database for {LATE_S:g} s")

        if self._database is None:
            self._database = DatabaseThread(self._connect, f"outbox {self._table}")
        return await self._database.work(work, LATE_S, LOST_S * 2 ** len(self._stuck), tell_late)

    def _rows(self, connection: Any, node_id: str) -> Rows:
        return Rows(connection, self._table, node_id)

    # ---- Triack

    async def _send(
        self, rows: list[Row], name: str, remembered: bytes | None
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Send rows and remember their ids. Returns these, and those that can never be sent, each with its reason."""
        async with self._node.transaction() as tx:
            batch = _Batch(tx)
            for _, some in groupby(rows, lambda row: (row.destination, row.properties)):
                group = list(some)
                # If one of several can never be sent, each of them is tried.
                if len(group) == 1 or not group[0].is_plain or not await self._send_rows(batch, group):
                    for row in group:
                        await self._send_rows(batch, [row])
            if batch.sent:
                tx.expect(name, remembered)
                tx.remember(name, b"".join(map(bytes.fromhex, batch.sent)))
                await tx.commit()
            else:
                await tx.rollback(failed=False)
        return batch.sent, batch.refused

    async def _send_rows(self, batch: _Batch, rows: Sequence[Row]) -> bool:
        """Send rows of equal destinations and properties, if there is room for them now.

        Returns whether their outcome is known. It is not if one of several can never be sent.
        """
        first, destination = rows[0], rows[0].destination
        if destination in batch.waiting:
            return True
        try:
            properties = first.properties_at(PLATFORM.get().wall_ns() // MS)
            over = next((name for name in LIVES if properties.get(name, 1) <= 0), None)
            if over is not None:
                raise UsageError(f"its {over} was over before it was sent")
            if len(rows) > 1:
                await batch.tx.send_many(destination, [row.body for row in rows], timeout=0, **properties)
            else:
                await batch.tx.send(destination, first.body, timeout=0, **properties)
        except _OF_NODE:
            raise
        except TriackError as error:
            if isinstance(error, UsageError) and not isinstance(error, _HOLDS):
                if len(rows) > 1:
                    return False
                self._refuse(batch, first, str(error))
            else:
                batch.waiting.add(destination)  # later ones must not overtake it
                self._hold(destination, str(error))
        else:
            batch.sent += [row.id for row in rows]
            self._release(destination)
        return True

    # ---- what waits, and why

    def _refuse(self, batch: "_Batch", row: Row, why: str) -> None:
        batch.refused.append((row.id, why))
        self.refused += 1
        operator_log.warning(
            f"outbox {self._table}: row {row.id} for {row.destination} is set aside, as it cannot be sent: {why}",
            table=self._table,
            row=row.id,
        )

    def _due(self) -> list[str]:
        now_s = asyncio.get_running_loop().time()
        due = ((until_s, destination) for destination, (until_s, _) in self._held.items() if until_s <= now_s)
        return [destination for _, destination in nsmallest(TRIED_MAX, due)]

    def _hold(self, destination: str, why: str) -> None:
        _, pause = self._held.pop(destination, (0.0, _Pause(*HELD_BACK_OFF_S)))
        while len(self._held) >= HELD_MAX:
            self._forget(next(iter(self._held)))
        self._held[destination] = asyncio.get_running_loop().time() + pause.take(), pause
        if self.waits_for.get(destination) != why:
            self.waits_for[destination] = why
            operator_log.warning(
                f"outbox {self._table}: messages for {destination} wait in it: {why}", table=self._table, to=destination
            )

    def _forget(self, destination: str) -> bool:
        """Stop holding a destination. Returns whether it was held."""
        self.waits_for.pop(destination, None)
        return self._held.pop(destination, None) is not None

    def _release(self, destination: str) -> None:
        if self._forget(destination):
            operator_log.info(f"outbox {self._table}: messages for {destination} are sent again", table=self._table)

    def _tell_away(self, why: str) -> None:
        if self.waits_for.get("") != why:
            self.waits_for[""] = why
            operator_log.warning(f"{why}; the pump tries again", table=self._table)

    def _tell_back(self) -> None:
        self._back_off = _Pause(*BACK_OFF_S)
        if self.waits_for.pop("", None) is not None:
            operator_log.info(f"outbox {self._table} is read again", table=self._table)


def _ids(remembered: bytes | None) -> list[str]:
    return [remembered[at : at + ID_BYTES].hex() for at in range(0, len(remembered), ID_BYTES)] if remembered else []


async def _settled(given: Awaitable[T] | T) -> T:
    """The result of a verb, on a node or over a client."""
    return await given if isawaitable(given) else given
