"""A shop and its warehouse, each with a database, crash at every step: right ones pass, and wrong ones are named.

An order is right if it is in the database of the shop and, in the end, once in that of the warehouse.
"""

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

import triack
import triack.outbox
from triack.testing import World

pytestmark = pytest.mark.gate

Service = Callable[[Path], Coroutine[Any, Any, None]]
ITEMS = ["valves", "pumps"]


def connect(file: Path) -> sqlite3.Connection:
    """No power is lost here, and a kill takes nothing that SQLite has written."""
    db = sqlite3.connect(file)
    db.execute("PRAGMA synchronous = OFF")
    return db


def opened(file: Path, table: str) -> sqlite3.Connection:
    db = connect(file)
    db.execute(f"CREATE TABLE IF NOT EXISTS {table} (item TEXT)")
    triack.outbox.create_tables(db)
    return db


def items(file: Path, table: str) -> list[str]:
    db = sqlite3.connect(file)
    found = [item for (item,) in db.execute(f"SELECT item FROM {table} ORDER BY rowid").fetchall()]
    db.close()
    return found


async def sell(file: Path, order: Callable[[sqlite3.Connection, str], None]) -> None:
    db = opened(file, "orders")
    async with triack.open("shop", data="data") as node:
        pump = asyncio.create_task(triack.outbox.Pump(node, lambda: connect(file)).run())
        await asyncio.sleep(1)
        for item in ITEMS:
            if db.execute("SELECT 1 FROM orders WHERE item = ?", (item,)).fetchone() is None:
                order(db, item)
        await pump


async def shop(file: Path) -> None:
    def order(db: sqlite3.Connection, item: str) -> None:
        with db:
            db.execute("INSERT INTO orders VALUES (?)", (item,))
            triack.outbox.enqueue(db, "warehouse/orders", item.encode())

    await sell(file, order)


async def shop_that_forgets_the_transaction(file: Path) -> None:
    def order(db: sqlite3.Connection, item: str) -> None:
        with db:
            db.execute("INSERT INTO orders VALUES (?)", (item,))
        with db:
            triack.outbox.enqueue(db, "warehouse/orders", item.encode())

    await sell(file, order)


async def receive(take: Callable[[triack.Message], Coroutine[Any, Any, None]]) -> None:
    async with (
        triack.open("warehouse", data="data", listen="udp://127.0.0.1:7802") as node,
        node.receive("orders", ack="manual") as orders,
    ):
        async for message in orders:
            await take(message)


async def warehouse(file: Path) -> None:
    async def take(message: triack.Message) -> None:
        with db:
            if triack.outbox.is_new(db, message):
                db.execute("INSERT INTO stock VALUES (?)", (message.body.decode(),))
        message.ack()

    db = opened(file, "stock")
    await receive(take)


async def warehouse_by_aiosqlite(file: Path) -> None:
    async def take(message: triack.Message) -> None:
        if await triack.outbox.is_new_async(db, message):
            await db.execute("INSERT INTO stock VALUES (?)", (message.body.decode(),))
            await asyncio.sleep(0.01)
        await db.commit()
        message.ack()

    opened(file, "stock").close()
    async with aiosqlite.connect(file) as db:
        await db.execute("PRAGMA synchronous = OFF")
        await receive(take)


async def warehouse_that_acknowledges_before_its_commit(file: Path) -> None:
    async def take(message: triack.Message) -> None:
        if triack.outbox.is_new(db, message):
            db.execute("INSERT INTO stock VALUES (?)", (message.body.decode(),))
        message.ack()
        await asyncio.sleep(0.01)
        db.commit()

    db = opened(file, "stock")
    await receive(take)


async def warehouse_that_takes_what_comes_again(file: Path) -> None:
    async def take(message: triack.Message) -> None:
        with db:
            db.execute("INSERT INTO stock VALUES (?)", (message.body.decode(),))
        message.ack()

    db = opened(file, "stock")
    await receive(take)


def crash_at_every_step(folder: Path, victim: str, shop: Service, warehouse: Service) -> int:
    """Returns the number of steps at which the victim crashed. Raises AssertionError with the first wrong order."""

    async def test(world: World, steps: int) -> bool:
        files = {name: folder / f"{name}-{steps}.db" for name in ("shop", "warehouse")}
        machines = {name: world.machine(name) for name in files}
        machines["warehouse"].start(warehouse, files["warehouse"])
        machines["shop"].start(shop, files["shop"])
        await world.advance(0.5)
        machines[victim].crash_after(steps)

        def is_done() -> bool:
            look = machines["warehouse"].nodes.get("warehouse")
            if look is None or "orders" not in (queues := look().queues) or queues["orders"].messages:
                return False
            return len(items(files["warehouse"], "stock")) >= len(ITEMS)

        await world.until(lambda: not machines[victim].is_up or is_done())
        await world.advance(0.1)  # the acknowledgement reaches the disk
        crashed = not machines[victim].is_up
        if crashed:
            machines[victim].restart()
        with contextlib.suppress(triack.WaitTimeout):
            await world.until(is_done, timeout=20)
        await world.advance(1)
        assert items(files["shop"], "orders") == ITEMS
        stock = items(files["warehouse"], "stock")
        for item in ITEMS:
            assert stock.count(item) == 1, f"{item} arrived {stock.count(item)} times; {victim} crashed at {steps}"
        return crashed

    for steps in itertools.count():
        with World(seed=steps) as world:
            if not world.run(test(world, steps)):
                return steps
    raise AssertionError("there is no last step")


@pytest.mark.parametrize("victim", ["shop", "warehouse"])
@pytest.mark.parametrize("receiver", [warehouse, warehouse_by_aiosqlite])
def test_a_right_service_passes(tmp_path: Path, victim: str, receiver: Service) -> None:
    assert crash_at_every_step(tmp_path, victim, shop, receiver) > 20


@pytest.mark.parametrize(
    ("shop", "warehouse", "said"),
    [
        (shop_that_forgets_the_transaction, warehouse, "arrived 0 times; shop crashed"),
        (shop, warehouse_that_acknowledges_before_its_commit, "arrived 0 times; warehouse crashed"),
        (shop, warehouse_that_takes_what_comes_again, "arrived 2 times; warehouse crashed"),
    ],
)
def test_a_wrong_service_is_named(tmp_path: Path, shop: Service, warehouse: Service, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        crash_at_every_step(tmp_path, said.split()[3], shop, warehouse)


async def shop_that_sends_late(file: Path) -> None:
    db = opened(file, "orders")
    with db:
        triack.outbox.enqueue(db, "warehouse/orders", b"apple", time_to_reach_queue=60)
    await asyncio.sleep(600)
    async with triack.open("shop", data="data") as node:
        await triack.outbox.Pump(node, lambda: connect(file)).run()


def test_an_outbox_goes_by_the_clock_and_chance_of_its_machine(tmp_path: Path) -> None:
    def refused(file: Path) -> list[tuple[str, str]]:
        look = "SELECT id, refused FROM triack_outbox WHERE refused NOTNULL"
        return connect(file).execute(look).fetchall() if file.exists() else []

    found = []
    for file in (tmp_path / "one.db", tmp_path / "two.db"):
        with World(seed=1) as world:
            world.machine("shop").start(shop_that_sends_late, file)
            world.run(world.until(partial(refused, file), timeout=700))
        found += refused(file)
    assert found[0] == found[1]
    assert found[0][1] == "its time_to_reach_queue was over before it was sent"
