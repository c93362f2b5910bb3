"""The durable store: one SQLite file, one connection, used from one thread.

Promise: when ``apply`` returns, the whole commit is on disk (WAL, ``synchronous=FULL``); when it raises, nothing of
it will ever be seen, and the store is finished: after a failed write or sync no further commit is taken, as what the
disk holds is then unknown. ``locking_mode=EXCLUSIVE`` keeps every other process out for as long as the store is open.

One row per packet, never per message; every row with a body carries a checksum over its key and body. SQLite comes with
``apsw``: the one in older Pythons has a WAL bug that version 3.51.3 mended.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

import apsw

from triack.errors import StoreDamaged, StoreError, StoreFailed, StoreInUse
from triack.queues.commit import Commit, LaneRow, MessageIndex, OutgoingIndex, PositionRow, Read, StoreContent
from triack.queues.packing import HEAD_BYTES

__all__ = ["STORE_FILE", "Store"]

STORE_FILE = "store.db"
SCHEMA_VERSION = 1
PAGE_BYTES = 16_384
CHECKPOINT_PAGES = 2_000
JOURNAL_LIMIT_BYTES = 64 * 1024 * 1024

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE lanes (lane INTEGER PRIMARY KEY, address TEXT, queue TEXT, delivery INTEGER, sequence INTEGER,
next_number INTEGER); CREATE TABLE outgoing (key INTEGER PRIMARY KEY, completes INTEGER, tickets INTEGER, reach_by_ms
INTEGER, checksum INTEGER, body BLOB); CREATE TABLE queues (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE messages (key INTEGER PRIMARY KEY, origin BLOB, lane INTEGER, sequence INTEGER, number INTEGER,
                       checksum INTEGER, body BLOB);
CREATE TABLE progress (key INTEGER PRIMARY KEY, progress BLOB);
CREATE TABLE positions (origin BLOB, lane INTEGER, delivery INTEGER, queue TEXT, sequence INTEGER, number INTEGER,
filter BLOB,
                        PRIMARY KEY (origin, lane)) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
"""

_BODY_QUERIES = {
    "outgoing": "SELECT checksum, body FROM outgoing WHERE key = ?",
    "messages": "SELECT checksum, body FROM messages WHERE key = ?",
}


class Store:
    """The open store of one node.

    Args:
        folder: the data directory; made, readable to its owner alone, when it does not exist. None keeps all in memory.

    Raises:
        StoreInUse: another process has it open.
        StoreDamaged: the file is no Triack store, or SQLite finds it corrupt.
        StoreError: it cannot be opened; the message names the path and the cause.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = ":memory:" if folder is None else str(folder / STORE_FILE)
        self.in_memory = folder is None
        self._failure: StoreFailed | None = None
        if folder is not None:
            _make_folder(folder)
        with self._opening():
            self._db = apsw.Connection(self.path)
            self._db.set_busy_timeout(0)
            self._configure()

    def _configure(self) -> None:
        db = self._db
        db.pragma("locking_mode", "EXCLUSIVE")
        db.pragma("page_size", PAGE_BYTES)
        db.pragma("journal_mode", "WAL")
        db.pragma("synchronous", "FULL")
        db.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        db.pragma("journal_size_limit", JOURNAL_LIMIT_BYTES)
        version = db.pragma("user_version")
        with self._transaction():
            if version == 0:
                if db.execute("SELECT count(*) FROM sqlite_schema").get:
                    raise StoreDamaged(f"open store {self.path}: a database, but not a Triack store")
                db.execute(_SCHEMA)
                db.pragma("user_version", SCHEMA_VERSION)
            elif version != SCHEMA_VERSION:
                raise StoreDamaged(
                    f"open store {self.path}: store version {version}, this Triack reads {SCHEMA_VERSION}"
                )

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as cause:
            raise StoreInUse(f"open store {self.path}: in use by another process") from cause
        except (apsw.NotADBError, apsw.CorruptError) as cause:
            raise StoreDamaged(f"open store {self.path}: {cause}") from cause
        except apsw.Error as cause:
            raise StoreError(f"open store {self.path}: {cause}") from cause

    # ---- starting

    def load(self, new_node_id: bytes) -> StoreContent:
        """Begin an incarnation and read everything but the bodies.

        Args:
            new_node_id: 16 random bytes, the node's id if the store has none yet.

        Raises:
            StoreDamaged: SQLite finds the file corrupt.
            StoreFailed: the new incarnation cannot be written.
        """
        with self._writing("begin an incarnation"), self._transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('node_id', ?), ('incarnation', 0)", (new_node_id,))
            self._db.execute("UPDATE meta SET value = value + 1 WHERE key = 'incarnation'")
        with self._opening():
            return self._load()

    def _load(self) -> StoreContent:
        query = self._db.execute
        meta = dict(query("SELECT key, value FROM meta"))
        content = StoreContent(meta["node_id"], meta["incarnation"])
        content.lanes = [LaneRow(*row) for row in query("SELECT * FROM lanes ORDER BY lane")]
        content.outgoing = [
            OutgoingIndex(*row)
            for row in query("SELECT key, completes, tickets, reach_by_ms, length(body) FROM outgoing ORDER BY key")
        ]
        content.queues = list(query("SELECT id, name FROM queues ORDER BY id"))
        content.messages = [
            MessageIndex(*row)
            for row in query(
                "SELECT key, origin, lane, sequence, number, length(body), substr(body, 1, ?), progress "
                "FROM messages LEFT JOIN progress USING (key) ORDER BY key",
                (HEAD_BYTES,),
            )
        ]
        content.positions = [PositionRow(*row) for row in query("SELECT * FROM positions")]
        content.state = dict(query("SELECT key, value FROM state"))
        return content

    # ---- working

    def apply(self, commit: Commit) -> None:
        """Make a commit durable. Raises StoreFailed, then and on every later call."""
        with self._writing("commit"), self._transaction():
            self._apply(commit)

    def _apply(self, commit: Commit) -> None:
        run = self._db.executemany
        if commit.queues:
            run("INSERT INTO queues VALUES (?, ?)", commit.queues)
        if commit.lanes:
            run("INSERT OR REPLACE INTO lanes VALUES (?, ?, ?, ?, ?, ?)", commit.lanes.values())
        if commit.outgoing:
            rows = (
                (key, completes, tickets, reach_by_ms, crc32(body, key & 0xFFFFFFFF), body)
                for key, completes, tickets, reach_by_ms, body in commit.outgoing
            )
            run("INSERT INTO outgoing VALUES (?, ?, ?, ?, ?, ?)", rows)
        if commit.messages:
            arrived = (
                (key, origin, lane, sequence, number, crc32(body, key & 0xFFFFFFFF), body)
                for key, origin, lane, sequence, number, body in commit.messages
            )
            run("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", arrived)
        if commit.positions:
            run("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?, ?)", commit.positions.values())
        if commit.progress:
            run("INSERT OR REPLACE INTO progress VALUES (?, ?)", commit.progress.items())
        if commit.outgoing_deletes:
            run("DELETE FROM outgoing WHERE key BETWEEN ? AND ?", commit.outgoing_deletes)
        if commit.message_deletes:
            run("DELETE FROM messages WHERE key BETWEEN ? AND ?", commit.message_deletes)
            run("DELETE FROM progress WHERE key BETWEEN ? AND ?", commit.message_deletes)
        for key, value in commit.state.items():
            if value is None:
                self._db.execute("DELETE FROM state WHERE key = ?", (key,))
            else:
                self._db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))

    def read(self, read: Read) -> None:
        """Fetch bodies into ``read.bodies``; a row that is gone is left out.

        Raises:
            StoreDamaged: a body does not have the checksum it was written with.
            StoreFailed: the disk cannot be read.
        """
        with self._writing("read"):
            for key in read.keys:
                row = self._db.execute(_BODY_QUERIES[read.table], (key,)).fetchone()
                if row is None:
                    continue
                checksum, body = row
                if crc32(body, key & 0xFFFFFFFF) != checksum:
                    raise StoreDamaged(f"read store {self.path}: row {key} of {read.table} has a wrong checksum")
                read.bodies[key] = body

    def close(self) -> None:
        """Close the file. Nothing that was committed depends on it."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # SQLite rolls back by itself on a full disk; apsw's own context manager would then report the second rollback.
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(apsw.Error):
                    self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _writing(self, operation: str) -> Iterator[None]:
        if self._failure is not None:
            raise StoreFailed(str(self._failure))
        try:
            yield
        except (apsw.Error, OverflowError, TypeError, ValueError) as cause:
            self._failure = StoreFailed(f"{operation} store {self.path}: {_explain(cause)}")
            raise self._failure from cause


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as cause:
        raise StoreError(f"make data directory {folder}: {cause.strerror}") from cause
    if not os.access(folder, os.W_OK):
        raise StoreError(f"open data directory {folder}: not writable")


def _explain(cause: Exception) -> str:
    if isinstance(cause, apsw.FullError):
        return "the disk is full"
    if isinstance(cause, apsw.CorruptError):
        return f"the file is damaged: {cause}"
    return f"{type(cause).__name__}: {cause}"
