"""What the page on policies says of each preset, seen from outside: over UDP, on a path that nobody knows yet."""

import pytest

from tests.queues.world import World
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.node.handles.policies import PRESETS, hornetq, solace
from triack.queues.node_settings import NodeSettings

GIVEN_UP_S = {"DEFAULT": 2, "MSMQ": 20, "SOLACE": 2, "HORNETQ": 30, "AMPS": 2, "WSO2": 2}
"""``a silent peer is given up after``, on a short path."""


def given_up_after_ns(settings: NodeSettings, delivery: Delivery, rtt_ns: int = 20 * MS) -> int:
    """How long a session lasts whose peer falls silent with one message on its way."""
    world = World(1)
    world.faults.delay_ns = rtt_ns // 2
    a, b = world.node("a", settings), world.node("b", settings)
    a.send(b, "q", b"1")
    assert world.run(60 * SECOND, lambda: not a.busy)
    a.send(b, "q", b"2", delivery=delivery)
    world.run(MS)
    world.cut(a, b)
    silent_ns = world.now_ns
    assert world.run(600 * SECOND, lambda: bool(a.log("session_closed")))
    return world.now_ns - silent_ns


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("name", PRESETS)
def test_a_silent_peer_is_given_up_when_the_page_says_so(name: str, delivery: Delivery) -> None:
    """Whatever class of messages is on its way: a disk may be slow for a while, and silence is another matter."""
    taken_ns = given_up_after_ns(PRESETS[name], delivery)
    assert GIVEN_UP_S[name] * SECOND - 2 * SECOND < taken_ns <= GIVEN_UP_S[name] * SECOND + 50 * MS


def test_a_longer_check_period_is_kept_as_well() -> None:
    """Of HornetQ's settings the longest."""
    settings = hornetq(client_failure_check_period_s=120)
    assert given_up_after_ns(settings, Delivery.TRANSACTIONAL) > 118 * SECOND


@pytest.mark.parametrize("rtt_ns", [200_000, 40 * MS])
@pytest.mark.parametrize("size_bytes", [10, 100])
def test_few_acks_are_asked_for_that_are_not_due(rtt_ns: int, size_bytes: int) -> None:
    """85 messages, a third of the window, are one ack; two more may be asked for while the path is unknown."""
    world = World(1)
    world.faults.delay_ns = rtt_ns // 2
    settings = solace(window=255)
    a, b = world.node("a", settings), world.node("b", settings)
    for _ in range(85):
        a.send(b, "q", bytes(size_bytes))
    assert world.run(60 * SECOND, lambda: not a.busy)
    asked = [record for record in b.log("ack_sent") if record["trigger"] == "request"]
    assert len(asked) <= 2
