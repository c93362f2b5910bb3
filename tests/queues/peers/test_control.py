"""Answers on their way: what they refuse is passed over when the origin has them, and no sooner."""

import pytest

from proof.search.stillness import session_of
from tests.queues.hostile import ORIGIN, Hostile
from tests.queues.world import PlainWorld
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.queues.peers import link
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame, PingFrame, StoreAckFrame


def stored(evil: Hostile) -> StoreAckFrame:
    """The last store ack that came."""
    frames = [frame for _, payload in evil.heard()[1:] for frame in BINARY.decode(payload)]
    return [frame for frame in frames if isinstance(frame, StoreAckFrame)][-1]


def test_store_acks_pass_what_is_refused_when_its_origin_knows() -> None:
    """Before, the number is a gap: nobody may take it for stored."""
    world = PlainWorld(1)
    node = world.node("b", queues=["q"])
    evil = Hostile(world, node)
    evil.frames(evil.message(1, queue="q", stream=1))
    evil.frames(evil.message(1, queue="nope", stream=2))
    evil.frames(evil.message(2, queue="q", stream=1))
    world.run(SECOND)
    assert (stored(evil).cumulative, stored(evil).ranges) == (1, [(3, 3)])
    sent = session_of(node.live.handshakes.with_peer(ORIGIN)[0]).window.highest_sent
    evil.frames(BINARY.encode(AckFrame.of(NumberSet(sent), 64, 0, 0)), BINARY.encode(PingFrame()))
    world.run(SECOND)
    assert (stored(evil).cumulative, stored(evil).ranges) == (3, [])


def test_what_answers_refuse_is_bounded_until_the_peer_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet that comes again and again under other numbers is refused each time, and remembered only so often."""
    monkeypatch.setattr(link, "REFUSING_MAX", 20)
    world = PlainWorld(1)
    node = world.node("b", queues=["q"])
    evil = Hostile(world, node)
    for _ in range(50):
        evil.frames(evil.message(1, queue="nope", stream=2))
    world.run(SECOND)
    (conversation,) = node.live.handshakes.with_peer(ORIGIN)
    assert conversation.refusing == 20
    assert node.live.drops[DropReason.CONTROL_OVERFLOW] == 30
    sent = session_of(conversation).window.highest_sent
    evil.frames(BINARY.encode(AckFrame.of(NumberSet(sent), 64, 0, 0)))
    evil.frames(BINARY.encode(PingFrame()))
    world.run(SECOND)
    assert conversation.refusing == 0
    assert stored(evil).cumulative == 20


def test_an_express_packet_that_gets_no_answer_is_acknowledged_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named as refused only as long as a rejection is to follow."""
    monkeypatch.setattr(link, "REFUSING_MAX", 1)
    world = PlainWorld(1)
    node = world.node("b", queues=["q"])
    evil = Hostile(world, node)
    for number in (1, 2):
        evil.frames(
            evil.message(number, previous=0, queue="nope", stream=2, delivery=Delivery.EXPRESS),
            BINARY.encode(PingFrame()),
        )
        world.run(SECOND)
    frames = [frame for _, payload in evil.heard()[1:] for frame in BINARY.decode(payload)]
    acks = [(frame.cumulative, list(frame.refused)) for frame in frames if isinstance(frame, AckFrame)]
    assert acks[-1] == (2, [(1, 1)])
