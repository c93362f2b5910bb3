"""A node finds out that it comes late, and writes down since when."""

from typing import Any

import pytest

from triack.base.units import MS, SECOND
from triack.queues.manager.wakefulness import WOKE_LATE_NS, Wakefulness
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import World


def test_a_host_in_time_is_not_late() -> None:
    wakefulness = Wakefulness(0)
    assert wakefulness.handle_time(WOKE_LATE_NS - 1) is None
    wakefulness.handle_wait(SECOND)
    assert wakefulness.handle_time(10 * MS) is None
    wakefulness.handle_wait(SECOND)
    assert wakefulness.handle_time(SECOND + WOKE_LATE_NS - 1) is None


def test_a_host_that_had_something_to_do_is_late_since_it_came_last() -> None:
    wakefulness = Wakefulness(0)
    wakefulness.handle_time(7)
    assert wakefulness.handle_time(7 + WOKE_LATE_NS) == 7


def test_a_host_that_waits_is_late_since_its_deadline() -> None:
    wakefulness = Wakefulness(0)
    wakefulness.handle_wait(SECOND)
    assert wakefulness.handle_time(5 * SECOND) == SECOND
    wakefulness.handle_wait(4 * SECOND)
    assert wakefulness.handle_time(9 * SECOND) == 5 * SECOND, "a deadline that is over begins when it was looked at"


def test_a_host_without_a_deadline_is_never_late() -> None:
    wakefulness = Wakefulness(0)
    wakefulness.handle_wait(None)
    assert wakefulness.handle_time(10**18) is None


def records_of(host: SimHost, event: str) -> list[dict[str, Any]]:
    return [record for record in parse_records(b"".join(host.records)) if record["event"] == event]


@pytest.mark.parametrize("stopped_ns", [SECOND, 4 * SECOND, 60 * SECOND])
def test_a_node_writes_down_that_it_stood_still(stopped_ns: int) -> None:
    """Something comes, and its process is stopped, or its machine suspended, before it has answered."""
    world = World(1)
    host = SimHost(world, Network(world), "a", "udp://a:1")
    host.start()
    world.run(SECOND)
    host.act(lambda: None)
    assert records_of(host, "woke_late") == []
    begun_ns = world.now_ns
    host.live.handle_path_lost("udp://b:1", begun_ns)
    world.now_ns += stopped_ns
    host.drain()
    (late,) = records_of(host, "woke_late")
    assert late["since_ns"] == begun_ns
