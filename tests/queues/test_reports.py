"""What sessions report reaches whom it concerns."""

from tests.queues.world import World
from triack.base.units import SECOND
from triack.queues.effects import TellSilent
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


def test_the_operator_is_told_once_that_nobody_answers() -> None:
    """And again when that happens after an answer."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    b.crash()
    told: list[str] = []
    poll = a.live.poll

    def listen(now_ns: int) -> object:
        effects = poll(now_ns)
        told.extend(effect.peer for effect in effects if isinstance(effect, TellSilent))
        return effects

    a.live.poll = listen  # type: ignore[method-assign, assignment]
    a.send(b, "q", b"x")
    world.run(60 * SECOND)
    assert told == [b.address]
    b.start()
    assert world.run(60 * SECOND, lambda: b.length("q") == 1)
    world.run(3 * SECOND)
    b.crash()
    a.send(b, "q", b"y")
    world.run(60 * SECOND)
    assert told == [b.address, b.address]
