"""Relays at which messages wait for long: paused by an operator, started again, and quiet meanwhile."""

import pytest

from tests.queues.relays import Relays, dead, line, post
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
    b.start()
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    assert b.read_all("q") == [b"second"]
    a.start()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert dead(a)[0] == [b"first"]


@pytest.mark.slow
@pytest.mark.gate
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


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("names", ["arb", "arsb", "arstb"])
def test_a_backlog_crosses_each_hop_once(names: str) -> None:
    """Wherever it waits; and when its destination is back, its origin hears at once that all is there."""
    net = line(names)
    a, b = net["a"], net["b"]
    b.crash()
    post(a, "b", *numbered(0, 200, 4_000))
    net.world.run(60 * SECOND)
    assert net.waiting(names[-2]) > 0
    assert net.waiting(names[-2]) == net.waiting()
    before = _crossed(net, names)
    net.world.run(3 * HOUR)
    assert _crossed(net, names) == before
    b.start()
    assert net.world.run(HOUR, lambda: b.length("q") == 200)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == numbered(0, 200, 4_000)


def _crossed(net: Relays, names: str) -> list[int]:
    """How many packets of messages each node has got."""
    return [sum(it["packets"] for it in net[name].log("packet_received") if it.get("origin")) for name in names[:-1]]


@pytest.mark.slow
@pytest.mark.parametrize("name", "rs")
def test_a_backlog_crosses_once_more_when_a_relay_has_forgotten(name: str) -> None:
    """The one that has passed it on knows nothing of it any more; the one that has it was not there to say so."""
    net = line("arsb")
    a, b = net["a"], net["b"]
    b.crash()
    post(a, "b", *numbered(0, 200, 4_000))
    net.world.run(60 * SECOND)
    before = _crossed(net, "arsb")
    net[name].crash()
    net.world.run(HOUR)
    net[name].start()
    net.world.run(3 * HOUR)
    crossed = _crossed(net, "arsb")
    assert all(after <= 2.2 * once for after, once in zip(crossed, before, strict=True))
    net.world.run(12 * HOUR)
    assert _crossed(net, "arsb") == crossed
    b.start()
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    assert b.read_all("q") == numbered(0, 200, 4_000)


@pytest.mark.slow
@pytest.mark.gate
def test_a_relay_notices_soon_that_the_next_one_has_started_again() -> None:
    """Its destination is away. So the next relay has nothing to say, and has forgotten that it had said so.

    Its origin hears in one session that all waits, no more, and again, though the first relay has forgotten the stream.
    """
    net = line("arsb")
    net["b"].crash()
    post(net["a"], "b", *numbered(0, 10))
    assert net.world.run(60 * SECOND, lambda: bool(net["a"].log("onward_received")))
    net.world.run(20 * SECOND)
    net["s"].restart()
    assert net.world.run(60 * SECOND, lambda: not net["a"].log("onward_received")[-1]["waits"])
    assert net.world.run(40 * SECOND, lambda: net["a"].log("onward_received")[-1]["waits"])
    assert len(net["a"].log("session_opened")) == 1
