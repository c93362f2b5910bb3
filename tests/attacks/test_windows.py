"""Window games: numbers beyond any window, and answers that are never let out."""

import pytest

from tests.queues.hostile import (
    answers_waiting,
    victim,
)
from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import PacketFrame, PingFrame


def test_packets_beyond_any_window_are_dropped_and_counted() -> None:
    """Each once, by its name; what came between them is taken."""
    world, node, evil = victim()
    evil.each(
        evil.message(1), BINARY.encode(PacketFrame(10_000, Delivery.EXPRESS, False, b"")), BINARY.encode(PingFrame())
    )
    evil.frames(BINARY.encode(PacketFrame(2**64 - 1, Delivery.EXPRESS, False, b"")))
    world.run(SECOND)
    assert node.live.drops == {"beyond-window": 2}
    world.run(SECOND)
    evil.frames(BINARY.encode(PingFrame()))
    assert sum(record["count"] for record in node.log("dropped") if record["reason"] == "beyond-window") == 2
    assert node.read_all("q") == [b"hello"]


@pytest.mark.slow
def test_rejections_do_not_pile_up_for_a_peer_that_takes_none() -> None:
    """It sends for a queue that is not there, and acknowledges nothing."""
    world, node, evil = victim(queues=["orders"])
    for number in range(1, 12_000):
        evil.frames(evil.message(number, queue="nope"))
    assert answers_waiting(node) <= 10_000
    still_works_fixed(world, node)


def still_works_fixed(world: World, node: SimNode) -> None:
    honest = world.node("honest")
    honest.send(node, "orders", b"hello")
    assert world.run(10 * SECOND, lambda: not honest.busy)
