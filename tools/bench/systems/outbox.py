"""An expert's own code for exactly once, in order and synced: a table at each end, and TCP between them.

The sender commits a batch, then sends it; the receiver commits it with its position, then acknowledges; the sender
deletes with its next commit. After a break the receiver sends its position, and the sender continues from there.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from triack.tools.bench.application import Facts, Sink
from triack.tools.bench.process import is_memory
from triack.tools.bench.systems.framing import POSITION, pack_batch, read_batch
from triack.tools.bench.systems.tcp import TcpInlet, TcpOutlet, close

BATCH = 1_000
_SYNCED = 2


class _Table:
    """One end's table, in another thread."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._on_disk = not is_memory(file)
        self._thread = ThreadPoolExecutor(1, "outbox")
        self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self.journal = self._db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS messages (number INTEGER PRIMARY KEY, body BLOB)")
        self._db.execute("CREATE TABLE IF NOT EXISTS position (one INTEGER PRIMARY KEY, number INTEGER)")
        found = self._db.execute("SELECT number FROM position").fetchone()
        self.position = found[0] if found else 0
        self.commits = 0

    @property
    def is_synced(self) -> bool:
        """Whether a commit is on the disk when it returns."""
        told = self._db.execute("PRAGMA synchronous").fetchone()[0]
        return bool(told == _SYNCED and self.journal == "wal" and self._on_disk)

    def _commit(self, first: int, bodies: Sequence[bytes], done: int) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO messages VALUES (?, ?)", enumerate(bodies, first))
        db.execute("DELETE FROM messages WHERE number <= ?", (done,))
        db.execute("INSERT OR REPLACE INTO position VALUES (0, ?)", (first + len(bodies) - 1,))
        db.execute("COMMIT")
        self.position = first + len(bodies) - 1
        self.commits += 1

    async def commit(self, first: int, bodies: Sequence[bytes], done: int) -> None:
        """Keep messages, and forget those up to ``done``; durable when it returns."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, first, bodies, done)

    def above(self, position: int) -> list[bytes]:
        """The messages beyond a position, in order."""
        rows = self._db.execute("SELECT body FROM messages WHERE number > ? ORDER BY number", (position,))
        return [body for (body,) in rows]

    def close(self) -> None:
        self._thread.shutdown()
        self._db.close()

    def facts(self) -> Facts:
        return {"commits": self.commits, "synced": self.is_synced}


class OutboxOutlet(TcpOutlet):
    """The sending end."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.batch = BATCH
        self._table = _Table(Path(options["data"]) / "outbox.db")
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._until(0)
        self._sent = self._table.position
        if left := self._table.above(self._acked):
            self._writer.write(pack_batch(self._acked + 1, left))
        return self

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        self._table.close()

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Commit a batch, then send it."""
        if self._sent - self._acked >= self._work.in_flight:
            await self._until(self._sent - self._work.in_flight + 1)
        first = self._sent + 1
        await self._table.commit(first, bodies, self._acked)
        self._sent += len(bodies)
        self._writer.write(pack_batch(first, bodies))
        await self._writer.drain()

    def facts(self) -> Facts:
        """Its commits."""
        return self._table.facts()


class OutboxInlet(TcpInlet):
    """The receiving end."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self._table = _Table(Path(options["data"]) / "inbox.db")

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        self._table.close()

    async def run(self, sink: Sink) -> None:
        """Serve senders one after the other, each from where the last one ended."""
        table, handled = self._table, self._table.position
        while True:
            reader, writer = await self._connections.get()
            try:
                writer.write(POSITION.pack(table.position))
                while True:
                    first, bodies = await read_batch(reader)
                    fresh = bodies[table.position + 1 - first :]
                    await table.commit(table.position + 1, fresh, handled)
                    writer.write(POSITION.pack(table.position))
                    sink.take(fresh)
                    handled = table.position
            except (asyncio.IncompleteReadError, ConnectionError):
                continue  # the sender returns
            finally:
                await close(writer)

    def facts(self) -> Facts:
        """Its commits."""
        return self._table.facts()
