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
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from inspect import isawaitable
from itertools import groupby
from typing import Any, TypeVar

from triack.base.checks import check_between
from triack.base.errors import (
    AddressError,
    NodeClosed,
    NoRoom,
    NotLoopback,
    QueueFull,
    QueueNotFound,
    StateChanged,
    StoreFailed,
    TooManyKeys,
    TriackError,
    UsageError,
)
from triack.node.client.client import Client
from triack.node.client.client_transaction import ClientTransaction
from triack.node.files import operator_log
from triack.node.handles.transaction import Transaction
from triack.node.node import Node
from triack.outbox.database import OUTBOX, as_table
from triack.outbox.errors import OutboxTaken
from triack.outbox.rows import LIVES, Row, Rows

__all__ = ["Pump"]

T = TypeVar("T")

POLL_S = 0.1
"""A message waits so long at most for a pump that nobody wakes; ten looks a second cost a database next to nothing."""
ROOM_S = 0.5
"""The longest wait for room at one destination, while the others wait, too."""
BACK_OFF_S = 0.1, 10.0
"""The first and the longest pause after a failure; each is twice the one before."""
ID_BYTES = 16
"""An id as it is remembered."""
_HOLDS = (AddressError, QueueNotFound, NotLoopback, QueueFull, TooManyKeys, NoRoom, TimeoutError)
"""What may be over later, for all rows of a destination; any other UsageError is the fault of one row."""


class _Pause:
    """How long to wait after one more failure."""

    def __init__(self) -> None:
        self._next_s = BACK_OFF_S[0]

    def take(self) -> float:
        now_s, self._next_s = self._next_s, min(2 * self._next_s, BACK_OFF_S[1])
        return now_s


class _Batch:
    """What becomes of the rows of one transaction.

    Attributes:
        tx: sends them.
        sent: ids.
        refused: ids of rows that can never be sent, and why.
        waiting: destinations for which no more of them is sent now.
    """

    def __init__(self, tx: Transaction | ClientTransaction) -> None:
        self.tx = tx
        self.sent: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.waiting: set[str] = set()


class Pump:
    """Sends what is in an outbox, in order, each row once. ``run`` works until it is cancelled.

    Any number of pumps of one node may run: beside it, in clients, in several processes. One of them sends at a time,
    and the others go on when it dies.

    Args:
        node: the node that sends, or a client of it. It needs a data directory: a node in memory would lose what was
            deleted from the outbox.
        connect: gives a connection as PEP 249 has it, or SQLAlchemy's; called in the pump's own thread, at the start
            and after every failure. The database must have on its disk what it has committed (PostgreSQL:
            ``synchronous_commit``, SQLite: ``synchronous=FULL``), or a loss of power there lets messages be sent twice.
        table: the outbox.
        poll_s: seconds between two looks at an outbox that was empty; see ``wake``.

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
        self._thread: ThreadPoolExecutor | None = None
        self._connection: Any = None
        # Why a destination is held, until when, and the pause that comes after.
        self._held: dict[str, tuple[float, _Pause]] = {}

    def wake(self) -> None:
        """Look at once: something was enqueued and committed. For the pump's own event loop."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled.

        Raises:
            OutboxTaken: another node sends what is in this outbox.
            NodeClosed, StoreFailed: the node has ended, or was not started.
            UsageError: ``connect`` gives no connection; or this pump runs already.
        """
        if self._thread is not None:
            raise UsageError(f"run the pump of table {self._table}: it runs already")
        self._thread = ThreadPoolExecutor(1, "outbox")
        pause = _Pause()
        try:
            while True:
                try:
                    await self._work()
                except (OutboxTaken, NodeClosed, StoreFailed, UsageError):
                    raise
                except StateChanged:
                    pause = _Pause()
                    continue  # another pump was faster: begin with what it has left
                except Exception as error:  # noqa: BLE001 - each driver has exceptions of its own
                    self._tell_away(error)
                    await self._in_thread(self._disconnect)
                    await asyncio.sleep(pause.take())
                else:
                    pause = _Pause()
        finally:
            self._thread.submit(self._disconnect)
            self._thread.shutdown(wait=False)
            self._thread = None

    async def _work(self) -> None:
        """Send until something fails."""
        node_id = self._node.node_id
        name = "outbox:" + await self._in_thread(lambda: self._rows(node_id).claim())
        remembered = await _settled(self._node.recall(name))
        # Another pump may have remembered it just now: rows may be deleted when their messages are on the disk.
        await self._node.flush()
        done, refused = _ids(remembered), list[tuple[str, str]]()
        while True:
            sent, marked, held = done, refused, self._held_now()
            rows = await self._in_thread(lambda: self._rows(node_id).step(sent, marked, held))  # noqa: B023 - awaited here
            self._tell_back()
            done, refused = [], []
            if not rows:
                await self._wait()
                continue
            done, refused = await self._send(rows, name, remembered)
            if done:
                remembered = b"".join(map(bytes.fromhex, done))
                self.sent += len(done)

    async def _wait(self) -> None:
        """Wait until there may be new rows."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_s):
                await self._wake.wait()
        self._wake.clear()

    # ---- the database, in the pump's thread

    async def _in_thread(self, work: Callable[[], T]) -> T:
        assert self._thread is not None, "it runs"
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _rows(self, node_id: str) -> Rows:
        if self._connection is None:
            self._connection = self._connect()
        return Rows(self._connection, self._table, node_id)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception as error:  # noqa: BLE001 - each driver has its own for a connection that is broken
                operator_log.debug(f"close a connection of outbox {self._table}: {error}", table=self._table)

    # ---- Triack

    async def _send(
        self, rows: list[Row], name: str, remembered: bytes | None
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Send rows and remember their ids. Returns these, and those that can never be sent, each with its reason."""
        async with self._node.transaction() as tx:
            batch = _Batch(tx)
            for _, some in groupby(rows, lambda row: (row.destination, row.properties)):
                group = list(some)
                if len(group) == 1 or not group[0].is_plain or not await self._send_group(batch, group):
                    for row in group:
                        await self._send_row(batch, row)
            if batch.sent:
                tx.expect(name, remembered)
                tx.remember(name, b"".join(map(bytes.fromhex, batch.sent)))
                await tx.commit()
            else:
                await tx.rollback(failed=False)
        return batch.sent, batch.refused

    async def _send_group(self, batch: "_Batch", group: list[Row]) -> bool:
        """Whether rows of equal destinations and properties were sent as a list; if not, each of them is tried."""
        destination = group[0].destination
        if destination in batch.waiting:
            return False
        try:
            async with asyncio.timeout(ROOM_S):
                await batch.tx.send_many(destination, [row.body for row in group], **group[0].properties_at(0))
        except (UsageError, *_HOLDS):
            return False
        batch.sent += [row.id for row in group]
        self._release(destination)
        return True

    async def _send_row(self, batch: "_Batch", row: Row) -> None:
        if row.destination in batch.waiting:
            return
        try:
            properties = row.properties_at(time.time_ns() // 1_000_000)
            over = next((name for name in LIVES if properties.get(name, 1) <= 0), None)
            if over is not None:
                raise UsageError(f"its {over} was over before it was sent")  # noqa: TRY301 - as any other reason
            async with asyncio.timeout(ROOM_S):
                await batch.tx.send(row.destination, row.body, **properties)
        except _HOLDS as error:
            batch.waiting.add(row.destination)  # later ones must not overtake it
            self._hold(row.destination, str(error) or f"it had no room for {ROOM_S} s")
        except UsageError as error:
            self._refuse(batch, row, str(error))
        else:
            batch.sent.append(row.id)
            self._release(row.destination)

    # ---- what waits, and why

    def _refuse(self, batch: "_Batch", row: Row, why: str) -> None:
        batch.refused.append((row.id, why))
        self.refused += 1
        operator_log.warning(
            f"outbox {self._table}: row {row.id} for {row.destination} is set aside, as it cannot be sent: {why}",
            table=self._table,
            row=row.id,
        )

    def _held_now(self) -> list[str]:
        """The destinations that are not tried again yet."""
        now_s = asyncio.get_running_loop().time()
        return [destination for destination, (until_s, _) in self._held.items() if until_s > now_s]

    def _hold(self, destination: str, why: str) -> None:
        _, pause = self._held.get(destination, (0.0, _Pause()))
        self._held[destination] = asyncio.get_running_loop().time() + pause.take(), pause
        if self.waits_for.get(destination) != why:
            self.waits_for[destination] = why
            operator_log.warning(
                f"outbox {self._table}: messages for {destination} wait in it: {why}", table=self._table, to=destination
            )

    def _release(self, destination: str) -> None:
        if self._held.pop(destination, None) is not None:
            del self.waits_for[destination]
            operator_log.info(f"outbox {self._table}: messages for {destination} are sent again", table=self._table)

    def _tell_away(self, error: Exception) -> None:
        what = "the node did not take" if isinstance(error, TriackError) else "cannot read"
        why = f"{what} messages of outbox {self._table}: {type(error).__name__}: {error}".strip()
        if self.waits_for.get("") != why:
            self.waits_for[""] = why
            operator_log.warning(f"{why}; the pump tries again", table=self._table)

    def _tell_back(self) -> None:
        if self.waits_for.pop("", None) is not None:
            operator_log.info(f"outbox {self._table} is read again", table=self._table)


def _ids(remembered: bytes | None) -> list[str]:
    return [remembered[at : at + ID_BYTES].hex() for at in range(0, len(remembered), ID_BYTES)] if remembered else []


async def _settled(given: Awaitable[T] | T) -> T:
    """The result of a verb, on a node or over a client."""
    return await given if isawaitable(given) else given
