"""A service with a queue manager inside: orders arrive, are worked on one by one, and survive a crash in the middle.

Run it twice: orders that were not finished in the first run come again in the second.
"""

import asyncio
import tempfile
from pathlib import Path

import triack


async def handle(order: triack.Message) -> None:
    """The service's own work; an exception here brings the order back after a while."""
    print(f"handled {order.body.decode()}")


async def main(folder: Path) -> None:
    """A shop sends three orders to a plant."""
    async with (
        triack.open("plant", data=folder / "plant", listen="udp://127.0.0.1:0") as plant,
        triack.open("shop", data=folder / "shop") as shop,
    ):
        await shop.trust("plant", plant.key, plant.address)
        await plant.trust("shop", shop.key)
        plant.handler("orders")(handle)
        for number in range(3):
            receipt = await shop.send("plant/orders", f"order {number}".encode())
        await receipt.ordered(timeout=10)
        while plant.queue_lengths()["orders"]:  # noqa: ASYNC110 - a service waits for a signal instead
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        triack.run(main(Path(folder)))
