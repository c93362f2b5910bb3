"""Whole nodes under a simulated clock: what their readers hear, and when."""

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.node.handles import policies
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import Outgoing
from triack.queues.peers.session_settings import largest_window
from triack.queues.streams.ack_events import AckEvents, AckKind

ONE = AckTrigger(count=1)
"""An event for each acknowledgement that comes."""


def watch(
    node: SimNode, to: SimNode, every: AckTrigger | None, delivery: Delivery = Delivery.TRANSACTIONAL
) -> AckEvents:
    """A reader of what goes to queue q."""
    outgoing = node.live.outgoing_stream(to.address, "q", delivery)
    terms = None if every is None else terms_of(every, largest_window(node.settings))
    events = AckEvents(terms, outgoing.first_unsettled, lambda: None)
    node.live.watching.begin(outgoing, events)
    return events


def told(events: AckEvents) -> list[int]:
    """The last message of each event; negative for failures."""
    said = []
    while (event := events.poll()) is not None:
        said.append(event.last if event.kind is AckKind.ACK else -event.last)
    return said


def pair(settings: NodeSettings, other: NodeSettings | None = None) -> tuple[World, SimNode, SimNode]:
    world = World(1)
    return world, world.node("a", settings), world.node("b", other or settings)


@pytest.mark.parametrize("delivery", Delivery)
def test_every_message_of_every_class_is_reported_once(delivery: Delivery) -> None:
    """Batches and a large one, in order."""
    world, a, b = pair(NodeSettings())
    events = watch(a, b, None, delivery)
    a.send(b, "q", *numbered(0, 50), b"x" * 20_000, *numbered(0, 9), delivery=delivery)
    world.run(30 * SECOND)
    assert told(events) == list(range(1, 61))


def test_a_message_that_expires_among_sixteen_splits_them() -> None:
    """Solace's numbers, between a node of SOLACE and one of MSMQ: ranged 6, -7, 16; all of the window is free again."""
    world, a, b = pair(policies.SOLACE, policies.MSMQ)
    ranged, single = watch(a, b, AckTrigger(window_share=1 / 3, delay_s=1)), watch(a, b, None)
    world.cut(a, b)
    bodies = numbered(0, 16)
    a.send(b, "q", *bodies[:6])
    a.send(b, "q", bodies[6], live_ms=100)
    outgoing, _ = a.send(b, "q", *bodies[7:])
    world.run(200 * MS)
    assert told(ranged) == []
    world.heal()
    world.run(30 * SECOND)
    assert told(ranged) == [6, -7, 16]
    assert told(single) == [*range(1, 7), -7, *range(8, 17)]
    assert (outgoing.unacknowledged, b.length("q")) == (0, 15)


def test_the_intervals_of_link_and_client_add_up() -> None:
    """AMPS: 1 s downstream and 0.5 s here; the event of a single message comes after 1.5 s and a round trip."""
    world, a, b = pair(policies.AMPS)
    a.send(b, "q", b"first")
    world.run(10 * SECOND)
    now_at_link, at_client = watch(a, b, ONE), watch(a, b, AckTrigger(window_share=None, delay_s=0.5))
    a.send(b, "q", b"x")
    began_ns, seen = world.now_ns, dict[str, float]()
    for _ in range(300):
        world.run(10 * MS)
        for name, events in (("link", now_at_link), ("both", at_client)):
            if told(events):
                seen[name] = (world.now_ns - began_ns) / SECOND
    assert seen["link"] == pytest.approx(1.0, abs=0.1)
    assert seen["both"] == pytest.approx(seen["link"] + 0.5, abs=0.011)


def test_ack_now_does_not_wait_for_the_second() -> None:
    """A low-rate publisher of Solace's, who would wait a second for each acknowledgement."""
    world, a, b = pair(policies.SOLACE)
    a.send(b, "q", b"first")
    world.run(10 * SECOND)
    events = watch(a, b, AckTrigger(window_share=1 / 3, delay_s=1))
    a.send(b, "q", b"x")
    world.run(500 * MS)
    assert told(events) == []
    outgoing = a.live.outgoing_stream(b.address, "q", Delivery.TRANSACTIONAL)
    a.live.submit(outgoing, Outgoing(b"y", ack_now=True), 1)
    a.drain()
    world.run(100 * MS)
    assert told(events) == [3]


def test_a_reader_that_comes_late_hears_of_what_is_not_settled() -> None:
    """And, without order, of what is settled after the oldest that is not."""
    world, a, b = pair(NodeSettings())
    a.send(b, "q", b"x")
    world.run(10 * SECOND)
    world.cut(a, b)
    a.send(b, "q", b"y")
    a.send(b, "q", b"z", live_ms=100)
    a.send(b, "q", b"z")
    world.run(200 * MS)
    events = watch(a, b, None)
    world.heal()
    world.run(60 * SECOND)
    assert told(events) == [2, -3, 4]


def test_a_reader_that_has_ended_is_forgotten() -> None:
    world, a, b = pair(NodeSettings())
    events = watch(a, b, None)
    outgoing, _ = a.send(b, "q", b"x")
    events.end()
    world.run(10 * SECOND)
    assert (told(events), outgoing.readers, a.live.watching.next_deadline()) == ([], [], None)


def test_senders_wait_for_a_reader_that_is_full() -> None:
    world, a, b = pair(NodeSettings())
    events = watch(a, b, None)
    outgoing, _ = a.send(b, "q", b"x")
    assert a.outbox.room_bytes(outgoing) > 0
    for ticket in range(1, 1_001):
        events.handle_failed(ticket, 1, "purged" if ticket % 2 else "queue-full")
    world.run(10 * SECOND)
    assert a.outbox.room_bytes(outgoing) == 0
    assert told(events) == [1, *(-number for number in range(2, 1_002))]
    assert a.outbox.room_bytes(outgoing) > 0


def test_a_packet_holds_no_more_messages_than_it_may() -> None:
    """Whatever the other end does: then a window of 50 packets is one of 50 messages."""
    world, a, b = pair(policies.SOLACE, NodeSettings())
    world.cut(a, b)
    outgoing, _ = a.send(b, "q", *numbered(0, 200))
    back, _ = b.send(a, "q", *numbered(0, 200))
    world.run(100 * MS)
    assert [entry.messages for entry in outgoing.sequence.entries.values()] == [1] * 200
    assert len(back.sequence.entries) < 20
