"""The two ends of large bodies, as processes that may be killed at any moment.

python -m tests.api.stories.large_ends send DATA PORT COUNT       each body in a transaction, with how many there were
python -m tests.api.stories.large_ends receive DATA PORT COUNT    the same; ends when it has had all, each as it was
"""

import asyncio
import sys
from random import Random

import triack

SETTINGS = triack.NodeSettings(large=triack.LargeBodies(from_bytes=100_000, part_bytes=64_000, ahead_bytes=256_000))


def body_of(number: int) -> bytes:
    return Random(number).randbytes(3_000_000 + number)


async def send(data: str, port: str, count: str) -> None:
    peers = {"b": f"udp://127.0.0.1:{port}"}
    async with triack.open("a", data=data, insecure=True, peers=peers, settings=SETTINGS) as node:
        for number in range(int(node.recall("sent") or 0), int(count)):
            async with node.transaction() as tx:
                await tx.send_stream("b/q", body_of(number))
                tx.remember("sent", b"%d" % (number + 1))
        await asyncio.Event().wait()


async def receive(data: str, port: str, count: str) -> None:
    listen = f"udp://127.0.0.1:{port}"
    async with triack.open("b", data=data, insecure=True, listen=listen, settings=SETTINGS) as node:
        for number in range(int(node.recall("seen") or 0), int(count)):
            async with node.transaction() as tx:
                message = await tx.receive("q")
                body = b"".join([chunk async for chunk in message.stream()])
                assert body == body_of(number), (number, len(body))
                tx.remember("seen", b"%d" % (number + 1))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    asyncio.run({"send": send, "receive": receive}[what](*arguments))
