"""Two ends whose settings are presets: their sessions alone, simulated nodes, or nodes of the public API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import triack
from tests.queues.world import SimNode, World
from tests.session.pair import Pair
from triack import testing
from triack.base.datagram import Kind, read_header
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings
from triack.tools.sim.faults import Faults

LISTEN = "udp://127.0.0.1:7802"
Q = f"{LISTEN}/q"


def acks(settings: NodeSettings, packets: int, *, peer: NodeSettings | None = None) -> list[tuple[float, str, int]]:
    """Acks for ``packets`` packets that arrive at once, with nothing after: seconds since then, cause, count."""
    pair = Pair.opened(settings.session, peer_settings=(peer or settings).session, udp=False)
    arrive_ns = pair.now_ns + 10 * MS
    pair.send("a", packets)
    pair.run(10 * SECOND)
    return [((at_ns - arrive_ns) / SECOND, cause, count) for at_ns, cause, count in pair.acks("b")]


def pair(
    settings: NodeSettings, other: NodeSettings | None = None, *, round_trip_ns: int = 2 * MS, make: type[World] = World
) -> tuple[World, SimNode, SimNode]:
    world = make(1, Faults(delay_ns=round_trip_ns // 2))
    return world, world.node("a", settings), world.node("b", other or settings)


def waits_s(settings: NodeSettings) -> list[float]:
    """How long after one attempt to reach a peer that never answers the next begins, in three minutes."""
    world, a, b = pair(settings)
    b.crash()
    calls: list[int] = []
    world.network.tap = lambda data, _sender, _to: (
        calls.append(world.now_ns) if read_header(data).kind is Kind.CONNECT else None
    )
    a.send(b, "q", b"1")
    world.run(180 * SECOND)
    begun = [calls[0], *(later for one, later in pairwise(calls) if later - one > 1.9 * SECOND)]
    return [round((later - one) / SECOND, 1) for one, later in pairwise(begun)]


@asynccontextmanager
async def two(
    world: testing.World, settings: NodeSettings, of_b: NodeSettings | None = None
) -> AsyncIterator[tuple[triack.Node, triack.Node]]:
    """A node that sends, and one that has the queues; they have begun a session, and nothing is under way."""
    of_a, of_b = (replace(it, close_timeout_s=0.01) for it in (settings, of_b or settings))
    with world.machine("b"):
        b = triack.open("b", data="b", listen=LISTEN, insecure=True, settings=of_b)
    with world.machine("a"):
        a = triack.open("a", data="a", insecure=True, settings=of_a)
    async with b, a:
        await a.send(Q, b"hello")
        await a.drain()
        yield a, b


@asynccontextmanager
async def alone(world: testing.World, settings: NodeSettings) -> AsyncIterator[triack.Node]:
    with world.machine("a"):
        node = triack.open("a", data="a", insecure=True, settings=settings)
    async with node:
        yield node
