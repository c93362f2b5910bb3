"""Streams that end, retire, or wait for their end."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.queues.bare import Bare
from tests.queues.world import SimNode, World
from triack.base.commit import Commit, TransitIndex, TransitStreamRow
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.names import StreamId
from triack.base.units import MS, SECOND
from triack.ordering.wire import EndPacket, RelayedEnd, SequenceHeader
from triack.queues.node_settings import Limits, NodeSettings
from triack.queues.peers.link import Conversation
from triack.queues.streams import incoming_ends
from triack.queues.streams.incoming_ends import ENDS_MAX, REST_NS, AwaitedEnds, EndedStreams
from triack.queues.streams.retirement import ENDED
from triack.queues.streams.stream_state import StreamState
from triack.queues.streams.transit_stream import TransitStream
from triack.session.protocol.settings import SessionSettings
from triack.store.runs import Reading
from triack.tools.sim.faults import Faults

# When streams end, what is on the disk before anything is said, and what a restart makes of each step.

QUICK = NodeSettings(retire_after_s=1.0)


def pair(settings: NodeSettings = QUICK) -> tuple[World, SimNode, SimNode]:
    world = World(1, Faults(delay_ns=5 * MS))
    return world, world.node("a", settings), world.node("b", settings)


def life(node: SimNode) -> list[StreamState]:
    return [outgoing.life for outgoing in node.outbox.retirement._ended.values()]  # noqa: SLF001 - what it has told


@pytest.mark.gate
def test_each_stream_has_a_stream_and_a_sequence_that_no_other_ever_has() -> None:
    world, a, b = pair()
    seen: set[tuple[int, int]] = set()
    for number in range(30):
        a.send(b, f"q{number}", b"x")
        a.send(a, f"own{number}", b"x")
        streams = {(outgoing.stream_number, outgoing.sequence.sequence) for outgoing in a.outbox.streams}
        seen |= streams
        world.run(5 * SECOND)
        if number % 7 == 3:
            a.restart()
    assert len(seen) == 60
    assert len({sequence for _, sequence in seen}) == 60
    assert max(stream for stream, _ in seen) <= 8


def test_that_it_ends_is_on_the_disk_before_its_peer_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world, a, b = pair()
    told: list[tuple[bool, int]] = []
    say = Conversation.say

    def note(conversation: Conversation, packet: Any, refuses: tuple[int, ...] = ()) -> bool:
        if isinstance(packet, EndPacket) and conversation.own.name == "a":
            told.append((on_disk(a)[packet.stream] == ENDED, packet.stream))
        return say(conversation, packet, refuses)

    a.send(b, "q", b"x")
    world.run(500 * MS)
    monkeypatch.setattr(Conversation, "say", note)
    world.run(5 * SECOND)
    assert told == [(True, 1)]
    assert on_disk(a) == {}


def on_disk(node: SimNode) -> dict[int, int]:
    """Stream and next number of each row."""
    found = node.store._load(Reading())  # noqa: SLF001 - what a start would find
    return {row.stream: row.next_number for row in found.streams}


def test_the_end_of_a_stream_is_sent_again_after_a_restart() -> None:
    """An answer of another node counts for nothing. A new message has a new stream."""
    world, a, b = pair()
    a.send(b, "q", b"1")
    world.run(900 * MS)
    world.cut(a, b)
    world.run(2 * SECOND)
    (told,) = a.outbox.retirement._ended.values()  # noqa: SLF001 - what it has told
    turn = a.live.jobs.turn(world.now_ns)
    answer = told.stream_number, told.sequence.sequence
    assert not a.outbox.retirement.handle_answer(*answer, b"x" * 16, turn)
    assert a.outbox.retirement.handle_answer(answer[0], answer[1] + 1, b"x" * 16, turn)
    assert (turn.commit, life(a)) == (Commit(), [StreamState.TOLD])
    a.restart()
    assert (life(a), a.outbox.streams, on_disk(a)) == ([StreamState.TOLD], [], {1: ENDED})
    world.heal()
    a.send(b, "q", b"2")
    world.run(60 * SECOND)
    assert (life(a), on_disk(a), b.read_all("q")) == ([], {}, [b"1", b"2"])


@pytest.mark.slow
def test_what_is_outstanding_keeps_its_stream() -> None:
    world, a, b = pair()
    b.crash()
    a.send(b, "q", b"1")
    world.run(3_600 * SECOND)
    assert [outgoing.life for outgoing in a.outbox.streams] == [StreamState.LIVE]
    b.start()
    assert world.run(120 * SECOND, lambda: b.length("q") == 1)


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "starts again"])
@pytest.mark.parametrize("delivery", list(Delivery), ids=str)
def test_pieces_of_a_message_that_expired_half_way_keep_no_other_waiting(delivery: Delivery, *, restarts: bool) -> None:
    """Nothing follows in its stream: its end says that the pieces are not wanted, though an idle stream never ends."""
    world = World(1, Faults(delay_ns=5 * MS))
    a = world.node("a", NodeSettings(retire_after_s=None, session=SessionSettings(max_unacked_packet=2)))
    b = world.node("b", NodeSettings(limits=Limits(peer_quota_bytes=10_000, peer_memory_bytes=10_000)))
    a.send(b, "large", b"x" * 15_000, delivery=delivery, live_ms=60)
    assert world.run(SECOND, lambda: a.length("dead-letter") == 1)
    if restarts:
        a.restart()
    assert b.log("committed") or delivery is Delivery.EXPRESS
    a.send(b, "other", b"y" * 15_000, delivery=delivery)
    assert world.run(30 * SECOND, lambda: b.length("other") == 1)
    assert b.length("large") == 0


def test_a_node_looks_at_a_stream_that_must_not_end_once_a_second() -> None:
    """A short wait would wake it without end."""
    node = Bare(settings=NodeSettings(retire_after_s=0.01))
    outgoing = node.engine.outgoing_stream("memory://b", "q", Delivery.EXPRESS)
    outgoing.senders = 1
    node.poll()
    wakes, end_ns = 0, node.now_ns + 20 * SECOND
    while (at_ns := node.engine.next_deadline()) is not None and at_ns < end_ns:
        node.poll(max(0, at_ns - node.now_ns))
        wakes += 1
    assert node.engine.outbox.streams == [outgoing]
    assert wakes < 50
    outgoing.senders = 0
    node.poll(2 * SECOND)
    assert node.engine.outbox.streams == []


def test_who_kept_an_outgoing_queue_finds_the_one_in_its_place() -> None:
    """A transaction may have prepared a message long ago."""
    world, a, b = pair()
    kept = a.live.outgoing_stream(b.address, "q", Delivery.TRANSACTIONAL)
    a.act(lambda: a.live.submit(kept, b"1", 1))
    world.run(5 * SECOND)
    assert kept.life is StreamState.GONE
    a.act(lambda: a.live.submit(a.live.current(kept), b"2", 1))
    world.run(5 * SECOND)
    assert b.read_all("q") == [b"1", b"2"]


@pytest.mark.gate
@pytest.mark.parametrize("delivery", [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE], ids=str)
def test_pieces_of_an_ended_stream_go_whenever_their_node_dies(delivery: Delivery) -> None:
    """One commit forgets the stream, and a later one deletes the pieces."""
    died = set()
    for at_ms in range(24):
        world = World(1, Faults(delay_ns=5 * MS))
        a = world.node("a", NodeSettings(session=SessionSettings(max_unacked_packet=2)))
        b = world.node("b")
        a.send(b, "large", b"x" * 15_000, delivery=delivery, live_ms=60)
        assert world.run(SECOND, lambda b=b: bool(b.log("stream_forgotten")))  # type: ignore[misc]
        world.run(at_ms * MS // 4)
        died.add((bool(b.live.inbox.streams), bool(b.live.queues.mailboxes["large"].partials)))
        b.restart()
        a.send(b, "other", b"opens a session, in which the end is said again")
        fill = b.live.queues.mailboxes["large"].fill
        assert world.run(60 * SECOND, lambda fill=fill: not fill.bytes.value)  # type: ignore[misc]
    assert (False, True) in died


# Ended streams of which something is missing: how long they are awaited, and which gives way to others.

BY: Any = SimpleNamespace(link_name="r")
OTHER: Any = SimpleNamespace(link_name="s")


def end(stream: int, sequence: int = 1) -> RelayedEnd:
    return RelayedEnd(b"a" * 16, stream, sequence, 1, False, 9, b"r" * 8, b"a" * 16)


def due(ends: AwaitedEnds, now_ns: int) -> list[tuple[int, bool]]:
    return [(packet.stream, is_over) for _, packet, is_over in ends.poll_due(now_ns)]


def test_the_rest_is_awaited_for_a_week_from_the_first_word() -> None:
    """A newer stream of the same number has a week of its own."""
    ends = AwaitedEnds()
    ends.wait(BY, end(1), 5)
    ends.wait(BY, end(1), REST_NS // 2)
    assert ends.due.earliest() == REST_NS + 5
    assert due(ends, REST_NS + 4) == []
    assert due(ends, REST_NS + 5) == [(1, True)]
    newer = AwaitedEnds()
    newer.wait(BY, end(1), 5)
    newer.wait(BY, end(1, 2), 50)
    assert newer.due.earliest() == REST_NS + 50


def test_what_is_stored_is_looked_at_at_once_and_nothing_that_is_forgotten() -> None:
    ends = AwaitedEnds()
    ends.wait(BY, end(1), 5)
    ends.handle_stored(StreamId(b"a" * 16, 2), 7)
    assert due(ends, 7) == []
    ends.handle_stored(StreamId(b"a" * 16, 1), 7)
    assert due(ends, 7) == [(1, False)]
    ends.wait(BY, end(1), 7)
    assert ends.due.earliest() == REST_NS + 5
    ends.forget(StreamId(b"a" * 16, 1))
    assert (due(ends, 2 * REST_NS), ends.due.earliest()) == ([], None)


def test_the_oldest_of_a_relay_gives_way() -> None:
    ends = AwaitedEnds()
    ends.wait(OTHER, end(1), 1)
    ends.wait(BY, end(2), 2)
    ends.wait(BY, end(3), 3)
    ends.hasten("r")
    ends.hasten("nobody")
    assert due(ends, 4) == [(2, True)]


def test_invented_ends_fill_no_memory_and_no_place_of_others() -> None:
    """A neighbour has its places alone, and has them again when one is forgotten, or another neighbour repeats it."""
    ends = AwaitedEnds()
    for stream in range(1, ENDS_MAX + 100):
        ends.wait(BY, end(stream), 5)
    assert len(ends.ends) == ENDS_MAX
    ends.wait(OTHER, end(10_000), 50)
    ends.wait(OTHER, end(1), 50)
    ends.wait(BY, end(10_001), 50)
    ends.forget(StreamId(b"a" * 16, 2))
    ends.wait(BY, end(10_002), 50)
    ends.wait(BY, end(10_003), 50)
    assert ends.ends[StreamId(b"a" * 16, 1)] == (OTHER, end(1), REST_NS + 5)
    assert {stream.number for stream in ends.ends} == {1, *range(3, ENDS_MAX + 1), 10_000, 10_001, 10_002}


# Which streams have ended: ranges, on the disk and back, and no more of them than there can be.

A, B = b"a" * 16, b"b" * 16
DURABLE, EXPRESS = Delivery.RECOVERABLE, Delivery.EXPRESS


def header(sequence: int, origin: bytes = A) -> SequenceHeader:
    return SequenceHeader(origin, 3, sequence, 1, 0, "q", False, b"")


def ended(streams: EndedStreams, upto: int, origin: bytes = A, delivery: Delivery = DURABLE) -> list[int]:
    return [number for number in range(1, upto + 1) if streams.has(header(number, origin), delivery)]


def test_what_was_named_has_ended() -> None:
    streams = EndedStreams()
    assert streams.add(A, 3, 5, durable=True)
    assert streams.add(A, 1, 1, durable=False)
    assert (ended(streams, 9), ended(streams, 9, B), ended(streams, 9, delivery=EXPRESS)) == ([3, 4, 5], [], [1])
    assert (streams.knows(A), streams.knows(B)) == (True, False)
    streams.handle_parted(A)
    assert (ended(streams, 9), ended(streams, 9, delivery=EXPRESS)) == ([3, 4, 5], [])


def test_the_disk_has_it() -> None:
    streams, again = EndedStreams(), EndedStreams()
    for first, last in ((1, 2), (5, 6), (9, 9)):
        streams.add(A, first, last, durable=True)
    again.restore(streams.row(A))
    assert ended(again, 12) == ended(streams, 12) == [1, 2, 5, 6, 9]
    with pytest.raises(StoreDamaged, match="wrong length"):
        again.restore(streams.row(A)._replace(filter=b"x"))


def test_more_gaps_than_there_can_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming_ends, "RANGES_MAX", 4)
    streams = EndedStreams()
    added = [streams.add(A, 10 * number, 10 * number, durable=True) for number in range(1, 7)]
    assert added == [True] * 4 + [False] * 2
    assert streams.add(A, 1, 100, durable=True)
    assert streams.add(A, 200, 200, durable=True)


ID = StreamId(b"o" * 16, 7)


def stream(delivery: Delivery = Delivery.TRANSACTIONAL) -> TransitStream:
    return TransitStream(TransitStreamRow(3, *ID, delivery, 5, "q", "b", "a", "up", 0, 0))


def test_it_survives_a_restart() -> None:
    before = stream()
    before.sequence.highest, before.ordered, before.trace = 9, 8, b"relay--1"
    after = TransitStream(before.row())
    assert after.row() == before.row()
    assert (after.id, after.destination, after.awaits_order_ack) == (ID, "b/q", True)
    entry = after.restore_packet(TransitIndex(0, 9, 4, 8, 1_000, 50), 21, 77)
    assert (entry.number, entry.place, entry.body, entry.came_ns, after.trace) == (9, 21, None, 77, b"relay--1")
    assert after.expiries.earliest() == 1_000
