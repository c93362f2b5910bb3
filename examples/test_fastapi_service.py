"""The web shop in a simulated world: it is called without a socket, the network is bad, and it crashes."""

import asyncio
from pathlib import Path

import httpx
from fastapi_service import make_app

import triack
from triack.testing import World


async def stock_up(stock: list[str]) -> None:
    """The warehouse."""
    async with triack.open("warehouse", data="data", listen="udp://127.0.0.1:7802") as node:
        async for message in node.receive("orders"):
            stock.append(message.body.decode())  # noqa: PERF401 - it has no end


async def sell(database: Path, items: list[str], sold: list[str]) -> None:
    """Serve the shop, and order what was not answered yet."""
    app = make_app(str(database), "data")
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://shop") as web:
        for item in items[len(sold) :]:
            answer = await web.post(f"/orders/{item}")
            assert answer.status_code == 200
            sold.append(item)
        await asyncio.Event().wait()


async def test_every_order_arrives_once(triack_world: World, tmp_path: Path) -> None:
    """An order that was answered is in the database and arrives; one that was interrupted is ordered again."""
    stock: list[str] = []
    sold: list[str] = []
    items = [f"valve-{number}" for number in range(20)]
    triack_world.machine("warehouse").start(stock_up, stock)
    triack_world.set_loss(0.2)
    shop = triack_world.machine("shop")
    shop.start(sell, tmp_path / "shop.db", items, sold)
    shop.crash_after(40)
    await triack_world.until(lambda: not shop.is_up)
    shop.restart()
    await triack_world.until(lambda: len(stock) == 20)
    await triack_world.advance(60)
    assert stock == items
