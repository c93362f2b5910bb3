"""The pump of an outbox: each row is sent once, in order, whatever dies."""

import asyncio
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.postgres import Postgres, connected
from tests.tools.outbox.conftest import Connect, prepare
from triack.node.handles.transaction import Transaction
from triack.outbox import OutboxTaken, Pump, enqueue
from triack.outbox.database import execute
from triack.testing import World

WAIT = PATIENCE_S


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT):
        while not holds():  # noqa: ASYNC110 - what pumps do has no event
            await asyncio.sleep(0.01)


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


async def bodies(node: triack.Node, queue: str, count: int) -> list[bytes]:
    async with node.receive(queue) as reader:
        return [(await reader.get(WAIT)).body for _ in range(count)]


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


async def test_several_pumps_send_each_row_once(connect: Connect, tmp_path: Path) -> None:
    """Two beside the node, two in clients of it."""
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
    """It could send what the first has sent already."""
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
