"""Operators who pause queues and resume them, whatever happens to the nodes meanwhile."""

from collections.abc import Iterator

import pytest

from tests.tools.chaos.scenes import Scene, plan_of
from triack.base.units import MS, SECOND
from triack.tools.chaos.pausing import OUTGOING, Pausing
from triack.tools.chaos.plan import Fault

HERE = Fault(0, "pause-queue", host=1, for_ns=3 * SECOND)
THERE = Fault(0, "pause-queue", host=0, other=OUTGOING, for_ns=3 * SECOND)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene(plan_of())
    scene.work.begin()
    yield scene
    scene.close()


@pytest.mark.parametrize("fault", [HERE, THERE])
def test_nothing_is_read_of_a_paused_queue_until_it_is_resumed(scene: Scene, fault: Fault) -> None:
    """At its sender or at its receiver."""
    pausing = Pausing(plan_of(), scene.hosts, scene.world)
    scene.world.run(200 * MS)
    pausing.pause(fault)
    scene.world.run(SECOND)
    before = scene.handed
    scene.world.run(SECOND)
    assert scene.handed == before < 200
    scene.world.run(20 * SECOND)
    assert scene.handed == 200


def test_a_node_that_dies_before_the_resume_is_durable_is_resumed_again(scene: Scene) -> None:
    """Its next start finds the pause on its disk."""
    pausing = Pausing(plan_of(), scene.hosts, scene.world)
    pausing.pause(HERE)
    scene.world.run(2_999 * MS)
    host = scene.hosts[1]
    assert host.engine is not None
    host.engine.resume("q", scene.world.now_ns)
    host.crash_after(down_ns=500 * MS)
    scene.world.run(20 * SECOND)
    assert host.engine is not None
    assert not host.engine.queues.pauses.by_name
    assert scene.handed == 200


def test_all_is_resumed_at_once_when_the_faults_end(scene: Scene) -> None:
    pausing = Pausing(plan_of(), scene.hosts, scene.world)
    pausing.pause(HERE)
    scene.world.run(2_500 * MS)
    pausing.heal()
    scene.world.run(2 * SECOND)
    assert scene.handed > 0
