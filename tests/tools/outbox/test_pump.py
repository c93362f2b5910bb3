"""The pump of an outbox: each row is sent once, in order, whatever dies."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
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
from tests.node.nodes import bodies, until
from tests.postgres import Postgres, connected
from tests.tools.outbox.conftest import Connect, prepare
from triack.node.handles.transaction import Transaction
from triack.outbox import OutboxTaken, Pump, create_tables, enqueue, enqueue_async, forget, is_new, is_new_async
from triack.outbox.database import as_table, execute, placed
from triack.outbox.database_thread import DatabaseThread
from triack.outbox.rows import BATCH_BYTES, BATCH_ROWS, Rows
from triack.testing import World

WAIT = PATIENCE_S


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[triack.Node]:
    async with triack.open("shop", data=tmp_path / "shop") as node:
        yield node


@asynccontextmanager
async def pumping(node: Any, connect: Connect, **options: Any) -> AsyncIterator[Pump]:
    pump = Pump(node, connect, **options)
    task = asyncio.create_task(pump.run())
    try:
        yield pump
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def change(connect: Connect, *statements: str) -> None:
    db = connect()
    for statement in statements:
        execute(db, statement, {})
    db.commit()
    db.close()


def put(connect: Connect, *bodies: bytes, to: str = "orders", **properties: Any) -> None:
    db = connect()
    for body in bodies:
        enqueue(db, to, body, **properties)
    db.commit()
    db.close()


def rows(connect: Connect, columns: str = "body") -> list[Any]:
    db = connect()
    found = execute(db, f"SELECT {columns} FROM triack_outbox ORDER BY number", {}).fetchall()
    db.close()
    return [tuple(row) if len(row) > 1 else row[0] for row in found]


async def test_what_commits_is_sent_once_and_in_order(connect: Connect, shop: triack.Node) -> None:
    """With its properties; what is rolled back is not sent."""
    wanted = [b"%d" % number for number in range(1_200)]
    put(connect, *wanted)
    db = connect()
    enqueue(db, "orders", b"never")
    db.rollback()
    db.close()
    put(connect, b"labelled", label="for people", headers={"by": "till 3"}, time_to_be_received=600.0)
    async with pumping(shop, connect):
        assert await bodies(shop, "orders", 1_200) == wanted
        message = await shop.receive("orders", ack="manual").get(WAIT)
        assert (message.body, message.label, message.headers) == (b"labelled", "for people", {"by": "till 3"})
        assert message.receive_by is not None
        await until(lambda: not rows(connect))


async def test_it_looks_at_once_when_it_is_woken(sqlite: Connect, shop: triack.Node) -> None:
    async with pumping(shop, sqlite, poll_s=3_600) as pump:
        put(sqlite, b"first")
        assert await bodies(shop, "orders", 1) == [b"first"]
        put(sqlite, b"second")
        pump.wake()
        assert await bodies(shop, "orders", 1) == [b"second"]


@pytest.mark.gate
async def test_several_pumps_send_each_row_once(connect: Connect, shop: triack.Node, tmp_path: Path) -> None:
    wanted = [b"%d" % number for number in range(2_000)]
    async with (
        triack.connect(data=tmp_path / "shop") as one,
        triack.connect(data=tmp_path / "shop") as other,
        pumping(shop, connect),
        pumping(shop, connect),
        pumping(one, connect),
        pumping(other, connect),
    ):
        for start in range(0, 2_000, 100):
            put(connect, *wanted[start : start + 100])
            await asyncio.sleep(0)
        assert await bodies(shop, "orders", 2_000) == wanted
        await until(lambda: not rows(connect))
        assert shop.queue_lengths()["orders"] == 0


async def test_a_pump_that_is_behind_deletes_nothing_that_is_not_on_the_disk(
    sqlite: Connect, shop: triack.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the ids that another one has remembered, waits for the disk, and only then deletes."""
    put(sqlite, b"x")
    order: list[str] = []
    flush = triack.Node.flush

    async def watched(self: triack.Node) -> None:
        order.append("flush")
        await flush(self)

    with monkeypatch.context() as patch:
        patch.setattr(triack.Node, "flush", watched)
        async with pumping(shop, sqlite):
            await until(lambda: not rows(sqlite))
    assert order == ["flush"]


async def test_a_second_node_is_refused_until_it_is_alone(sqlite: Connect, shop: triack.Node, tmp_path: Path) -> None:
    """Then the pump of the first one ends."""
    task = asyncio.create_task(Pump(shop, sqlite).run())
    put(sqlite, b"x")
    await until(lambda: not rows(sqlite))
    async with triack.open("other", data=tmp_path / "other") as other:
        with pytest.raises(OutboxTaken, match=f"table triack_outbox: node {shop.node_id} does that"):
            await Pump(other, sqlite).run()
        with pytest.raises(triack.UsageError, match="a table is named by letters"):
            Pump(other, sqlite, table="a; DROP TABLE b")
    change(sqlite, "UPDATE triack_outbox_owner SET node = 'another'")
    with pytest.raises(OutboxTaken, match="node another does that"):
        await task


async def test_it_ends_with_its_node_and_runs_once(sqlite: Connect, shop: triack.Node) -> None:
    pump = Pump(shop, sqlite, poll_s=0.01)
    task = asyncio.create_task(pump.run())
    await asyncio.sleep(0)
    with pytest.raises(triack.UsageError, match="it runs already"):
        await pump.run()
    await shop.close()
    put(sqlite, b"x")
    with pytest.raises(triack.NodeClosed):
        await task
    assert rows(sqlite) == [b"x"]


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ('{"priority": 1}', "all of them have priority 0, not 1"),
        ('{"delivery": "x"}', "delivery is no property of messages"),
        ('{"label": 1}', "label must be text"),
        ('{"time_to_reach_queue": "soon"}', "its properties cannot be read"),
        ("{", "its properties cannot be read"),
        ("[1]", "its properties cannot be read"),
    ],
)
async def test_a_row_that_cannot_be_sent_is_set_aside(
    sqlite: Connect, shop: triack.Node, caplog: pytest.LogCaptureFixture, properties: str, why: str
) -> None:
    """With its reason, in the table and in the log; the rows around it are sent."""
    caplog.set_level(logging.WARNING, "triack")
    put(sqlite, b"before")
    put(sqlite, b"late", time_to_reach_queue=0.001)
    put(sqlite, b"poisoned", b"after")
    change(
        sqlite,
        "UPDATE triack_outbox SET enqueued_ms = enqueued_ms - 1000 WHERE number = 2",
        f"UPDATE triack_outbox SET properties = '{properties}' WHERE number = 3",
    )
    async with pumping(shop, sqlite) as pump:
        assert await bodies(shop, "orders", 2) == [b"before", b"after"]
        await until(lambda: len(rows(sqlite)) == 2)
    late, poisoned = rows(sqlite, "body, refused")
    assert late == (b"late", "its time_to_reach_queue was over before it was sent")
    assert (poisoned[0], why in poisoned[1]) == (b"poisoned", True)
    assert (pump.sent, pump.refused) == (2, 2)
    assert "is set aside, as it cannot be sent: its time_to_reach_queue was over" in caplog.text


@pytest.mark.gate
async def test_a_peer_that_is_not_known_yet_holds_only_its_own_messages(sqlite: Connect, shop: triack.Node) -> None:
    """They wait in the outbox, in order, and ``waits_for`` says why."""
    put(sqlite, b"1", to="plant/orders")
    put(sqlite, b"here")
    put(sqlite, b"2", b"3", to="plant/orders")
    async with triack.open("plant", data=None) as plant, pumping(shop, sqlite) as pump:
        assert await bodies(shop, "orders", 1) == [b"here"]
        await until(lambda: pump.waits_for and len(rows(sqlite)) == 3)
        assert "plant" in pump.waits_for["plant/orders"]
        assert rows(sqlite) == [b"1", b"2", b"3"]
        await shop.trust("plant", plant.key, "udp://127.0.0.1:9")
        await until(lambda: not rows(sqlite))
    assert pump.waits_for == {}
    assert shop.stats().outgoing[0].messages == 3


async def test_no_row_overtakes_another(sqlite: Connect, shop: triack.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has no room for a moment: the second of its batch waits with it."""
    put(sqlite, b"1", label="one")
    put(sqlite, b"2", label="two")
    send = Transaction.send
    refused: list[bytes] = []

    async def has_no_room_at_first(self: Transaction, to: str, body: bytes, **options: Any) -> None:
        if not refused:
            refused.append(body)
            raise triack.NoRoom("the disk is full")
        await send(self, to, body, **options)

    monkeypatch.setattr(Transaction, "send", has_no_room_at_first)
    async with pumping(shop, sqlite):
        assert await bodies(shop, "orders", 2) == [b"1", b"2"]
    assert refused == [b"1"]


@pytest.mark.parametrize("by_client", [False, True])
async def test_a_row_waits_for_room_and_is_sent_then(sqlite: Connect, tmp_path: Path, *, by_client: bool) -> None:
    """``waits_for`` names the cause; what somebody deletes from the table waits no more."""
    settings = triack.NodeSettings(limits=triack.Limits(quota=triack.Quota(messages=1)))
    async with (
        triack.open("shop", data=tmp_path / "shop", settings=settings) as node,
        triack.connect(data=tmp_path / "shop") as client,
    ):
        for queue in ("full", "given-up"):
            await node.send(queue, b"first")
            put(sqlite, b"second", b"third", to=queue)
        async with pumping(client if by_client else node, sqlite) as pump:
            await until(lambda: len(pump.waits_for) == 2)
            why = "send to full: no room within 0 s: too many messages wait in that queue"
            assert pump.waits_for["full"] == why
            change(sqlite, "DELETE FROM triack_outbox WHERE destination = 'given-up'")
            assert await bodies(node, "full", 3) == [b"first", b"second", b"third"]
            await until(lambda: not pump.waits_for)


async def sell(connect: Connect, sold: list[bytes], drained: dict[str, list[bytes]]) -> None:
    settings = triack.NodeSettings(limits=triack.Limits(quota=triack.Quota(messages=1)))
    async with triack.open("shop", data="data", settings=settings) as node:
        pump = asyncio.create_task(Pump(node, connect).run())
        async for message in node.receive("alive"):
            sold.append(message.body)
            taken = await asyncio.gather(*(bodies(node, queue, 4) for queue in drained))
            drained.update(zip(drained, taken, strict=True))
        await pump


@pytest.mark.gate
def test_destinations_without_room_hold_back_only_themselves(tmp_path: Path) -> None:
    """However many there are, and in their order when there is room again."""
    connect = partial(sqlite3.connect, tmp_path / "app.db")
    prepare(connect)
    sold: list[bytes] = []
    drained: dict[str, list[bytes]] = {}

    async def test(world: World) -> None:
        world.machine("shop").start(sell, connect, sold, drained)
        branches = [f"branch{number}" for number in range(60)]
        for some in ((b"1", b"2"), (b"3",), (b"4",)):
            for branch in branches:
                put(connect, *some, to=branch)
            await world.advance(1)
        assert len(rows(connect)) == 120
        put(connect, b"first", to="alive")
        await world.advance(1)
        assert sold == [b"first"]
        drained.update((branch, []) for branch in branches)
        put(connect, b"second", to="alive")
        await world.advance(60)
        assert set(map(tuple, drained.values())) == {(b"1", b"2", b"3", b"4")}

    with World(seed=1) as world:
        world.run(test(world))


@pytest.mark.gate
async def test_it_knows_no_more_destinations_without_room_than_it_may(
    sqlite: Connect, shop: triack.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eldest are forgotten, and tried like any other."""
    monkeypatch.setattr("triack.outbox.pump.HELD_MAX", 3)
    for number in range(5):
        put(sqlite, b"x", to=f"plant{number}/orders")
    async with triack.open("plant", data=None) as plant, pumping(shop, sqlite) as pump:
        await until(lambda: len(pump.waits_for) == 3)
        await shop.trust("plant0", plant.key, "udp://127.0.0.1:9")
        await until(lambda: len(rows(sqlite)) == 4)
        assert len(pump.waits_for) == 3


async def test_a_database_that_stands_still_is_told_and_given_up(
    sqlite: Connect, shop: triack.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is sent over a new connection, and once; what the old one does later changes nothing."""
    monkeypatch.setattr("triack.outbox.pump.LATE_S", 0.01)
    monkeypatch.setattr("triack.outbox.pump.LOST_S", 0.01)
    put(sqlite, b"x")
    answers = threading.Event()
    told: list[str] = []
    made: list[Any] = []

    class HalfOpen:
        def __init__(self) -> None:
            self.dbapi_connection = sqlite()
            self.commit, self.close = self.dbapi_connection.commit, self.dbapi_connection.close

        def cursor(self) -> Any:
            answers.wait()
            return self.dbapi_connection.cursor()

    def connect() -> Any:
        made.append(HalfOpen() if not made else sqlite())
        return made[-1]

    async with pumping(shop, connect) as pump:
        pump.waits_for = Told(told)
        await until(lambda: pump.sent)
        answers.set()
        put(sqlite, b"y")
        assert await bodies(shop, "orders", 2) == [b"x", b"y"]
        await until(lambda: not rows(sqlite))
    of = "cannot read messages of outbox triack_outbox"
    assert f"{of}: no answer of the database for 0.01 s" in told
    assert f"{of}: TimeoutError: no answer of the database for 0.02 s; its connection is given up" in told


class Told(dict[str, str]):
    """What a pump waits for, with a list of all that it has said."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self.told = told

    def __setitem__(self, destination: str, why: str) -> None:
        self.told.append(why)
        super().__setitem__(destination, why)


async def test_few_connections_hang(sqlite: Connect, shop: triack.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LATE_S", 0.001), ("LOST_S", 0.001), ("STUCK_MAX", 3), ("BACK_OFF_S", (0.001, 0.001))):
        monkeypatch.setattr(f"triack.outbox.pump.{name}", value)
    put(sqlite, b"x")
    answers = threading.Event()
    made: list[int] = []

    def connect() -> Any:
        made.append(1)
        answers.wait()
        return sqlite()

    async with pumping(shop, connect):
        await until(lambda: len(made) == 3)
        for _ in range(20):
            await shop.flush()
        assert len(made) == 3
        monkeypatch.undo()
        answers.set()
        assert await bodies(shop, "orders", 1) == [b"x"]


async def test_a_cancellation_that_is_not_its_own_is_a_failure(sqlite: Connect, shop: triack.Node) -> None:
    """As of a task of the driver's own: the pump says so, and goes on."""
    put(sqlite, b"x")
    told: list[str] = []
    made: list[int] = []

    def connect() -> Any:
        made.append(1)
        if len(made) == 1:
            raise asyncio.CancelledError("by somebody else")
        return sqlite()

    async with pumping(shop, connect) as pump:
        pump.waits_for = Told(told)
        assert await bodies(shop, "orders", 1) == [b"x"]
    assert told == ["cannot read messages of outbox triack_outbox: CancelledError: by somebody else"]


@pytest.mark.slow
def test_a_program_ends_beside_a_database_that_does_not_answer(sqlite: Connect, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.tools.outbox.standing", str(tmp_path / "app.db"), str(tmp_path / "shop")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "it waits\n"
            process.terminate()
            assert process.wait(WAIT) == 0
        finally:
            process.kill()


@pytest.mark.slow
async def test_a_database_may_be_away(postgres: Postgres, shop: triack.Node, caplog: pytest.LogCaptureFixture) -> None:
    """The server is killed with work on its way; the log says it once, and the pump goes on."""
    caplog.set_level(logging.INFO, "triack")
    connect = partial(connected, postgres.conninfo())
    prepare(connect)
    wanted = [b"%d" % number for number in range(900)]
    put(connect, *wanted)
    async with pumping(shop, connect) as pump:
        await until(lambda: pump.sent)
        await asyncio.to_thread(postgres.kill)
        await until(lambda: pump.waits_for)
        assert "cannot read messages of outbox triack_outbox" in pump.waits_for[""]
        await asyncio.to_thread(postgres.start)
        put(connect, b"last")
        assert await bodies(shop, "orders", 901) == [*wanted, b"last"]
        await until(lambda: not rows(connect))
    assert shop.queue_lengths()["orders"] == 0
    assert "outbox triack_outbox is read again" in caplog.text


async def serve(stock: list[bytes]) -> None:
    async with triack.open("warehouse", data="data", listen="udp://127.0.0.1:7802") as node:
        async for message in node.receive("orders"):
            stock.append(message.body)  # noqa: PERF401 - it has no end


async def pump_of(connect: Connect) -> None:
    async with triack.open("shop", data="data") as node:
        await Pump(node, connect).run()


@pytest.mark.parametrize(
    "moments",
    [
        range(0, 20, 2),
        pytest.param(range(1, 20, 2), marks=pytest.mark.slow),
        pytest.param(range(20, 60), marks=pytest.mark.slow),
    ],
)
def test_its_machine_may_crash_at_any_effect(tmp_path: Path, moments: range) -> None:
    """In the simulated world, between any two writes of the node: exactly once at the peer, through two streams."""

    async def test(world: World, connect: Connect, effects: int) -> None:
        stock: list[bytes] = []
        world.machine("warehouse").start(serve, stock)
        shop = world.machine("shop")
        shop.start(pump_of, connect)
        await world.advance(1)
        put(connect, b"1", b"2", b"3", to="warehouse/orders")
        shop.crash_after(effects)
        await world.advance(20)
        if not shop.is_up:
            shop.restart()
        await world.until(lambda: len(stock) >= 3)
        await world.advance(20)
        assert stock == [b"1", b"2", b"3"]
        assert not rows(connect)

    for effects in moments:
        connect = partial(sqlite3.connect, tmp_path / f"{effects}.db")
        prepare(connect)
        with World(seed=effects) as world:
            world.run(test(world, connect, effects))


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
async def test_psycopg_and_sqlalchemy_on_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    conninfo, message = postgres.conninfo(), await receive(tmp_path / "plant")
    prepare(lambda: connected(conninfo))
    async with await psycopg.AsyncConnection.connect(conninfo) as db:
        await enqueue_async(db, "orders", b"asynchronous")
        assert await is_new_async(db, message)
    async with await psycopg.AsyncConnection.connect(conninfo) as db:
        assert not await is_new_async(db, message)
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: connected(conninfo))
    with Session(engine) as session:
        create_tables(session)
        enqueue(session, "orders", bytes(range(256)), label="50 % of :all")
        session.commit()
    engine.dispose()
    said = [(b"asynchronous", "{}"), (bytes(range(256)), '{"label": "50 % of :all"}')]
    assert rows(lambda: connected(conninfo), "body, properties") == said


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
    with pytest.raises(triack.UsageError, match="it takes SQLite and PostgreSQL"):
        create_tables(object())
    db.close()
    assert rows(sqlite) == []


async def test_a_connection_of_the_wrong_kind_is_named(sqlite: Connect, tmp_path: Path) -> None:
    message, db = await receive(tmp_path / "plant"), sqlite()
    with pytest.raises(triack.UsageError, match="is not asynchronous"):
        await enqueue_async(db, "orders", b"")
    with pytest.raises(triack.UsageError, match=r"is_new_async: .* is not asynchronous; is_new\(\) takes it"):
        await is_new_async(db, message)
    db.close()


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

    with closing(sqlite3.connect(":memory:", factory=Mine)) as db:
        create_tables(db)
        create_tables(db)
        assert db.execute("SELECT count(*) FROM triack_outbox").fetchone() == (0,)


@pytest.mark.parametrize("name", ["", "a b", "a;b", "1a", "a.b.c", None])
def test_a_name_of_a_table_is_checked(name: object) -> None:
    with pytest.raises(triack.UsageError, match="a table is named by"):
        as_table(name)


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
