"""The durable store: one SQLite file, one connection, used from one thread at a time.

Promise: when ``apply`` returns, the whole commit is on the disk (WAL, ``synchronous=FULL``) and stays there. When it
raises, either the whole commit is there or none of it, which only the next start can tell, and the store is finished:
after a failed write or sync it accepts no further commit. If the disk keeps what it says it has synced, this holds
through crashes and losses of power at any point, also while a store is being opened. A commit that is not ``synced``
survives crashes of the process; a loss of power takes it unless a synced one has followed.

One process at a time has a store (``owner``). Before each commit, and again before it counts as durable, the store
looks at the directory: if someone deleted, renamed or replaced its files (``place``), or another process has taken the
store, this one is finished as well.

The store opens an existing file but never fills one, even an empty one; it makes a new store under another name.

A read returns what was written, or raises StoreDamaged: each row has a checksum, each commit counts the rows
(``rows``), and the store checks the log of a process that ended badly and writes it again before it builds on it
(``wal``). One case looks like a commit that a crash interrupted: damage, while the log is in use, to its last commit.

Neighbouring packets of one commit are one row (``runs``), and rows that change with nearly every commit share one row
(``latest``): a commit of one packet writes three pages. SQLite comes with ``apsw``: older Pythons have one with a WAL
bug that version 3.51.3 fixed.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from triack.base.commit import (
    Commit,
    OutgoingStreamRow,
    PeerRow,
    PositionRow,
    Read,
    StoreContent,
    SubscriptionRow,
    TransitStreamRow,
)
from triack.base.errors import StoreDamaged, StoreError, StoreFailed, StoreInUse, StoreLost, StoreMoved
from triack.base.printable import counted
from triack.store.ballast import BALLAST_FILE, Ballast, disk_bytes, free_bytes
from triack.store.brief import is_brief
from triack.store.contexts import Transaction, Writing
from triack.store.folder import (
    NO_INODES,
    STORE_FILE,
    check_private,
    explain,
    lacks_inodes,
    make_folder,
    open_private,
    sync_folder,
)
from triack.store.latest import LATEST, LATEST_BYTES, LatestRows
from triack.store.lease_file import LEASE_FILE, LeaseFile, LeaseWords
from triack.store.meta import Meta
from triack.store.owner import OWNER_FILE, Owner
from triack.store.place import Place
from triack.store.rows import META, TABLES, UNREADABLE, Tallies
from triack.store.runs import (
    Reading,
    StoredRun,
    Unfolded,
    bits_in,
    every_bit,
    fold_messages,
    fold_outgoing,
    fold_transit,
    message_indices,
    outgoing_indices,
    transit_indices,
)
from triack.store.wal import WriteAheadLog, is_orphan, log_size_bytes, pages_in, read_page, sync_directory

SCHEMA_VERSION = 14
"""Stores of other versions are refused (docs/decisions/0002)."""
PAGE_BYTES = 8_192
"""With larger pages, small commits write too much to the log. Smaller ones cut bodies into chains: at 4,096, large
commits need half as much processor time again (docs/decisions/0064)."""
CHECKPOINT_PAGES = 4_096
"""Bring a log of this many pages, 32 MiB, into the database: seldom enough to write a page once for many commits, and
early enough to read and write the log again quickly after an unclean end."""
LOG_SPARE = 4
"""The log's file has room for a quarter more pages from the start: its last commit may be large, and on a full disk
the file cannot grow within a commit."""

HEADER_BYTES = 100
"""A shorter database has none of its pages (https://sqlite.org/fileformat.html, section 1.3)."""
_MAGIC, _VERSION_AT = b"SQLite format 3\0", 60
"""The first bytes of every database, and the place of its user version (same section)."""
BESIDE = ("-wal", "-journal", "-shm")
STORE_FILES = (OWNER_FILE, STORE_FILE, *(f"{STORE_FILE}{beside}" for beside in BESIDE), BALLAST_FILE, LEASE_FILE)
"""All names in a data directory that belong to its store; ``BESIDE`` are SQLite's suffixes."""
UNLOCKED = "unix-none"
"""SQLite's own file system without its locks: for a database that our lock keeps every other SQLite out of."""

BRIEF_PAGES = 64
"""More than a brief commit writes: none begins a checkpoint, which may take a hundred times as long."""


class Store:
    """The open store of one node.

    Args:
        folder: the data directory, made for its owner alone if it is missing. None keeps all in memory.
        vfs: the name of a file system of SQLite, in place of the system's; no directory is made then.
        page_bytes: of a new store: a power of two from 512 to 65,536.
        checkpoint_pages: of a new store; an existing one keeps its number, as its log never shrinks.
        free: how many more bytes the disk below the folder accepts; by default, what the system reports.
        size: how many it would accept if it were empty; by default, what the system reports.
        lease_words: where leased messages are noted; by default, a file in the folder.
        latest_bytes: the most that the row of ``latest`` may have.
        torn: whether the last commits may lack anything after a loss of power, as they need not have been synced. Then
            the store continues from the last whole one; otherwise that is damage.

    Raises:
        StoreInUse: another process has it open.
        StoreDamaged: the file is no Triack store, or was changed.
        StoreError: it cannot be opened; the message names the path and the cause.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        vfs: str | None = None,
        page_bytes: int = PAGE_BYTES,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        free: Callable[[Path], int] | None = None,
        size: Callable[[Path], int] | None = None,
        lease_words: LeaseWords | None = None,
        latest_bytes: int = LATEST_BYTES,
        torn: bool = False,
    ) -> None:
        self.path = ":memory:" if folder is None else str(folder / STORE_FILE)
        self.in_memory = folder is None
        self._vfs = vfs or ""
        self._checkpoint_pages = checkpoint_pages
        self._folder = folder
        self._free = free or (free_bytes if vfs is None else None)
        self._size = size or (disk_bytes if vfs is None else None)
        self._ballast = Ballast(folder if vfs is None else None, self._least_log_bytes(page_bytes))
        self._lease_words = lease_words or LeaseFile(folder if vfs is None else None)
        self._failure: StoreError | None = None
        self._meta = Meta()
        self._tallies = Tallies()
        self._latest = LatestRows(latest_bytes)
        self._latest_bytes = latest_bytes
        # The checksum of its row; None: there is no row. No other process writes it, so it need not be read again.
        self._latest_checksum: int | None = None
        self._log_pages = [0]
        self._may_be_torn = torn
        self._synced = True
        self._log_bytes = 0
        self._sound = True
        self._place = Place([])
        self._owner: Owner | None = None
        with ExitStack() as opened:
            if folder is not None and vfs is None:
                make_folder(folder)
                with self._opening():
                    self._owner = Owner(folder)
                opened.callback(self._owner.release)
                self._ballast.release()
                self._prepare(folder, self._owner, page_bytes)
            with self._opening():
                self._db = self._connect(self.path)
                opened.callback(self._disconnect)
                self._open(page_bytes)
            opened.pop_all()

    # ---- opening

    def _prepare(self, folder: Path, owner: Owner, page_bytes: int) -> None:
        """Check the files before SQLite opens them by their names; make the database if there is none."""
        database = folder / STORE_FILE
        for path in (database, *(folder / f"{STORE_FILE}{beside}" for beside in BESIDE)):
            check_private(path)
        with self._opening():
            size_bytes, log_bytes = map(_size_of, (database, folder / f"{STORE_FILE}-wal"))
            if size_bytes is None and not owner.node_id and not log_bytes:
                self._make(database, page_bytes)
            elif size_bytes is None or size_bytes < HEADER_BYTES:
                raise StoreDamaged(_what_is_lost(database, size_bytes, owner.node_id, log_bytes))
        owner.guard(database)
        with self._opening():
            owner.take(owner.node_id)

    def _make(self, database: Path, page_bytes: int) -> None:
        fresh = database.with_name(f"{STORE_FILE}.new")
        for path in (fresh, *(fresh.with_name(f"{fresh.name}{beside}") for beside in BESIDE)):
            path.unlink(missing_ok=True)  # of a process that was killed: no other has the directory
        made = open_private(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._db = self._connect(str(fresh))
        try:
            self._db.pragma("page_size", page_bytes)
            self._db.pragma("journal_mode", "WAL")
            self._create()
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._db.close()
            os.fsync(made)
        finally:
            self._disconnect()
            os.close(made)
        fresh.rename(database)
        sync_folder(database.parent)

    def _connect(self, path: str) -> apsw.Connection:
        if self._owner is None or not self._owner.guards_database:
            return apsw.Connection(path, vfs=self._vfs or None)

        def lock_first(db: apsw.Connection) -> None:
            with suppress(OSError):  # it is another one, without a file
                if db.open_vfs == UNLOCKED and Path(db.filename).samefile(path):
                    db.pragma("locking_mode", "EXCLUSIVE")

        # Hooks of the application for all connections may read, which without locks needs this mode.
        apsw.connection_hooks.insert(0, lock_first)
        try:
            return apsw.Connection(path, vfs=UNLOCKED)
        finally:
            apsw.connection_hooks.remove(lock_first)

    def _disconnect(self) -> None:
        with suppress(apsw.Error):
            self._db.close()

    def _open(self, page_bytes: int) -> None:
        db = self._db
        # Only an orderly end may change the log.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.set_busy_timeout(0)
        if not self.in_memory and is_orphan(self._vfs, self.path):
            raise StoreDamaged(f"open store {self.path}: the database is empty, but there is a log beside it")
        db.pragma("locking_mode", "EXCLUSIVE")
        db.pragma("page_size", page_bytes)
        db.pragma("synchronous", "FULL")
        db.pragma("cache_spill", 0)
        version = db.pragma("user_version")
        if version == 0 and (self._owner is not None or db.execute("SELECT count(*) FROM sqlite_schema").get):
            raise StoreDamaged(f"open store {self.path}: a database, but not a Triack store")
        if version not in (0, SCHEMA_VERSION):
            raise StoreDamaged(
                f"open store {self.path}: store version {version}, this Triack reads {SCHEMA_VERSION}; "
                "`triack upgrade --data` with its directory says what to do"
            )
        if not self.in_memory:
            self._open_log(new=version == 0)
        elif version == 0:
            self._create()

    def _open_log(self, *, new: bool) -> None:
        """Check the log that the last process left, then make it durable."""
        db = self._db
        db.pragma("journal_mode", "WAL")
        db.pragma("wal_autocheckpoint", 0)
        pages = self._log_pages

        def note_pages(_db: apsw.Connection, _name: str, count: int) -> int:
            pages[0] = count
            return apsw.SQLITE_OK

        db.set_wal_hook(note_pages)
        db.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - opens the log
        page_bytes = db.pragma("page_size")
        frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        with WriteAheadLog(self._vfs, f"{self.path}-wal", page_bytes) as log:
            if not self._may_be_torn:
                log.verify(frames, lambda page: read_page(self._vfs, self.path, page_bytes, page))
            if not new:
                self._check(log)
            if self._meta.log_bytes:
                self._checkpoint_pages = _checkpoint_pages(page_bytes, abs(self._meta.log_bytes))
            self._log_bytes = max(self._least_log_bytes(page_bytes), self._meta.log_bytes)
            self._ballast.size_bytes = self._log_bytes
            db.pragma("journal_size_limit", self._log_bytes)
            log.persist(frames, self._log_bytes)
        sync_directory(self._vfs, self.path)
        if not self._vfs:
            self._place = Place([self.path, f"{self.path}-wal"])
        if new:
            self._create()

    def _least_log_bytes(self, page_bytes: int) -> int:
        return log_size_bytes(page_bytes, self._checkpoint_pages + self._checkpoint_pages // LOG_SPARE)

    def _check(self, log: WriteAheadLog) -> None:
        fault = self._db.execute("PRAGMA quick_check(1)").get
        if fault != "ok":
            raise StoreDamaged(f"open store {self.path}: {fault}")
        created = {row[0] for row in self._db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
        if created != {table.create for table in (META, *TABLES.values())}:
            raise StoreDamaged(f"open store {self.path}: its tables are not those of a Triack store")
        found: list[list[Any]] = [list(row) for row in self._db.execute(META.load)]
        if len(found) != 1 or META.checksum(found[0][:-1]) != found[0][-1]:
            raise StoreDamaged(f"open store {self.path}: the row of meta is not what was written")
        _id, *values, tallies, _checksum = found[0]
        self._meta, self._tallies = Meta(*values), Tallies(tallies)
        if log.size_bytes < self._meta.log_bytes:
            raise StoreDamaged(
                f"open {log.path}: {log.size_bytes} bytes are left of at least {self._meta.log_bytes}; without them "
                "commits are lost"
            )

    def _create(self) -> None:
        with Transaction(self._db):
            for table in (META, *TABLES.values()):
                self._db.execute(table.create)
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._write_meta()

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as cause:
            raise StoreInUse(
                f"open store {self.path}: in use by another node: of another process, or of this one"
            ) from cause
        except (apsw.NotADBError, apsw.CorruptError, *UNREADABLE) as cause:
            raise StoreDamaged(f"open store {self.path}: {cause}") from cause
        except apsw.Error as cause:
            raise StoreError(f"open store {self.path}: {self._why(cause)}") from cause
        except OSError as cause:
            raise StoreError(f"open store {self.path}: {explain(cause, Path(self.path).parent)}") from cause

    def _why(self, cause: Exception) -> str:
        may_lack = self._folder is not None and isinstance(cause, apsw.CantOpenError | apsw.FullError | apsw.IOError)
        return NO_INODES if may_lack and lacks_inodes(Path(self.path).parent) else _explain(cause)

    # ---- starting

    def load(self, new_node_id: bytes, start: int, reading: Reading | None = None) -> StoreContent:
        """Begin an incarnation and read everything but the bodies.

        Args:
            new_node_id: 16 random bytes, the node's id if the store has none yet.
            start: the id of this start, a random number of 63 bits.
            reading: counts the rows, and can end the load.

        Raises:
            StoreDamaged: a row was changed, or rows are missing.
            StoreError: the disk cannot be read, or the reading was given up.
            StoreFailed: the new incarnation cannot be written.
        """
        try:
            with self._opening():
                content = self._load(reading or Reading())
        except StoreError:
            self._sound = False
            raise
        content.left, content.leases = self._lease_words.begin(self._meta.start, start)
        with self._writing("begin an incarnation"):
            self._check_place("begin an incarnation")
            with Transaction(self._db):
                meta = self._meta
                meta.node_id = meta.node_id or new_node_id
                meta.incarnation += 1
                meta.start = start
                meta.log_bytes = self._log_bytes
                meta.records = 0  # before its first commit nothing is known of this start's log
                self._put("starts", [(meta.incarnation, start, meta.serial)])
                self._write_meta()
            # From now on the database says that there is a log, so its loss is noticed.
            self._checkpoint()
            self._check_place("begin an incarnation")
        if self._owner is not None and self._owner.node_id != meta.node_id.hex():
            with self._opening():
                self._owner.take(meta.node_id.hex())
        self._ballast.lay()
        content.room_bytes, content.disk_bytes = self.room_bytes(), self.disk_bytes()
        return replace(content, node_id=meta.node_id, incarnation=meta.incarnation, start=start)

    def _load(self, reading: Reading) -> StoreContent:
        found = Tallies()

        def rows(name: str) -> Iterator[list[Any]]:
            table = TABLES[name]
            for *values, checksum in self._db.execute(table.load):
                reading.step()
                if table.checksum(values) != checksum:
                    raise StoreDamaged(f"load store {self.path}: row {values[0]!r} of {name} has a wrong checksum")
                found.change(name, 1, checksum)
                yield values

        for _, packed in rows("latest"):
            self._latest = LatestRows(self._latest_bytes, packed)
            self._latest_checksum = TABLES["latest"].checksum((1, packed))

        def newest(name: str) -> list[list[Any]]:
            return self._latest.over(name, list(rows(name)))

        meta = self._meta
        content = StoreContent(
            meta.node_id, meta.incarnation, serial=meta.serial, clock=meta.clock, records=meta.records
        )
        begun = [(start, serial) for _, start, serial in rows("starts")]
        ends = [serial for _, serial in begun[1:]] + [meta.serial]
        content.starts = {start: end for (start, _), end in zip(begun, ends, strict=False)}
        content.peers = {row[0]: PeerRow(*row) for row in newest("peers")}
        content.streams = [OutgoingStreamRow(*row) for row in newest("streams")]
        freed = {(name, key): int.from_bytes(packets) for name, key, packets in rows("freed")}
        outgoing = [(key, parts, freed.get(("outgoing", key), 0), head) for key, _, parts, *_, head in rows("outgoing")]
        content.outgoing = Unfolded(outgoing, outgoing_indices, reading)
        content.transit_streams = [TransitStreamRow(*row) for row in newest("transit_streams")]
        transit = [(key, parts, freed.get(("transit", key), 0), head) for key, _, parts, *_, head in rows("transit")]
        content.transit = Unfolded(transit, transit_indices, reading)
        content.queues = [(number, name) for number, name in rows("queues")]
        progress: dict[int, bytes] = dict(rows("progress"))
        messages = [(row[:-3], freed.get(("messages", row[0]), 0), progress) for row in rows("messages")]
        content.messages = Unfolded(messages, message_indices, reading)
        content.subscriptions = [SubscriptionRow(*row) for row in rows("subscriptions")]
        content.positions = [PositionRow(*row) for row in newest("positions")]
        content.state = dict(rows("state"))
        content.addresses = dict(rows("addresses"))
        if differing := found.differing(self._tallies):
            raise StoreDamaged(f"load store {self.path}: rows of {', '.join(differing)} are lost, or old ones are back")
        return content

    # ---- working

    def apply(self, commit: Commit) -> None:
        """Make a commit durable. One that is not ``synced`` survives only the death of the process.

        Raises:
            StoreFailed: the disk did not accept it. Every later call raises this too.
            StoreMoved: the files that were written are not those in the data directory any more.
            StoreLost: another process has the store now.
        """
        with self._writing("commit"):
            # Another process may have written since: a write here would spoil that.
            if self._owner is not None and not self._owner.is_sure():
                self._check_place("commit")
            if commit.synced is not self._synced:
                self._synced = commit.synced
                self._db.pragma("synchronous", "FULL" if commit.synced else "NORMAL")
            with Transaction(self._db):
                self._apply(commit)
                meta = self._meta
                if commit.serial:
                    meta.serial, meta.records = commit.serial, commit.records
                meta.clock = commit.clock or meta.clock
                if self._latest.changed:
                    self._write_latest()
                self._write_meta()
            self._check_place("commit")
            if self._log_pages[0] >= self._checkpoint_pages:
                self._checkpoint()

    @property
    def has_owner(self) -> bool:
        """Whether another process could take it."""
        return self._owner is not None

    def is_brief(self, commit: Commit) -> bool:
        """Whether ``apply`` has little to do besides the sync. Any thread may ask."""
        return is_brief(commit) and self._log_pages[0] + BRIEF_PAGES < self._checkpoint_pages

    def room_bytes(self) -> int | None:
        """How many more bytes can be stored; None if unknown, and in memory. Raises StoreFailed.

        That is the disk's free room, less what the store's files will need anyway, plus the database's free pages.
        """
        if self._folder is None or self._free is None:
            return None
        with self._writing("look at"):
            page_bytes, pages, unused = (
                self._db.pragma(name) for name in ("page_size", "page_count", "freelist_count")
            )
        try:
            left = self._free(self._folder) - self._ballast.missing_bytes - self._place.owed_bytes
            if not self._vfs:
                # New pages in the log move into the database in the end.
                left -= max(0, pages * page_bytes - os.stat(self.path).st_size)  # noqa: PTH116 - asked often
        except OSError:
            return None
        # Free pages are written through the log too, which needs room until it is brought in.
        return left + unused * page_bytes if left > 0 else left

    def disk_bytes(self) -> int | None:
        """How many bytes a disk with nothing but an empty store could store; None as in ``room_bytes``."""
        if self._folder is None or self._size is None:
            return None
        try:
            return self._size(self._folder) - (0 if self._vfs else self._ballast.size_bytes + self._log_bytes)
        except OSError:
            return None

    def check(self) -> None:
        """Check, as each commit does, that the files are in their place and still this process's.

        Raises:
            StoreMoved, StoreLost: they are not. Every later call raises this too.
        """
        with self._writing("look at"):
            self._check_place("look at")

    def _check_place(self, operation: str) -> None:
        fault = self._place.fault()
        if fault is not None:
            self._failure = StoreMoved(f"{operation} store {self.path}: {fault}; it was deleted, renamed or replaced")
            raise self._failure
        fault = self._owner.fault() if self._owner is not None else None
        if fault is not None:
            self._failure = StoreLost(f"{operation} store {self.path}: {fault}")
            raise self._failure

    def _apply(self, commit: Commit) -> None:
        self._delete_rows(commit)
        if commit.outgoing:
            self._put("outgoing", fold_outgoing(commit.outgoing))
        if commit.messages:
            self._put("messages", fold_messages(commit.messages))
        if commit.transit:
            self._put("transit", fold_transit(commit.transit))
        self._replace_rows(commit)
        if commit.outgoing_deletes:
            self._let_go("outgoing", commit.outgoing_deletes)
        if commit.transit_deletes:
            self._let_go("transit", commit.transit_deletes)
        if commit.message_deletes:
            self._let_go("messages", commit.message_deletes)
            if self._tallies.rows_of("progress"):  # most are read as a whole
                self._delete("progress", TABLES["progress"].delete_range, commit.message_deletes)

    def _delete_rows(self, commit: Commit) -> None:
        """Delete the rows whose keys the commit names, before others may take their keys."""
        for name, keys in (
            ("queues", commit.queue_deletes),
            ("streams", commit.stream_deletes),
            ("subscriptions", commit.subscription_deletes),
            ("transit_streams", commit.transit_stream_deletes),
        ):
            if keys:
                self._delete_keys(name, [(key,) for key in keys])
        if commit.position_deletes:
            self._delete_keys("positions", commit.position_deletes)
        if commit.state:
            self._delete_keys("state", [(key,) for key, value in commit.state.items() if value is None])

    def _replace_rows(self, commit: Commit) -> None:
        if commit.queues:
            self._put("queues", commit.queues)
        if commit.streams:
            self._replace("streams", [(*row[:3], int(row.delivery), *row[4:]) for row in commit.streams.values()])
        if commit.positions:
            self._replace("positions", [(*row[:2], int(row.delivery), *row[3:]) for row in commit.positions.values()])
        for name, rows in (
            ("peers", commit.peers),
            ("transit_streams", commit.transit_streams),
            ("subscriptions", commit.subscriptions),
        ):
            if rows:
                self._replace(name, rows.values())
        for name, pairs in (("progress", commit.progress), ("addresses", commit.addresses)):
            if pairs:
                self._replace(name, pairs.items())
        if commit.state:
            self._replace("state", [(key, value) for key, value in commit.state.items() if value is not None])

    def _put(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        table, execute = TABLES[name], self._db.execute
        count = checksums = 0
        # One by one, so that the bodies of a commit are in memory only once.
        for row in rows:
            whole = table.with_checksums(row)
            count += 1
            checksums += whole[table.checksum_at]
            execute(table.put, whole)
        self._tallies.change(name, count, checksums)

    def _replace(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        goes_along = name in LATEST
        for row in rows:
            if not (goes_along and self._latest.put(name, row)):
                self._write(name, row)

    def _write_latest(self) -> None:
        for name, row in self._latest.take_excess():
            self._write(name, row)
        table = TABLES["latest"]
        stored = table.with_checksums((1, self._latest.pack()))
        self._db.execute(table.put, stored)
        rows, before = (1, 0) if self._latest_checksum is None else (0, self._latest_checksum)
        self._tallies.change("latest", rows, stored[-1] - before)
        self._latest_checksum = stored[-1]

    def _write(self, name: str, row: Sequence[Any]) -> None:
        table = TABLES[name]
        stored = table.with_checksums(row)
        rows, checksums = 1, stored[-1]
        for (old,) in self._db.execute(table.find, stored[: table.keys]):
            rows, checksums = rows - 1, checksums - old
        self._db.execute(table.put, stored)
        self._tallies.change(name, rows, checksums)

    def _delete_keys(self, name: str, keys: Sequence[Sequence[Any]]) -> None:
        if name in LATEST:
            self._latest.remove(name, keys)
        self._delete(name, TABLES[name].delete, keys)

    def _delete(self, name: str, statement: str, keys: Sequence[Sequence[Any]]) -> None:
        rows = checksums = 0
        for (checksum,) in self._db.executemany(statement, keys):
            rows, checksums = rows - 1, checksums - checksum
        self._tallies.change(name, rows, checksums)

    def _let_go(self, name: str, spans: Sequence[tuple[int, int]]) -> None:
        """Delete packets by spans of keys. Whole rows go; of the others, ``freed`` notes which packets are gone."""
        rows = checksums = left = 0
        for first, last in spans:
            left += last - first + 1
        ended: list[int] = []
        for key, packets, checksum in self._db.executemany(TABLES[name].delete_runs, spans):
            rows, checksums, left = rows - 1, checksums - checksum, left - 1
            if packets > 1:
                ended.append(key)
        self._tallies.change(name, rows, checksums)
        if ended or left > 0:
            ended += self._let_go_parts(name, spans)
            self._delete("freed", TABLES["freed"].delete, [(name, key) for key in ended])

    def _let_go_parts(self, name: str, spans: Sequence[tuple[int, int]]) -> list[int]:
        """Delete packets of rows that keep others, or lost some before. Returns the rows that are gone now."""
        table = TABLES[name]
        gone: dict[int, tuple[int, int]] = {}
        for first, last in spans:
            touched: list[list[Any]] = [list(row) for row in self._db.execute(table.touch, (first, last))]
            for key, packets, *values, checksum in touched:
                bits = bits_in(key, packets, first, last)
                if bits:
                    if table.checksum((key, packets, *values)) != checksum:
                        raise self._damaged(name, key)
                    gone[key] = bits | (gone[key][0] if key in gone else self._gone(name, key)), packets
        parts = [(key, bits, packets) for key, (bits, packets) in gone.items() if bits != every_bit(packets)]
        self._replace("freed", [(name, key, bits.to_bytes(-(-packets // 8))) for key, bits, packets in parts])
        ended = [key for key, (bits, packets) in gone.items() if bits == every_bit(packets)]
        self._delete(name, table.delete, [(key,) for key in ended])
        return ended

    def _gone(self, name: str, key: int) -> int:
        """Which packets of a row are gone, as bits."""
        table = TABLES["freed"]
        row = self._db.execute(table.fetch, (name, key)).fetchone()
        if row is None:
            return 0
        if not table.is_intact(row):
            raise self._damaged("freed", key)
        return int.from_bytes(row[2])

    def _damaged(self, name: str, key: int) -> StoreDamaged:
        self._sound = False
        self._failure = StoreDamaged(f"read store {self.path}: row {key} of {name} has a wrong checksum")
        return self._failure

    def _write_meta(self) -> None:
        self._db.execute(META.put, META.with_checksums(self._meta.row(self._tallies.pack())))

    def _checkpoint(self) -> None:
        """Bring the log into the database. SQLite's automatic checkpoint would not report a failure."""
        if not self.in_memory:
            frames, done = self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            assert frames == done, "nobody else reads, so nothing can be left in the log"
            self._log_pages[0] = 0

    def read(self, read: Read) -> None:
        """Fetch bodies into ``read.bodies``, without packets that are gone.

        Raises:
            StoreDamaged: a row was changed.
            StoreFailed: the disk cannot be read.
        """
        table = TABLES[read.table]
        with self._writing("read"):
            run = StoredRun(range(0), 0, [])
            for key in read.keys:
                # A later row may use the keys of packets that are gone from the end of this one.
                if run.body_of(key) is None:
                    row = self._db.execute(table.fetch, (key,)).fetchone()
                    if row is None:
                        continue
                    if not table.is_intact(row):
                        raise self._damaged(read.table, key)
                    run = StoredRun.cut(read.table, [*row[:-3], row[-1]], self._gone(read.table, row[0]))
                body = run.body_of(key)
                if body is not None:
                    read.bodies[key] = body

    def close(self) -> None:
        """Close the file. Nothing that was committed depends on it."""
        self._lease_words.end()
        with suppress(apsw.Error, StoreError):
            # SQLite removes the log by its name, which must not lead to the log of another store.
            if self._sound:
                self.check()
                self._end()
        self._disconnect()
        if self._owner is not None:
            self._owner.release()

    def _end(self) -> None:
        """Record that no log is needed any more, and let SQLite bring it in and remove it."""
        self._sound = False
        self._meta.log_bytes = -self._log_bytes
        with Transaction(self._db):
            self._write_meta()
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)

    def _writing(self, operation: str) -> Writing:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))
        return Writing(partial(self._fail, operation))

    def _fail(self, operation: str, cause: Exception) -> StoreError:
        self._failure = StoreFailed(f"{operation} store {self.path}: {self._why(cause)}")
        return self._failure


def version_in(path: Path) -> int | None:
    """The version of a store, read without opening it; None if the file is no store. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
    if not head.startswith(_MAGIC) or len(head) < HEADER_BYTES:
        return None
    return int.from_bytes(head[_VERSION_AT : _VERSION_AT + 4]) or None


def _size_of(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _checkpoint_pages(page_bytes: int, log_bytes: int) -> int:
    """The inverse of ``_least_log_bytes``."""
    return max(1, -(-pages_in(page_bytes, log_bytes) * LOG_SPARE // (LOG_SPARE + 1)))


def _what_is_lost(database: Path, size_bytes: int | None, node_id: str, log_bytes: int | None) -> str:
    is_so = (
        "it is gone"
        if size_bytes is None
        else "it is empty"
        if not size_bytes
        else f"it has only {counted(size_bytes, 'byte')}"
    )
    proof = f"node {node_id} kept its messages in it" if node_id else "there was a store in it"
    proof += f", and {log_bytes} bytes of its log are there" if log_bytes else ""
    return (
        f"open store {database}: {is_so}, but {proof}. Put it back as it was last. If it is lost, remove "
        f"{database.name}, {database.name}-wal and {OWNER_FILE}: the node then begins anew, with its keys and without "
        "those messages"
    )


def _explain(cause: Exception) -> str:
    if isinstance(cause, apsw.FullError):
        return "the disk is full"
    if isinstance(cause, apsw.CorruptError):
        return f"the file is damaged: {cause}"
    return f"{type(cause).__name__}: {cause}"
