"""A program for tests: its pump kills its own process at one of its steps, and never gets beyond it.

python -m tests.tools.outbox.crashing DATABASE DATA STEP    prints "done" when the pump has fewer steps than that
"""

import asyncio
import os
import signal
import sqlite3
import sys
from typing import Any

import triack
import triack.outbox
from tests.postgres import connected
from triack.node.handles.transaction import Transaction
from triack.outbox.database import execute


class Steps:
    def __init__(self, last: int) -> None:
        self.left = last

    def take(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def around(self, call: Any) -> Any:
        def stepped(*args: Any) -> Any:
            self.take()
            done = call(*args)
            self.take()
            return done

        return stepped


class Stepping:
    """A connection whose every call is two steps: before it, and after it."""

    def __init__(self, connection: Any, steps: Steps) -> None:
        self.dbapi_connection = connection
        self.commit = steps.around(connection.commit)
        self.close = connection.close
        self._steps = steps

    def cursor(self) -> Any:
        self._steps.take()
        return self.dbapi_connection.cursor()


async def main(database: str, data: str, last: int) -> None:
    steps = Steps(last)
    commit = Transaction.commit

    async def stepping(self: Transaction, **options: Any) -> Any:
        steps.take()
        done = await commit(self, **options)
        steps.take()
        return done

    Transaction.commit = stepping  # type: ignore[method-assign]

    def connect() -> Any:
        return Stepping(connected(database) if "host=" in database else sqlite3.connect(database), steps)

    watch = connect().dbapi_connection
    async with triack.open("shop", data=data) as node:
        pump = asyncio.create_task(triack.outbox.Pump(node, connect).run())
        while True:
            ((left,),) = execute(watch, "SELECT count(*) FROM triack_outbox", {}).fetchall()
            watch.rollback()
            if not left or pump.done():
                break
            await asyncio.sleep(0.01)
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
