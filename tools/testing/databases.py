"""SQLite in a simulated world: a connection belongs to the process that opened it, and dies with it.

The files are real ones. A crash closes the connections of its process, so that their transactions are rolled back and
their locks are free, as the system does for a process that is killed. Each statement that changes a database is an
effect of the process, as are each commit and its answer: before each, ``crash_after`` may end the process. A wait for
the lock of another connection lasts virtual time.

All this applies to connections that code in the world opens by ``sqlite3.connect``, in coroutines and in threads: its
own, those of SQLAlchemy and of aiosqlite.
"""

import contextlib
import functools
import re
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from triack.testing.errors import NotSimulated
from triack.testing.threads import PATIENCE_S, PROCESS, Process, find_watcher
from triack.tools.sim.disk import ProcessCrashed

T = TypeVar("T")

TIMEOUT_S = 5.0
LOOK_AGAIN_S = 0.1
"""How often a connection tries to get a lock, in virtual time, as SQLite itself does after a second."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY)
"""Another connection has the lock. All other errors come without a wait, as does that of a snapshot that is too old."""
_PLACES = (
    "database", "timeout", "detect_types", "isolation_level", "check_same_thread", "factory", "cached_statements",
    "uri",
)  # fmt: skip
_FIRST_WORD = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*(\w*)", re.DOTALL)
_CHANGES_NOTHING = frozenset({"SELECT", "VALUES", "EXPLAIN", "PRAGMA", "BEGIN", "SAVEPOINT", "ROLLBACK", ""})
"""A crash before a statement that begins with one of these is as one before the next statement."""
NO_TIMEOUT = "PRAGMA busy_timeout = 0"
"""SQLite itself does not wait: that would last real time."""
_SET_TIMEOUT = re.compile(r"\s*PRAGMA\s+busy_timeout\s*[=(]\s*(\d+)", re.IGNORECASE)


class _Keeper:
    """What the world knows of one connection.

    Args:
        timeout_s: how long it waits for a lock.
        is_bound: whether only the thread that opened it may use it.
    """

    def __init__(self, connection: sqlite3.Connection, timeout_s: float, *, is_bound: bool) -> None:
        self.timeout_s = timeout_s
        self.cursors = weakref.WeakSet[sqlite3.Cursor]()
        self._connection = weakref.ref(connection)  # one that is dropped is closed at that moment
        self._process: Process | None = PROCESS.get()
        self._thread = threading.get_ident() if is_bound else None
        # Whether its transaction has read or written, so that it has a lock.
        self._has_lock = False
        if self._process is not None:
            self._process.belongings.add(self)

    def end(self) -> None:
        """The process has died."""
        connection = self._connection()
        if connection is None:
            return
        with contextlib.suppress(sqlite3.Error):
            for cursor in list(self.cursors):
                sqlite3.Cursor.close(cursor)  # a statement that has more rows to give holds a lock, too
            sqlite3.Connection.rollback(connection)
        with contextlib.suppress(sqlite3.Error):
            sqlite3.Connection.close(connection)

    @property
    def is_dead(self) -> bool:
        """Whether its process is."""
        return self._process is not None and self._process.is_dead

    def check_thread(self) -> None:
        """The driver's check, which would not let the world close the connection either."""
        here = threading.get_ident()
        if self._thread not in (None, here):
            raise sqlite3.ProgrammingError(
                "SQLite objects created in a thread can only be used in that same thread. The object was created in "
                f"thread id {self._thread} and this is thread id {here}."
            )

    def run(self, statement: str, work: Callable[[], T]) -> T:
        """Do what a statement says, as soon as the process may and the lock is free."""
        word = _first_word(statement)
        changes = word not in _CHANGES_NOTHING
        connection = self._begin(changes=changes)
        # A connection that has a lock gets no other one by waiting: SQLite refuses it, so that two cannot wait for each
        # other. To commit it waits nevertheless.
        has_lock = self._has_lock and connection.in_transaction and word not in ("COMMIT", "END")
        result = self._when_free(work, 0.0 if has_lock else self.timeout_s)
        self._has_lock = connection.in_transaction and (self._has_lock or word not in ("BEGIN", "SAVEPOINT"))
        self._end(connection, changes=changes)
        return result

    def run_script(self, work: Callable[[], T]) -> T:
        """A script cannot begin anew halfway: the lock has to be free before it begins."""
        connection = self._begin(changes=True)

        def try_lock() -> None:
            _run_plainly(connection, "BEGIN IMMEDIATE")
            _run_plainly(connection, "ROLLBACK")

        if not connection.in_transaction:
            with contextlib.suppress(sqlite3.OperationalError):  # the script says what is wrong
                self._when_free(try_lock, self.timeout_s)
        result = work()
        self._end(connection, changes=True)
        return result

    def _begin(self, *, changes: bool) -> sqlite3.Connection:
        self.check_thread()
        if self._process is not None and (changes or self.is_dead):
            _take_turn(self._process)
        connection = self._connection()
        assert connection is not None, "its caller has it"
        return connection

    def _end(self, connection: sqlite3.Connection, *, changes: bool) -> None:
        """A process may die when it has committed, and has not yet acknowledged a message, for example."""
        if self._process is not None and changes and not connection.in_transaction:
            _take_turn(self._process)

    def _when_free(self, work: Callable[[], T], timeout_s: float) -> T:
        waited_s = 0.0
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _BUSY or waited_s >= timeout_s:
                    raise
                if not _pause(self._process, LOOK_AGAIN_S):
                    # The event loop's own thread: while it waits, only threads can free the lock, and these wait.
                    timeout_s = 0.0
                waited_s += LOOK_AGAIN_S


class _Cursor(sqlite3.Cursor):
    """A cursor of such a connection."""

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        keeper = _keeper_of(self.connection)
        keeper.run(sql, lambda: super(_Cursor, self).execute(sql, parameters))
        wanted = _SET_TIMEOUT.match(sql)
        if wanted is not None:
            keeper.timeout_s = int(wanted[1]) / 1_000
            _run_plainly(self.connection, NO_TIMEOUT)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        rows = list(parameters)
        _keeper_of(self.connection).run(sql, lambda: super(_Cursor, self).executemany(sql, rows))
        return self

    def executescript(self, sql_script: str, /) -> Any:
        _keeper_of(self.connection).run_script(lambda: super(_Cursor, self).executescript(sql_script))
        return self


class _Connection(sqlite3.Connection):
    """A connection that belongs to the process in which it was opened."""

    def __init__(self, database: Any, *args: Any, **options: Any) -> None:
        options.update(zip(_PLACES[1:], args, strict=False))
        timeout_s, is_bound = options.pop("timeout", TIMEOUT_S), options.pop("check_same_thread", True)
        super().__init__(database, timeout=0, check_same_thread=False, **options)
        self._triack_keeper = _Keeper(self, timeout_s, is_bound=is_bound)

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        keeper = _keeper_of(self)
        keeper.check_thread()
        cursor = super().cursor(_watched(factory))
        keeper.cursors.add(cursor)
        return cursor

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        return self.cursor().executemany(sql, parameters)

    def executescript(self, sql_script: str, /) -> Any:
        return self.cursor().executescript(sql_script)

    def commit(self) -> None:
        keeper = _keeper_of(self)
        if self.in_transaction or keeper.is_dead:
            keeper.run("COMMIT", super().commit)
        else:
            super().commit()

    def rollback(self) -> None:
        keeper = _keeper_of(self)
        keeper.check_thread()
        if not keeper.is_dead:
            super().rollback()

    def close(self) -> None:
        _keeper_of(self).check_thread()
        super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        if kind is not None:
            self.rollback()
            return False
        try:
            self.commit()
        except BaseException:
            self.rollback()
            raise
        return False


def _keeper_of(connection: Any) -> _Keeper:
    keeper: _Keeper = connection._triack_keeper  # noqa: SLF001 - one name that no class of a user's has
    return keeper


def _run_plainly(connection: sqlite3.Connection, statement: str) -> None:
    sqlite3.Cursor.execute(sqlite3.Cursor(connection), statement)


def _first_word(statement: str) -> str:
    found = _FIRST_WORD.match(statement)
    return "" if found is None else found[1].upper()


@functools.cache
def _watched(kind: Any) -> Any:
    """A class of connections or cursors, with what makes it one of the world; a function that makes them stays as is.

    What a user's class does itself comes first.
    """
    for base, ours in ((sqlite3.Connection, _Connection), (sqlite3.Cursor, _Cursor)):
        if kind is base:
            return ours
        if isinstance(kind, type) and issubclass(kind, base):
            return type(kind.__name__, (kind, ours), {"__module__": kind.__module__})
    return kind


# ---- turns


def _take_turn(process: Process) -> None:
    """Wait until an effect of a process may happen, and do it; in a thread of a dead one, wait until the world ends."""
    owner, watched = find_watcher()
    if owner is not None and watched is not None:
        _check(owner.ask(watched.order, process, process.take_effect))
    elif owner is not None and not process.take_effect():
        raise ProcessCrashed("an effect of a process that is dead")


def _pause(process: Process | None, seconds: float) -> bool:
    """Wait in virtual time. In the event loop's own thread, time does not pass meanwhile.

    Returns whether time has passed. If not, other threads have done what they could.
    """
    owner, watched = find_watcher()
    if owner is None:
        return False
    if watched is None:
        owner.rest()
        if process is not None and process.is_dead:
            raise ProcessCrashed("a wait of a process that is dead")
        return False
    threads, state = owner, "new"

    def is_over() -> bool:
        nonlocal state
        if state == "new":
            state = "planned"
            threads.plan(seconds, end)
        return state == "over"

    def end() -> None:
        nonlocal state
        state = "over"

    _check(owner.ask(watched.order, process, is_over))
    return True


def _check(goes_on: bool) -> None:
    if not goes_on:
        raise NotSimulated(
            f"a thread waits for its turn for {PATIENCE_S:g} s of real time: the event loop stands still, as a "
            "coroutine waits for that thread without await"
        )


# ---- around a run of the world

_CONNECT = sqlite3.connect
_runs = 0


def _connect(database: Any, *args: Any, **options: Any) -> Any:
    if find_watcher()[0] is None:
        return _CONNECT(database, *args, **options)
    options.update(zip(_PLACES[1:], args, strict=False))
    process = PROCESS.get()
    if process is not None and process.is_dead:
        _take_turn(process)
    return _CONNECT(database, **{**options, "factory": _watched(options.get("factory", sqlite3.Connection))})


@contextlib.contextmanager
def watching_databases() -> Iterator[None]:
    """Let connections that are opened in a world belong to it; for other code nothing changes."""
    global _runs  # noqa: PLW0603 - there is one module of sqlite3 for all worlds
    _runs += 1
    sqlite3.connect = sqlite3.dbapi2.connect = _connect
    try:
        yield
    finally:
        _runs -= 1
        if not _runs:
            sqlite3.connect = sqlite3.dbapi2.connect = _CONNECT
