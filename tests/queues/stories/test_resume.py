"""A session opens after one was lost with all acknowledgements: what is there already does not leave again."""

from dataclasses import replace
from typing import Any

import pytest

from tests.queues.hostile import CHANNEL, make_connect, open_datagram
from tests.queues.rollbacks import both_know, put_back
from tests.queues.world import PlainWorld, SimNode, World, numbered
from triack.base.datagram import Kind, read_header
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.introduction import Introduction, StreamPosition
from triack.session.protocol.binary import BINARY
from triack.session.protocol.settings import SessionSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.disk import Snapshot

SESSION = SessionSettings(ack_timeout_s=2.0, store_ack_timeout_s=2.0)
SETTINGS = NodeSettings(session=SESSION, messages_per_packet=1)
WINDOW = numbered(0, SESSION.largest_window)


def couple(world: World, scheme: str = "udp") -> tuple[SimNode, SimNode]:
    """Two nodes at addresses of that kind."""
    nodes = SimNode(world, "a", SETTINGS), SimNode(world, "b", SETTINGS)
    for node in nodes:
        node.address = f"{scheme}://{node.name}:1"
        world.nodes[node.address] = node
        node.start()
    return nodes


def lose_session(world: World, a: SimNode, b: SimNode, bodies: list[bytes], *queues: str) -> None:
    """Messages for each queue arrive and are committed; everything that says so is lost, and then the session."""
    for queue in queues:
        a.send(b, queue, b"first")
    assert world.run(20 * SECOND, lambda: not a.busy)
    world.cut(b, a, both=False)
    for queue in queues:
        a.send(b, queue, *bodies)
    lost = len(a.log("session_closed"))
    assert world.run(60 * SECOND, lambda: len(a.log("session_closed")) > lost)
    assert [b.length(queue) for queue in queues] == [1 + len(bodies)] * len(queues)
    assert a.busy


def sent(node: SimNode) -> list[dict[str, Any]]:
    """The packets of streams that a node has sent."""
    return [record for record in node.log("packet_sent") if "stream" in record]


def judged(*nodes: SimNode) -> set[str]:
    found = judge_records([record for node in nodes for record in parse_records(b"".join(node.records))])
    return {it.check for it in found}


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize("restarts", ["", "a", "b", "ab"])
def test_nothing_leaves_again_that_is_there(scheme: str, restarts: str) -> None:
    """Whichever node was restarted meanwhile; the next message goes on behind it, and the logs agree."""
    world = World(1)
    a, b = couple(world, scheme)
    lose_session(world, a, b, WINDOW, "q")
    for node in (a, b):
        if node.name in restarts:
            node.restart()
    before = len(sent(a))
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert len(sent(a)) == before
    assert b.log("rejected") == []
    a.send(b, "q", b"next")
    assert world.run(20 * SECOND, lambda: not a.busy)
    assert len(sent(a)) == before + 1
    assert b.read_all("q") == [b"first", *WINDOW, b"next"]
    assert judged(a, b) <= {"silent_end", "crashed"}


@pytest.mark.slow
@pytest.mark.gate
def test_what_the_accept_has_no_room_for_comes_by_order_acks() -> None:
    """Of sixty streams those that moved last are in it; the others send again, and nothing arrives twice."""
    world = World(1)
    a, b = couple(world)
    queues = [f"q{number:02}" for number in range(60)]
    lose_session(world, a, b, [b"second"], *queues)
    before = len(sent(a))
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    again = {record["stream"] for record in sent(a)[before:]}
    assert 0 < len(again) <= 60 - 40
    assert all(b.read_all(queue) == [b"first", b"second"] for queue in queues)
    assert judged(a, b) <= {"silent_end"}


def test_an_accept_says_no_more_than_the_disk_has() -> None:
    """Packets that have arrived and are not committed yet are not in it."""
    world = PlainWorld(1)
    a, b = couple(world)
    a.send(b, "q", b"first")
    assert world.run(20 * SECOND, lambda: not a.busy)
    b.commit_ns = 30 * SECOND
    a.send(b, "q", b"second")
    world.run(SECOND)
    assert len(b.log("packet_received")) == 2
    assert ask(world, b, a.live.node_id) == (StreamPosition(1, 1, 1),)
    world.run(40 * SECOND)
    assert ask(world, b, a.live.node_id) == (StreamPosition(1, 1, 2),)


def test_who_calls_again_and_again_does_not_fill_the_log() -> None:
    """That a position was told is logged once, and only its origin gets the position."""
    world = PlainWorld(1)
    a, b = couple(world)
    lose_session(world, a, b, WINDOW, "q")
    before = len(b.log("order_ack_sent"))
    told = [ask(world, b, a.live.node_id) for _ in range(5)]
    assert told == [(StreamPosition(1, 1, 1 + len(WINDOW)),)] * 5
    assert len(b.log("order_ack_sent")) <= before + 1
    assert ask(world, b, b"n" * 16) == ()


def test_a_node_says_nothing_of_streams_that_lead_elsewhere() -> None:
    """It may say so: the node that has the stream is not asked to send less."""
    world = PlainWorld(1)
    a, b = couple(world)
    lose_session(world, a, b, WINDOW, "q")
    c = world.node("c", SETTINGS)
    world.network.alter = lambda datagram, sender, _to: lying(datagram) if sender == c.address else datagram
    a.send(c, "q", b"other")
    world.run(10 * SECOND)
    assert c.length("q") == 1
    assert a.outbox.streams[0].busy
    assert not a.outbox.streams[1].busy


def test_what_an_accept_has_said_is_depended_on() -> None:
    """Nothing but the accept arrives, and everything is let go: an older copy of that store is found afterwards."""
    world = PlainWorld(1)
    a, b = couple(world)
    copies: list[Snapshot] = []
    world.at(SECOND // 2, lambda: copies.append(b.copy_store()))
    lose_session(world, a, b, WINDOW, "q")
    world.heal()
    world.network.alter = lambda datagram, sender, _to: datagram if sender == a.address else hello_only(datagram)
    assert world.run(20 * SECOND, lambda: not a.busy)
    a.crash()
    put_back(b, copies[0])
    world.network.alter = None
    a.start()
    a.send(b, "q", b"next")
    both_know(world, b, a)


def ask(world: World, node: SimNode, origin: bytes) -> tuple[StreamPosition, ...]:
    """The positions in the accept of a node to a peer with that id."""
    heard: list[bytes] = []
    world.network.tap = lambda datagram, _sender, to: heard.append(datagram) if to == "udp://evil:1" else None
    connect = make_connect(Introduction(origin, "evil", "", node.address), session_id=world.now_ns)
    world.network.send(connect, "udp://evil:1", node.address)
    world.run(10 * MS)
    world.network.tap = None
    return open_datagram(heard[0]).introduction.positions


def lying(datagram: bytes) -> bytes:
    """The same, but an accept says that everything of the first stream is here."""
    opened = open_datagram(datagram)
    if opened.kind is not Kind.ACCEPT:
        return datagram
    said = replace(opened.introduction, positions=(StreamPosition(1, 1, 1 + len(WINDOW)),))
    hello = BINARY.encode_hello(replace(opened.hello, introduction=said.encode()))
    return CHANNEL.seal(opened.kind, opened.connection_id, opened.counter, hello, 0)


def hello_only(datagram: bytes) -> bytes | None:
    """Accepts alone arrive."""
    return datagram if read_header(datagram).kind is Kind.ACCEPT else None
