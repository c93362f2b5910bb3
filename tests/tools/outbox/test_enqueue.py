"""Enqueuing by every kind of connection, in the application's own transaction."""

from pathlib import Path
from typing import Any

import aiosqlite
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import triack
from tests.postgres import Postgres, connected
from tests.tools.outbox.conftest import Connect, prepare
from tests.tools.outbox.test_pump import rows
from triack.outbox import create_tables, enqueue, enqueue_async


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
    """And not when it is in the table."""
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


async def test_a_connection_of_the_wrong_kind_is_named(sqlite: Connect) -> None:
    db = sqlite()
    with pytest.raises(triack.UsageError, match="is not asynchronous"):
        await enqueue_async(db, "orders", b"")
    db.close()
