"""The age of what waits: at its origin, at a relay and in a queue, over restarts and whatever clocks show."""

import pytest

from tests.queues.relays import by_relay, post
from tests.queues.world import SimNode, single, two
from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND

PART = 20 * SECOND
HOUR = 3_600 * SECOND
YEAR = 365 * 24 * HOUR
UNSET = -53 * YEAR
"""Back to 1970."""


def age_there(node: SimNode) -> int:
    """Seconds that the first message waits which it has for others."""
    engine, now_ns = node.live, node.world.now_ns
    own_ms = [it.sequence.oldest_ms for it in engine.outbox.streams if it.sequence.oldest_ms is not None]
    came_ns = [it.sequence.came_ns for it in engine.transits.streams if it.sequence.came_ns is not None]
    ages_ms = [*(engine.wall.ms(now_ns) - at_ms for at_ms in own_ms), *((now_ns - at_ns) // MS for at_ns in came_ns)]
    return max([0, *ages_ms]) // 1_000


def age_of_queue(node: SimNode) -> int:
    """Seconds since the oldest message in its queue was sent."""
    oldest_ms = sure(node.live.queues.mailboxes["q"].oldest_ms)
    return (node.live.wall.ms(node.world.now_ns) - oldest_ms) // 1_000


SETS = [0, HOUR, -HOUR, YEAR, UNSET]


@pytest.mark.gate
@pytest.mark.parametrize("set_by_ns", SETS)
def test_what_waits_at_its_origin_is_as_old_after_any_start(set_by_ns: int) -> None:
    """However often it starts, and however its clock is set: a node that dies again and again trips an alarm."""
    world, a, b = two()
    world.cut(a, b)
    post(a, "b", *[b"x"] * 300, delivery=Delivery.RECOVERABLE)
    world.run(PART)
    for set_ns in (set_by_ns, -set_by_ns):
        a.restart(set_ns)
        world.run(PART)
    post(a, "b", b"x", delivery=Delivery.RECOVERABLE)
    (outgoing,) = a.live.outbox.streams
    stalled_ns = a.live.outbox.latency.stalled_ns(outgoing, world.now_ns)
    assert (age_there(a), stalled_ns // SECOND) == (60, 60)
    world.heal()
    assert world.run(100 * SECOND, lambda: not a.busy)
    assert age_there(a) == 0


@pytest.mark.gate
@pytest.mark.parametrize("set_by_ns", SETS)
def test_what_waits_at_a_relay_is_as_old_after_any_start(set_by_ns: int) -> None:
    """The store has when it was sent; a clock of its origin that agrees with the relay's says the rest."""
    net, a, r, b = by_relay()
    b.crash()
    post(a, "b", *[b"x"] * 200)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") > 0)
    net.world.run(PART)
    for set_ns in (set_by_ns, -set_by_ns):
        r.restart(set_ns)
        net.world.run(PART)
    assert 60 <= age_there(r) < 80
    b.start()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    assert age_there(r) == 0


def test_what_a_node_without_a_clock_has_sent_is_not_as_old_as_its_clock_says() -> None:
    """Neither in a queue, nor at a relay that has started since: its age counts from when it was seen first."""
    net, a, r, b = by_relay()
    a.restart(UNSET)
    post(a, "b", *[b"x"] * 50)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    b.crash()
    post(a, "b", *[b"x"] * 50)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") > 0)
    for node in (r, b):
        node.restart()
    assert age_there(r) == 0
    for _ in range(2):
        assert age_of_queue(b) < 60
        b.restart()


def test_a_clock_that_is_set_makes_nothing_in_a_queue_older() -> None:
    world, a = single()
    post(a, "", *[b"x"] * 5, delivery=Delivery.RECOVERABLE)
    world.run(PART)
    a.restart(YEAR)
    assert age_of_queue(a) == 20
    a.restart(-YEAR)
    assert age_of_queue(a) == 20
