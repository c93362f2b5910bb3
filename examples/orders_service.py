"""An order service of three parts: a shop sends orders, a plant makes an invoice of each, an office keeps the ledger.

No part looks for duplicates, counts attempts or saves its progress anywhere but in a transaction, and yet each order is
invoiced exactly once, after any crash on the way. test_orders_service.py, beside this file, shows it.
"""

import asyncio
import tempfile
from pathlib import Path

import triack

PLANT = "udp://127.0.0.1:7811"
OFFICE = "udp://127.0.0.1:7812"


async def run_shop(data: Path, count: int, pause: float = 0.0) -> None:
    """Send ``count`` orders, ``pause`` seconds apart; started again, go on where the last start ended."""
    async with triack.open("shop", data=data) as node:
        for number in range(int(node.recall("sent") or 0), count):
            async with node.transaction() as transaction:
                await transaction.send("plant/orders", b"order %d" % number)
                transaction.remember("sent", b"%d" % (number + 1))
            await asyncio.sleep(pause)
        raise await node.failed()  # stay, until the disk fails: unacknowledged orders leave meanwhile


async def run_plant(data: Path) -> None:
    """Answer each order with an invoice; invoices are numbered without a gap."""
    async with triack.open("plant", data=data, listen=PLANT) as node:
        while True:
            async with node.transaction() as transaction:
                order = await transaction.receive("orders")
                number = int(node.recall("invoices") or 0) + 1
                await transaction.send("office/invoices", b"invoice %d: %s" % (number, order.body))
                transaction.remember("invoices", b"%d" % number)


async def run_office(data: Path, ledger: list[str]) -> None:
    """Write the invoices into the ledger."""
    async with triack.open("office", data=data, listen=OFFICE) as node:
        async for invoice in node.receive("invoices"):
            ledger.append(invoice.body.decode())  # noqa: PERF401 - it never ends


async def introduce(folder: Path) -> None:
    """Let the three know each other, once; between machines, `triack enrol` does it."""
    async with (
        triack.open("shop", data=folder / "shop") as shop,
        triack.open("plant", data=folder / "plant") as plant,
        triack.open("office", data=folder / "office") as office,
    ):
        await shop.trust("plant", plant.key, PLANT)
        await plant.trust("shop", shop.key, send=["orders"])
        await plant.trust("office", office.key, OFFICE)
        await office.trust("plant", plant.key, send=["invoices"])


async def main(folder: Path) -> None:
    """Some orders, on this machine."""
    count = 3
    ledger: list[str] = []
    await introduce(folder)
    services = [
        asyncio.create_task(run_office(folder / "office", ledger)),
        asyncio.create_task(run_plant(folder / "plant")),
        asyncio.create_task(run_shop(folder / "shop", count)),
    ]
    while len(ledger) < count:  # noqa: ASYNC110 - the ledger is a plain list
        await asyncio.sleep(0.01)
    for service in services:
        service.cancel()
    await asyncio.gather(*services, return_exceptions=True)
    print("\n".join(ledger))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        triack.run(main(Path(folder)))
