"""A neighbour with a key that sends the worst that its key permits, beside an honest one: ``make neighbour``.

The node is a separate process, with keys, a store and little memory for each peer; an honest peer always sends to it,
and the bad one (``worst``) has every right there is. Every few seconds it measures what the honest one gets through,
and by how much the node grows.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import triack
from proof.hundred import BATCH, BODY, Hub, child
from proof.worst import FAR, do_worst
from triack.node.files.keys import KeyKind, decode_key, encode_key
from triack.queues.node_settings import Limits, NodeSettings
from triack.transport.noise import KeyPair

SECONDS = 600.0
ALONE_S = 10.0
EVERY_S = 5.0
PEER_MEMORY_BYTES = 8 * 1024 * 1024
"""The memory of a peer that the node is set to."""
BESIDE_BYTES = 120 * 1024 * 1024
"""What the tables of docs/peer-cost.md let one peer have beyond that: pieces of packets in eight sessions 32 MiB, ended
streams that are awaited 16, the queues that it makes 16, administration messages that it does not accept 16, the ways
back of streams 13, answers about subscriptions 10, packets for other nodes 8, and 9 for the rest."""
PER_SECOND = 400
"""Messages of the honest one: a fifth of what a node accepts of one peer on a small machine."""
GOODPUT_MIN = 0.5
"""The share of that which the honest one keeps: the bad one, and its process, need some of the machine."""
KEY, FAR_KEY = bytes(range(32)), bytes(range(1, 33))


class Neighbour(NamedTuple):
    """The result."""

    alone: float
    beside: list[float]
    growth_bytes: int
    packets: dict[str, int]
    seconds: float

    @property
    def kept(self) -> float:
        """The share that the honest one keeps."""
        return round(sum(self.beside) / len(self.beside) / self.alone, 3)

    @property
    def violations(self) -> int:
        """Promises that were broken."""
        return (self.growth_bytes > PEER_MEMORY_BYTES + BESIDE_BYTES) + (self.kept < GOODPUT_MIN)

    def to_json(self) -> dict[str, Any]:
        """The figures."""
        return {**self._asdict(), "kept": self.kept, "violations": self.violations}


def neighbour(seconds: float, say: Callable[[str], object], alone_s: float = ALONE_S) -> Neighbour:
    """Measure the honest peer alone, and then beside the bad one for ``seconds``; ``say`` gets each figure."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as data, child(_hub, data) as (connection, pid):
        address, key, node_id = connection.recv()
        hub = Hub(connection, pid, address, min(EVERY_S, seconds))
        found = asyncio.run(_measure(hub, (address, key, node_id), (alone_s, seconds), say))
    return Neighbour(*found, round(time.monotonic() - started, 1))


async def _measure(
    hub: Hub, named: tuple[str, str, str], times_s: tuple[float, float], say: Callable[[str], object]
) -> tuple[float, list[float], int, dict[str, int]]:
    ready = asyncio.Event()
    honest = asyncio.create_task(_honest(hub, named, ready))
    await ready.wait()
    alone = await hub._replace(seconds=times_s[0]).rate()
    before_bytes, grown_bytes, beside, packets = hub.memory_bytes, 0, [], dict[str, int]()
    say(f"alone: {alone:,.0f} messages a second, {before_bytes / 2**20:,.1f} MiB")
    with child(_bad, *named) as (bad, _):
        until_s = time.monotonic() + times_s[1]
        while time.monotonic() < until_s:
            beside.append(await hub.rate())
            grown_bytes = max(grown_bytes, hub.memory_bytes - before_bytes)
            sent = []
            while bad.poll():
                kind, number = bad.recv()
                packets[kind] = packets.get(kind, 0) + number
                sent.append(f"{number:,} {kind}")
            figures = f"{beside[-1]:,.0f} a second, {(hub.memory_bytes - before_bytes) / 2**20:+,.1f} MiB"
            say(f"{figures}: {', '.join(sent)}")
    honest.cancel()
    await asyncio.gather(honest, return_exceptions=True)
    return alone, beside, grown_bytes, packets


async def _honest(hub: Hub, named: tuple[str, str, str], ready: asyncio.Event) -> None:
    with tempfile.TemporaryDirectory() as data:
        async with triack.open("honest", data=Path(data)) as node:
            hub.connection.send(node.key)
            await asyncio.to_thread(hub.connection.recv)
            await node.trust("hub", named[1], named[0])
            ready.set()
            while True:
                next_s = time.monotonic() + BATCH / PER_SECOND
                receipts = [await node.send("hub/work", BODY) for _ in range(BATCH)]
                await receipts[-1].ordered()
                await asyncio.sleep(next_s - time.monotonic())


def _bad(parent: Connection, address: str, key: str, node_id: str) -> None:
    turns = do_worst(address, KEY, decode_key(KeyKind.PUBLIC, key), bytes.fromhex(node_id))
    for turn in turns:
        parent.send(turn)


async def _hub(parent: Connection, data: str) -> None:
    """Read one queue, count, and let the bad one do all that a key may permit."""
    limits = Limits(peer_memory_bytes=PEER_MEMORY_BYTES, memory_bytes=8 * PEER_MEMORY_BYTES)
    settings, taken = NodeSettings(limits=limits, body_cache_bytes=2**20), 0
    async with triack.open("hub", data=data, listen="udp://127.0.0.1:0", settings=settings) as node:
        bad, far = (encode_key(KeyKind.PUBLIC, KeyPair.of(key).public) for key in (KEY, FAR_KEY))
        await node.trust(FAR, far)
        await node.trust("evil", bad, may_relay=["*"], relays_for=["n*"], may_subscribe=["#"])
        parent.send((node.address, node.key, node.node_id))
        await node.trust("honest", await asyncio.to_thread(parent.recv), send=["work"])
        parent.send("trusted")

        async def count() -> None:
            while True:
                await asyncio.to_thread(parent.recv)
                parent.send(taken)

        counting = asyncio.create_task(count())
        async with node.receive("work") as messages:
            async for message in messages:
                taken += message.body == BODY
        counting.cancel()
