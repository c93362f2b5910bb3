"""A packet that waits in an open session with room leaves in time; one that may wait is not asked for."""

from collections.abc import Callable

import pytest

from tests.tools.replay.builder import MS, World, place
from tests.tools.replay.faults import TX, ready
from tests.tools.replay.judging import verdict_of

LONG_NS = 12_000 * MS


def idle() -> World:
    """A session that has carried something, of which nothing is unacknowledged."""
    world = ready()
    world.deliver(TX, 4)
    return world


@pytest.mark.parametrize("cls", ["transactional", "recoverable", "express"])
def test_what_waits_for_twelve_seconds_is_found(cls: str) -> None:
    """Whether it leaves at last or never does."""
    for leaves in (True, False):
        world = idle()
        numbers = world.queue(cls, 2)
        world.clock.tick(LONG_NS)
        if leaves:
            world.send(cls, numbers)
        else:
            world.close()
        assert verdict_of(world).violations["unsent"] == 1


def test_it_is_found_in_a_session_that_has_carried_nothing() -> None:
    world = ready()
    world.queue(TX, 1)
    world.clock.tick(LONG_NS)
    world.close("local-stop")
    assert "unsent" in verdict_of(world).violations


def closed(world: World) -> None:
    """There is no session."""
    world.close()
    world.queue(TX, 1)
    world.clock.tick(LONG_NS)


def full(world: World) -> None:
    """Something else is on its way, and is not acknowledged."""
    world.send("express", world.queue("express", 1), lost=(1,))
    world.queue(TX, 1)
    world.clock.tick(LONG_NS)


def held(world: World) -> None:
    """The destination has said that it has no room."""
    world.alpha.write("hold_received", **place(TX), cls=TX, stop=True, reason="queue-full")
    world.queue(TX, 1)
    world.clock.tick(LONG_NS)


def removed(world: World) -> None:
    """It is given up in time."""
    world.queue(TX, 1)
    world.alpha.write("removed", cls=TX, **place(TX), first=5, last=5, count=10, reason="expired")
    world.clock.tick(LONG_NS)


def stopped(world: World) -> None:
    """The process was stopped meanwhile."""
    world.queue(TX, 1)
    world.alpha.stand_still(LONG_NS)


@pytest.mark.parametrize("build", [closed, full, held, removed, stopped])
def test_what_may_wait_is_not_asked_for(build: Callable[[World], None]) -> None:
    world = idle()
    build(world)
    world.alpha.write("ping_sent", session=world.session)
    verdict = verdict_of(world)
    assert "unsent" not in verdict.violations
    assert verdict.late.get("unsent", 0) == (build is stopped)
