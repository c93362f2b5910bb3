"""Order acks speak of what is durable, of all of it in the end, and only of what has changed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.queues.world import SimNode, World
from tests.spies import watch
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.ordering.wire import SequenceHeader
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.control import Control
from triack.queues.peers.link import CONTROL_MAX
from triack.queues.stages import Stage
from triack.queues.streams.incoming_stream import IncomingStream
from triack.queues.streams.owed_acks import OwedAcks

SLOW = NodeSettings(order=OrderSettings(order_ack_idle_s=2.0))
"""Time to see what happens before an order ack is due."""


def acked(node: SimNode) -> list[int]:
    """The numbers of which order acks have spoken."""
    return [record["number"] for record in node.log("order_ack_sent")]


def test_a_position_that_is_half_on_disk_is_acknowledged_twice() -> None:
    """The durable part at once, since somebody waits for it; the rest, which nobody asked for, after its commit."""
    world = World(1)
    a, b = world.node("a"), world.node("b", SLOW)
    a.send(b, "q", b"warm")
    world.run(5 * SECOND)
    b.commit_ns = 200 * MS
    a.watch(a.send(b, "q", b"1"), Stage.ORDERED)
    world.run(50 * MS)
    a.send(b, "q", b"2")
    world.run(50 * MS)
    assert acked(b) == [1]
    world.run(150 * MS)
    assert acked(b) == [1, 2]
    world.run(200 * MS)
    assert acked(b) == [1, 2, 3]


def test_an_order_ack_without_a_way_leaves_when_a_session_opens() -> None:
    """At once, and not because its packet comes again."""
    world = World(1)
    a, b = world.node("a"), world.node("b", SLOW)
    b.tell_no_positions()
    a.send(b, "q", b"1")
    assert world.run(SECOND, lambda: len(b.log("committed")) == 1)
    world.cut(a, b)
    b.live.handle_path_lost(a.address, world.now_ns)
    b.drain()
    world.run(5 * SECOND // 2)
    assert acked(b) == []
    world.heal()
    b.send(a, "back", b"x")
    assert world.run(10 * SECOND, lambda: len(b.log("session_opened")) == 2)
    world.run(MS)
    assert acked(b) == [1]
    assert b.log("order_ack_sent")[0]["at_ns"] == b.log("session_opened")[1]["at_ns"]
    told = [record["event"] for record in b.log("session_opened", "packet_received", "order_ack_sent")]
    assert told.index("order_ack_sent") > 1


@pytest.mark.plain
def test_streams_at_rest_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of fifty has something new: no other is asked what it owes, nor when."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    for number in range(50):
        a.send(b, f"q{number}", b"x")
    assert world.run(10 * SECOND, lambda: not a.busy)
    world.run(5 * SECOND)
    looked = watch(monkeypatch, IncomingStream, "owes_ack")
    world.run(10 * SECOND)
    assert looked == []
    a.send(b, "q7", b"y")
    assert world.run(10 * SECOND, lambda: not a.busy)
    assert {stream.queue for stream in looked} == {"q7"}
    assert len(looked) < 10


ORIGIN = b"o" * 16


class Scene:
    """Owed acks alone, and which streams asked for a way."""

    def __init__(self) -> None:
        self.drops: Counter[DropReason] = Counter()
        self.owed = OwedAcks(b"n" * 16, World(1).node("n").live.inbox.sealing, self.drops, self._record)
        self.asked: list[int] = []

    def _record(self, event: str, _now_ns: int, **fields: Any) -> None:
        raise AssertionError((event, fields))

    def take(self, stream: IncomingStream, number: int, *, ack_requested: bool = False) -> None:
        """A packet is accepted, and durable at once."""
        packet = SequenceHeader(ORIGIN, stream.number, 1, number, number - 1, "q", ack_requested, b"")
        stream.sequence.handle_packet(packet, (None, number), 0)  # type: ignore[arg-type]
        stream.handle_committed(stream.row())
        self.owed.owe(stream)

    def no_way(self, stream: IncomingStream) -> None:
        self.asked.append(stream.number)

    def streams(self, do: Callable[[], object]) -> list[int]:
        """The streams whose acks are due after something."""
        self.asked.clear()
        do()
        self.owed.send(self.no_way, 0)
        return self.asked


def new_stream(number: int) -> IncomingStream:
    return IncomingStream(ORIGIN, number, "q", Delivery.TRANSACTIONAL, OrderSettings())


def test_an_ack_leaves_when_it_is_due_and_not_before() -> None:
    """By its timer, or because the packet asks; without a way it is owed still, and nobody asks for one again."""
    scene, waits, ack_requested = Scene(), new_stream(1), new_stream(2)
    assert scene.streams(lambda: scene.take(waits, 1)) == []
    assert scene.streams(lambda: scene.take(ack_requested, 1, ack_requested=True)) == [2]
    due_ns = scene.owed.next_deadline()
    assert due_ns is not None
    assert scene.streams(lambda: scene.owed.handle_timer(due_ns - 1)) == []
    assert scene.streams(lambda: scene.owed.handle_timer(due_ns)) == [1]
    assert scene.streams(lambda: None) == []
    assert [stream.number for stream in scene.owed.streams] == [1, 2]


def test_a_peer_that_asks_gets_what_is_owed_to_it_once() -> None:
    """To ask again costs nothing, and of others nothing leaves; a node that closes asks for all."""
    scene, mine = Scene(), new_stream(1)
    scene.take(mine, 1)
    assert scene.streams(lambda: scene.owed.handle_request(b"x" * 16)) == []
    assert scene.streams(lambda: scene.owed.handle_request(ORIGIN)) == [1]
    assert scene.streams(lambda: scene.owed.handle_request(ORIGIN)) == []
    assert scene.streams(scene.owed.request_all) == [1]


def test_an_ack_that_finds_no_room_is_not_recorded_and_its_origin_can_ask_for_it() -> None:
    """The record would say that it has left."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"opens")
    assert world.run(SECOND, lambda: len(b.log("committed")) == 1)
    [conversation] = b.live.handshakes.conversations.values()
    while conversation.put_control((len(conversation.control or ()), 0), Control(b"")):
        pass
    scene, stream = Scene(), new_stream(CONTROL_MAX)
    scene.take(stream, 1, ack_requested=True)
    scene.owed.send(lambda _stream: conversation, 0)
    assert scene.drops == {DropReason.CONTROL_OVERFLOW: 1}
    assert scene.owed.sent == {}
    assert scene.streams(lambda: scene.owed.handle_request(ORIGIN)) == [CONTROL_MAX]


def test_nothing_is_kept_of_a_side_whose_streams_have_ended() -> None:
    """A peer may appear as any number of nodes, each with a stream that is forgotten."""
    scene, stream = Scene(), new_stream(1)
    scene.take(stream, 1)
    scene.owed.forget(stream)
    assert scene.owed._unasked == {}  # noqa: SLF001 - no figure shows it
