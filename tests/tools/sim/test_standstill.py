"""Streams that stand still are found."""

import pytest

from tests.queues.relays import line, post
from tests.queues.world import SimNode, numbered
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream
from triack.tools.sim.standstill import STILL_NS, Standstill

NO_ROOM, NO_TURN = "waits for room, and nothing on its way makes any", "has something to send, and no turn"


def waiting(via: str) -> tuple[SimNode, OutgoingStream | TransitStream]:
    """A node of a line of three, and its stream: two packets wait there, as they may not leave."""
    net = line("arb", settings={"a": NodeSettings(messages_per_packet=1)})
    node = net[via]
    post(net["a"], "b", b"before", delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    (stream,) = node.live.outbox.streams if via == "a" else node.live.transits.streams
    stream.sequence.start.credit = 0
    if via == "r":
        net["a"].live.outbox.streams[0].sequence.start.credit = None
    post(net["a"], "b", *numbered(0, 2), delivery=Delivery.RECOVERABLE)
    net.world.run(100 * MS)
    return node, stream


@pytest.mark.parametrize("via", ["a", "r"])
@pytest.mark.parametrize("reason", [NO_ROOM, NO_TURN])
def test_a_stream_that_stands_still_is_told_of_once(via: str, reason: str) -> None:
    """As soon as something happens at its node: it has stood still until then, even if that moves it."""
    node, stream = waiting(via)
    if reason == NO_TURN:
        stream.sequence.start.credit = None
    assert stream.way is not None
    node.live.outbox.links[stream.way.via].withdraw(stream)
    standstill = Standstill()
    standstill.look_at(via, node.live, 0)
    standstill.look_at(via, node.live, STILL_NS - 1)
    assert standstill.violations == []
    for _ in range(2):
        standstill.look_at(via, node.live, STILL_NS)
    assert [(rule, sentence.partition(" 1 ")[2]) for rule, sentence in standstill.violations] == [
        ("standstill", f"{'in transit ' * (via == 'r')}{reason}, for 2.0 s")
    ]


def test_what_a_process_leaves_behind_does_not_stand_still() -> None:
    node, _ = waiting("a")
    standstill = Standstill()
    standstill.look_at("a", node.live, 0)
    standstill.forget("a")
    standstill.look_at("a", node.live, STILL_NS)
    assert standstill.violations == []


@pytest.mark.parametrize("via", ["a", "r"])
def test_a_stream_that_waits_for_an_ack_of_what_has_left_does_not_stand_still(via: str) -> None:
    node, stream = waiting(via)
    stream.sequence.start.credit = 1
    stream.sequence.handle_sent(stream.sequence.peek_run(1), 0, packet=99)  # type: ignore[arg-type]
    assert stream.sequence.start.credit == 0
    standstill = Standstill()
    for at_ns in (0, STILL_NS):
        standstill.look_at(via, node.live, at_ns)
    assert standstill.violations == []
