"""The way to one address: who has its turn, when there is a reason to connect, and when the next attempt is made."""

from random import Random
from typing import Any

import pytest

from tests.queues.outgoing import make_outgoing
from tests.queues.world import World, numbered, two
from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.errors import RollbackDetected
from triack.base.units import MS, SECOND
from triack.ordering.wire import EndPacket, HoldPacket, OnwardAckPacket, OnwardPacket, OrderAckPacket, RejectPacket
from triack.queues.node_settings import Reconnect
from triack.queues.peers import link as link_module
from triack.queues.peers.control import Control, key_of
from triack.queues.peers.link import Link, Links
from triack.queues.peers.turns import QUEUE_TURN_PACKETS
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.session.protocol.states import CloseReason

EXPRESS, TRANSACTIONAL = Delivery.EXPRESS, Delivery.TRANSACTIONAL
ERROR = RollbackDetected("a copy", peer="ee", rolled_back="peer")


def make_link() -> tuple[Link, dict[Link, None]]:
    awake: dict[Link, None] = {}
    return Link("udp://b:1", Reconnect(), Random(1), awake), awake


def filled(link: Link, packets: int) -> OutgoingStream:
    """An outgoing queue that has ``packets`` packets to send, and is offered to the link."""
    outgoing = make_outgoing(content_bytes=300, queue=f"q{len(link.streams)}")
    link.add(outgoing)
    for _ in range(packets):
        outgoing.submit(b"x" * 200, 200)
    outgoing.start(outgoing.poll_packets(1))
    assert len(outgoing.sequence.entries) == packets
    link.offer(outgoing)
    return outgoing


def give(link: Link, limit: int) -> list[OutgoingStream]:
    """The queues whose packets leave, one by one."""
    given: list[OutgoingStream] = []
    while len(given) < limit and (turn := link.next_turn()) is not None:
        outgoing, left = turn
        assert isinstance(outgoing, OutgoingStream)
        assert 1 <= left <= QUEUE_TURN_PACKETS
        entry = sure(outgoing.sequence.peek())
        outgoing.sequence.handle_sent([entry], 0)
        link.turns.handle_given(outgoing, 1)
        given.append(outgoing)
    return given


def test_queues_give_sixteen_packets_in_turns() -> None:
    link, _ = make_link()
    x, y, z = filled(link, 40), filled(link, 5), filled(link, 20)
    assert give(link, 10) == [x] * 10
    assert link.next_turn() == (x, 6)
    assert give(link, 100) == [x] * 6 + [y] * 5 + [z] * 16 + [x] * 16 + [z] * 4 + [x] * 8
    assert link.next_turn() is None


def test_it_is_busy_while_something_waits() -> None:
    """Packets that were freed or given up meanwhile are no reason."""
    link, awake = make_link()
    assert (link.busy, awake) == (False, {})
    outgoing = filled(link, 2)
    link.wake()
    assert (link.busy, list(awake)) == (True, [link])
    for entry in list(outgoing.sequence.entries.values()):
        outgoing.sequence.remove(entry)
    assert not link.busy


@pytest.mark.parametrize("told", [False, True])
def test_a_suspended_link_is_busy_until_the_peer_knows(told: bool) -> None:
    link, _ = make_link()
    filled(link, 1)
    link.halt(ERROR, told=told)
    assert link.busy is not told
    link.halt(ERROR, told=False)
    assert link.busy is not told
    link.halt(ERROR, told=True)
    assert not link.busy
    link.halt(None, told=False)
    assert link.busy
    link.halt(RollbackDetected("another", peer="dd", rolled_back="own"), told=False)
    assert link.busy


def test_waits_double_with_jitter_up_to_the_longest() -> None:
    link, awake = make_link()
    for round_ in range(2):
        for number, most_ms in enumerate((100, 200, 400, 800, 1_000, 1_000, 1_000)):
            awake.clear()
            link.handle_closed(CloseReason.PEER_CLOSED, SECOND)
            assert most_ms / 2 <= (link.retry_at_ns - SECOND) / MS <= most_ms, (round_, number)
            assert list(awake) == [link]
            link.handle_opened(SECOND)
        link.handle_opened(0)


def test_a_connect_without_an_answer_was_a_wait_already() -> None:
    """A peer that comes back need not wait for ours, however often it was tried."""
    link, _ = make_link()
    for _ in range(50):
        link.handle_closed(CloseReason.CONNECT_TIMEOUT, 0)
        assert link.retry_at_ns <= 100 * MS


def test_jitter_keeps_nodes_from_calling_in_step() -> None:
    moments = set()
    for seed in range(10):
        link = Link("udp://b:1", Reconnect(), Random(seed))
        link.handle_closed(CloseReason.PEER_CLOSED, 0)
        moments.add(link.retry_at_ns)
    assert len(moments) == 10


def test_it_tries_again_when_the_wait_is_over_and_not_before() -> None:
    world, a, b = two()
    a.send(b, "q", b"1")
    world.run(3 * SECOND)
    world.cut(a, b)
    a.live.handle_path_lost(b.address, world.now_ns)
    a.send(b, "q", b"2")
    (link,) = a.outbox.links.values()
    retry_at_ns = link.retry_at_ns
    assert link.conversation is None
    world.run(MS)
    assert a.live.next_deadline() == retry_at_ns
    world.run(retry_at_ns - world.now_ns - 1)
    assert link.conversation is None
    world.run(1)
    assert link.is_connecting


def test_a_newer_answer_takes_the_place_of_an_older(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "CONTROL_MAX", 2)
    world, a, b = two()
    a.send(b, "q", b"1")
    world.run(3 * SECOND)
    (conversation,) = a.live.handshakes.conversations.values()
    first, second, third, new = (OrderAckPacket(b"o" * 16, stream, 1, 1) for stream in (1, 2, 3, 1))
    new.number = 9
    assert [conversation.say(word, (5,)) for word in (first, second, third)] == [True, True, False]
    assert conversation.say(new, (9,))
    assert conversation.control is not None
    assert list(conversation.control.values()) == [Control(new.encode(), (9, 5)), Control(second.encode(), (5,))]
    assert list(conversation.awake) == [conversation]


def test_words_about_what_was_passed_on_replace_nothing() -> None:
    of = b"o" * 16, 1, 1
    words = [OnwardAckPacket(*of, turn, False, [(turn, turn)]) for turn in range(1, 9)]
    others = [RejectPacket(*of, number, "too-large") for number in range(1, 9)]
    answers = [OrderAckPacket(*of, 1), HoldPacket(*of[:2], 1, stop=True), OnwardPacket(*of, 1, 1, waits=True)]
    ends = [EndPacket(*of, 1, answer=answer) for answer in (False, True)]
    packets: list[Any] = [*words, *others, *answers, *ends]
    assert len({key_of(packet) for packet in packets}) == 21


@pytest.mark.parametrize("delivery", [EXPRESS, TRANSACTIONAL])
def test_a_long_stream_does_not_starve_a_short_one(delivery: Delivery) -> None:
    world, a, b = two()
    a.send(b, "long", *numbered(0, 3_000, 1_000), delivery=delivery)
    world.run(30 * MS)
    a.send(b, "short", b"hello", delivery=delivery)
    assert world.run(10 * SECOND, lambda: b.length("short") == 1)
    assert b.length("long") < 1_000


def test_one_dead_peer_does_not_hold_up_another() -> None:
    world = World(1)
    a, b, dead = world.node("a"), world.node("b"), world.node("dead")
    dead.crash()
    a.send(dead, "q", *numbered(0, 500))
    world.run(SECOND)
    a.send(b, "q", *numbered(0, 500))
    assert world.run(2 * SECOND, lambda: b.length("q") == 500)


def test_a_peer_with_nothing_to_send_to_takes_no_share_of_the_calls() -> None:
    """As the only message for it has gone; one that still has messages keeps its share."""
    links = Links(Reconnect(), Random(1), calls=False)
    for name, packets in (("has", 1), ("had", 0)):
        filled(links[name], packets)
        links[name].dialer.choose(("udp://b:1",), 0)
    links["had"].turns.withdraw(links["had"].streams[0])
    share_ns = links["has"].dialer.spacing_ns(10 * SECOND)
    for link in links.values():
        link.handle_closed(CloseReason.CONNECT_TIMEOUT, 10 * SECOND)
    assert links["has"].dialer.spacing_ns(10 * SECOND) == share_ns // 2
