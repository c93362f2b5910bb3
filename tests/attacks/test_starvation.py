"""One bad peer of a hundred: the others keep nine tenths of their throughput, counted by the simulated clock."""

from collections.abc import Callable

import pytest

from tests.queues.hostile import Hostile, batch
from tests.queues.world import PlainWorld, SimNode, World, numbered
from triack.base.delivery import Delivery
from triack.base.units import MS
from triack.queues.node_settings import Limits, NodeSettings
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import PingFrame

pytestmark = pytest.mark.slow

PEERS = 99
PACKETS = 15
SETTINGS = NodeSettings(
    limits=Limits(peer_quota_bytes=256 * 1024, peer_memory_bytes=512 * 1024, memory_bytes=8 * 1024 * 1024)
)
"""One peer of this node fills its share in no time."""


def greedy(world: World, hub: SimNode) -> None:
    """It sends, in every class, as much as it can for a queue that nobody reads."""
    peer = world.node("greedy")
    for delivery in Delivery:
        for body in numbered(0, 1_000, 900):
            peer.send(hub, "unread", body, delivery=delivery)


def stalled(world: World, hub: SimNode) -> None:
    """It takes nothing that it is sent, and answers nothing."""
    peer = world.node("stalled")
    for body in numbered(0, 1_000, 900):
        hub.send(peer, "q", body)
    world.run(50 * MS)
    world.network.cut(peer.address, hub.address)


def hostile(world: World, hub: SimNode) -> None:
    """It leaves gaps in all its streams, begins large messages, asks for all acks, and acknowledges nothing."""
    evil = Hostile(world, hub)

    def turn() -> None:
        number = 2 * evil.packets + 2
        body = batch(bytes(400))
        frames = [
            evil.message(number + at, stream=1 + at % 7, previous=number - 1, body=body, delivery=delivery)
            for at, delivery in enumerate(Delivery)
        ]
        evil.each(*frames, *[BINARY.encode(PingFrame())] * 50)
        world.at(MS, turn)

    turn()


def taken(bad: Callable[[World, SimNode], None] | None) -> int:
    """How many packets of the others a node has taken in a fixed time."""
    world = PlainWorld(1)
    world.faults.delay_ns = 5 * MS
    hub = world.node("hub", SETTINGS)
    hub.commit_ns = 10 * MS
    if bad is not None:
        bad(world, hub)
        world.run(500 * MS)
    peers = [world.node(f"peer{number}") for number in range(PEERS)]
    for peer in peers:
        for body in numbered(0, PACKETS, 900):
            peer.send(hub, "work", body)
    world.run(60 * MS)
    return hub.length("work")


@pytest.fixture(scope="module")
def alone() -> int:
    """What the others manage without a bad one."""
    count = taken(None)
    assert PEERS * 5 < count < PEERS * PACKETS
    return count


@pytest.mark.parametrize("bad", [greedy, stalled, hostile])
def test_the_others_keep_nine_tenths(bad: Callable[[World, SimNode], None], alone: int) -> None:
    """Whatever the hundredth does."""
    assert taken(bad) >= 0.9 * alone
