"""Streams of other nodes that pass through."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from tests.ordering.test_transit import Looked
from tests.queues.relays import Relays, by_relay, die_at, line, post, purge
from tests.queues.transit.stories.test_ends import ended
from tests.queues.transit.stories.test_lines import make_sync
from tests.queues.world import numbered
from tests.sure import sure
from triack.base.commit import Commit, TransitStreamRow, key_of
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import ProtocolError
from triack.base.news import StreamHeld
from triack.base.reasons import DropReason, HoldReason, RejectReason
from triack.base.units import MS, SECOND
from triack.ordering.transit import ON_DISK, TransitPacket
from triack.ordering.wire import HOPS_MAX, MARK_BYTES, RANGES_MAX, RelayedHeader
from triack.queues.mailboxes.incoming_run import IncomingRun
from triack.queues.mailboxes.quotas import Account
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.peers.link import Conversation
from triack.queues.routes import Way
from triack.queues.stages import Stage
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit import relay_acks, transit_room, transits
from triack.queues.transit.packet_classifier import PacketClassifier
from triack.queues.transit.relay_acks import RelayAcks
from triack.queues.transit.transit_room import PACKET_BYTES, TransitBodies, TransitRoom
from triack.queues.transit.transits import Transits
from triack.tools.sim.faults import Faults


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_restart_finds_all_that_waited(delivery: Delivery) -> None:
    net, a, r, b = by_relay()
    b.crash()
    post(a, "b", *numbered(0, 200), delivery=delivery)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") > 5)
    net.world.run(SECOND)
    before = r.live.transits.room.disk.total_bytes, r.live.transits.room.messages.value, net.waiting("r")
    r.restart()
    after = r.live.transits.room.disk.total_bytes, r.live.transits.room.messages.value, net.waiting("r")
    assert before == after
    assert r.live.transits.bodies.cached_bytes == PACKET_BYTES * net.waiting("r")
    b.start()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    assert sorted(b.read_all("q")) == numbered(0, 200)
    assert (
        r.live.transits.room.disk.total_bytes,
        r.live.transits.room.messages.value,
        r.live.transits.bodies.cached_bytes,
    ) == (0, 0, 0)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_relay_keeps_the_priorities_and_sends_the_higher_ones_first(restarts: bool) -> None:
    one_each = {"a": NodeSettings(messages_per_packet=1)}
    net, a, r, b = by_relay(settings=one_each)
    b.crash()
    for priority in (0, 3, 7):
        post(a, "b", *numbered(0, 15), delivery=Delivery.RECOVERABLE, priority=priority)
        assert net.world.run(20 * SECOND, lambda: not a.busy)
    if restarts:
        r.restart()
    assert sorted(stream.priority for stream in r.live.transits.streams) == [0, 3, 7]
    b.start()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    came = [record.get("priority", 3) for record in b.log("committed")]
    assert came == sorted(came, reverse=True)
    assert set(came) == {0, 3, 7}
    mailbox = b.live.queues.mailboxes["q"]
    assert [mailbox.lengths[priority] for priority in (0, 3, 7)] == [15] * 3
    assert b.read_all("q") == 3 * numbered(0, 15)


def nth(number: int) -> Callable[[Commit], bool]:
    """Holds for the commit of that number."""
    commits = count()
    return lambda _commit: next(commits) == number


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_relay_may_die_at_each_of_its_commits(delivery: Delivery, is_done: bool) -> None:
    for fatal in range(12):
        net = line("arb", seed=fatal, faults=Faults(loss=0.05))
        die_at(net, "r", nth(fatal), is_done=is_done)
        for step in range(4):
            post(net["a"], "b", *numbered(10 * step, 10 * step + 10), delivery=delivery)
            net.world.run(300 * MS)
        assert net.world.run(200 * SECOND, partial(_is_quiet, net))
        assert sorted(net["b"].read_all("q")) == numbered(0, 40)


def _is_quiet(net: Relays) -> bool:
    return all(node.engine is not None for node in net.nodes.values()) and net.is_done("a")


def test_a_relay_passes_on_that_a_sender_waits_for_its_order_ack() -> None:
    """Also of a packet that comes by itself: else each relay on the way adds an ack delay."""
    net, a, r, b = by_relay()
    b.crash()
    stream, said = a.live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL), list[str | None]()
    a.live.await_stage(stream, a.live.submit(stream, b"x", 1), Stage.ORDERED, said.append)
    a.drain()
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") > 0)
    assert [entry.ack_requested for entry in r.live.transits.streams[0].sequence.entries.values()] == [True]
    b.start()
    assert net.world.run(20 * SECOND, lambda: said == [None])


def test_bodies_beyond_the_cache_are_read_from_the_disk() -> None:
    net, a, r, b = by_relay(settings={"r": NodeSettings(body_cache_bytes=4_000)})
    b.crash()
    post(a, "b", *numbered(0, 300))
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") > 5)
    net.world.run(SECOND)
    assert r.live.transits.bodies.cached_bytes <= 6_000
    b.start()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    assert (b.read_all("q"), r.reads > 0) == (numbered(0, 300), True)


def test_a_stream_of_which_nothing_is_here_is_forgotten_with_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transits, "IDLE_NS", SECOND)
    net, a, r, b = by_relay()
    for at in range(3):
        post(a, "b", *numbered(at, at + 1))
        net.world.run(10 * SECOND)
        assert r.live.transits.streams == []
    r.restart()
    assert (r.live.transits.streams, b.read_all("q")) == ([], numbered(0, 3))


def test_what_a_newer_sequence_displaces_is_recorded_with_its_own() -> None:
    net, a, r, b = by_relay()
    b.crash()
    post(a, "b", b"1", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 1 and not a.busy)
    a.restart()
    post(a, "b", b"2", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: bool(r.log("transit_freed")) and not a.busy)
    (freed,) = r.log("transit_freed")
    assert (freed["reason"], freed["sequence"]) == ("stale-sequence", r.log("transit_committed")[0]["sequence"])


def test_half_a_message_goes_when_its_origin_has_started_again() -> None:
    """Its rest was in the memory of a process that is gone. The destination knows by the next packet of the stream."""
    net, a, _, b = by_relay()
    post(a, "b", b"x" * 200_000, delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: any(len(it.partials) for it in b.live.queues.mailboxes.values()))
    a.restart()
    assert net.world.run(60 * SECOND, lambda: not net.waiting())
    half = b.live.queues.mailboxes["q"].fill.bytes.value
    post(a, "b", b"2", delivery=Delivery.EXPRESS)
    assert net.world.run(20 * SECOND, lambda: b.length("q") == 1)
    assert b.live.queues.mailboxes["q"].fill.bytes.value < half
    assert b.read_all("q") == [b"2"]
    assert b.live.queues.mailboxes["q"].fill.bytes.value == 0


def test_a_purge_removes_what_waits_for_one_node_alone() -> None:
    net = Relays("ar rb rc", {"a": [("b", "r"), ("c", "r")]})
    a, r = net["a"], net["r"]
    net["b"].crash()
    net["c"].crash()
    for name in "bc":
        post(a, name, b"1", delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 2)
    net.world.run(SECOND)
    assert purge(r, "b") == 1
    net.world.run(SECOND)
    assert [(stream.final, len(stream.sequence.entries)) for stream in r.live.transits.streams] == [("b", 0), ("c", 1)]
    assert r.live.queues.dead_letters == {"purged": 1}


def header(origin: bytes, final: str, trace: bytes = b"") -> RelayedHeader:
    return RelayedHeader(origin, 1, 1, 1, 0, "q", False, b"", trace, 0, final, "" if not trace else "far")


class Gate:
    """The door of r, which has a and b as neighbours, and an open session with a."""

    def __init__(self) -> None:
        self.net = Relays("ar rb", {"r": [("up", "a"), ("down", "b")]})
        a, r = self.net["a"], self.net["r"]
        a.send(r, "q", b"1")
        assert self.net.world.run(5 * SECOND, lambda: not a.busy)
        self.origin = a.live.node_id
        self.engine = r.live
        self.conversation: Conversation = next(iter(r.live.handshakes.conversations.values()))
        self.door: PacketClassifier = r.live.transits.door

    def judge(self, final: str, hops: int = 0, origin: bytes = b"") -> Way | RejectReason:
        trace = b"".join(bytes([hop + 1] * MARK_BYTES) for hop in range(hops))
        return self.door.judge(self.conversation, header(origin or self.origin, final, trace))


@pytest.mark.parametrize(
    ("final", "hops", "judged"),
    [
        ("b", 0, "b"),
        ("down", HOPS_MAX - 1, "b"),
        ("down", HOPS_MAX, RejectReason.HOP_COUNT_EXCEEDED),
        ("nowhere", 0, RejectReason.NO_ROUTE),
        ("udp://127.0.0.1:1", 0, RejectReason.NO_ROUTE),
        ("up", 0, RejectReason.ROUTE_LOOP),
        ("x@b", 0, "b"),
    ],
)
def test_each_refusal_has_its_reason(final: str, hops: int, judged: str) -> None:
    """No stranger lets this node call an address."""
    found = Gate().judge(final, hops)
    assert (found.via if isinstance(found, Way) else found) == judged


def test_what_meets_its_origin_or_a_relay_again_went_in_a_circle() -> None:
    """Wherever in the trace that is; bytes of two others that stand side by side are no relay."""
    gate = Gate()
    assert gate.judge("b", 3, gate.engine.node_id) is RejectReason.ROUTE_LOOP
    own, other = gate.engine.node_id[:MARK_BYTES], bytes(MARK_BYTES)
    for trace in (own, own + other, other + own):
        assert gate.door.judge(gate.conversation, header(gate.origin, "b", trace)) is RejectReason.ROUTE_LOOP
    aside = other[3:] + own + other[:3]
    assert isinstance(gate.door.judge(gate.conversation, header(gate.origin, "b", aside)), Way)


def test_nothing_is_passed_on_by_default() -> None:
    """A neighbour needs the right to relay, and learns nothing of routes without it."""
    gate = Gate()
    gate.net.allow("r", "a", may_relay=())
    assert {gate.judge(final) for final in ("b", "nowhere", "up")} == {RejectReason.ACCESS_DENIED}


def test_nobody_speaks_for_a_peer_without_the_right_to() -> None:
    """The node of b has proved here to be b's: a may bring its packets only if it relays for b."""
    gate = Gate()
    net = gate.net
    net["b"].send(net["r"], "q", b"1")
    assert net.world.run(5 * SECOND, lambda: not net["b"].busy)
    gate.net.allow("r", "a", relays_for=("x",))
    with pytest.raises(ProtocolError, match="foreign-origin"):
        gate.judge("down", 1, net["b"].live.node_id)
    gate.net.allow("r", "a", relays_for=("b",))
    assert isinstance(gate.judge("down", 1, net["b"].live.node_id), Way)


def test_nobody_gives_others_a_name_without_the_right_to() -> None:
    """The next hops go by the name that the first relay gives: a neighbour must not invent one."""
    gate = Gate()
    invented = header(b"x" * 16, "down", bytes(MARK_BYTES))
    invented.from_name = "boss"
    gate.net.allow("r", "a", relays_for=("sensor-*",))
    assert gate.door.judge(gate.conversation, invented) is RejectReason.ACCESS_DENIED
    invented.from_name = "sensor-1"
    assert isinstance(gate.door.judge(gate.conversation, invented), Way)
    invented.from_name = ""
    assert gate.door.judge(gate.conversation, invented) is RejectReason.ACCESS_DENIED


# How much may wait at a relay: of all neighbours, of one, and of one stream.

BY_UP: Any = SimpleNamespace(peer_id=b"u" * 16)


def stream(
    number: int = 1, via: str = "up", delivery: Delivery = Delivery.RECOVERABLE, queue: str = "q"
) -> TransitStream:
    return TransitStream(TransitStreamRow(number, b"o" * 16, number, delivery, 1, queue, "b", "a", via, 0, 0))


def packets(count: int, size_bytes: int) -> list[TransitPacket]:
    return [TransitPacket(at, b"", size_bytes, 1, 0, 0) for at in range(1, count + 1)]


def room(*, store_low: bool = False, waiting: Account | None = None, **limits: Any) -> TransitRoom:
    disk_room = SimpleNamespace(is_low=store_low)
    return TransitRoom(Limits(**limits), cast("Any", disk_room), waiting or Account(1_000, 8_000))


def arriving(size_bytes: int, messages: int) -> IncomingRun:
    return cast("IncomingRun", SimpleNamespace(body_bytes=size_bytes, messages=messages, bodies=[b""]))


@pytest.mark.parametrize("quota", [Quota(messages=99), Quota(size_bytes=9_900)])
def test_a_stream_may_have_as_much_as_is_left_for_others(quota: Quota) -> None:
    found, first, second = room(transit_quota=quota), stream(), stream(2)
    taken = packets(50, 100)
    found.count(first, taken[:32])
    assert not found.is_scarce(first)
    found.count(first, taken[32:33])
    assert found.is_scarce(first)
    found.count(first, taken[33:49])
    assert found.lacks(first, BY_UP) is None
    found.count(first, taken[49:])
    assert (found.lacks(first, BY_UP), found.lacks(second, BY_UP)) == (HoldReason.TRANSIT_FULL, None)
    found.count(first, taken[:10], -1)
    assert found.lacks(first, BY_UP) is HoldReason.TRANSIT_FULL
    found.count(first, taken[10:30], -1)
    assert found.lacks(first, BY_UP) is None


def test_a_neighbour_has_a_quota_of_its_own_and_all_arrivals_share_disk_and_memory() -> None:
    found, busy, other = room(peer_transit_bytes=1_000), stream(), stream(2, "other")
    found.count(busy, packets(10, 100))
    assert (found.lacks(busy, BY_UP), found.lacks(other, BY_UP)) == (HoldReason.TRANSIT_FULL, None)
    assert room(store_low=True).lacks(stream(), BY_UP) is HoldReason.STORE_LOW
    waiting = Account(1_000, 8_000)
    found = room(waiting=waiting)
    waiting.add(BY_UP.peer_id, 1_000)
    assert found.lacks(stream(), BY_UP) is HoldReason.STORE_BUSY


def test_a_full_relay_takes_what_its_packets_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before all others of an ordered stream; as a neighbour may send them backwards, up to a bound."""
    monkeypatch.setattr(transit_room, "AHEAD_BYTES", 500)
    found = room(transit_quota=Quota(size_bytes=1_000))
    ordered, unordered, empty = stream(1, delivery=Delivery.TRANSACTIONAL), stream(2), stream(3)
    for it in (ordered, unordered):
        it.sequence.add([TransitPacket(7, b"", 500, 1, 0, 0), TransitPacket(5, b"", 1, 1, 0, 0)])
    found.count(ordered, packets(10, 100))
    full = HoldReason.TRANSIT_FULL
    assert [found.lets_ahead(ordered, number, 1, full) for number in (4, 6, 8)] == [True, False, False]
    assert not found.lets_ahead(ordered, 4, 1, HoldReason.STORE_LOW)
    assert not found.lets_ahead(unordered, 4, 1, full)
    assert not found.lets_ahead(empty, 4, 1, full)
    found.count(ordered, packets(5, 100))
    assert not found.lets_ahead(ordered, 4, 1, full)


def test_what_is_refused_looks_at_no_backlog() -> None:
    found, ordered = room(), stream(delivery=Delivery.TRANSACTIONAL)
    for number in (*range(1_001, 2_001), 1):
        ordered.sequence.add([TransitPacket(number, b"", 1, 1, 0, 0)])
    looked = ordered.sequence.entries = Looked(ordered.sequence.entries)
    assert [found.lets_ahead(ordered, number, 1, HoldReason.TRANSIT_FULL) for number in range(2, 12)] == [False] * 10
    assert looked.looks <= 10


def test_packets_on_the_disk_alone_are_charged_to_the_neighbour_that_brought_them() -> None:
    found, busy, other = room(peer_memory_bytes=40_000), stream(delivery=Delivery.TRANSACTIONAL), stream(2, "other")
    run = arriving(500, 5)

    def grow(size_bytes: int) -> None:
        at = busy.sequence.highest
        while busy.away_bytes < size_bytes:
            at += 2
            entries = [TransitPacket(at, b"", 1, 1, 0, at**2 % 7_919 * 2**20)]
            busy.sequence.add(entries)
            busy.sequence.put_away(entries)
            found.charge(busy)

    assert found.takes(busy, BY_UP, run)
    grow(10_000)
    assert (found.lacks(busy, BY_UP), found.lacks(other, BY_UP)) == (HoldReason.TRANSIT_FULL, None)
    assert (found.takes(busy, BY_UP, run), found.takes(other, BY_UP, run)) == (False, True)
    assert found.lets_ahead(busy, 1, 1, HoldReason.TRANSIT_FULL)
    grow(20_000)
    assert not found.lets_ahead(busy, 1, 1, HoldReason.TRANSIT_FULL)


@pytest.mark.parametrize("reason", [HoldReason.TRANSIT_FULL, HoldReason.STORE_LOW])
def test_a_relay_without_room_takes_words_that_may_make_some(reason: HoldReason) -> None:
    found, words, other = room(store_low=True), stream(queue="$large.q"), stream(2)
    assert found.lets_ahead(words, 1, 200, reason)
    assert found.lets_ahead(stream(3, queue="$subscriptions"), 1, 200, reason)
    assert not found.lets_ahead(words, 1, 60_000, reason)
    assert not found.lets_ahead(other, 1, 200, reason)
    assert not found.lets_ahead(words, 1, 200, HoldReason.STORE_BUSY)
    found.count(words, packets(5, 200))
    assert not found.lets_ahead(words, 6, 200, reason)


def test_express_packets_fill_memory() -> None:
    found, express = room(peer_memory_bytes=16_000), stream(delivery=Delivery.EXPRESS)
    found.count(express, packets(4, 500))
    assert (found.lacks(express, BY_UP), found.is_over(express)) == (HoldReason.PEER_MEMORY, False)
    found.count(express, packets(4, 500))
    assert found.is_over(express)
    assert not found.is_over(stream())


def test_a_run_is_taken_as_a_whole_when_nothing_comes_near_a_limit() -> None:
    found = room(transit_quota=Quota(size_bytes=10_000))
    assert found.takes(stream(), BY_UP, arriving(500, 5))
    assert not found.takes(stream(), BY_UP, arriving(5_000, 5))
    assert not found.takes(stream(), BY_UP, arriving(5, 10_000_000))
    assert found.takes(stream(delivery=Delivery.EXPRESS), BY_UP, arriving(500, 5))


# Holds that go upstream: each stream by itself, repeated while they last, and ended when there is room.

SMALL = NodeSettings(limits=Limits(transit_quota=Quota(size_bytes=16 * 1024)))


@pytest.mark.gate
def test_the_wait_of_a_stream_begins_and_ends_with_an_event() -> None:
    net, a, r, b = by_relay(settings={"r": SMALL})
    b.crash()
    post(a, "b", *numbered(0, 400, 200))
    assert net.world.run(20 * SECOND, lambda: bool(r.live.transits.holds.streams))
    b.start()
    assert net.world.run(400 * SECOND, lambda: net.is_done("a"))
    for node, is_here in ((a, False), (r, True)):
        news = [event.is_held for event in node.news if isinstance(event, StreamHeld) and event.here is is_here]
        assert news[0] is True
        assert news[-1] is False


def test_a_hold_that_refuses_nothing_repeats_its_turn() -> None:
    """Its neighbour takes back what is on its way only if it was refused. In the next session it is held anew."""
    net, a, r, b = by_relay(settings={"r": SMALL})
    b.crash()
    post(a, "b", *numbered(0, 400, 200), delivery=Delivery.RECOVERABLE)
    holds = r.live.transits.holds
    assert net.world.run(20 * SECOND, lambda: bool(holds.streams))
    (stream,) = r.live.transits.streams
    ((conversation, stop),) = holds.stopped[stream].items()
    assert holds.stop_again(conversation)
    assert holds.stopped[stream][conversation] == stop
    holds.stop(stream, conversation, "q", HoldReason.TRANSIT_FULL, (1,))
    assert holds.stopped[stream][conversation].turn == stop.turn + 1
    holds.handle_session_closed(conversation)
    assert not holds.streams
    assert net.world.run(100 * SECOND, lambda: bool(holds.streams))


# Packets in transit: those that fit are in memory, the others come from the disk when they are needed.


def bodies(limit_bytes: int, found: TransitRoom | None = None) -> TransitBodies:
    return TransitBodies(found or room(), limit_bytes)


def relay(limit_bytes: int) -> Transits:
    return line("arb", settings={"r": NodeSettings(body_cache_bytes=limit_bytes)})["r"].live.transits


def fetched_packets(first: int, last: int) -> list[TransitPacket]:
    return [TransitPacket(it, b"x" * 10, 10, 1, it - 1, 5_000 * it) for it in range(first, last + 1)]


def take(some: TransitBodies, into: TransitStream, entries: list[TransitPacket]) -> None:
    into.sequence.add(entries)
    some.handle_stored(into, entries)


def test_what_does_not_fit_is_fetched_when_it_is_wanted() -> None:
    streams, passing = relay(2 * PACKET_BYTES), stream(3)
    some = streams.bodies
    take(some, passing, fetched_packets(1, 3))
    assert (list(passing.sequence.entries), len(passing.sequence)) == ([1, 2], 3)
    assert some.cached_bytes == 2 * (PACKET_BYTES + 10)
    assert streams.poll_fetch() is None
    streams.wanting[passing] = None
    read = sure(streams.poll_fetch())
    third = passing.sequence.entries[3]
    assert read.keys == [key_of(3, third.place)]
    read.take({read.keys[0]: b"y" * 10})
    assert (third.body, some.cached_bytes, streams.wanting) == (b"y" * 10, 3 * (PACKET_BYTES + 10), {})
    for entry in passing.sequence.entries.values():
        some.release(entry)
    assert some.cached_bytes == 0


def test_what_comes_behind_packets_on_the_disk_goes_there() -> None:
    some, passing = bodies(2 * PACKET_BYTES), stream(3, delivery=Delivery.TRANSACTIONAL)
    take(some, passing, fetched_packets(11, 14))
    for entry in list(passing.sequence.entries.values()):
        passing.sequence.remove([entry])
        some.release(entry)
    assert (some.cached_bytes, passing.sequence.peek()) == (0, ON_DISK)
    take(some, passing, fetched_packets(15, 15))
    take(some, passing, fetched_packets(9, 9))
    assert list(passing.sequence.entries) == [9]
    assert [entry.number for entry in passing.sequence.peek_run(5)] == [9]


def test_a_next_hop_that_is_away_leaves_room() -> None:
    some, passing = bodies(10 * PACKET_BYTES), stream(3)
    take(some, passing, fetched_packets(1, 3_000))
    some.bring_back(passing, 2_000)
    assert some.cached_bytes >= 2_000 * PACKET_BYTES
    passing.sequence.handle_session_closed()
    some.handle_waiting(passing)
    assert (some.cached_bytes, len(passing.sequence), len(passing.sequence.entries)) == (0, 3_000, 0)


def test_a_packet_that_is_away_when_its_body_comes_is_not_counted() -> None:
    """The next hop went away while the disk was being read."""
    streams, passing = relay(0), stream(3)
    take(streams.bodies, passing, fetched_packets(1, 3))
    streams.wanting[passing] = None
    read = sure(streams.poll_fetch())
    streams.bodies.handle_waiting(passing)
    read.take(dict.fromkeys(read.keys, b"y" * 10))
    assert (streams.bodies.cached_bytes, len(passing.sequence.on_disk)) == (0, 3)


def test_time_runs_out_on_the_disk_too() -> None:
    some, passing = bodies(PACKET_BYTES), stream(3)
    entries = fetched_packets(1, 4)
    for entry, left_by_ms in zip(entries, (0, 500, 300, 700), strict=True):
        entry.reach_by_ms = left_by_ms
    passing.expect(entries)
    take(some, passing, entries)
    assert passing.next_expiry_ms == 300
    assert [entry.number for entry in some.bring_back_expired(passing, 500, 10)] == [2, 3]
    assert passing.next_expiry_ms == 700
    some.bring_back(passing, 10)
    assert (passing.next_expiry_ms, passing.expiries.earliest()) == (700, 700)


@pytest.mark.slow
def test_the_neighbour_that_brought_a_backlog_pays_for_its_few_bytes() -> None:
    found, passing, count = room(), stream(3), 200_000
    some = bodies(1_000 * PACKET_BYTES, found)
    for first in range(1, count, 64):
        take(some, passing, fetched_packets(first, min(count, first + 63)))
    assert len(passing.sequence) == count
    assert len(passing.sequence.entries) <= 1_000
    assert found.away.of(b"up") == passing.sequence.on_disk.size_bytes < 4 * count
    while passing.sequence.on_disk:
        some.bring_back(passing, len(passing.sequence.entries) + 1)
    assert found.away.of(b"up") == 0


def test_words_are_gathered_for_the_interval() -> None:
    net = line("arb")
    make_sync(net, "a")
    r = net["r"]
    post(net["a"], "b", *numbered(0, 200, 400), delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net["b"].length("q") == 200)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    words = r.log("onward_ack_sent")
    assert len(words) <= 3
    last = max(record["number"] for record in net["b"].log("packet_received") if "number" in record)
    told = [number for word in words for first, end in word["ranges"] for number in range(first, end + 1)]
    assert sorted(told) == list(range(1, last + 1))


@pytest.mark.gate
def test_many_gaps_are_told_in_several_words() -> None:
    net = line("arb")
    make_sync(net, "a")
    a, r = net["a"], net["r"]
    for body in numbered(0, 200):
        post(a, "b", body, delivery=Delivery.RECOVERABLE)
        net.world.run(MS)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    (stream,) = r.live.transits.streams
    stream.awaited = True
    r.live.transits.words.handle_passed(stream, [(number, number) for number in range(1, 201, 2)], net.world.now_ns)
    words = len(r.log("onward_ack_sent"))
    r.drain()
    net.world.run(3 * SECOND)
    sizes = [len(record["ranges"]) for record in r.log("onward_ack_sent")[words:]]
    assert sizes == [RANGES_MAX, 100 - RANGES_MAX]


@pytest.mark.gate
def test_an_older_sequence_is_not_told_of_under_the_name_of_the_next() -> None:
    """A stream ends before its relay has said what it passed on, and the next one numbers its packets from 1 again."""
    net = line("arb", settings=dict.fromkeys("arb", NodeSettings(retire_after_s=0.1)))
    make_sync(net, "a")
    a, r = net["a"], net["r"]
    for body in numbered(0, 20):
        post(a, "b", body, delivery=Delivery.TRANSACTIONAL)
        net.world.run(10 * MS)
    assert net.world.run(SECOND, lambda: ended(net))
    net.world.run(100 * MS)
    post(a, "b", b"again", delivery=Delivery.TRANSACTIONAL)
    assert net.world.run(20 * SECOND, lambda: bool(r.log("onward_ack_sent")))
    assert {(word["sequence"], *map(tuple, word["ranges"])) for word in r.log("onward_ack_sent")} == {(2, (1, 1))}


def test_each_neighbour_is_told_of_what_it_has_sent_when_the_way_to_a_relay_changes() -> None:
    """Word of the first message is still due when the second comes by the other neighbour."""
    edges, by = "ar as rh sh hb", {name: [("b", "h")] for name in "rs"}
    net = Relays(edges, {"a": [("b", "r")], **by})
    make_sync(net, "r", "s")
    a, b, h = net["a"], net["b"], net["h"]
    post(a, "b", b"by r", delivery=Delivery.RECOVERABLE)
    assert net.world.run(SECOND, lambda: b.length("q") == 1 and net.waiting("h") == 0)
    net.reroute("a", ("b", "s"))
    post(a, "b", b"by s", delivery=Delivery.RECOVERABLE)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    names = {net[name].live.node_id.hex(): name for name in "rs"}
    told = {(names[word["peer"]], *map(tuple, word["ranges"])) for word in h.log("onward_ack_sent")}
    assert told == {("r", (1, 1)), ("s", (2, 2))}


def test_a_neighbour_that_invents_streams_is_remembered_for_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_acks, "STREAMS_MAX", 3)
    conversation: Any = Mock(peer_id=b"e" * 16, say=lambda *_: True)
    records: Any = SimpleNamespace(told_ends_here=lambda *_: None)
    words = RelayAcks(lambda _: None, lambda _: 0, records, Counter[DropReason]())
    for number in range(1_000):
        header: Any = SimpleNamespace(awaited=True, origin=b"%016d" % number, stream=1, sequence=1)
        words.handle_arrived(conversation, header, Delivery.TRANSACTIONAL, 0)
    assert len(words._ended[conversation]) == 3  # noqa: SLF001 - what is kept is not seen from outside
    words.handle_session_closed(conversation)
    assert not words._ended  # noqa: SLF001
