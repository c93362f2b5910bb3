"""Databases of SQLite in a simulated world: a crash rolls back, a commit is an effect, waits take virtual time."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from triack.testing import NotSimulated, World, threads

Work = Callable[[Path], Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "app.db")) as db:
        db.execute("CREATE TABLE t (x)")
    return tmp_path / "app.db"


def rows(file: Path) -> list[object]:
    with closing(sqlite3.connect(file)) as db:
        return [row for (row,) in db.execute("SELECT x FROM t ORDER BY x").fetchall()]


async def in_a_coroutine(file: Path) -> None:
    db = sqlite3.connect(file)
    db.execute("INSERT INTO t VALUES (1)")
    await asyncio.sleep(1)
    db.commit()


async def beside_a_reader(file: Path) -> None:
    """A statement that has more rows to give holds a lock, too."""
    db = sqlite3.connect(file, isolation_level=None)
    found = db.execute("SELECT 1 FROM t UNION SELECT 2 UNION SELECT 3")
    assert found.fetchone() is not None
    await asyncio.sleep(1)
    assert found.fetchall()
    db.execute("INSERT INTO t VALUES (1)")


async def by_aiosqlite(file: Path) -> None:
    async with aiosqlite.connect(file) as db:
        await db.execute("INSERT INTO t VALUES (1)")
        await asyncio.sleep(1)
        await db.commit()


async def by_sqlalchemy(file: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{file}")
    with engine.begin() as db:
        db.execute(sqlalchemy.text("INSERT INTO t VALUES (1)"))
        await asyncio.sleep(1)


async def by_asynchronous_sqlalchemy(file: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    try:
        async with engine.begin() as db:
            await db.execute(sqlalchemy.text("INSERT INTO t VALUES (1)"))
            await asyncio.sleep(1)
    finally:
        await engine.dispose()


async def in_a_thread(file: Path) -> None:
    loop = asyncio.get_running_loop()

    def work() -> None:
        db = sqlite3.connect(file)
        db.execute("INSERT INTO t VALUES (1)")
        asyncio.run_coroutine_threadsafe(asyncio.sleep(1), loop).result()
        db.commit()
        db.close()

    await asyncio.to_thread(work)


WORKS = [in_a_coroutine, beside_a_reader, by_aiosqlite, by_sqlalchemy, by_asynchronous_sqlalchemy, in_a_thread]


@pytest.mark.parametrize("work", WORKS)
async def test_a_crash_rolls_back_and_frees_the_locks(triack_world: World, file: Path, work: Work) -> None:
    machine = triack_world.machine("a")
    service = machine.start(work, file)
    await triack_world.advance(0.5)
    machine.restart()
    await service
    assert rows(file) == [1]


@pytest.mark.gate
async def test_a_commit_is_an_effect_and_so_is_a_statement(triack_world: World, file: Path) -> None:
    """A machine may crash before each of them, and after a commit; what is committed by then is there."""
    steps: list[str] = []

    async def write() -> None:
        db = sqlite3.connect(file)
        with db:
            db.execute("INSERT INTO t VALUES (1)")
        db.execute("SELECT * FROM t").fetchall()
        steps.append("committed")
        db.executemany("INSERT INTO t VALUES (?)", iter([(2,), (3,)]))
        steps.append("inserted")
        db.commit()
        db.execute("DELETE FROM t")
        db.commit()

    moments = {0: ([], 0), 1: ([], 0), 2: ([1], 0), 3: ([1], 1), 4: ([1], 2)}
    moments |= {5: ([1, 2, 3], 2), 7: ([1, 2, 3], 2), 8: ([], 2), 9: ([], 2)}
    for effects, found in moments.items():
        machine = triack_world.machine(f"m{effects}")
        machine.crash_after(effects)
        machine.start(write)
        await triack_world.advance(1)
        assert machine.is_up == (effects == 9)
        assert (rows(file), len(steps)) == found
        steps.clear()
        db = sqlite3.connect(file)
        db.execute("DELETE FROM t")
        db.commit()
        db.close()


async def test_a_thread_of_a_dead_machine_goes_no_further(triack_world: World, file: Path) -> None:
    steps: list[str] = []

    def write() -> None:
        db = sqlite3.connect(file)
        db.execute("INSERT INTO t VALUES (1)")
        steps.append("inserted")
        db.commit()
        steps.append("committed")

    machine = triack_world.machine("a")
    machine.crash_after(1)
    machine.start(asyncio.to_thread, write)
    await triack_world.until(lambda: not machine.is_up)
    await triack_world.advance(60)
    assert steps == ["inserted"]
    assert rows(file) == []


def test_a_pool_that_a_world_leaves_behind_ends(file: Path) -> None:
    pool = ThreadPoolExecutor(1)

    def write() -> None:
        db = sqlite3.connect(file)
        db.execute("INSERT INTO t VALUES (1)")

    async def test(world: World) -> None:
        async def serve() -> None:
            await asyncio.get_running_loop().run_in_executor(pool, write)

        machine = world.machine("a")
        machine.crash_after(0)
        machine.start(serve)
        await world.until(lambda: not machine.is_up)

    with World() as world:
        world.run(test(world))
    pool.shutdown()
    assert rows(file) == []


def insert(file: Path, timeout_s: float = 5.0) -> None:
    db = sqlite3.connect(file, timeout=timeout_s)
    with db:
        db.execute("INSERT INTO t VALUES (2)")
    db.close()


async def hold(file: Path, seconds: float) -> None:
    db = sqlite3.connect(file)
    db.execute("INSERT INTO t VALUES (1)")
    await asyncio.sleep(seconds)
    db.commit()
    db.close()


@pytest.mark.parametrize("ways", [1, pytest.param(3, marks=pytest.mark.gate)])
async def test_a_thread_waits_for_a_lock_in_virtual_time(triack_world: World, file: Path, ways: int) -> None:
    """However many of them wait, and whether on a machine or not."""

    async def serve() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(hold(file, 4))
            for _ in range(ways):
                group.create_task(asyncio.to_thread(insert, file))

    await triack_world.machine("a").run(serve())
    assert 4 <= triack_world.now < 5
    await serve()
    assert rows(file) == [1, 1, *[2] * (2 * ways)]


@pytest.mark.parametrize("by_pragma", [False, True])
async def test_it_waits_as_long_as_it_was_told(triack_world: World, file: Path, by_pragma: bool) -> None:
    def write() -> None:
        db = sqlite3.connect(file, timeout=5 if by_pragma else 2)
        if by_pragma:
            assert db.execute("PRAGMA busy_timeout = 2000").fetchone() == (2_000,)
        db.execute("INSERT INTO t VALUES (2)")

    async def serve() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(hold(file, 3))
            with pytest.raises(sqlite3.OperationalError, match="database is locked"):
                await asyncio.to_thread(write)
            ended_at.append(triack_world.now)

    ended_at: list[float] = []
    await triack_world.machine("a").run(serve())
    assert ended_at == [pytest.approx(2, abs=0.2)]


async def test_a_script_waits_before_it_begins(triack_world: World, file: Path) -> None:
    def write() -> None:
        with closing(sqlite3.connect(file)) as db:
            db.executescript("SELECT 1; INSERT INTO t VALUES (2); INSERT INTO t VALUES (3);")

    async def serve() -> None:
        await asyncio.gather(hold(file, 1), asyncio.to_thread(write))

    await triack_world.machine("a").run(serve())
    assert rows(file) == [1, 2, 3]


async def test_a_reader_does_not_wait_for_a_writer_that_waits_for_it(triack_world: World, file: Path) -> None:
    """SQLite refuses it at that moment, or both would wait until one gives up."""

    def read_and_write() -> None:
        db = sqlite3.connect(file, isolation_level=None)
        db.execute("BEGIN")
        db.execute("SELECT * FROM t").fetchall()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(2), loop).result()
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            db.execute("INSERT INTO t VALUES (2)")
        db.rollback()
        db.close()

    async def serve() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(read_and_write))
            await asyncio.sleep(1)
            async with aiosqlite.connect(file) as db:
                await db.execute("INSERT INTO t VALUES (1)")
                await db.commit()

    loop = asyncio.get_running_loop()
    await triack_world.machine("a").run(serve())
    assert rows(file) == [1]
    assert triack_world.now < 3


async def test_a_wait_that_stops_the_event_loop_cannot_end(triack_world: World, file: Path) -> None:
    """What holds the lock waits for the event loop. A thread that does not goes on, and frees it."""

    def write() -> None:
        db = sqlite3.connect(file, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        has_lock.set()
        db.execute("INSERT INTO t VALUES (1)")
        db.commit()
        db.close()

    async def serve() -> None:
        thread = threading.Thread(target=write)
        thread.start()
        has_lock.wait()
        insert(file)
        async with asyncio.TaskGroup() as group:
            group.create_task(hold(file, 1))
            await asyncio.sleep(0)
            with pytest.raises(sqlite3.OperationalError, match="database is locked"):
                insert(file)

    has_lock = threading.Event()
    await triack_world.machine("a").run(serve())
    assert rows(file) == [1, 1, 2]


def test_waiting_for_a_thread_without_await_is_named(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(threads, "PATIENCE_S", 0.2)

    async def serve() -> None:
        with ThreadPoolExecutor(1) as pool, pytest.raises(NotSimulated, match="waits for that thread without await"):
            pool.submit(insert, file).result()

    async def test(world: World) -> None:
        await world.machine("a").run(serve())

    with World() as world:
        world.run(test(world))


async def test_a_connection_keeps_its_class_and_its_rules(triack_world: World, file: Path) -> None:
    class Mine(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            said.append(sql)
            return super().execute(sql, parameters)

    async def serve() -> None:
        db = sqlite3.connect(str(file), 5.0, 0, None, True, Mine)
        assert isinstance(db, Mine)
        assert isinstance(db.cursor(), sqlite3.Cursor)
        db.row_factory = sqlite3.Row
        assert db.execute("SELECT 1 AS one").fetchone()["one"] == 1
        assert said == ["SELECT 1 AS one"]
        with pytest.raises(sqlite3.ProgrammingError, match="can only be used in that same thread"):
            await asyncio.to_thread(db.execute, "SELECT 1")
        db.execute("BEGIN")
        with pytest.raises(sqlite3.OperationalError, match="no such table"), db:
            db.execute("INSERT INTO t VALUES (1)").execute("INSERT INTO none VALUES (1)")
        db.close()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            db.execute("INSERT INTO t VALUES (1)")

    said: list[str] = []
    await triack_world.machine("a").run(serve())
    assert rows(file) == []
