"""How long what failed waits."""

import pytest

from tests.base.refusals import refuse_wrong_values
from tests.queues.world import World
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.redelivery import Return, Wait, wait_ms
from triack.queues.node_settings import NodeSettings, Redelivery
from triack.tools.sim.host import SimHost


def fail_one(host: SimHost, queue: str) -> None:
    """A handler fails with the first message that waits."""
    now_ns = host.world.now_ns
    mailbox = host.live.make_queue(queue)
    lease = host.live.take(mailbox, now_ns)
    assert lease is not None
    host.live.give_back(mailbox, lease, Return(failed=True), now_ns)
    host.drain()


def test_a_value_that_cannot_be_is_refused() -> None:
    refuse_wrong_values(Redelivery)
    with pytest.raises(UsageError, match="keep_order must be True or False, not 1"):
        Redelivery(keep_order=1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="queue_redelivery of orders must be a Redelivery, not 5"):
        NodeSettings(queue_redelivery={"orders": 5})  # type: ignore[dict-item]


def test_waits_double_from_a_second_to_a_minute() -> None:
    """However often it failed; and none is none."""
    waits = [wait_ms(Redelivery(), failures) // 1_000 for failures in (*range(1, 9), 10**6)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [wait_ms(Redelivery(first_wait_s=0), failures) for failures in (1, 2, 100)] == [0, 0, 0]


def test_a_clock_that_was_set_makes_no_wait_longer() -> None:
    assert Wait(90_000, 1_000, keep_order=True).after_restart(500).until_ms == 1_500
    assert Wait(1_000, 1_000, keep_order=True).after_restart(500).until_ms == 1_000


def test_an_outage_of_half_a_minute_costs_no_message() -> None:
    """Twenty orders and a handler that fails: none is dead, and all come in their order afterwards."""
    world = World(1)
    a = world.node("a")
    a.send(a, "orders", *(b"%d" % number for number in range(20)))
    world.run(10 * MS)
    mailbox, attempts = a.live.make_queue("orders"), 0
    end_ns = world.now_ns + 30 * SECOND
    while world.now_ns < end_ns:
        while (lease := a.live.take(mailbox, world.now_ns)) is not None:
            attempts += 1
            a.live.give_back(mailbox, lease, Return(failed=True), world.now_ns)
        a.drain()
        world.run(100 * MS)
    assert (attempts, a.length("dead-letter")) == (5, 0)
    world.run(2 * SECOND)
    assert a.read_all("orders") == [b"%d" % number for number in range(20)]


def test_the_listener_is_notified_when_the_wait_is_over() -> None:
    """And not before; nobody has to ask meanwhile, a crash between included."""
    world = World(1)
    a = world.node("a", NodeSettings(queue_redelivery={"orders": Redelivery(first_wait_s=20)}))
    a.send(a, "orders", b"1")
    world.run(10 * MS)
    fail_one(a, "orders")
    world.run(SECOND)
    a.restart()
    told: list[int] = []
    mailbox = a.live.make_queue("orders")
    mailbox.listeners.append(lambda: told.append(a.read("orders")))
    assert a.read("orders") == 0
    world.run(18 * SECOND)
    assert sum(told) == 0
    world.run(2 * SECOND)
    assert sum(told) == 1


def test_a_clock_that_was_set_back_makes_no_wait_longer_however_often_the_node_starts() -> None:
    """Each start would have begun it anew: a node that starts more often than that would never hand the message out."""
    world = World(1)
    a = world.node("a", NodeSettings(redelivery=Redelivery(first_wait_s=60)))
    a.send(a, "q", b"1")
    world.run(10 * MS)
    fail_one(a, "q")
    a.wall_offset_ns -= 86_400 * SECOND
    read = []
    for _ in range(4):
        world.run(25 * SECOND)
        a.restart()
        read.append(len(a.read_all("q")))
    assert read == [0, 0, 1, 1]
