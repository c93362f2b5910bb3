"""The pump of an outbox: each row is sent once, in order, whatever dies."""

import asyncio
import logging
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import bodies, until
from tests.postgres import Postgres, connected
from tests.tools.outbox.conftest import Connect, prepare
from triack.node.handles.transaction import Transaction
from triack.outbox import OutboxTaken, Pump, enqueue
from triack.outbox.database import execute
from triack.testing import World

WAIT = PATIENCE_S


@asynccontextmanager
async def running(*pumps: Pump) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(pump.run()) for pump in pumps]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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


async def test_what_commits_is_sent_once_and_in_order(connect: Connect, tmp_path: Path) -> None:
    """With its properties; what is rolled back is not sent."""
    wanted = [b"%d" % number for number in range(1_200)]
    put(connect, *wanted)
    db = connect()
    enqueue(db, "orders", b"never")
    db.rollback()
    db.close()
    put(connect, b"labelled", label="for people", headers={"by": "till 3"}, time_to_be_received=600.0)
    async with triack.open("shop", data=tmp_path / "shop") as node, running(Pump(node, connect)):
        assert await bodies(node, "orders", 1_200) == wanted
        message = await node.receive("orders", ack="manual").get(WAIT)
        assert (message.body, message.label, message.headers) == (b"labelled", "for people", {"by": "till 3"})
        assert message.receive_by is not None
        await until(lambda: not rows(connect))


async def test_it_looks_at_once_when_it_is_woken(sqlite: Connect, tmp_path: Path) -> None:
    async with triack.open("shop", data=tmp_path / "shop") as node:
        pump = Pump(node, sqlite, poll_s=3_600)
        async with running(pump):
            put(sqlite, b"first")
            assert await bodies(node, "orders", 1) == [b"first"]
            put(sqlite, b"second")
            pump.wake()
            assert await bodies(node, "orders", 1) == [b"second"]


@pytest.mark.gate
async def test_several_pumps_send_each_row_once(connect: Connect, tmp_path: Path) -> None:
    wanted = [b"%d" % number for number in range(2_000)]
    async with (
        triack.open("shop", data=tmp_path / "shop") as node,
        triack.connect(data=tmp_path / "shop") as one,
        triack.connect(data=tmp_path / "shop") as other,
        running(*(Pump(it, connect) for it in (node, node, one, other))),
    ):
        for start in range(0, 2_000, 100):
            put(connect, *wanted[start : start + 100])
            await asyncio.sleep(0)
        assert await bodies(node, "orders", 2_000) == wanted
        await until(lambda: not rows(connect))
        assert node.queue_lengths()["orders"] == 0


async def test_a_pump_that_is_behind_deletes_nothing_that_is_not_on_the_disk(
    sqlite: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the ids that another one has remembered, waits for the disk, and only then deletes."""
    put(sqlite, b"x")
    order: list[str] = []
    flush = triack.Node.flush

    async def watched(self: triack.Node) -> None:
        order.append("flush")
        await flush(self)

    monkeypatch.setattr(triack.Node, "flush", watched)
    async with triack.open("shop", data=tmp_path / "shop") as node:
        async with running(Pump(node, sqlite)):
            await until(lambda: not rows(sqlite))
        assert order == ["flush"]


async def test_a_second_node_is_refused(sqlite: Connect, tmp_path: Path) -> None:
    put(sqlite, b"x")
    async with triack.open("shop", data=tmp_path / "shop") as shop, running(Pump(shop, sqlite)):
        await until(lambda: not rows(sqlite))
        first = shop.node_id
    async with triack.open("other", data=tmp_path / "other") as other:
        with pytest.raises(OutboxTaken, match=f"table triack_outbox: node {first} does that"):
            await Pump(other, sqlite).run()
        with pytest.raises(triack.UsageError, match="a table is named by letters"):
            Pump(other, sqlite, table="a; DROP TABLE b")


async def test_a_node_that_replaces_another_ends_the_first_ones_pump(sqlite: Connect, tmp_path: Path) -> None:
    async with triack.open("shop", data=tmp_path / "shop") as shop:
        pump = Pump(shop, sqlite)
        task = asyncio.create_task(pump.run())
        put(sqlite, b"x")
        await until(lambda: pump.sent)
        db = sqlite()
        db.execute("UPDATE triack_outbox_owner SET node = 'another'")
        db.commit()
        db.close()
        with pytest.raises(OutboxTaken, match="node another does that"):
            await task


async def test_it_ends_with_its_node_and_runs_once(sqlite: Connect, tmp_path: Path) -> None:
    async with triack.open("shop", data=tmp_path / "shop") as node:
        pump = Pump(node, sqlite, poll_s=0.01)
        task = asyncio.create_task(pump.run())
        await asyncio.sleep(0)
        with pytest.raises(triack.UsageError, match="it runs already"):
            await pump.run()
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
    sqlite: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture, properties: str, why: str
) -> None:
    """With its reason, in the table and in the log; the rows around it are sent."""
    caplog.set_level(logging.WARNING, "triack")
    put(sqlite, b"before")
    put(sqlite, b"late", time_to_reach_queue=0.001)
    put(sqlite, b"poisoned", b"after")
    db = sqlite()
    db.execute("UPDATE triack_outbox SET enqueued_ms = enqueued_ms - 1000 WHERE body = ?", (b"late",))
    db.execute("UPDATE triack_outbox SET properties = ? WHERE body = ?", (properties, b"poisoned"))
    db.commit()
    db.close()
    async with triack.open("shop", data=tmp_path / "shop") as node:
        pump = Pump(node, sqlite)
        async with running(pump):
            assert await bodies(node, "orders", 2) == [b"before", b"after"]
            await until(lambda: len(rows(sqlite)) == 2)
    late, poisoned = rows(sqlite, "body, refused")
    assert late == (b"late", "its time_to_reach_queue was over before it was sent")
    assert (poisoned[0], why in poisoned[1]) == (b"poisoned", True)
    assert (pump.sent, pump.refused) == (2, 2)
    assert "is set aside, as it cannot be sent: its time_to_reach_queue was over" in caplog.text


@pytest.mark.gate
async def test_a_peer_that_is_not_known_yet_holds_only_its_own_messages(sqlite: Connect, tmp_path: Path) -> None:
    """They wait in the outbox, in order, and ``waits_for`` says why."""
    put(sqlite, b"1", to="plant/orders")
    put(sqlite, b"here")
    put(sqlite, b"2", b"3", to="plant/orders")
    async with triack.open("shop", data=tmp_path / "shop") as node, triack.open("plant", data=None) as plant:
        pump = Pump(node, sqlite)
        async with running(pump):
            assert await bodies(node, "orders", 1) == [b"here"]
            await until(lambda: pump.waits_for and len(rows(sqlite)) == 3)
            assert "plant" in pump.waits_for["plant/orders"]
            assert rows(sqlite) == [b"1", b"2", b"3"]
            await node.trust("plant", plant.key, "udp://127.0.0.1:9")
            await until(lambda: not rows(sqlite))
        assert pump.waits_for == {}
        assert node.stats().outgoing[0].messages == 3


async def test_no_row_overtakes_another_for_its_destination(
    sqlite: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    async with triack.open("shop", data=tmp_path / "shop") as node, running(Pump(node, sqlite)):
        assert await bodies(node, "orders", 2) == [b"1", b"2"]
    assert refused == [b"1"]


@pytest.mark.parametrize("by_client", [False, True])
async def test_a_row_waits_for_room_and_is_sent_when_there_is_some(
    sqlite: Connect, tmp_path: Path, *, by_client: bool
) -> None:
    """``waits_for`` names the cause; what somebody deletes from the table waits no more."""
    settings = triack.NodeSettings(limits=triack.Limits(quota=triack.Quota(messages=1)))
    async with (
        triack.open("shop", data=tmp_path / "shop", settings=settings) as node,
        triack.connect(data=tmp_path / "shop") as client,
    ):
        for queue in ("full", "given-up"):
            await node.send(queue, b"first")
            put(sqlite, b"second", b"third", to=queue)
        pump = Pump(client if by_client else node, sqlite)
        async with running(pump):
            await until(lambda: len(pump.waits_for) == 2)
            why = "send to full: no room within 0 s: too many messages wait in that queue"
            assert pump.waits_for["full"] == why
            db = sqlite()
            db.execute("DELETE FROM triack_outbox WHERE destination = 'given-up'")
            db.commit()
            db.close()
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
    sqlite: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eldest are forgotten, and tried like any other."""
    monkeypatch.setattr("triack.outbox.pump.HELD_MAX", 3)
    for number in range(5):
        put(sqlite, b"x", to=f"plant{number}/orders")
    async with triack.open("shop", data=tmp_path / "shop") as node, triack.open("plant", data=None) as plant:
        pump = Pump(node, sqlite)
        async with running(pump):
            await until(lambda: len(pump.waits_for) == 3)
            await node.trust("plant0", plant.key, "udp://127.0.0.1:9")
            await until(lambda: len(rows(sqlite)) == 4)
            assert len(pump.waits_for) == 3


async def test_a_database_that_stands_still_is_told_and_given_up(
    sqlite: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    async with triack.open("shop", data=tmp_path / "shop") as node:
        pump = Pump(node, connect)
        monkeypatch.setattr(pump, "waits_for", Told(told))
        async with running(pump):
            await until(lambda: pump.sent)
            answers.set()
            put(sqlite, b"y")
            assert await bodies(node, "orders", 2) == [b"x", b"y"]
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


async def test_connections_that_are_given_up_are_not_many(
    sqlite: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LATE_S", 0.001), ("LOST_S", 0.001), ("STUCK_MAX", 3), ("BACK_OFF_S", (0.001, 0.001))):
        monkeypatch.setattr(f"triack.outbox.pump.{name}", value)
    put(sqlite, b"x")
    answers = threading.Event()
    made: list[int] = []

    def connect() -> Any:
        made.append(1)
        answers.wait()
        return sqlite()

    async with triack.open("shop", data=tmp_path / "shop") as node:
        pump = Pump(node, connect)
        async with running(pump):
            await until(lambda: len(made) == 3)
            for _ in range(20):
                await node.flush()
            assert len(made) == 3
            monkeypatch.undo()
            answers.set()
            assert await bodies(node, "orders", 1) == [b"x"]


async def test_a_cancellation_that_is_not_its_own_is_a_failure(sqlite: Connect, tmp_path: Path) -> None:
    """As of a task of the driver's own: the pump says so, and goes on."""
    put(sqlite, b"x")
    told: list[str] = []
    made: list[int] = []

    def connect() -> Any:
        made.append(1)
        if len(made) == 1:
            raise asyncio.CancelledError("by somebody else")
        return sqlite()

    async with triack.open("shop", data=tmp_path / "shop") as node:
        pump = Pump(node, connect)
        pump.waits_for = Told(told)
        async with running(pump):
            assert await bodies(node, "orders", 1) == [b"x"]
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
async def test_a_database_that_is_away_is_waited_for(
    postgres: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server is killed with work on its way; the log says it once, and the pump goes on."""
    caplog.set_level(logging.INFO, "triack")
    conninfo = postgres.conninfo()

    def connect() -> Any:
        return connected(conninfo)

    prepare(connect)
    wanted = [b"%d" % number for number in range(900)]
    put(connect, *wanted)
    async with triack.open("shop", data=tmp_path / "shop") as node:
        pump = Pump(node, connect)
        async with running(pump):
            await until(lambda: pump.sent)
            await asyncio.to_thread(postgres.kill)
            await until(lambda: pump.waits_for)
            assert "cannot read messages of outbox triack_outbox" in pump.waits_for[""]
            await asyncio.to_thread(postgres.start)
            put(connect, b"last")
            assert await bodies(node, "orders", 901) == [*wanted, b"last"]
            await until(lambda: not rows(connect))
        assert node.queue_lengths()["orders"] == 0
    assert "outbox triack_outbox is read again" in caplog.text


@pytest.mark.slow
def test_it_may_be_killed_at_every_step(connect: Connect, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A program that kills itself at its first step, its second, and so on until it gets to its end."""
    db = connect()
    place = str(tmp_path / "app.db") if isinstance(db, sqlite3.Connection) else db.info.dsn
    db.close()
    wanted: list[bytes] = []
    steps, printed = 0, ""
    while not printed:
        new = [b"%d" % (len(wanted) + number) for number in range(3)]
        put(connect, *new)
        wanted += new
        command = [sys.executable, "-m", "tests.tools.outbox.crashing", place, str(tmp_path / "shop"), str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        printed = done.stdout
        steps += 1
    assert printed == "done\n"
    assert steps > 12

    async def receive() -> list[bytes]:
        async with triack.open("shop", data=tmp_path / "shop") as node:
            return await bodies(node, "orders", node.queue_lengths()["orders"])

    assert asyncio.run(receive()) == wanted


async def serve(stock: list[bytes]) -> None:
    async with triack.open("warehouse", data="data", listen="udp://127.0.0.1:7802") as node:
        async for message in node.receive("orders"):
            stock.append(message.body)  # noqa: PERF401 - it has no end


async def pump_of(connect: Connect) -> None:
    async with triack.open("shop", data="data") as node:
        await Pump(node, connect).run()


@pytest.mark.parametrize(
    "first", [0, pytest.param(20, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.slow)]
)
def test_its_machine_may_crash_at_any_effect(tmp_path: Path, first: int) -> None:
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

    for effects in range(first, first + 20, 2):
        connect = partial(sqlite3.connect, tmp_path / f"{effects}.db")
        prepare(connect)
        with World(seed=effects) as world:
            world.run(test(world, connect, effects))
