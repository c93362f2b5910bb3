"""Delays that are reckoned in round trips, as MSMQ's store ack delay is: both ends know the same one, however long."""

import pytest

from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.node.handles.policies import msmq
from triack.queues.node_settings import NodeSettings

LEAST_NS = 500 * MS
"""MSMQ's shortest store ack delay ([MS-MQQB] 2.2.2.1)."""


def talk(rtt_ns: int, *, scheme: str = "udp", loss: float = 0.0, initiator: str = "a") -> tuple[SimNode, SimNode]:
    """Two nodes that have sent each other something, so that they have a session that one of them has begun."""
    world = World(3)
    world.faults.delay_ns = rtt_ns // 2
    world.faults.loss = loss
    settings: NodeSettings = msmq()
    a, b = world.node("a", settings, scheme=scheme), world.node("b", settings, scheme=scheme)
    first, second = (a, b) if initiator == "a" else (b, a)
    first.send(second, "q", b"1", delivery=Delivery.RECOVERABLE)
    assert world.run(300 * SECOND, lambda: not first.busy)
    return first, second


def delays_ns(node: SimNode) -> set[int]:
    return {record["store_ack_delay_ns"] for record in node.log("session_opened")}


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize("initiator", ["a", "b"])
@pytest.mark.parametrize("rtt_ns", [20 * MS, 100 * MS, 200 * MS, 500 * MS, 1 * SECOND, 2 * SECOND, 5 * SECOND])
def test_the_store_ack_delay_is_eight_round_trips(rtt_ns: int, scheme: str, initiator: str) -> None:
    """At both ends, also where the connect is repeated before it can be answered: 16 s at a round trip of 2 s."""
    first, second = talk(rtt_ns, scheme=scheme, initiator=initiator)
    (delay_ns,) = delays_ns(first)
    assert delays_ns(second) == {delay_ns}
    assert max(8 * rtt_ns, LEAST_NS) <= delay_ns <= max(8.4 * rtt_ns, LEAST_NS)


def test_a_lost_first_datagram_takes_no_figure_along() -> None:
    """Each says it until one has come; where connects are lost as well, the echo still tells which was answered."""
    first, second = talk(600 * MS, loss=0.3)
    (delay_ns,) = delays_ns(first)
    assert delays_ns(second) == {delay_ns}
    assert 8 * 600 * MS <= delay_ns <= 8.4 * 600 * MS
