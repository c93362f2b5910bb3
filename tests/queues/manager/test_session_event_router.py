"""Events of sessions reach the parts that they concern."""

from tests.queues.world import World
from triack.base.units import SECOND
from triack.queues.stages import Stage


def test_what_a_session_reports_is_counted_recorded_and_passed_on() -> None:
    """Opened, packets, acknowledgements, closed: the receipt, the log and the counters of one message."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    said = a.watch(a.send(b, "q", b"x"), Stage.ORDERED)
    world.run(3 * SECOND)
    assert said == [None]
    b.live.drain(world.now_ns)
    b.drain()
    world.run(SECOND)
    assert a.live.closes == {"peer-closed": 1}
    for node, role in ((a, "initiator"), (b, "acceptor")):
        assert [record["role"] for record in node.log("session_opened")] == [role]
        assert len(node.log("session_closed")) == 1
    assert b.length("q") == 1
