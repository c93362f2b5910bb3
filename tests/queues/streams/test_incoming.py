"""Incoming streams: the door, the inbox, holds, order acks that are owed."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.queues.hostile import ORIGIN, Hostile, batch, victim
from tests.queues.world import PlainWorld, SimNode, World, drain, numbered, two
from tests.spies import watch
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.news import StreamHeld
from triack.base.reasons import DropReason, HoldReason, RejectReason
from triack.base.units import MS, SECOND
from triack.ordering.incoming import Position
from triack.ordering.order_settings import OrderSettings
from triack.ordering.wire import EndPacket, HoldPacket, OrderAckPacket, SequenceHeader, decode
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.peers import link
from triack.queues.peers.link import CONTROL_MAX
from triack.queues.peers.peer_limits import HoldSender
from triack.queues.peers.session_settings import largest_window
from triack.queues.stages import Stage
from triack.queues.streams.holds import HeldStream, Holds, HoldsHere
from triack.queues.streams.incoming_stream import HELD_BYTES, IncomingStream, IncomingStreams, new_row
from triack.queues.streams.owed_acks import OwedAcks
from triack.queues.streams.stream_records import StreamRecords
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame, PacketFrame, StoreAckFrame
from triack.session.protocol.settings import SessionSettings

# The door to a node's queues, tried by a peer that keeps to nothing; the stories are in ``stories/test_quotas.py``.


def heard(evil: Hostile) -> list[Any]:
    """The frames of its session that it has got."""
    return [frame for _, payload in evil.heard()[1:] for frame in BINARY.decode(payload)]


def words(evil: Hostile) -> list[HoldPacket]:
    packets = [decode(frame.content) for frame in heard(evil) if isinstance(frame, PacketFrame)]
    return [packet for packet in packets if isinstance(packet, HoldPacket)]


def test_who_goes_on_when_told_to_stop_gets_nothing_in() -> None:
    world, node, evil = victim(NodeSettings(limits=Limits(quota=Quota(3))))
    for _ in range(4):
        for number in range(1, 30):
            evil.frames(evil.message(number, queue="q", stream=1))
        world.run(SECOND)
    assert node.length("q") == 3
    assert {word.stop for word in words(evil)} == {True}
    (stream,), (conversation,) = node.live.inbox.streams, node.live.handshakes.conversations.values()
    holds = node.live.inbox.admission.holds
    turn = holds.stopped[stream][conversation].turn
    assert turn > 1
    assert holds.stop_again(conversation)
    assert holds.stopped[stream][conversation].turn == turn


@pytest.mark.parametrize("together", [1, 14])
def test_packets_that_come_too_early_fill_a_quarter_of_a_peers_memory(together: int) -> None:
    world, node, evil = victim(NodeSettings(limits=Limits(peer_memory_bytes=40_000)))
    packets = {it: evil.message(it, queue="q", stream=1, body=batch(bytes(100))) for it in (1, *range(3, 115))}
    evil.frames(packets[1])
    world.run(SECOND)
    for first in range(3, 115, together):
        evil.burst(*[packets[number] for number in range(first, first + together)])
    world.run(SECOND)
    assert 0 < node.live.inbox.admission.early.of(ORIGIN) <= 10_000 + HELD_BYTES + 200
    assert node.live.inbox.streams[0].sequence.held


def test_what_waited_for_a_gap_is_store_acknowledged_when_it_closes() -> None:
    world, node, evil = victim()
    packets = {it: evil.message(it, queue="q", stream=1, body=batch(b"m")) for it in range(1, 10)}
    evil.frames(packets[1])
    world.run(SECOND)
    evil.burst(*[packets[number] for number in range(3, 10)])
    world.run(SECOND)
    assert acked_as_stored(evil) == {1}
    evil.frames(packets[2])
    world.run(SECOND)
    assert acked_as_stored(evil) == set(range(1, 10))
    assert node.length("q") == 9


def acked_as_stored(evil: Hostile) -> set[int]:
    """The packets of its session that store acks name."""
    stores = [frame for frame in heard(evil) if isinstance(frame, StoreAckFrame)]
    ranges = [it for frame in stores for it in ((1, frame.cumulative), *frame.ranges)]
    return {number for first, last in ranges for number in range(first, last + 1)}


def test_a_node_is_behind_while_half_of_what_a_peer_may_have_waits_for_its_disk() -> None:
    """Its host lets what arrives wait then, before anything is refused; when the disk has it, that is over."""
    world, node, evil = victim(NodeSettings(limits=Limits(peer_memory_bytes=80_000)))
    for number in range(1, 12):
        assert not node.live.is_behind
        evil.frames(evil.message(number, queue="q", stream=1, body=batch(bytes(900))))
    evil.frames(evil.message(12, queue="q", stream=1, body=batch(bytes(900))))
    assert node.live.is_behind
    assert not node.log("rejected")
    world.run(SECOND)
    assert not node.live.is_behind
    assert node.length("q") == 12


def test_express_packets_of_who_does_not_stop_are_refused_at_twice_the_limit() -> None:
    world, node, evil = victim(NodeSettings(limits=Limits(peer_memory_bytes=80_000)))
    for number in range(1, 120):
        evil.frames(evil.message(number, queue="q", stream=1, body=batch(bytes(900)), delivery=Delivery.EXPRESS))
        world.run(SECOND // 100)
    assert 20_000 < node.live.inbox.admission.express.of(ORIGIN) <= 42_000
    assert "queue-full" in {record["reason"] for record in node.log("rejected")}


def test_express_packets_on_their_way_to_who_says_stop_are_taken_together() -> None:
    """By the run, up to twice the limit; what comes behind them waits at its sender until there is room."""
    world = PlainWorld(1)
    a = world.node("a")
    b = world.node("b", NodeSettings(limits=Limits(peer_memory_bytes=160_000)))
    bodies = [b"%3d" % number * 300 for number in range(80)]
    for body in bodies[:40]:
        a.send(b, "q", body, delivery=Delivery.EXPRESS)
    world.run(SECOND)
    account = b.live.inbox.admission.express
    assert account.is_full(a.live.node_id)
    assert (b.length("q"), a.busy) == (40, False)
    for body in bodies[40:]:
        a.send(b, "q", body, delivery=Delivery.EXPRESS)
    world.run(SECOND)
    assert (b.length("q"), a.busy) == (40, True)
    assert b.read_all("q") == bodies[:40]
    world.run(20 * SECOND)
    assert b.read_all("q") == bodies
    assert not b.log("rejected")


def test_a_go_that_replaces_a_stop_says_that_packets_were_not_taken() -> None:
    """The stop of an express stream without a place has not left when one is free: its sender must send them again."""
    world, _, evil = victim(NodeSettings(max_streams=2, session=SessionSettings(max_unacked_packet=1)))
    evil.frames(evil.message(1, stream=1))
    evil.frames(evil.message(1, stream=2, sequence=2))
    world.run(SECOND)  # an order ack takes the whole window of the node
    evil.frames(evil.message(1, stream=3, sequence=3, delivery=Delivery.EXPRESS))
    for number in (1, 2):
        evil.frames(evil.packet(EndPacket(ORIGIN, number, number, 1, answer=False).encode(), Delivery.EXPRESS))
    world.run(SECOND // 10)
    for number in range(1, 5):
        evil.frames(BINARY.encode(AckFrame(number, [], 64, 0, 0)))
        world.run(SECOND // 10)
    assert {(word.stop, word.reason) for word in words(evil)} == {(False, HoldReason.TOO_MANY_STREAMS)}


def test_empty_queues_that_nobody_waits_for_make_room_for_new_ones() -> None:
    world, a, b = two(b=NodeSettings(max_queues=4))
    b.live.make_queue("three").listeners.append(lambda: None)
    for name in ("one", "two", "three"):
        a.send(b, name, b"x")
    world.run(SECOND)
    assert (b.read("one"), b.read("two"), b.read("three")) == (1, 1, 1)
    for name in ("five", "one"):
        a.send(b, name, b"y")
        world.run(SECOND)
    assert sorted(b.live.queues.mailboxes) == ["dead-letter", "five", "one", "three"]
    b.restart()
    assert sorted(b.live.queues.mailboxes) == ["dead-letter", "five", "one", "three"]
    assert [b.length(name) for name in ("one", "three", "five")] == [1, 0, 1]


@pytest.mark.parametrize("end", ["restarts", "leaves"])
def test_queues_make_room_after_a_restart_and_when_their_reader_leaves(end: str) -> None:
    world, a, b = two(b=NodeSettings(max_queues=2))
    a.send(b, "one", b"x")
    world.run(SECOND)
    b.read("one")
    box = b.live.make_queue("one")
    box.listeners.append(lambda: None)
    a.send(b, "new", b"x")
    world.run(10 * SECOND)
    assert (b.length("new"), a.length("dead-letter")) == (0, 0)
    if end == "restarts":
        b.restart()
    else:
        box.leave(box.listeners[0])
    world.run(20 * SECOND)
    assert (b.length("new"), a.length("dead-letter")) == (1, 0)


def test_queues_in_use_beyond_the_most_are_not_looked_at_for_each_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have any number; each is looked at when it may have become idle."""
    looked: list[str] = []

    def look(box: Mailbox) -> bool:
        looked.append(box.name)
        return not box.listeners

    monkeypatch.setattr(Mailbox, "is_idle", property(look))
    node = World(1).node("a", NodeSettings(max_queues=10))
    for number in range(100):
        node.live.make_queue(f"job-{number}").listeners.append(lambda: None)
    assert len(node.live.queues.mailboxes) == 101
    assert len(looked) == 100


@pytest.mark.parametrize(
    ("queues", "name", "reason"),
    [
        (["orders"], "orders", None),
        (["orders"], "other", RejectReason.QUEUE_NOT_FOUND),
        (None, "any", None),
        (None, ".hidden", RejectReason.BAD_QUEUE_NAME),
        (None, DEAD_LETTER_QUEUE, RejectReason.ACCESS_DENIED),
        (["orders", "$own"], "$own", RejectReason.ACCESS_DENIED),
    ],
)
def test_queues_that_take_packets(queues: list[str] | None, name: str, reason: str | None) -> None:
    world, node, evil = victim(queues=queues)
    evil.frames(evil.message(1, queue=name))
    world.run(SECOND)
    assert [record["reason"] for record in node.log("rejected")] == ([] if reason is None else [reason])
    assert node.length(name) == (reason is None)


def test_a_queue_is_one_however_a_peer_writes_its_name() -> None:
    world, node, evil = victim(queues=["süd"])
    for number, name in enumerate(("su\u0308d", "su\u0308d", "süd", "su\u0308d"), start=1):
        evil.frames(evil.message(number, queue=name))
        world.run(MS)
    world.run(SECOND)
    assert node.log("rejected") == []
    assert (node.length("süd"), node.length("su\u0308d")) == (4, 0)


def test_arrivals_make_a_limited_number_of_queues() -> None:
    world, node, evil = victim(NodeSettings(max_queues=2))
    for stream, queue in enumerate(("one", "two", "three", "one"), start=1):
        delivery = Delivery.EXPRESS if queue == "two" else Delivery.TRANSACTIONAL
        evil.frames(evil.message(1, queue=queue, stream=stream, delivery=delivery))
    node.send(node, "four", b"own")
    world.run(SECOND)
    assert [(record["stream"], record["reason"]) for record in node.log("rejected")] == [
        (2, RejectReason.TOO_MANY_QUEUES),
        (3, RejectReason.HELD_BACK),
    ]
    assert {name: node.length(name) for name in ("one", "four")} == {"one": 2, "four": 1}


def test_rejections_that_find_no_room_are_counted_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "CONTROL_MAX", 8)
    world, node, evil = victim(queues=["orders"])
    for number in range(1, 101):
        evil.frames(evil.message(number, queue="nope"))
        world.run(MS)
    window = largest_window(node.live.settings)
    world.run(2 * SECOND)
    assert node.live.drops == {DropReason.CONTROL_OVERFLOW: 100 - window - 8}
    (dropped,) = node.log("dropped")
    assert (dropped["reason"], dropped["count"]) == ("control-overflow", 100 - window - 8)


@pytest.mark.parametrize("delivery", list(Delivery))
def test_runs_of_one_stream_are_one_record(delivery: Delivery) -> None:
    world, a, b = two(a=NodeSettings(session=SessionSettings(max_datagram_bytes=1_200)), make=PlainWorld)
    a.send(b, "q", b"warm", delivery=delivery)
    world.run(3 * SECOND)
    b.commit_ns = 100 * MS
    a.send(b, "q", *numbered(0, 40, 500), delivery=delivery)
    assert world.run(5 * SECOND, lambda: not a.busy)
    lines = b.log("committed")[1:]
    assert sum(record["count"] for record in lines) == 40
    assert [record["first"] for record in lines] == [2, *(record["last"] + 1 for record in lines[:-1])]
    packets = lines[-1]["last"] - 1
    assert packets == 20
    assert (len(lines) == packets) if delivery is Delivery.EXPRESS else (len(lines) < 5)


# What a node knows of one incoming stream: what is owed for it, and what the store keeps of it.

SENDER = b"o" * 16
SETTINGS = OrderSettings()


def new_stream(delivery: Delivery = Delivery.TRANSACTIONAL, number: int = 3) -> IncomingStream:
    header = SequenceHeader(SENDER, number, 1, 1, 0, "q", False, b"")
    return IncomingStream(new_row(header, "q", delivery), SETTINGS)


def take(stream: IncomingStream, *numbers: int, ack_requested: bool = False) -> None:
    """Accept packets of an ordered stream."""
    for number in numbers:
        packet = SequenceHeader(SENDER, stream.number, 1, number, number - 1, "q", ack_requested, b"")
        stream.sequence.handle_packet(packet, (None, number), 0)  # type: ignore[arg-type]


def test_nothing_is_owed_before_anything_is_durable() -> None:
    stream = new_stream()
    take(stream, 1, 2, ack_requested=True)
    assert stream.sequence.ack.due
    assert not stream.owes_ack
    stream.sequence.handle_committed((1, 2))
    assert stream.owes_ack


@pytest.mark.parametrize(
    ("acked", "committed", "owes"),
    [((0, 0), (1, 2), True), ((1, 2), (1, 2), False), ((1, 2), (1, 3), True), ((1, 4), (1, 4), True)],
)
def test_half_of_it_is_owed_once(acked: Position, committed: Position, owes: bool) -> None:
    stream = new_stream()
    take(stream, 1, 2, 3, 4, ack_requested=True)
    stream.acked = acked
    stream.sequence.handle_committed(committed)
    assert stream.owes_ack is owes


def test_an_ordered_stream_comes_back_at_its_position() -> None:
    """And owes nothing until it is asked: perhaps everything was said. A filter that is none is damage."""
    stream = new_stream()
    take(stream, 1, 2, 3)
    again = IncomingStream(stream.row(), SETTINGS)
    assert (again.origin, again.number, again.queue, again.delivery) == (SENDER, 3, "q", Delivery.TRANSACTIONAL)
    assert again.sequence.position == again.sequence.committed == (1, 3)
    assert (again.ordered, again.owes_ack, again.via, again.acked) == (True, False, None, (0, 0))
    again.sequence.ack.handle_request()
    assert again.owes_ack
    assert again.row() == stream.row()
    with pytest.raises(StoreDamaged):
        IncomingStream(new_stream(Delivery.RECOVERABLE).row()._replace(filter=b"\xff"), SETTINGS)


def test_a_stream_that_another_one_replaces_is_kept_for_no_relay() -> None:
    streams, before, after = IncomingStreams(), new_stream(), new_stream()
    before.relay = "r"
    assert (streams.add(before), streams.by(b"r" * 16, "r")) == (True, [before])
    assert (streams.add(after), streams.by(b"r" * 16, "r"), streams.by(SENDER, "r")) == (False, [], [after])


# Streams that wait for room are reported once for a peer and a reason.


def held(queue: str, reason: HoldReason) -> HeldStream:
    return HeldStream("b", queue, Delivery.TRANSACTIONAL, reason)


class _Left:
    """A conversation in which nothing can be said any more."""

    peer_label = "a"
    session = SimpleNamespace(is_closed=True)


def test_a_stream_that_ends_while_it_is_held_is_held_no_longer() -> None:
    holds, stream, conversation = HoldsHere[IncomingStream](HoldSender()), new_stream(), cast("Any", _Left())
    assert holds.stop(stream, conversation, "q", HoldReason.QUEUE_FULL)
    assert holds.of(stream) is HoldReason.QUEUE_FULL
    holds.forget(stream)
    assert (holds.streams, holds.of(stream), holds.stop_again(conversation)) == ([], None, False)


class _Neighbour:
    """A conversation that keeps the holds which it is given."""

    def __init__(self, label: str) -> None:
        self.peer_label, self.given = label, list[bool]()
        self.session = SimpleNamespace(is_closed=False)

    def say(self, packet: object, _refuses: object) -> bool:
        assert isinstance(packet, HoldPacket)
        self.given.append(packet.stop)
        return True


def test_a_stream_that_came_by_two_neighbours_lets_both_continue() -> None:
    holds, stream = HoldsHere[IncomingStream](HoldSender()), new_stream()
    neighbours = _Neighbour("a"), _Neighbour("b")
    for neighbour in neighbours:
        assert holds.stop(stream, cast("Any", neighbour), "q", HoldReason.QUEUE_FULL)
    assert holds.go(lambda *_: False)
    assert [neighbour.given for neighbour in neighbours] == [[True, False], [True, False]]
    assert (holds.streams, holds.of(stream)) == ([], None)


def test_a_quota_of_a_peer_is_reported_once_for_all_its_queues() -> None:
    holds = Holds(here=True)
    holds.hold(1, held("x", HoldReason.PEER_QUOTA))
    holds.hold(2, held("y", HoldReason.PEER_QUOTA))
    assert drain(holds.news) == [StreamHeld("b", "x", "peer-quota", here=True, is_held=True)]
    holds.free(1)
    assert drain(holds.news) == []
    assert [it.queue for it in holds.streams] == ["y"]
    holds.free(2)
    holds.free(2)
    assert drain(holds.news) == [StreamHeld("b", "y", "peer-quota", here=True, is_held=False)]


def test_a_wait_that_has_another_reason_is_reported_again() -> None:
    """What other events tell of here is not told twice, and shown all the same."""
    holds, here = Holds(here=False), Holds(here=True)
    for reason in (HoldReason.QUEUE_FULL, HoldReason.QUEUE_FULL, HoldReason.STORE_LOW):
        holds.hold(1, held("x", reason))
        here.hold(1, held("x", reason))
    told = [(event.reason, event.is_held) for event in drain(holds.news)]
    assert told == [("queue-full", True), ("queue-full", False), ("store-low", True)]
    assert (holds.of(1), holds.of(2)) == (HoldReason.STORE_LOW, None)
    assert (drain(here.news), len(here.streams)) == ([], 1)


# Order acks speak of what is durable, of all of it in the end, and only of what has changed.

SLOW = NodeSettings(order=OrderSettings(order_ack_idle_s=2.0))
"""Time to see what happens before an order ack is due."""


def acked(node: SimNode) -> list[int]:
    """The numbers of which order acks have spoken."""
    return [record["number"] for record in node.log("order_ack_sent")]


def test_a_position_that_is_half_on_disk_is_acknowledged_twice() -> None:
    """The durable part at once, since somebody waits for it; the rest, which nobody asked for, after its commit."""
    world, a, b = two(b=SLOW)
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
    world, a, b = two(b=SLOW)
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
    world, a, b = two()
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


class Scenario:
    """Owed acks alone, and which streams asked for a way."""

    def __init__(self) -> None:
        self.drops: Counter[DropReason] = Counter()
        self.owed = OwedAcks(b"n" * 16, World(1).node("n").live.inbox.sealing, self.drops, StreamRecords(self._record))
        self.asked: list[int] = []

    def _record(self, event: str, _now_ns: int, **fields: Any) -> None:
        raise AssertionError((event, fields))

    def take(self, stream: IncomingStream, number: int, *, ack_requested: bool = False) -> None:
        """A packet is accepted, and durable at once."""
        take(stream, number, ack_requested=ack_requested)
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


def test_an_ack_leaves_when_it_is_due_and_not_before() -> None:
    """By its timer, or because the packet asks; without a way it is owed still, and nobody asks for one again."""
    scene, waits, ack_requested = Scenario(), new_stream(number=1), new_stream(number=2)
    assert scene.streams(lambda: scene.take(waits, 1)) == []
    assert scene.streams(lambda: scene.take(ack_requested, 1, ack_requested=True)) == [2]
    due_ns = scene.owed.deadlines.earliest()
    assert due_ns is not None
    assert scene.streams(lambda: scene.owed.handle_timer(due_ns - 1)) == []
    assert scene.streams(lambda: scene.owed.handle_timer(due_ns)) == [1]
    assert scene.streams(lambda: None) == []
    assert [stream.number for stream in scene.owed.streams] == [1, 2]


def test_a_peer_that_asks_gets_what_is_owed_to_it_once() -> None:
    scene, mine = Scenario(), new_stream(number=1)
    scene.take(mine, 1)
    assert scene.streams(lambda: scene.owed.handle_request(b"x" * 16)) == []
    assert scene.streams(lambda: scene.owed.handle_request(SENDER)) == [1]
    assert scene.streams(lambda: scene.owed.handle_request(SENDER)) == []
    assert scene.streams(scene.owed.request_all) == [1]


def test_an_ack_that_finds_no_room_is_not_recorded_and_its_origin_can_ask_for_it() -> None:
    """The record would say that it has left."""
    world, a, b = two()
    a.send(b, "q", b"opens")
    assert world.run(SECOND, lambda: len(b.log("committed")) == 1)
    [conversation] = b.live.handshakes.conversations.values()
    while conversation.say(OrderAckPacket(SENDER, len(conversation.control or ()), 1, 1)):
        pass
    scene, stream = Scenario(), new_stream(number=CONTROL_MAX)
    scene.take(stream, 1, ack_requested=True)
    scene.owed.send(lambda _stream: conversation, 0)
    assert scene.drops == {DropReason.CONTROL_OVERFLOW: 1}
    assert scene.owed.sent == {}
    assert scene.streams(lambda: scene.owed.handle_request(SENDER)) == [CONTROL_MAX]
