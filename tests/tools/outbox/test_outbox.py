"""Messages that are sent with transactions of a database: shops, threads, errors."""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import aiosqlite
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import triack
from tests.machine import PATIENCE_S
from tests.postgres import Postgres, connected
from tests.tools.outbox.conftest import Connect, prepare
from tests.tools.outbox.test_pump import put, rows
from triack.outbox import create_tables, enqueue, enqueue_async, forget, is_new, is_new_async
from triack.outbox.database import as_table, execute, placed
from triack.outbox.database_thread import DatabaseThread
from triack.outbox.rows import BATCH_BYTES, BATCH_ROWS, Rows

# Enqueuing by every kind of connection, in the application's own transaction.


@pytest.mark.parametrize("kind", ["connection", "session", "scoped session", "raw connection"])
def test_sqlalchemy_in_its_own_transaction(sqlite: Connect, tmp_path: Path, kind: str) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    make: Any = {
        "connection": engine.connect,
        "session": lambda: Session(engine),
        "scoped session": scoped_session(sessionmaker(engine)),
        "raw connection": engine.raw_connection,
    }[kind]
    used = make()
    create_tables(used)
    enqueue(used, "orders", b"never")
    used.rollback()
    enqueue(used, "orders", b"12 valves", key="order-17")
    used.commit()
    used.close()
    engine.dispose()
    assert rows(sqlite, "body, properties") == [(b"12 valves", '{"key": "order-17"}')]


async def test_asynchronous_connections_of_sqlite(sqlite: Connect, tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}")
    async with AsyncSession(engine) as session:
        await enqueue_async(session, "orders", b"by a session")
        await session.run_sync(lambda sync: enqueue(sync, "orders", b"by its other side"))
        await session.commit()
    await engine.dispose()
    async with aiosqlite.connect(tmp_path / "app.db") as db:
        await enqueue_async(db, "orders", b"by aiosqlite")
        await db.commit()
    assert rows(sqlite) == [b"by a session", b"by its other side", b"by aiosqlite"]


@pytest.mark.slow
async def test_psycopg_and_sqlalchemy_on_postgresql(postgres: Postgres) -> None:
    conninfo = postgres.conninfo()
    prepare(lambda: connected(conninfo))
    async with await psycopg.AsyncConnection.connect(conninfo) as db:
        await enqueue_async(db, "orders", b"asynchronous")
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: connected(conninfo))
    with Session(engine) as session:
        create_tables(session)
        enqueue(session, "orders", bytes(range(256)), label="50 % of :all")
        session.commit()
    engine.dispose()
    said = [("asynchronous", "{}"), (bytes(range(256)), '{"label": "50 % of :all"}')]
    assert rows(lambda: connected(conninfo), "body, properties") == [(b"asynchronous", "{}"), said[1]]


def test_what_can_never_be_sent_is_refused_here(sqlite: Connect) -> None:
    db = sqlite()
    with pytest.raises(triack.UsageError, match="transactional messages arrive in the order"):
        enqueue(db, "orders", b"", priority=1)
    with pytest.raises(triack.UsageError, match="a body is bytes"):
        enqueue(db, "orders", "text")  # type: ignore[arg-type]
    with pytest.raises(triack.MessageTooLarge):
        enqueue(db, "orders", bytes(4 * 1024 * 1024 + 1))
    with pytest.raises(triack.AddressError):
        enqueue(db, "udp://nowhere", b"")
    with pytest.raises(triack.UsageError, match="neither a connection of a driver"):
        enqueue(object(), "orders", b"")
    db.close()
    assert rows(sqlite) == []


async def test_a_connection_of_the_wrong_kind_is_named(sqlite: Connect, tmp_path: Path) -> None:
    message, db = await receive(tmp_path / "plant"), sqlite()
    with pytest.raises(triack.UsageError, match="is not asynchronous"):
        await enqueue_async(db, "orders", b"")
    with pytest.raises(triack.UsageError, match=r"is_new_async: .* is not asynchronous; is_new\(\) takes it"):
        await is_new_async(db, message)
    db.close()


# The ids of received messages in the application's own database.


async def receive(folder: Path) -> triack.Message:
    async with triack.open("plant", data=folder) as node:
        await node.send("orders", b"12 valves")
        return await node.receive("orders", ack="manual").get(PATIENCE_S)


async def test_a_message_is_new_once(connect: Connect, tmp_path: Path) -> None:
    message, db = await receive(tmp_path / "plant"), connect()
    assert is_new(db, message)
    db.rollback()
    assert is_new(db, message)
    db.commit()
    assert not is_new(db, message)
    db.commit()
    assert forget(db) == 0
    execute(db, "UPDATE triack_inbox SET received_ms = received_ms - 1000", {})
    assert forget(db, older_than_s=0.5) == 1
    assert is_new(db, message)
    db.close()


async def test_a_message_is_new_once_for_asynchronous_connections(sqlite: Connect, tmp_path: Path) -> None:
    message = await receive(tmp_path / "plant")
    async with aiosqlite.connect(tmp_path / "app.db") as db:
        assert await is_new_async(db, message)
        await db.rollback()
        assert await is_new_async(db, message)
        await db.commit()
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}")
    async with AsyncSession(engine) as session:
        assert not await is_new_async(session, message)
    async with engine.connect() as connection:
        assert not await is_new_async(connection, message)
    await engine.dispose()
    db = sqlite()
    assert db.execute("SELECT id FROM triack_inbox").fetchall() == [(message.id,)]
    db.close()


@pytest.mark.slow
async def test_a_message_is_new_once_for_asynchronous_psycopg(postgres: Postgres, tmp_path: Path) -> None:
    message, conninfo = await receive(tmp_path / "plant"), postgres.conninfo()
    prepare(lambda: connected(conninfo))
    for is_new_now in (True, False):
        async with await psycopg.AsyncConnection.connect(conninfo) as db:
            assert await is_new_async(db, message) == is_new_now


@pytest.mark.slow
async def test_of_two_readers_one_does_the_work(postgres: Any, connect: Connect, tmp_path: Path) -> None:
    message, one, other = await receive(tmp_path / "plant"), connect(), connect()
    told: list[bool] = []
    assert is_new(one, message)

    def ask() -> None:
        told.append(is_new(other, message))
        other.rollback()

    waiting = threading.Thread(target=ask)
    if not hasattr(one, "in_transaction"):  # sqlite3: one thread for each connection
        waiting.start()
        one.commit()
        waiting.join()
        assert told == [False]
    one.close()
    other.close()


# Statements on any connection.


@pytest.mark.parametrize(
    ("style", "statement", "values"),
    [
        ("named", "SELECT :a, :bc, :a", {"a": 1, "bc": 2}),
        ("pyformat", "SELECT %(a)s, %(bc)s, %(a)s", {"a": 1, "bc": 2}),
        ("qmark", "SELECT ?, ?, ?", (1, 2, 1)),
        ("format", "SELECT %s, %s, %s", (1, 2, 1)),
        ("numeric", "SELECT :1, :2, :3", (1, 2, 1)),
    ],
)
def test_parameters_have_the_form_that_the_driver_names(
    monkeypatch: pytest.MonkeyPatch, style: str, statement: str, values: Any
) -> None:
    """PEP 249, paramstyle; the class may lie anywhere in the driver's package."""
    driver = ModuleType("driver")
    driver.__dict__["paramstyle"] = style
    monkeypatch.setitem(sys.modules, "driver", driver)
    made = type("Connection", (), {"__module__": "driver.deep.inside"})()
    assert placed(made, "SELECT :a, :bc, :a", {"a": 1, "bc": 2}) == (statement, values)


def test_a_class_derived_from_a_drivers_is_the_drivers() -> None:
    class Mine(sqlite3.Connection):
        pass

    db = sqlite3.connect(":memory:", factory=Mine)
    create_tables(db)
    create_tables(db)
    assert db.execute("SELECT count(*) FROM triack_outbox").fetchone() == (0,)
    db.close()


def test_other_databases_are_refused() -> None:
    with pytest.raises(triack.UsageError, match="it takes SQLite and PostgreSQL"):
        create_tables(object())


@pytest.mark.parametrize("name", ["", "a b", "a;b", "1a", "a.b.c", None])
def test_a_name_of_a_table_is_checked(name: object) -> None:
    with pytest.raises(triack.UsageError, match="a table is named by"):
        as_table(name)


# A thread for a database that may never answer.


def never() -> None:
    pytest.fail("it was not late")


@asynccontextmanager
async def thread(connect: Callable[[], Any]) -> AsyncIterator[DatabaseThread]:
    database = DatabaseThread(connect, "outbox triack_outbox")
    try:
        yield database
    finally:
        database.end()
        await database.wait_end(PATIENCE_S)
        assert database.has_ended


async def test_jobs_run_in_order_on_one_connection_that_is_closed_at_the_end() -> None:
    made: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        made.append(sqlite3.connect(":memory:", check_same_thread=False))
        return made[-1]

    async with thread(connect) as database:
        await database.work(lambda it: it.execute("CREATE TABLE t (n)"), PATIENCE_S, 0, never)

        def insert(number: int, it: sqlite3.Connection) -> object:
            return it.execute("INSERT INTO t VALUES (?)", (number,))

        await asyncio.gather(*[database.work(partial(insert, n), PATIENCE_S, 0, never) for n in range(3)])
        found = await database.work(lambda it: it.execute("SELECT n FROM t").fetchall(), PATIENCE_S, 0, never)
        assert found == [(0,), (1,), (2,)]
    assert len(made) == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")


async def test_an_error_of_a_job_is_its_callers_and_a_connection_that_failed_is_made_again() -> None:
    tries: list[int] = []

    def connect() -> sqlite3.Connection:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no way")
        return sqlite3.connect(":memory:")

    async with thread(connect) as database:
        with pytest.raises(OSError, match="no way"):
            await database.work(lambda _: 1, PATIENCE_S, 0, never)
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await database.work(lambda it: it.execute("SELECT * FROM t"), PATIENCE_S, 0, never)
        assert await database.work(lambda _: 1, PATIENCE_S, 0, never) == 1


async def test_a_job_that_is_late_is_told_and_given_up_and_ends_all_the_same() -> None:
    answers, late = threading.Event(), list[str]()

    async with thread(lambda: sqlite3.connect(":memory:")) as database:
        try:
            with pytest.raises(
                TimeoutError, match=r"no answer of the database for 0\.02 s; its connection is given up"
            ):
                await database.work(lambda _: answers.wait(), 0.01, 0.01, lambda: late.append("late"))
            assert late == ["late"]
            assert not database.has_ended
        finally:
            answers.set()


# What the pump reads of a table.


def test_a_batch_is_limited_in_rows_and_bytes(connect: Connect) -> None:
    put(connect, *(b"%d" % number for number in range(BATCH_ROWS + 1)))
    db = connect()
    rows = Rows(db, "triack_outbox", "node")
    name = rows.claim()
    assert rows.claim() == name
    first = rows.step([], [], [], [])
    assert [row.body for row in first] == [b"%d" % number for number in range(BATCH_ROWS)]
    assert [row.body for row in rows.step([row.id for row in first], [], [], [])] == [b"%d" % BATCH_ROWS]
    put(connect, bytes(BATCH_BYTES - 1), bytes(BATCH_BYTES), b"next", to="large")
    assert [len(row.body) for row in rows.step([], [], ["orders"], [])] == [BATCH_BYTES - 1, BATCH_BYTES]
    db.close()


def test_times_to_live_go_on_in_the_table(sqlite: Connect) -> None:
    put(sqlite, b"x", time_to_reach_queue=10)
    db = sqlite()
    rows = Rows(db, "triack_outbox", "node")
    rows.claim()
    (row,) = rows.step([], [], [], [])
    assert row.properties_at(row.enqueued_ms + 4_000) == {"time_to_reach_queue": pytest.approx(6)}
    assert row.properties_at(row.enqueued_ms - 4_000) == {"time_to_reach_queue": 10}
    assert not row.is_plain
    db.close()


def test_of_destinations_that_are_held_only_the_first_row_is_read_and_only_when_they_are_tried(
    connect: Connect,
) -> None:
    put(connect, b"1", b"2", to="full")
    put(connect, b"3", to="other")
    put(connect, b"4", b"5")
    db = connect()
    rows = Rows(db, "triack_outbox", "node")
    rows.claim()
    held = ["full", "other"]
    assert [row.body for row in rows.step([], [], held, [])] == [b"4", b"5"]
    assert [row.body for row in rows.step([], [], held, ["full", "none"])] == [b"1", b"4", b"5"]
    db.close()
