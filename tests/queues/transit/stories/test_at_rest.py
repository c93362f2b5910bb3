"""Relays at which messages wait for long: paused by an operator, started again, and quiet meanwhile."""

import pytest

from tests.queues.relays import dead, line, post
from tests.queues.stories.test_paused import pause, resume
from tests.queues.world import numbered
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings

HOUR = 3_600 * SECOND


@pytest.mark.parametrize("name", ["b/", "b/q"])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_nothing_passes_to_a_paused_peer(delivery: Delivery, name: str) -> None:
    """It waits at the relay, restarts of durable streams included, and goes on when the peer is resumed."""
    net = line("arb")
    a, r, b = (net[it] for it in "arb")
    post(a, "b", b"before", delivery=delivery)
    assert net.world.run(5 * SECOND, lambda: b.length("q") == 1)
    pause(r, name)
    post(a, "b", *numbered(0, 100), delivery=delivery)
    post(a, "b", b"goes on", queue="other", delivery=delivery)
    net.world.run(20 * SECOND)
    if delivery is not Delivery.EXPRESS:
        r.restart()
    net.world.run(HOUR)
    assert (b.length("q"), b.length("other")) == (1, 0 if name == "b/" else 1)
    resume(r, name)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a") and b.length("q") == 101)
    assert sorted(b.read_all("q")) == sorted([b"before", *numbered(0, 100)])


def test_a_previous_that_was_lowered_outlives_a_restart() -> None:
    """Two packets wait at the relay; the first one expires there and at its origin, which says so of the second.

    The relay starts again before it can pass that on. With the old word, its destination would wait for the first one.
    """
    net = line("arb")
    a, r, b = (net[it] for it in "arb")
    b.crash()
    post(a, "b", b"first", life_ms=20_000)
    net.world.run(SECOND)
    post(a, "b", b"second")
    net.world.run(25 * SECOND)
    (stream,) = r.live.transits.streams
    assert net.world.run(60 * SECOND, lambda: [it.previous for it in stream.sequence.entries.values()] == [0])
    net.world.run(SECOND)
    a.crash()
    r.restart()
    (stream,) = r.live.transits.streams
    assert [(it.number, it.previous) for it in stream.sequence.entries.values()] == [(2, 0)]
    b.revive()
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    assert b.read_all("q") == [b"second"]
    a.revive()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert dead(a)[0] == [b"first"]


def test_a_word_that_stands_costs_two_pings_in_an_interval() -> None:
    """However short the interval is, after which a session with nothing to do would end."""
    interval_s = 0.8
    short = NodeSettings(session=SessionSettings(cleanup_interval_s=interval_s, ack_timeout_min_s=0.3))
    net = line("arb", settings=dict.fromkeys("arb", short))
    a, r, b = (net[it] for it in "arb")
    b.crash()
    post(a, "b", *numbered(0, 5))
    net.world.run(60 * SECOND)
    before, sessions = len(a.log("ping_sent")) + len(r.log("ping_sent")), len(a.log("session_opened"))
    net.world.run(80 * SECOND)
    pings = len(a.log("ping_sent")) + len(r.log("ping_sent")) - before
    assert 50 <= pings <= 200
    assert len(a.log("session_opened")) == sessions
