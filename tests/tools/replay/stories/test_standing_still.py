"""A process that stood still is late and breaks nothing; one that did not, or wrote something meanwhile, is no such."""

import pytest

from tests.tools.replay.acts import tiers
from tests.tools.replay.builder import MS, World
from tests.tools.replay.faults import TX, ready
from tests.tools.replay.judging import verdict_of
from triack.tools.replay.log.schema import Verdict


def acked_after(wait_ns: int, *, stopped_ns: int = 0) -> World:
    """Beta acknowledges a packet late, and was stopped for a part of that time."""
    world = ready()
    arrived = world.send("express", world.queue("express", 1))
    if stopped_ns:
        world.beta.stand_still(stopped_ns)
    world.clock.tick(wait_ns - stopped_ns)
    world.ack(arrived, store=False)
    return world


def told(verdict: Verdict) -> tuple[dict[str, int], dict[str, int], str]:
    return verdict.violations, verdict.late, verdict.verdict


@pytest.mark.parametrize("stopped_ms", [1_000, 4_000, 60_000])
def test_what_a_stopped_process_owes_is_late(stopped_ms: int) -> None:
    world = acked_after((stopped_ms + 600) * MS, stopped_ns=stopped_ms * MS)
    assert told(verdict_of(world)) == ({}, {"idle_delay": 1}, "pass")


def test_a_limit_is_longer_by_what_its_process_stood_still() -> None:
    """It may ack after 500 ms, the judge adds 150, and 150 to catch up; it was stopped for a second of three."""
    world = acked_after(3_000 * MS, stopped_ns=1_000 * MS)
    assert told(verdict_of(world)) == ({"idle_delay": 1}, {}, "fail")


def test_nobody_stands_still_and_writes() -> None:
    """Beta claims four seconds in which it took a packet."""
    world = ready()
    arrived = world.send("express", world.queue("express", 1))
    since_ns = world.clock.now_ns
    world.clock.tick(2_000 * MS)
    arrived += world.send("express", world.queue("express", 1))
    world.clock.tick(2_000 * MS)
    world.beta.write("woke_late", since_ns=since_ns)
    world.ack(arrived, store=False)
    assert told(verdict_of(world)) == ({"claims": 1, "idle_delay": 1}, {}, "fail")


def test_what_another_start_stood_still_is_no_excuse() -> None:
    world = ready()
    world.beta.stand_still(4_000 * MS)
    arrived = world.send(TX, world.queue(TX, 1))
    world.clock.tick(2_000 * MS)
    world.ack(arrived, store=False)
    assert verdict_of(world).violations["idle_delay"] == 1


def test_an_order_ack_waits_for_the_session_after_the_one_that_ended_in_sleep() -> None:
    """Beta wakes up and finds its session closed; the next one comes long after, and carries the ack at once."""
    world = ready()
    tiers(world)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.beta.stand_still(4_000 * MS)
    world.close("peer-closed")
    world.clock.tick(60_000 * MS)
    world.open()
    world.order_ack(1)
    assert told(verdict_of(world)) == ({}, {"order_ack_late": 1}, "pass")
