"""Messages that are sent no more: which of their times ran out, and what is known until their letter is made."""

import pytest

from tests.queues.bare import Bare, events, letters, submitted
from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.ordering.outgoing import StreamPacket
from triack.queues.packing import Outgoing, unpack
from triack.queues.streams.dead_message import DeadMessage
from triack.queues.streams.group_commit import GroupCommit


@pytest.mark.parametrize(
    ("reach_ms", "receive_ms", "dies_ms", "reason"),
    [
        (50, None, 50, "reach-queue-timeout"),
        (0, 70, 70, "receive-timeout"),
        (50, 70, 50, "reach-queue-timeout"),
        (70, 50, 50, "receive-timeout"),
    ],
)
def test_a_message_dies_on_its_way_when_the_first_of_its_times_runs_out(
    reach_ms: int, receive_ms: int | None, dies_ms: int, reason: str
) -> None:
    """Not a millisecond before; its letter has no time of its own."""
    node = Bare()
    start_ms = node.now_ns // MS
    receive_by_ms = 0 if receive_ms is None else start_ms + receive_ms
    submitted(node, Outgoing(b"x", None, start_ms + reach_ms if reach_ms else 0, receive_by_ms=receive_by_ms))
    node.poll((dies_ms - 1) * MS)
    assert node.job is None
    effects = node.poll(1 * MS)
    (letter,) = letters(node)
    assert letter["dead_reason"] == reason
    assert isinstance(node.job, GroupCommit)
    assert [unpack(row.bodies[0]).receive_by_ms for row in node.job.commit.messages] == [0]
    assert "removed" in events(effects)


def test_messages_of_one_moment_and_two_reasons_each_say_their_own() -> None:
    """They share no packet, as a receipt hears only the fate of its packet."""
    node = Bare()
    at_ms = node.now_ns // MS + 50
    outgoing = submitted(node, Outgoing(b"1", None, at_ms), Outgoing(b"2", receive_by_ms=at_ms))
    assert outgoing.unacknowledged == 2
    node.poll(50 * MS)
    assert [letter["dead_reason"] for letter in letters(node)] == ["reach-queue-timeout", "receive-timeout"]


def test_what_was_never_sent_was_not_delivered() -> None:
    node = Bare()
    entry = StreamPacket(1, b"", 0, 1, 0, 1)
    given_up = DeadMessage(node.submit("memory://nobody"), [entry], "purged")
    assert given_up.properties["dead_maybe_delivered"] is False
    entry.sends = 1
    assert given_up.properties["dead_maybe_delivered"] is True


@pytest.mark.parametrize("delivery", [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE])
def test_what_an_earlier_life_had_queued_may_have_been_delivered(delivery: Delivery) -> None:
    """The first had left, and the restarted node never sends it; the second is queued afterwards, and never leaves."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    world.cut(b, a, both=False)
    a.send(b, "q", b"1", delivery=delivery, live_ms=20_000)
    world.run(SECOND)
    a.crash()
    world.cut(a, b)
    a.start()
    a.send(b, "q", b"2", delivery=delivery, live_ms=20_000)
    world.run(30 * SECOND)
    assert maybe_delivered(a) == {b"1": True, b"2": False}


def test_a_refusal_after_a_restart_is_as_definite_as_before() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b", queues=[])
    world.cut(a, b)
    a.send(b, "nosuch", b"1")
    world.run(SECOND)
    a.restart()
    world.heal()
    world.run(30 * SECOND)
    assert maybe_delivered(a) == {b"1": False}


def maybe_delivered(node: SimNode) -> dict[bytes, object]:
    """What the dead letters of a node say, by their bodies."""
    box, found = node.live.make_queue("dead-letter"), {}
    while (lease := node.live.take(box, node.world.now_ns)) is not None:
        properties = lease.packet.open().properties or []
        found[lease.body] = properties[lease.index]["dead_maybe_delivered"]
    return found
