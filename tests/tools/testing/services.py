"""Services of a few lines, as users write them: they know nothing of a simulation."""

import asyncio

import triack

B = "udp://127.0.0.1:7802"


async def collect(got: list[bytes], address: str = B) -> None:
    """Put what arrives in the queue ``q`` into a list, once each: its place is taken in the transaction."""
    async with triack.open("b", data="b", listen=address, insecure=True) as node:
        while True:
            async with node.transaction() as transaction:
                got.append((await transaction.receive("q")).body)


async def feed(count: int, address: str = B, pause: float = 0.0) -> None:
    async with triack.open("a", data="a", insecure=True) as node:
        for number in range(int(node.recall("sent") or 0), count):
            async with node.transaction() as transaction:
                await transaction.send(f"{address}/q", b"%d" % number)
                transaction.remember("sent", b"%d" % (number + 1))
            await asyncio.sleep(pause)
        raise await node.failed()


def numbers(count: int) -> list[bytes]:
    """What ``collect`` has when all has arrived."""
    return [b"%d" % number for number in range(count)]
