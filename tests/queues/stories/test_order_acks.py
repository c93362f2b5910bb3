"""How long order acks may wait: the origin of a stream says it, and its destination keeps to that, also over relays.

Each story sends a message each 300 ms in virtual time, so that no burst ends, to a node that is configured differently.
"""

from dataclasses import replace

import pytest

from tests.queues.relays import line, post
from tests.queues.world import SimNode, World, two
from triack import policies
from triack.base.units import MS, SECOND
from triack.ordering.order_ack import STEPS_NS, AckWait
from triack.queues.streams.outgoing_stream import OutgoingStream

ROUND_MS = 60
"""More than a round trip, with its commits, over one relay."""


def longest_wait_ms(world: World, node: SimNode, to: str, messages: int = 20) -> int:
    """The longest that a message had no order ack yet, with one of them each 300 ms."""
    posted_ns: dict[int, int] = {}
    for _ in range(messages):
        post(node, to, b"x")
        posted_ns[only(node).sequence.next_number - 1] = world.now_ns
        world.run(300 * MS)
    acks = [(record["number"], record["at_ns"]) for record in node.log("order_ack_received")]
    ends_ns = {
        packet: min((at_ns for last, at_ns in acks if last >= packet), default=world.now_ns) for packet in posted_ns
    }
    return max(ends_ns[packet] - at_ns for packet, at_ns in posted_ns.items()) // MS


def only(node: SimNode) -> OutgoingStream:
    (outgoing,) = node.outbox.streams
    return outgoing


CASES = [
    ("AMPS", "DEFAULT", 1_000),
    ("SOLACE", "DEFAULT", 1_000),
    ("SOLACE", "MSMQ", 1_000),
    ("HORNETQ", "HORNETQ", 2_000),
    ("HORNETQ", "DEFAULT", 2_000),
    ("MSMQ", "AMPS", 1_000),
]
"""Origin, destination, and how long an order ack waits: the origin's delay, at most the destination's own."""


@pytest.mark.parametrize("names", ["ab", "arb"])
@pytest.mark.parametrize(("origin", "destination", "delay_ms"), CASES)
def test_a_message_is_ordered_after_the_interval_of_its_origin_and_never_resent(
    names: str, origin: str, destination: str, delay_ms: int
) -> None:
    """Over a relay, too, whose settings, which are MSMQ's, are not asked."""
    net = line(names, settings={"a": policies.PRESETS[origin], "r": policies.MSMQ, "b": policies.PRESETS[destination]})
    assert delay_ms <= longest_wait_ms(net.world, net["a"], "b") < delay_ms + ROUND_MS
    assert only(net["a"]).sequence.resends == 0


def test_a_lone_message_waits_for_the_whole_interval() -> None:
    """Its destination would acknowledge it half a second after the burst; AMPS does so each interval."""
    world, node, other = two(a=policies.amps(ack_conflation_s=3))
    post(node, other.address, b"x")
    world.run(2_990 * MS)
    assert only(node).busy
    world.run(ROUND_MS * MS)
    assert not only(node).busy


@pytest.mark.parametrize("restarted", ["r", "b"])
def test_after_a_restart_the_interval_of_the_origin_holds_again(restarted: str) -> None:
    net = line("arb", settings={"a": policies.SOLACE, "b": policies.MSMQ})
    longest_wait_ms(net.world, net.nodes["a"], "b", 3)
    net.nodes[restarted].restart()
    longest_wait_ms(net.world, net.nodes["a"], "b", 100)  # until its neighbours have noticed
    assert longest_wait_ms(net.world, net.nodes["a"], "b", 20) < 1_000 + ROUND_MS


def test_the_destination_decides_for_a_node_that_states_nothing() -> None:
    """As nodes of earlier versions, which say nothing of it when a session opens, nor in the headers for relays."""
    world, node, other = two(a=policies.AMPS)
    node.live.handshakes.sessions.own = replace(node.live.handshakes.sessions.own, ack_wait=None)
    assert longest_wait_ms(world, node, other.address, 70) >= 10_000


def test_the_wish_of_an_origin_is_clamped_to_what_its_destination_waits() -> None:
    """A day is ten seconds, in both ways of saying it."""
    day = replace(policies.DEFAULT, order=replace(policies.DEFAULT.order, order_ack_idle_s=86_400, seq_resend_13_s=1e6))
    day = replace(day, order=replace(day.order, seq_max_ack_delay_s=86_400))
    world, node, other = two(a=day)
    post(node, other.address, b"x")
    world.run(SECOND)
    (stream,) = other.live.inbox.streams
    assert stream.ack_wait == AckWait(86_400 * SECOND, 86_400 * SECOND)
    assert stream.sequence.ack.terms.delay_ns == stream.sequence.ack.terms.idle_ns == 10 * SECOND
    assert AckWait.stated(day.order).code == AckWait(STEPS_NS[-1], STEPS_NS[-1]).code
