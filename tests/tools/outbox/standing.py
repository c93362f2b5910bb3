"""A program for tests: its pump waits for a database that another connection has locked.

python -m tests.tools.outbox.standing DATABASE DATA    prints a line when it waits, and ends on SIGTERM
"""

import asyncio
import sqlite3
import sys

import triack
import triack.outbox


async def main(database: str, data: str) -> None:
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()
    locked = sqlite3.connect(database)
    locked.execute("BEGIN EXCLUSIVE")

    def connect() -> sqlite3.Connection:
        loop.call_soon_threadsafe(waits.set)
        return sqlite3.connect(database, timeout=3_600)

    async with triack.open("shop", data=data) as node:
        pump = asyncio.create_task(triack.outbox.Pump(node, connect).run())
        await waits.wait()
        sys.stdout.write("it waits\n")
        sys.stdout.flush()
        await pump


if __name__ == "__main__":
    triack.run(lambda: main(*sys.argv[1:]))
