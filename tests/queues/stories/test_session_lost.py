"""What becomes of what was on its way when a session was lost: sent again, or handed back, as the node is set."""

import pytest

from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings, Reconnect
from triack.queues.stages import STAGES
from triack.session.protocol.settings import SessionSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records

SESSION = SessionSettings(ack_timeout_s=2.0, store_ack_timeout_s=2.0, cleanup_interval_s=5.0)
HAND_BACK = NodeSettings(session=SESSION, reconnect=Reconnect(after_session_lost="hand back"))


@pytest.fixture
def world() -> World:
    return World(1)


def letters(node: SimNode) -> list[tuple[bytes, str, bool]]:
    """Body, reason and whether it may have been delivered, of each dead letter."""
    found = []
    box = node.live.make_queue("dead-letter")
    while (lease := node.live.take(box, node.world.now_ns)) is not None:
        why = (lease.packet.open().properties or [{}])[lease.index]
        found.append((lease.body, str(why["dead_reason"]), bool(why["dead_maybe_delivered"])))
        box.acknowledge(lease)
    node.drain()
    return found


@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("arrives", [True, False])
def test_what_was_on_its_way_is_handed_back(world: World, delivery: Delivery, arrives: bool) -> None:
    """Its receipt fails by that name, it is sent no more, and what follows arrives in order."""
    a, b = world.node("a", HAND_BACK), world.node("b", NodeSettings(session=SESSION))
    a.send(b, "q", b"1", delivery=delivery)
    world.run(SECOND)
    world.cut(b if arrives else a, a if arrives else b, both=False)
    said = a.watch(a.send(b, "q", b"2", delivery=delivery), STAGES[delivery])
    world.run(6 * SECOND)
    assert (said, letters(a)) == (["session-lost"], [(b"2", "session-lost", True)])
    a.send(b, "q", b"3", delivery=delivery)
    world.heal()
    world.run(60 * SECOND)
    assert b.read_all("q") == ([b"1", b"2", b"3"] if arrives else [b"1", b"3"])
    assert (letters(a), a.busy) == ([], False)
    found = judge_records([record for node in (a, b) for record in parse_records(b"".join(node.records))])
    assert {it.check for it in found} <= {"silent_end"}


def test_what_had_not_left_and_what_ended_in_good_order_is_kept(world: World) -> None:
    """An idle session, and a peer that cannot be reached, leave nothing in doubt."""
    a, b = world.node("a", HAND_BACK), world.node("b", NodeSettings(session=SESSION))
    a.send(b, "q", b"1")
    world.run(20 * SECOND)
    assert {record["reason"] for record in a.log("session_closed")} == {"idle"}
    world.cut(a, b)
    a.send(b, "q", b"2")
    world.run(30 * SECOND)
    assert letters(a) == []
    world.heal()
    world.run(30 * SECOND)
    assert b.read_all("q") == [b"1", b"2"]


def test_by_default_it_is_sent_again(world: World) -> None:
    a, b = world.node("a", NodeSettings(session=SESSION)), world.node("b", NodeSettings(session=SESSION))
    a.send(b, "q", b"1")
    world.run(500 * MS)
    world.cut(a, b)
    a.send(b, "q", b"2")
    world.run(5 * SECOND)
    world.heal()
    world.run(60 * SECOND)
    assert (b.read_all("q"), letters(a)) == ([b"1", b"2"], [])


def test_there_are_two_ways() -> None:
    with pytest.raises(UsageError, match="resend or hand back, not 'drop'"):
        Reconnect(after_session_lost="drop")  # type: ignore[arg-type]


def test_what_the_next_session_begins_by_acknowledging_was_not_lost(world: World) -> None:
    """Its first datagram ends the old session and brings the order ack: it is ordered, and nobody says otherwise."""
    patient = SessionSettings(ack_timeout_s=60.0, store_ack_timeout_s=60.0)
    a = world.node("a", NodeSettings(session=patient, reconnect=HAND_BACK.reconnect))
    b = world.node("b", NodeSettings(session=SESSION))
    b.send(a, "q", b"1")
    world.run(SECOND)
    a.send(b, "q", b"2")
    world.run(SECOND)
    world.cut(b, a, both=False)
    said = a.watch(a.send(b, "q", b"3"), STAGES[Delivery.TRANSACTIONAL])
    b.send(a, "q", b"4")
    world.run(4 * SECOND)
    world.heal()
    world.run(60 * SECOND)
    assert "superseded" in {record["reason"] for record in a.log("session_closed")}
    assert (said, letters(a), a.log("removed")) == ([None], [], [])


@pytest.mark.parametrize("queue", ["$large.q", "$subscribe"])
def test_what_nodes_say_to_each_other_is_sent_again(world: World, queue: str) -> None:
    """No application takes it back: without the word that frees a body, that would be there for good."""
    a, b = world.node("a", HAND_BACK), world.node("b", NodeSettings(session=SESSION))
    a.send(b, "q", b"1")
    world.run(SECOND)
    world.cut(a, b)
    a.send(b, queue, b"2")
    world.run(6 * SECOND)
    assert (letters(a), a.busy) == ([], True)
