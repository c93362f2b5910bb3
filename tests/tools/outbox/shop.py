"""Programs of a test, each of which may be killed at any moment: a web worker, the node with the pump, a warehouse.

python -m tests.tools.outbox.shop worker DATABASE FIRST COUNT    orders, each a row and a message in one transaction
python -m tests.tools.outbox.shop pump DATABASE DATA PORT        sends them to the warehouse, which listens there
python -m tests.tools.outbox.shop warehouse DATABASE DATA PORT   takes each once, with its id in the same transaction
"""

import asyncio
import sys
import time
from typing import Any

import psycopg

import triack
import triack.outbox
from tests.postgres import connected


def again(work: Any) -> Any:
    while True:
        try:
            return work()
        except psycopg.Error:
            time.sleep(0.05)


def worker(database: str, first: str, count: str) -> None:
    """An order that is there is not made again, as its number is a key."""

    def order(number: int) -> None:
        with connected(database) as db:
            new = db.execute("INSERT INTO orders VALUES (%s) ON CONFLICT DO NOTHING", (number,)).rowcount
            if new:
                triack.outbox.enqueue(db, "warehouse/orders", b"%d" % number)

    for number in range(int(first), int(first) + int(count)):
        again(lambda: order(number))  # noqa: B023 - called here
        time.sleep(0.02)


async def pump(database: str, data: str, port: str) -> None:
    peers = {"warehouse": f"udp://127.0.0.1:{port}"}
    async with triack.open("shop", data=data, insecure=True, peers=peers) as node:
        await triack.outbox.Pump(node, lambda: connected(database)).run()


async def warehouse(database: str, data: str, port: str) -> None:
    listen = f"udp://127.0.0.1:{port}"
    async with triack.open("warehouse", data=data, insecure=True, listen=listen) as node:
        reader = node.receive("orders", ack="manual")
        while True:
            message = await reader.get()

            def take(message: triack.Message = message) -> None:
                with connected(database) as db:
                    if triack.outbox.is_new(db, message):
                        db.execute("INSERT INTO stock (number) VALUES (%s)", (int(message.body),))

            await asyncio.to_thread(again, take)
            message.ack()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "worker":
        worker(*arguments)
    else:
        asyncio.run({"pump": pump, "warehouse": warehouse}[what](*arguments))
