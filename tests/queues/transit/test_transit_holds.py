"""Holds that go upstream: each stream by itself, repeated while they last, and ended when there is room."""

import pytest

from tests.queues.relays import line, post
from tests.queues.world import numbered
from triack.base.delivery import Delivery
from triack.base.news import StreamHeld
from triack.base.reasons import HoldReason
from triack.base.units import SECOND
from triack.queues.node_settings import Limits, NodeSettings, Quota

SMALL = NodeSettings(limits=Limits(transit_quota=Quota(size_bytes=16 * 1024)))


@pytest.mark.slow
@pytest.mark.gate
def test_the_wait_of_a_stream_begins_and_ends_with_an_event() -> None:
    """At the origin and at the relay, each for itself."""
    net = line("arb", settings={"r": SMALL})
    a, r, b = (net[name] for name in "arb")
    b.crash()
    post(a, "b", *numbered(0, 400, 200))
    assert net.world.run(20 * SECOND, lambda: bool(r.live.transits.holds.waiting.streams))
    b.start()
    assert net.world.run(400 * SECOND, lambda: net.is_done("a"))
    for node, is_here in ((a, False), (r, True)):
        news = [event.is_held for event in node.news if isinstance(event, StreamHeld) and event.here is is_here]
        assert news[0] is True
        assert news[-1] is False


def test_a_hold_that_refuses_nothing_repeats_its_turn() -> None:
    """Its neighbour takes back what is on its way only if it was refused."""
    net = line("arb", settings={"r": SMALL})
    a, r, b = (net[name] for name in "arb")
    b.crash()
    post(a, "b", *numbered(0, 400, 200))
    holds = r.live.transits.holds
    assert net.world.run(20 * SECOND, lambda: bool(holds.waiting.streams))
    (stream,) = r.live.transits.streams
    (conversation,) = stream.stopped
    turn = stream.turn
    assert holds.stop_again(conversation)
    assert stream.turn == turn
    holds.stop(stream, conversation, HoldReason.TRANSIT_FULL, (1,))
    assert stream.turn == turn + 1


def test_a_hold_ends_with_its_session() -> None:
    """In the next one the stream is held anew."""
    net = line("arb", settings={"r": SMALL})
    a, r, b = (net[name] for name in "arb")
    b.crash()
    post(a, "b", *numbered(0, 400, 200), delivery=Delivery.RECOVERABLE)
    holds = r.live.transits.holds
    assert net.world.run(20 * SECOND, lambda: bool(holds.waiting.streams))
    for conversation in list(r.live.handshakes.conversations.values()):
        holds.handle_session_closed(conversation)
    assert not holds.waiting.streams
    assert net.world.run(100 * SECOND, lambda: bool(holds.waiting.streams))
