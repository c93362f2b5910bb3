"""A service with a queue manager inside: orders arrive, are worked on one by one, and survive a crash in the middle.

Run it twice: orders that were not finished in the first run come again in the second.
"""

import asyncio
import tempfile
from pathlib import Path

import triack


async def handle(order: bytes) -> None:
    """The service's own work; an exception here leaves the order in the queue."""
    print(f"handled {order.decode()}")


async def serve(node: triack.Node, count: int) -> None:
    """Work on ``count`` orders. Each is acknowledged when the next one is asked for."""
    async with node.receive("orders") as orders:
        for _ in range(count):
            message = await orders.get(timeout=10)
            await handle(message.body)


async def main(folder: Path) -> None:
    """A shop sends three orders to a plant."""
    async with (
        triack.open("plant", data=folder / "plant", listen="udp://127.0.0.1:0") as plant,
        triack.open("shop", data=folder / "shop") as shop,
    ):
        await shop.trust("plant", plant.key, plant.address)
        await plant.trust("shop", shop.key)
        service = asyncio.create_task(serve(plant, 3))
        for number in range(3):
            receipt = await shop.send("plant/orders", f"order {number}".encode())
        await receipt.ordered(timeout=10)
        await service


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
