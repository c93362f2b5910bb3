"""A hundred peers of one node, over real sockets, of which one is bad: ``make hundred``.

The node is a separate process; 99 honest peers share another, and send as fast as they may. The hundredth sends 100,000
express messages of 5,000 bytes to a queue without a reader, or has stopped while the node sends to it, or sends
datagrams that are full of pings (``pinger``). It measures how much the honest ones get through meanwhile, and by how
much the node grows.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import iscoroutine
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import triack
from proof.pinger import ping_for_ever
from triack.queues.node_settings import Limits

PEERS = 99
SECONDS = 5.0
ROUNDS = 3
GOODPUT_MIN = 0.9
"""The share that the others keep (promise L9)."""
GROWTH_MAX_BYTES = int(Limits().peer_memory_bytes * 1.05)
"""The most memory that one peer may fill (promise X5)."""
BATCH = 20
BODY = bytes(200)
UNREAD, UNREAD_BODY = 100_000, bytes(5_000)
"""The messages sent to a queue without a reader."""
STOPPED_MESSAGES = 2_000
"""The messages that the node has for a peer that has stopped: many windows."""
SETTLE_S = 1.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SPAWN = get_context("spawn")


class Beside(NamedTuple):
    """The throughput of the honest peers beside a bad one."""

    alone: list[float]
    beside: list[float]
    growth_bytes: int

    @property
    def kept(self) -> float:
        """The share that is left."""
        return round(sum(self.beside) / sum(self.alone), 3)


class Hundred(NamedTuple):
    """Beside one whose messages are not read, beside one that has stopped, and beside one that sends pings.

    For the second one the node's memory holds what its own application has sent.
    """

    unread: Beside
    stopped: Beside
    pinging: Beside
    seconds: float

    @property
    def violations(self) -> int:
        """Promises that were broken."""
        slow = sum(beside.kept < GOODPUT_MIN for beside in (self.unread, self.stopped, self.pinging))
        return slow + (self.unread.growth_bytes > GROWTH_MAX_BYTES)

    def to_json(self) -> dict[str, Any]:
        """The figures."""
        alone = [*self.unread.alone, *self.stopped.alone, *self.pinging.alone]
        return {
            "messages_a_second": round(sum(alone) / len(alone)),
            "unread_kept": self.unread.kept,
            "unread_growth_bytes": self.unread.growth_bytes,
            "stopped_kept": self.stopped.kept,
            "pinging_kept": self.pinging.kept,
            "violations": self.violations,
            "seconds": self.seconds,
        }


def hundred(seconds: float = SECONDS, peers: int = PEERS, rounds: int = ROUNDS) -> Hundred:
    """Measure, by turns, alone and beside a bad peer of each kind."""
    started = time.monotonic()
    with child(_hub) as (hub, hub_pid):
        found = asyncio.run(_measure(Hub(hub, hub_pid, hub.recv(), seconds), peers, rounds))
    return Hundred(*found, round(time.monotonic() - started, 1))


class Hub(NamedTuple):
    """The node, and how long each of its measurements lasts."""

    connection: Connection
    pid: int
    address: str
    seconds: float

    async def rate(self) -> float:
        """The number of messages that it hands out in a second, after a short wait."""
        await asyncio.sleep(SETTLE_S)
        first, started = await asyncio.to_thread(self._count), time.monotonic()
        await asyncio.sleep(self.seconds)
        return (await asyncio.to_thread(self._count) - first) / (time.monotonic() - started)

    def _count(self) -> int:
        self.connection.send("count")
        count: int = self.connection.recv()
        return count

    @property
    def memory_bytes(self) -> int:
        """Its use of the machine's memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE_BYTES


async def _measure(hub: Hub, peers: int, rounds: int) -> tuple[Beside, Beside, Beside]:
    async with asyncio.TaskGroup() as group:
        honest = [group.create_task(_honest(f"peer{number}", hub.address)) for number in range(peers)]
        unread = await _beside(partial(_beside_flooding, _unread), hub, rounds)
        stopped = await _beside(_beside_stopped, hub, rounds)
        pinging = await _beside(partial(_beside_flooding, _pinging), hub, rounds)
        for task in honest:
            task.cancel()
    return unread, stopped, pinging


async def _beside(measure: Callable[[Hub], Coroutine[Any, Any, float]], hub: Hub, rounds: int) -> Beside:
    alone, beside, memory_bytes = [], [], []
    for _ in range(rounds):
        alone.append(await hub.rate())
        memory_bytes.append(hub.memory_bytes)
        beside.append(await measure(hub))
        memory_bytes.append(hub.memory_bytes)
    return Beside(alone, beside, max(memory_bytes) - memory_bytes[0])


async def _beside_stopped(hub: Hub) -> float:
    with child(_stopped) as (bad, bad_pid):
        hub.connection.send(await asyncio.to_thread(bad.recv))
        os.kill(bad_pid, signal.SIGSTOP)
        return await hub.rate()


async def _beside_flooding(bad_peer: Callable[..., Any], hub: Hub) -> float:
    with child(bad_peer, hub.address) as (bad, _):
        await asyncio.to_thread(bad.recv)
        return await hub.rate()


async def _honest(name: str, address: str) -> None:
    async with triack.open(name, data=None, insecure=True) as node:
        while True:
            receipts = [await node.send(f"{address}/work", BODY) for _ in range(BATCH)]
            await receipts[-1].ordered()


# ---- processes


@contextmanager
def child(target: Callable[..., Any], *arguments: str) -> Iterator[tuple[Connection, int]]:
    """A process that ends with the block, and a connection to it. ``target`` may be a coroutine function."""
    ours, its = _SPAWN.Pipe()
    process: BaseProcess = _SPAWN.Process(target=_run, args=(target, its, *arguments), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        yield ours, process.pid
    finally:
        process.kill()
        process.join()


def _run(target: Callable[..., Any], *arguments: Any) -> None:
    done = target(*arguments)
    if iscoroutine(done):
        asyncio.run(done)


async def _hub(parent: Connection) -> None:
    taken = 0
    async with triack.open("hub", data=None, listen="udp://127.0.0.1:0", insecure=True) as node:
        parent.send(node.address)

        async def answer() -> None:
            while True:
                said = await asyncio.to_thread(parent.recv)
                if said == "count":
                    parent.send(taken)
                else:
                    for _ in range(STOPPED_MESSAGES):
                        await node.send(f"{said}/work", BODY)

        answering = asyncio.create_task(answer())
        async for _ in node.receive("work"):
            taken += 1
            if answering.done():
                return


async def _unread(parent: Connection, address: str) -> None:
    async with triack.open("unread", data=None, insecure=True) as node:
        parent.send("ready")
        for _ in range(UNREAD):
            await node.send(f"{address}/unread", UNREAD_BODY, delivery=triack.Delivery.EXPRESS)
        await asyncio.Event().wait()


def _pinging(parent: Connection, address: str) -> None:
    sessions = ping_for_ever(address)
    next(sessions)
    parent.send("ready")
    for _ in sessions:
        pass


async def _stopped(parent: Connection) -> None:
    async with triack.open("stopped", data=None, listen="udp://127.0.0.1:0", insecure=True) as node:
        parent.send(node.address)
        await asyncio.Event().wait()
