"""A web shop with plain `def` endpoints of FastAPI, which run in threads: an order is a row and a message, or neither.

    pip install triack fastapi uvicorn
    uvicorn fastapi_service:app

The test beside it (test_fastapi_service.py) runs it in the simulated world.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from fastapi import FastAPI

import triack
import triack.outbox


def make_app(database: str = "shop.db", data: str = "shop") -> FastAPI:
    """The shop, with the file of its database and the directory of its node."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with closing(sqlite3.connect(database)) as db:
            db.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, item TEXT)")
            triack.outbox.create_tables(db)
            db.commit()
        async with triack.open("shop", data=data) as node:
            pump = asyncio.create_task(triack.outbox.Pump(node, lambda: sqlite3.connect(database)).run())
            yield
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{item}")
    def order(item: str) -> dict[str, int | None]:
        with closing(sqlite3.connect(database)) as db:
            number = db.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid
            triack.outbox.enqueue(db, "warehouse/orders", item.encode(), key=f"order-{number}")
            db.commit()
        return {"number": number}

    return app


app = make_app()
