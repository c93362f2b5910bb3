"""The door to a node's queues, tried by a peer that keeps to nothing; the stories are in ``stories/test_quotas.py``."""

import pytest

from tests.queues.hostile import ORIGIN, Hostile, batch
from tests.queues.world import PlainWorld, World
from triack.base.delivery import Delivery
from triack.base.reasons import HoldReason
from triack.base.units import SECOND
from triack.ordering.wire import HoldPacket, decode, encode_end
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame, PacketFrame
from triack.session.protocol.settings import SessionSettings


def words(evil: Hostile) -> list[HoldPacket]:
    """The words that it was told of its streams."""
    frames = [frame for _, payload in evil.heard()[1:] for frame in BINARY.decode(payload)]
    packets = [decode(frame.content) for frame in frames if isinstance(frame, PacketFrame)]
    return [packet for packet in packets if isinstance(packet, HoldPacket)]


def test_who_goes_on_when_told_to_stop_gets_nothing_in() -> None:
    """Not a packet beyond the quota, however often it comes. Each refusal has its own turn, no repetition has."""
    world = PlainWorld(1)
    node = world.node("b", NodeSettings(limits=Limits(quota=Quota(3))))
    evil = Hostile(world, node)
    for _ in range(4):
        for number in range(1, 30):
            evil.frames(evil.message(number, queue="q", stream=1))
        world.run(SECOND)
    assert node.length("q") == 3
    assert {word.stop for word in words(evil)} == {True}
    (stream,), (conversation,) = node.live.inbox.streams, node.live.handshakes.conversations.values()
    turn = stream.turn
    assert turn > 1
    assert node.live.inbox.admission.stop_again(conversation)
    assert stream.turn == turn


def test_packets_that_come_too_early_fill_a_quarter_of_a_peers_memory() -> None:
    """The first of them is withheld: nothing can be delivered, and nothing more is kept."""
    world = PlainWorld(1)
    node = world.node("b", NodeSettings(limits=Limits(peer_memory_bytes=40_000)))
    evil = Hostile(world, node)
    for number in range(2, 120):
        evil.frames(evil.message(number, queue="q", stream=1, body=batch(bytes(900))))
    world.run(SECOND)
    assert 0 < node.live.inbox.admission.early.of(ORIGIN) <= 11_000


def test_a_node_is_behind_while_half_of_what_a_peer_may_have_waits_for_its_disk() -> None:
    """Its host lets what arrives wait then, before anything is refused; when the disk has it, that is over."""
    world = PlainWorld(1)
    node = world.node("b", NodeSettings(limits=Limits(peer_memory_bytes=80_000)))
    evil = Hostile(world, node)
    for number in range(1, 12):
        assert not node.live.is_behind
        evil.frames(evil.message(number, queue="q", stream=1, body=batch(bytes(900))))
    evil.frames(evil.message(12, queue="q", stream=1, body=batch(bytes(900))))
    assert node.live.is_behind
    assert not node.log("rejected")
    world.run(SECOND)
    assert not node.live.is_behind
    assert node.length("q") == 12


def test_express_packets_of_who_does_not_stop_are_refused_at_twice_the_limit() -> None:
    """Half of a peer's memory, and no more."""
    world = PlainWorld(1)
    node = world.node("b", NodeSettings(limits=Limits(peer_memory_bytes=80_000)))
    evil = Hostile(world, node)
    for number in range(1, 120):
        evil.frames(evil.message(number, queue="q", stream=1, body=batch(bytes(900)), delivery=Delivery.EXPRESS))
        world.run(SECOND // 100)
    assert 20_000 < node.live.inbox.admission.express.of(ORIGIN) <= 42_000
    assert "queue-full" in {record["reason"] for record in node.log("rejected")}


def test_express_packets_on_their_way_to_who_says_stop_are_taken_together() -> None:
    """By the run, up to twice the limit; what comes behind them waits at its sender until there is room."""
    world = PlainWorld(1)
    a = world.node("a")
    b = world.node("b", NodeSettings(limits=Limits(peer_memory_bytes=160_000)))
    bodies = [b"%3d" % number * 300 for number in range(80)]
    for body in bodies[:40]:
        a.send(b, "q", body, delivery=Delivery.EXPRESS)
    world.run(SECOND)
    account = b.live.inbox.admission.express
    assert account.is_full(a.live.node_id)
    assert (b.length("q"), a.busy) == (40, False)
    for body in bodies[40:]:
        a.send(b, "q", body, delivery=Delivery.EXPRESS)
    world.run(SECOND)
    assert (b.length("q"), a.busy) == (40, True)
    assert b.read_all("q") == bodies[:40]
    world.run(20 * SECOND)
    assert b.read_all("q") == bodies
    assert not b.log("rejected")


def test_a_go_that_replaces_a_stop_says_that_packets_were_not_taken() -> None:
    """The stop of an express stream without a place has not left when one is free: its sender must send them again."""
    world = PlainWorld(1)
    node = world.node("b", NodeSettings(max_streams=2, session=SessionSettings(max_unacked_packet=1)))
    evil = Hostile(world, node)
    evil.frames(evil.message(1, stream=1))
    evil.frames(evil.message(1, stream=2, sequence=2))
    world.run(SECOND)  # an order ack takes the whole window of the node
    evil.frames(evil.message(1, stream=3, sequence=3, delivery=Delivery.EXPRESS))
    for number in (1, 2):
        evil.frames(evil.packet(encode_end(ORIGIN, number, number, 1, answer=False), Delivery.EXPRESS))
    world.run(SECOND // 10)
    for number in range(1, 5):
        evil.frames(BINARY.encode(AckFrame(number, [], 64, 0, 0)))
        world.run(SECOND // 10)
    assert {(word.stop, word.reason) for word in words(evil)} == {(False, HoldReason.TOO_MANY_STREAMS)}


def test_empty_queues_that_nobody_waits_for_make_room_for_new_ones() -> None:
    """When there are as many as there may be; one for which somebody waits stays."""
    world = World(1)
    a, b = world.node("a"), world.node("b", NodeSettings(max_queues=4))
    b.live.make_queue("three").listeners.append(lambda: None)
    for name in ("one", "two", "three"):
        a.send(b, name, b"x")
    world.run(SECOND)
    assert (b.read("one"), b.read("two"), b.read("three")) == (1, 1, 1)
    for name in ("five", "one"):
        a.send(b, name, b"y")
        world.run(SECOND)
    assert sorted(b.live.queues.mailboxes) == ["dead-letter", "five", "one", "three"]
    b.restart()
    assert sorted(b.live.queues.mailboxes) == ["dead-letter", "five", "one", "three"]
    assert [b.length(name) for name in ("one", "three", "five")] == [1, 0, 1]


def test_queues_that_never_had_anything_make_room() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b", NodeSettings(max_queues=4))
    for name in ("one", "two", "three"):
        b.live.make_queue(name)
    a.send(b, "new", b"x")
    world.run(SECOND)
    assert (b.length("new"), sorted(b.live.queues.mailboxes)) == (1, ["dead-letter", "new"])


def test_queues_that_were_empty_before_a_restart_make_room() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b", NodeSettings(max_queues=4))
    for name in ("one", "two", "three"):
        a.send(b, name, b"x")
        world.run(SECOND)
        b.read(name)
    world.run(SECOND)
    b.restart()
    a.send(b, "new", b"x")
    world.run(20 * SECOND)
    assert (b.length("new"), a.length("dead-letter")) == (1, 0)


def test_queues_make_room_when_their_reader_leaves() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b", NodeSettings(max_queues=2))
    box = b.live.make_queue("one")
    box.listeners.append(lambda: None)
    for left in (False, True):
        if left:
            box.leave(box.listeners[0])
        a.send(b, "new", b"x")
        world.run(10 * SECOND)
        assert (b.length("new"), a.length("dead-letter")) == (2 * left, 0)


def test_queues_of_the_program_itself_make_room_too() -> None:
    """One after the other for a single use each: not all of them are kept."""
    node = World(1).node("a", NodeSettings(max_queues=10))
    for number in range(100):
        node.live.make_queue(f"job-{number}")
    assert len(node.live.queues.mailboxes) <= 10


def test_queues_in_use_beyond_the_most_are_not_looked_at_for_each_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have any number; each is looked at when it may have become idle."""
    looked: list[str] = []

    def look(box: Mailbox) -> bool:
        looked.append(box.name)
        return not box.listeners

    monkeypatch.setattr(Mailbox, "is_idle", property(look))
    node = World(1).node("a", NodeSettings(max_queues=10))
    for number in range(100):
        node.live.make_queue(f"job-{number}").listeners.append(lambda: None)
    assert len(node.live.queues.mailboxes) == 101
    assert len(looked) == 100


def test_a_peer_that_made_as_many_queues_as_it_may_makes_new_ones_when_they_are_idle() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b", NodeSettings(limits=Limits(max_peer_queues=3)))
    for number in range(9):
        a.send(b, f"a{number}", b"x")
        world.run(SECOND)
        assert b.read(f"a{number}") == 1
        world.run(SECOND)
    assert a.length("dead-letter") == 0


def test_one_peer_makes_a_limited_number_of_queues() -> None:
    """The others still find room for theirs; what it sends to further ones waits until some of its own are gone."""
    world = World(1)
    a, b, c = (
        world.node("a"),
        world.node("b", NodeSettings(max_queues=10, limits=Limits(max_peer_queues=3))),
        world.node("c"),
    )
    for number in range(6):
        a.send(b, f"a{number}", b"x")
    c.send(b, "c", b"x")
    world.run(2 * SECOND)
    assert sorted(b.live.queues.mailboxes) == ["a0", "a1", "a2", "c", "dead-letter"]
    assert a.length("dead-letter") == 0
    b.read("a1")
    world.run(2 * SECOND)
    assert sorted(b.live.queues.mailboxes) == ["a0", "a2", "a3", "c", "dead-letter"]
