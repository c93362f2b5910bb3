"""A web shop for ``uvicorn --workers``: each worker is a client of the node that ``triack serve`` runs, and pumps.

Its surroundings are in the environment: SHOP_DATABASE, SHOP_DATA, SHOP_WAREHOUSE.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import triack
import triack.outbox
from tests.postgres import connected


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with triack.connect(data=os.environ["SHOP_DATA"], start_timeout=60) as node:
        pump = asyncio.create_task(triack.outbox.Pump(node, lambda: connected(os.environ["SHOP_DATABASE"])).run())
        yield
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}")
def order(number: int) -> None:
    """An order that is there is not made again, as its number is a key."""
    with connected(os.environ["SHOP_DATABASE"]) as db:
        if db.execute("INSERT INTO orders VALUES (%s) ON CONFLICT DO NOTHING", (number,)).rowcount:
            triack.outbox.enqueue(db, f"{os.environ['SHOP_WAREHOUSE']}/orders", b"%d" % number)
