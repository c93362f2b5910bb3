"""Databases for an outbox: SQLite, and a PostgreSQL server of its own."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Postgres, connected, running_postgres
from triack.outbox import create_tables

Connect = Callable[[], Any]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def sqlite(tmp_path: Path) -> Connect:
    """Gives connections to a database with the tables."""
    file = tmp_path / "app.db"
    prepare(lambda: sqlite3.connect(file))
    return lambda: sqlite3.connect(file)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def connect(request: pytest.FixtureRequest) -> Connect:
    if request.param == "sqlite":
        made: Connect = request.getfixturevalue("sqlite")
        return made
    conninfo = request.getfixturevalue("postgres").conninfo()
    prepare(lambda: connected(conninfo))
    return lambda: connected(conninfo)


def prepare(connect: Connect) -> None:
    db = connect()
    create_tables(db)
    db.commit()
    db.close()
