"""Sessions without end, half open and open."""

import pytest

from tests.queues.hostile import (
    CHANNEL,
    Hostile,
    make_hello,
    still_works,
    victim,
)
from triack.base.datagram import Kind
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.handshake import SESSIONS_OF_ONE_MAX
from triack.queues.peers.introduction import Introduction
from triack.session.protocol.binary import BINARY


@pytest.mark.slow
@pytest.mark.gate
def test_half_open_connections_do_not_shut_out_others() -> None:
    """Connects from everywhere, none completed: bounded, and an honest peer still gets in."""
    world, node, _ = victim(NodeSettings(max_sessions=20))
    for number in range(1, 500):
        hello = make_hello(Introduction(number.to_bytes(16, "big"), "x", "", node.address), number, number)
        data = CHANNEL.seal(Kind.CONNECT, 6, 1, BINARY.encode_hello(hello), 0)
        node.live.handle_datagram(data, f"udp://x{number}:1", world.now_ns)
        node.drain()
    assert node.live.drops[DropReason.HALF_OPEN_OVERFLOW] > 400
    still_works(world, node)


def test_open_sessions_are_not_given_up_for_new_ones() -> None:
    """At the limit a connect is dropped and counted; connected peers stay so."""
    world, node, _ = victim(NodeSettings(max_sessions=3))
    friends = [world.node(f"friend{number}") for number in range(3)]
    for number, friend in enumerate(friends):
        friend.send(node, "q", b"%d" % number)
        world.run(SECOND)
    assert node.live.drops[DropReason.TOO_MANY_SESSIONS] > 0
    assert len(node.read_all("q")) == 2
    assert not node.live.closes


def test_one_peer_has_a_limited_number_of_sessions() -> None:
    """By however many names it calls this node: the oldest ends, and says why; others get in."""
    world, node, _ = victim()
    for number in range(40):
        Hostile(world, node, f"evil{number}", session_id=100 + number, dialled=f"udp://alias{number}:1")
    open_ones = [one for one in node.live.handshakes.conversations.values() if one.is_open]
    assert len(open_ones) == SESSIONS_OF_ONE_MAX
    assert set(node.live.closes) == {"superseded"}
    still_works(world, node)
