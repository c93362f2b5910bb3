"""A thread for a database that may never answer."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.machine import PATIENCE_S
from triack.outbox.database_thread import DatabaseThread


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
