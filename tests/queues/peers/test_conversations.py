"""The owners of conversations, and which one gives way when too many are begun."""

import pytest

from tests.queues.hostile import make_connect
from tests.queues.world import PlainWorld, SimNode, World
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.queues.peers import conversations
from triack.queues.peers.introduction import Introduction


def knock(world: World, node: SimNode, number: int, source: str) -> None:
    """A connect of a node that nobody knows, and that will say nothing more."""
    own = Introduction(number.to_bytes(16, "big"), "x", "", node.address)
    node.live.handle_datagram(make_connect(own, number), source, world.now_ns)
    node.drain()


def half_open(node: SimNode) -> list[int]:
    return [one.session.session_id for one in node.live.handshakes.conversations.values()]


def test_one_source_has_few_that_are_not_open() -> None:
    """Its own oldest give way, and nobody else's."""
    world = PlainWorld(1)
    node = world.node("b")
    knock(world, node, 1, "udp://honest:1")
    for number in range(2, 102):
        knock(world, node, number, "udp://evil:1")
    limit = conversations.HALF_OPEN_OF_ONE_MAX
    assert half_open(node) == [1, *range(102 - limit, 102)]
    assert node.live.drops == {DropReason.HALF_OPEN_OVERFLOW: 100 - limit}


def test_there_are_not_many_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """From however many sources; the oldest of all give way, and after ten seconds everyone."""
    monkeypatch.setattr(conversations, "HALF_OPEN_MAX", 20)
    world = PlainWorld(1)
    node = world.node("b")
    for number in range(1, 101):
        knock(world, node, number, f"udp://evil{number}:1")
    assert half_open(node) == list(range(81, 101))
    world.run(11 * SECOND)
    assert half_open(node) == []
    knock(world, node, 200, "udp://evil:1")
    assert half_open(node) == [200]


def test_those_of_a_path_are_found_there_and_where_they_moved_to() -> None:
    """A peer whose address changes takes its conversation along."""
    world = PlainWorld(1)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"1")
    world.run(SECOND)
    (conversation,) = b.live.handshakes.conversations.values()
    assert b.live.handshakes.at(a.address) == [conversation]
    world.network.rebind(a.address)
    a.send(b, "q", b"2")
    world.run(SECOND)
    assert b.live.handshakes.at(a.address) == []
    assert b.live.handshakes.at(conversation.path) == [conversation]
    b.live.handle_path_lost(conversation.path, world.now_ns)
    b.drain()
    assert b.live.handshakes.at(conversation.path) == []
    assert b.live.handshakes.with_peer(a.live.node_id) == []
