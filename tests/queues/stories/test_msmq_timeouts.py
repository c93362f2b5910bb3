"""How long MSMQ waits, by its documents, in virtual time: [MS-MQQB] and the registry reference."""

import pytest

from tests.queues.world import PlainWorld, SimNode, World
from triack.base.units import MS, SECOND
from triack.node.handles.policies import MSMQ, msmq
from triack.queues.node_settings import NodeSettings
from triack.tools.sim.faults import Faults


def pair(
    round_trip_ns: int, settings: NodeSettings = MSMQ, make: type[World] = World
) -> tuple[World, SimNode, SimNode]:
    """Two nodes, and a line between them."""
    world = make(1, Faults(delay_ns=round_trip_ns // 2))
    return world, world.node("a", settings), world.node("b", settings)


def silence_s(world: World, a: SimNode, b: SimNode) -> float:
    """After how long ``a`` gives up a peer that died when their session had nothing to do."""
    a.send(b, "q", b"opens a session")
    assert world.run(100 * SECOND, lambda: not a.busy)
    b.crash()
    a.send(b, "q", b"lost")
    begun_ns = world.now_ns
    assert world.run(1_000 * SECOND, lambda: len(a.log("session_closed")) == 1)
    assert a.log("session_closed")[0]["reason"] == "ack-timeout"
    return round((world.now_ns - begun_ns) / SECOND, 3)


@pytest.mark.parametrize(
    ("round_trip_ns", "least_s", "most_s"), [(2 * MS, 20, 20), (2 * SECOND, 21, 119), (6 * SECOND, 120, 120)]
)
def test_the_ack_timeout_is_computed_per_line(round_trip_ns: int, least_s: float, most_s: float) -> None:
    """From 20 to 120 s ([MS-MQQB] 2.2.2.1). Eight probe times are ours: the formula is not public."""
    world, a, b = pair(round_trip_ns)
    assert least_s <= silence_s(world, a, b) <= most_s


@pytest.mark.parametrize("round_trip_ns", [2 * MS, 6 * SECOND])
def test_a_set_ack_timeout_turns_the_computation_off(round_trip_ns: int) -> None:
    """Registry, ``AckTimeout``."""
    world, a, b = pair(round_trip_ns, msmq(ack_timeout_s=60))
    assert silence_s(world, a, b) == 60


def test_a_peer_with_a_direct_name_may_be_silent_for_twice_as_long() -> None:
    """``QosCleanupIntervalMultiplier``, [MS-MQQB] 3.1.2.4."""
    world, a, b = pair(2 * MS, make=PlainWorld)
    assert silence_s(world, a, b) == 40


@pytest.mark.parametrize("round_trip_s", [12, 30])
def test_the_session_initialization_timer_runs_for_a_minute(round_trip_s: int) -> None:
    """[MS-MQQB] 3.1.2.1: a session opens however long its line is, up to that, and the first try is enough."""
    world, a, b = pair(round_trip_s * SECOND)
    a.send(b, "q", b"1")
    assert world.run(120 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"1"]
    assert len(a.log("session_opened")) == 1
    assert not a.log("session_closed")


def test_a_peer_that_never_answers_is_given_up_after_a_minute() -> None:
    """The same timer, and then ``TryConnectInterval``."""
    world, a, b = pair(2 * MS)
    b.crash()
    a.send(b, "q", b"1")
    begun_ns = world.now_ns
    assert world.run(100 * SECOND, lambda: bool(a.log("session_closed")))
    assert world.now_ns - begun_ns == pytest.approx(60 * SECOND, abs=SECOND)
    assert a.log("session_closed")[0]["reason"] == "connect-timeout"
