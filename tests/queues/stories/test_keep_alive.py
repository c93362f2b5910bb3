"""Nodes behind middle boxes that forget UDP flows after half a minute get what is for them, after any silence."""

from dataclasses import replace

import pytest

from tests.queues.stories.test_patience import DAY, Meter, judged
from tests.queues.world import SimNode, World
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

FLOW_LIFE_NS = 30 * SECOND


def behind(keep_alive_s: float = 25.0, *, listens: bool = False) -> tuple[World, SimNode, SimNode]:
    """A node that nobody can call, and one that it has called."""
    world = World(1, Faults(delay_ns=5 * MS))
    a, b = world.node("a", NodeSettings(keep_alive_s=keep_alive_s)), world.node("b")
    a.listens = listens
    a.restart()
    world.network.hide(a.address, FLOW_LIFE_NS)
    a.send(b, "q", b"hello")
    assert world.run(SECOND, lambda: b.length("q") == 1)
    return world, a, b


@pytest.mark.parametrize("silent_s", [29, 31, 45, 200, 299, 301, 900])
def test_after_any_silence_a_message_arrives_at_once(silent_s: int) -> None:
    """Without keep-alives it waits until the session has been idle for five minutes, and the node calls again."""
    world, a, b = behind()
    world.run(silent_s * SECOND)
    b.send(a, "q", b"news")
    assert world.run(300 * MS, lambda: a.length("q") == 1)
    assert judged(a, b) == []


@pytest.mark.slow
@pytest.mark.gate
def test_without_them_the_flow_is_forgotten() -> None:
    """What this is about; and that they can be turned off."""
    world, a, b = behind(keep_alive_s=0)
    world.run(45 * SECOND)
    b.send(a, "q", b"news")
    assert not world.run(200 * SECOND, lambda: a.length("q") == 1)
    assert world.network.counts["forgotten"] > 0
    assert world.run(100 * SECOND, lambda: a.length("q") == 1)


def test_a_node_that_listens_where_nobody_can_call_says_so_of_a_peer() -> None:
    """And keeps in touch with it, with nothing to send, before and after a restart."""
    world, a, b = behind(listens=True)
    a.know(replace(b.peer, keep_alive_s=10))
    for _ in range(2):
        world.run(100 * SECOND)
        b.send(a, "q", b"news")
        assert world.run(300 * MS, lambda: a.read("q") == 1)
        a.restart()


def test_a_peer_may_have_none() -> None:
    """Where others are kept alive: one that is on the same network, say."""
    world, a, b = behind()
    a.know(replace(b.peer, keep_alive_s=0))
    a.restart()
    world.run(100 * SECOND)
    assert not a.log("ping_sent")


def test_a_middle_box_that_was_started_anew_is_noticed() -> None:
    """The next ping comes from elsewhere, and its sender is found there; so is what was sent in between."""
    world, a, b = behind()
    world.run(100 * SECOND)
    world.network.hide(a.address, 1)  # nothing that it knew is known any more
    world.run(26 * SECOND)
    world.network.hide(a.address, FLOW_LIFE_NS)
    b.send(a, "q", b"news")
    assert world.run(30 * SECOND, lambda: a.length("q") == 1)
    assert judged(a, b) == []


def test_a_peer_that_was_started_anew_is_noticed_by_its_silence() -> None:
    """It cannot call, and has something to say: half a minute, and not five."""
    world, a, b = behind()
    world.run(100 * SECOND)
    b.restart()
    b.send(a, "q", b"news")
    assert world.run(30 * SECOND, lambda: a.length("q") == 1)


def test_what_is_sent_anyway_keeps_the_flow() -> None:
    world, a, b = behind()
    for _ in range(50):
        a.send(b, "q", b"x")
        world.run(5 * SECOND)
    assert not a.log("ping_sent")


@pytest.mark.slow
def test_a_day_costs_about_a_megabyte() -> None:
    """Both ways, with the headers of IPv6; half of it, when sessions are not renewed every five minutes."""
    world, _, b = behind()
    meter = Meter(world)
    world.run(DAY)
    assert 500_000 < meter.sent_bytes < 1_500_000
    long = NodeSettings(session=SessionSettings(cleanup_interval_s=86_400.0))
    world = World(1, Faults(delay_ns=5 * MS))
    a, b = world.node("a", long), world.node("b", long)
    a.listens = False
    a.restart()
    a.send(b, "q", b"hello")
    world.run(10 * SECOND)
    meter = Meter(world)
    world.run(DAY // 2)
    assert meter.sent_bytes < 400_000


def test_a_stream_is_kept_by_the_system() -> None:
    """TCP has keep-alives of its own."""
    world = World(1, Faults(delay_ns=5 * MS))
    a, b = world.node("a", scheme="tcp"), world.node("b", scheme="tcp")
    a.listens = False
    a.restart()
    a.send(b, "q", b"hello")
    world.run(200 * SECOND)
    assert not a.log("ping_sent")
