"""Priorities, from the sender to the reader: what is more urgent is read first, and nothing starves."""

from typing import Any

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Limits, NodeSettings, Quota

RECOVERABLE, TRANSACTIONAL = Delivery.RECOVERABLE, Delivery.TRANSACTIONAL
MANY = 10_000


def next_body(node: SimNode, queue: str) -> bytes:
    """Take the next message, whose body may be only on the disk."""
    before = len(node.received.get(queue, []))
    for _ in range(10_000):
        if node.read(queue, 1):
            break
        node.world.run(MS)
    return node.received[queue][before]


def settle(world: World, sender: SimNode) -> None:
    assert world.run(60 * SECOND, lambda: not sender.busy)


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("to", ["itself", "another"])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_next_message_is_the_most_urgent_one(to: str, restarts: bool) -> None:
    """However many wait, in a local or a remote queue, and after a restart of the node that has them."""
    world = World(1)
    a = world.node("a")
    b = a if to == "itself" else world.node("b")
    a.send(b, "q", *numbered(0, MANY), delivery=RECOVERABLE, priority=0)
    assert world.run(60 * SECOND, lambda: b.length("q") == MANY)
    a.send(b, "q", b"urgent", delivery=RECOVERABLE, priority=7)
    assert world.run(60 * SECOND, lambda: b.length("q") == MANY + 1)
    if restarts:
        b.restart()
    assert next_body(b, "q") == b"urgent"
    assert b.read_all("q")[1:] == numbered(0, MANY)


def test_what_waited_for_the_peer_leaves_with_the_most_urgent_first() -> None:
    """Also when the sender was restarted meanwhile, so that the bodies are only on its disk."""
    world = World(2)
    a, b = world.node("a", NodeSettings(messages_per_packet=1)), world.node("b")
    world.cut(a, b)
    for priority in (0, 3, 7):
        a.send(b, "q", *numbered(0, 200), delivery=RECOVERABLE, priority=priority)
    world.run(SECOND)
    a.restart()
    world.heal()
    settle(world, a)
    sent = [record["stream"] for record in a.log("packet_sent") if "stream" in record]
    by_stream = {outgoing.stream_number: outgoing.priority for outgoing in a.outbox.streams}
    first_at = {by_stream[stream]: sent.index(stream) for stream in dict.fromkeys(sent)}
    assert first_at[7] == 0
    assert first_at[3] >= 200
    assert first_at[0] >= 63, "one packet in 64 goes to the lowest"


def test_a_flood_on_one_queue_leaves_another_its_turns() -> None:
    """Whatever the priorities are."""
    world = World(4)
    a, b = world.node("a", NodeSettings(messages_per_packet=1)), world.node("b")
    world.cut(a, b)
    a.send(b, "flooded", *numbered(0, 3_000), delivery=RECOVERABLE, priority=7)
    a.send(b, "quiet", *numbered(0, 100), delivery=RECOVERABLE, priority=0)
    world.heal()
    assert world.run(60 * SECOND, lambda: b.length("quiet") == 100)
    assert b.length("flooded") < 1_000


@pytest.mark.slow
@pytest.mark.gate
def test_a_large_message_that_has_arrived_in_part_keeps_no_other_waiting() -> None:
    """The more urgent one is read before its pieces are complete."""
    world = World(5)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", bytes(4_000_000), delivery=RECOVERABLE, priority=0)
    assert world.run(60 * SECOND, lambda: "q" in b.live.queues.mailboxes)
    a.send(b, "q", b"urgent", delivery=RECOVERABLE, priority=7)
    assert next_body(b, "q") == b"urgent"
    assert next_body(b, "q") == bytes(4_000_000)


def test_classes_of_one_priority_are_read_in_the_order_of_their_arrival() -> None:
    """A transactional message has priority 0, as a recoverable one may have."""
    world = World(6)
    a = world.node("a")
    for number in range(6):
        a.send(a, "q", b"%d" % number, delivery=(TRANSACTIONAL, RECOVERABLE)[number % 2], priority=0)
        settle(world, a)
    assert a.read_all("q") == [b"%d" % number for number in range(6)]


def test_a_full_queue_lets_the_more_urgent_streams_go_on_first() -> None:
    """It holds all of them back."""
    world = World(7)
    a, b = world.node("a"), world.node("b", NodeSettings(limits=Limits(queue_quota={"q": Quota(messages=5)})))
    a.send(b, "q", *numbered(0, 5), delivery=RECOVERABLE, priority=3)
    assert world.run(60 * SECOND, lambda: b.length("q") == 5)
    for priority in (0, 3, 7):
        a.send(b, "q", b"held", delivery=RECOVERABLE, priority=priority)
        world.run(SECOND)
    admission = b.live.inbox.admission
    assert len(admission.holds.streams) == 3
    told: list[int] = []
    tell = admission._tell  # noqa: SLF001

    def noting(stream: Any, *rest: Any) -> bool:
        told.append(stream.priority)
        return tell(stream, *rest)

    admission._tell = noting  # type: ignore[assignment]  # noqa: SLF001
    b.read("q")
    assert world.run(SECOND, lambda: len(told) >= 3)
    assert told[:3] == [7, 3, 0]


def test_a_dead_letter_keeps_its_priority() -> None:
    """And the letters wait in the order of their deaths."""
    world = World(8)
    a, b = world.node("a"), world.node("b", queues=["other"])
    for priority in (0, 7):
        a.send(b, "q", b"%d" % priority, delivery=RECOVERABLE, priority=priority)
        settle(world, a)
        world.run(10 * MS)
    letters = list(a.live.queues.mailboxes["dead-letter"].waiting())
    assert [packet.open().priority for packet, _ in letters] == [0, 7]
