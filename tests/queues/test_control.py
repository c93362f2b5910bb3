"""Answers on their way: what they refuse is passed over when the origin has them, and no sooner."""

from tests.queues.hostile import ORIGIN, Hostile
from tests.queues.world import PlainWorld
from triack.base.ranges import NumberSet
from triack.base.units import SECOND
from triack.session.frames import StoreAckFrame, decode_frames, encode_ack, encode_ping


def stored(evil: Hostile) -> StoreAckFrame:
    """The last store ack that came."""
    frames = [frame for _, payload in evil.heard()[1:] for frame in decode_frames(payload)]
    return [frame for frame in frames if isinstance(frame, StoreAckFrame)][-1]


def test_store_acks_pass_what_is_refused_when_its_origin_knows() -> None:
    """Before, the number is a gap: nobody may take it for stored."""
    world = PlainWorld(1)
    node = world.node("b", queues=["q"])
    evil = Hostile(world, node)
    evil.frames(evil.message(1, queue="q", lane=1))
    evil.frames(evil.message(1, queue="nope", lane=2))
    evil.frames(evil.message(2, queue="q", lane=1))
    world.run(SECOND)
    assert (stored(evil).cumulative, stored(evil).ranges) == (1, [(3, 3)])
    sent = node.live.handshakes.with_peer(ORIGIN)[0].session.window.highest_sent
    evil.frames(encode_ack(NumberSet(sent), 64, 0, 0), encode_ping())
    world.run(SECOND)
    assert (stored(evil).cumulative, stored(evil).ranges) == (3, [])
