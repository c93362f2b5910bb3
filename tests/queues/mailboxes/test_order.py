"""Which message is read next, and what is known of those that are read: lines, runs, states of readers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.lease_words import begin_words, read_marks
from triack.ordering.wire import OrderAckPacket, RelayedPacket, SequenceHeader, decode, encode_relayed_run
from triack.queues.mailboxes.handed import handed_fields
from triack.queues.mailboxes.incoming_run import IncomingRun, read_runs
from triack.queues.mailboxes.leases import Leases
from triack.queues.mailboxes.priority_queue import PACKET_BYTES, Cache, Level, Share
from triack.queues.mailboxes.progress import Progress, Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.reader_state import ReaderState
from triack.queues.mailboxes.redelivery import Wait
from triack.queues.mailboxes.run import Run
from triack.queues.messages import Outgoing
from triack.queues.packing import pack
from triack.session.protocol.events import PacketArrived, RunArrived

# Packets that wait for their first readers: in memory as far as there is room, and in order all the same.

BODY = b"x" * 100


class Waiting:
    """A line, the disk behind it, and the expiries that it has told."""

    def __init__(self, limit_bytes: int) -> None:
        self.cache = Cache(limit_bytes)
        self.expiries: dict[int | None, int | None] = {}
        self.share = Share(self.cache)
        self.line = Level(self.share, self._note, 3)

    def _note(self, packet: QueuedPacket | None, at_ms: int | None) -> None:
        self.expiries[None if packet is None else packet.first_place] = at_ms

    def put(self, places: range, *, express: bool = False, receive_by_ms: int = 0, together: bool = False) -> None:
        packets: list[QueuedPacket] = []
        for place in places:
            delivery = Delivery.EXPRESS if express else Delivery.TRANSACTIONAL
            one = QueuedPacket([] if express else [place], b"o" * 16, 1, 1, place, delivery, 1, len(BODY), [BODY])
            one.first_place, one.receive_by_ms = place, receive_by_ms
            packets.append(one)
        if together:
            self.line.extend(packets)
        else:
            for one in packets:
                self.line.append(one)

    def read(self) -> list[int]:
        """The places of all that waits, as a reader comes to it."""
        read = []
        while (first := self.line.first()) is not None:
            if not first.pieces:
                fetch = sure(self.line.poll_fetch(self.line.load))
                fetch.take(dict.fromkeys(fetch.keys, BODY))
            assert first.pieces == [BODY]
            read.append(first.first_place)
            self.line.drop_first()
        return read


def test_memory_has_a_limit_and_the_order_stays() -> None:
    waiting = Waiting(limit_bytes=10 * (PACKET_BYTES + 100))
    waiting.put(range(1, 5_000))
    assert waiting.share.used_bytes == waiting.cache.used_bytes <= 11 * (PACKET_BYTES + 100)
    assert waiting.read() == list(range(1, 5_000))
    assert (waiting.share.used_bytes, waiting.cache.used_bytes) == (0, 0)


def test_express_packets_do_not_overtake_what_is_on_the_disk() -> None:
    """They stay in memory, as nothing else has them."""
    waiting = Waiting(limit_bytes=0)
    for start in range(1, 1_000, 10):
        waiting.put(range(start, start + 9))
        waiting.put(range(start + 9, start + 10), express=True)
    assert waiting.read() == list(range(1, 1_001))


@pytest.mark.parametrize("room", [0, 5, 1_000])
@pytest.mark.parametrize("express", [False, True])
def test_what_comes_together_waits_as_if_it_came_one_by_one(room: int, express: bool) -> None:
    one_by_one, together = (Waiting(limit_bytes=room * (PACKET_BYTES + 100)) for _ in range(2))
    for start, receive_by_ms in ((1, 0), (4, 70), (8, 0), (300, 0), (600, 9)):
        for waiting in (one_by_one, together):
            places = range(start, start + 3 if start < 300 else start + 280)
            waiting.put(places, express=express, receive_by_ms=receive_by_ms, together=waiting is together)
        assert together.share.used_bytes == one_by_one.share.used_bytes
    assert together.expiries == one_by_one.expiries
    assert together.read() == one_by_one.read()
    assert (together.share.used_bytes, together.cache.used_bytes) == (0, 0)


def test_one_queue_leaves_memory_to_others() -> None:
    waiting = Waiting(limit_bytes=10 * (PACKET_BYTES + 100))
    others = [Share(waiting.cache) for _ in range(9)]
    for share in [waiting.share, *others]:
        waiting.line = Level(share, lambda packet, at_ms: None, 3)
        waiting.put(range(1, 50))
    assert waiting.cache.used_bytes <= 41 * (PACKET_BYTES + 100)
    assert others[0].used_bytes > others[-1].used_bytes == 0


def test_expiries_are_known_for_packets_in_memory_and_for_the_next_of_the_others() -> None:
    waiting = Waiting(limit_bytes=0)
    waiting.put(range(1, 4), receive_by_ms=30)
    waiting.put(range(4, 6), receive_by_ms=20)
    assert waiting.expiries == {1: 30, None: 20}
    assert [one.first_place for one in waiting.line.poll_expired(20, 9)] == [4, 5]
    for place in (4, 5):
        assert waiting.line.remove(next(one for one in waiting.line.walk(place) if one.first_place == place))
    assert waiting.expiries[None] == 30
    assert waiting.read() == [1, 2, 3]
    assert waiting.expiries == {1: 30, 2: 30, 3: 30, None: None}


def test_what_is_removed_is_read_by_nobody() -> None:
    waiting = Waiting(limit_bytes=3 * (PACKET_BYTES + 100))
    waiting.put(range(1, 20))
    for one in list(waiting.line.walk(1)):
        assert one.first_place % 2 == 0 or waiting.line.remove(one)
    assert waiting.read() == list(range(2, 20, 2))


@pytest.mark.parametrize("room", [0, 1_000])
def test_a_walk_begins_with_the_packet_that_has_the_place(room: int) -> None:
    waiting = Waiting(limit_bytes=room * (PACKET_BYTES + 100))
    for place in (1, 4, 7):
        one = QueuedPacket([place], b"o" * 16, 1, 1, place, Delivery.TRANSACTIONAL, 3, 100, [BODY], first_place=place)
        waiting.line.append(one)
    assert [one.first_place for one in waiting.line.walk(6)] == [4, 7]
    assert [one.first_place for one in waiting.line.walk(7)] == [7]


def test_what_was_drawn_has_a_size() -> None:
    for labels, drawn_bytes in ((None, 5), ("lmn", 2_000)):
        made = zip((b"1", b"22", b"333"), labels or (None,) * 3, strict=True)
        messages = [Outgoing(body, {"label": label * 1_000} if label else None) for body, label in made]
        ((packed,), _) = pack(messages, 60_000, 1, 1)
        packet = QueuedPacket([1], b"o" * 16, 1, 1, 1, Delivery.TRANSACTIONAL, 3, len(packed.body), [packed.body])
        run = Run(packet, 1, 3, redelivered=False)
        size_bytes = run.size_of(run.draw_many(2))
        assert size_bytes == 5 if labels is None else drawn_bytes < size_bytes == packet.size_bytes


# What a reader has done with the messages of a queue, by their places.


def packets(*counts: int) -> list[QueuedPacket]:
    """Packets of a queue, in order, by how many messages each has."""
    made: list[QueuedPacket] = []
    for number, count in enumerate(counts, 1):
        place = made[-1].last_place + 1 if made else 1
        one = QueuedPacket([number], b"o" * 16, 1, 1, number, Delivery.TRANSACTIONAL, count, 9, [b"x"])
        one.first_place = place
        made.append(one)
    return made


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 2**5 - 1)), max_size=30))
def test_acknowledged_is_what_was_acknowledged(acks: list[tuple[int, int]]) -> None:
    put, reader, model = packets(5, 1, 3, 5, 2), ReaderState(), [0] * 5
    for at, some in acks:
        bits = some & ((1 << put[at].count) - 1)
        assert reader.acknowledge(put[at], bits) == bits & ~model[at]
        model[at] |= bits
        assert [reader.acked(one) for one in put] == model
        done = [bits == (1 << one.count) - 1 for one, bits in zip(put, model, strict=True)]
        assert [reader.is_done(one) for one in put] == done


def test_what_is_done_is_a_few_ranges() -> None:
    """However many packets that is: they are forgotten one by one, and one that is in hand costs one range."""
    put, reader = packets(*[64] * 1_000), ReaderState()
    for one in put[:500] + put[501:]:
        reader.acknowledge(one, (1 << 64) - 1)
    assert (reader.done.cumulative, reader.done.ranges, reader.begun) == (32_000, [(32_065, 64_000)], {})
    for index in range(64):
        assert reader.acknowledge(put[500], 1 << index) == 1 << index
    assert (reader.done.cumulative, reader.done.ranges, reader.begun) == (64_000, [], {})


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 2**5 - 1)), max_size=12))
def test_nothing_is_handed_out_that_is_done_or_was_handed_out(steps: list[tuple[bool, int]]) -> None:
    (packet, _), reader, out = packets(5, 2), ReaderState(), 0
    for acks, bits in [*steps, *[(False, 0)] * 5]:
        if acks:
            reader.acknowledge(packet, bits)
            continue
        first, end = reader.next_waiting(packet)
        new = (1 << end) - (1 << first)
        assert not new & (reader.acked(packet) | out)
        reader.lines[packet.priority].next = packet.first_place + end
        out |= new
    assert reader.acked(packet) | out == 0b11111
    assert reader.ahead(packet) == []


@pytest.mark.parametrize("setbacks", [Setbacks({2: 1}, {2: 1}), Setbacks(waits={2: Wait(5, 5, keep_order=True)})])
def test_what_died_or_waited_before_a_restart_comes_by_itself(setbacks: Setbacks) -> None:
    """Acknowledged messages do not come, and packets without a past come as a whole."""
    (before, packet, after), reader = packets(2, 5, 3), ReaderState()
    reader.restore(packet, Progress(0b10001, setbacks))
    found = []
    for one in (before, packet, after):
        while (run := reader.next_waiting(one))[0] < one.count:
            found.append((one.number, *run))
            reader.lines[one.priority].next = one.first_place + run[1]
    assert found == [(1, 0, 2), (2, 1, 2), (2, 2, 3), (2, 3, 4), (3, 0, 3)]


def test_progress_that_is_restored_is_the_same_progress() -> None:
    first, second = packets(3, 4)
    progress = Progress(0b1001, Setbacks({1: 2}, {1: 1}, {1: Wait(5, 5, keep_order=False)}))
    reader = ReaderState()
    reader.restore(second, progress)
    assert (reader.progress_of(second), reader.progress_of(first)) == (progress, Progress())
    assert [reader.setbacks.failures[5], reader.setbacks.deaths[5], reader.setbacks.failures.get(1, 0)] == [2, 1, 0]
    beyond = ReaderState()
    beyond.restore(first, Progress(0b11001))
    assert (beyond.acked(first), beyond.acked(second)) == (0b001, 0)


def test_nothing_is_kept_of_what_was_done_before_a_restart() -> None:
    (packet,), reader = packets(2), ReaderState()
    reader.restore(packet, Progress(0b11, Setbacks({1: 1}, {1: 1})))
    assert reader.is_done(packet)
    assert reader.setbacks == Setbacks()


# The run reads the packets that have arrived; packets that belong to no run are read by themselves.

ORIGIN = b"o" * 16
BATCH = pack([b"1", b"22"], 1_000, 7, 5)[0][0].body
RICH = pack([Outgoing(b"1", {"label": "x"})], 1_000, 7, 5)[0][0].body
FRAGMENT = pack([bytes(2_000)], 1_000, 7, 5)[0][0].body


def packet(
    number: int, previous: int, *, stream: int = 1, queue: str = "q", ack_requested: bool = False, body: bytes = BATCH
) -> bytes:
    return SequenceHeader(ORIGIN, stream, 1, number, previous, queue, ack_requested, body).encode()


def read(*contents: bytes, delivery: Delivery = Delivery.TRANSACTIONAL) -> list[tuple[int, int] | int]:
    """Runs as (packet, length), others as their packet; all of them together are what came."""
    found: list[tuple[int, int] | int] = []
    for item in read_runs(RunArrived(11, delivery, list(contents))):
        if isinstance(item, PacketArrived):
            assert (item.content, item.duplicate) == (contents[item.number - 11], False)
            found.append(item.number)
        else:
            headers = [decode(content) for content in contents[item.packet - 11 :][: len(item.bodies)]]
            ack_requested = {header.ack_requested for header in headers if isinstance(header, SequenceHeader)}
            assert item.ack_requested is (True in ack_requested)
            found.append((item.packet, len(item.bodies)))
    return found


def test_packets_that_name_the_one_before_are_one_run() -> None:
    contents = [packet(number, number - 1, ack_requested=number == 5) for number in (4, 5, 6)]
    (run,) = read_runs(RunArrived(11, Delivery.TRANSACTIONAL, contents))
    assert isinstance(run, IncomingRun)
    assert (run.packet, run.header.number, run.last, run.ack_requested) == (11, 4, 6, True)
    assert (run.counts, run.sent_at_ms, run.bodies) == ((2, 2, 2), (5, 5, 5), [BATCH] * 3)
    assert (run.size_bytes, run.body_bytes) == (sum(map(len, contents)), 3 * len(BATCH))
    assert [header.encode() for header in run.headers()] == [packet(at, at - 1, ack_requested=True) for at in (4, 5, 6)]


def test_packets_that_go_by_relays_are_runs_as_well() -> None:
    first = SequenceHeader(ORIGIN, 1, 1, 4, 3, "q", False, b"")
    packets = [RelayedPacket(at, at - 1, 1_000 * at, False, BATCH) for at in (4, 5, 6)]
    contents = encode_relayed_run(first, "b", "a", packets)
    (run,) = read_runs(RunArrived(11, Delivery.TRANSACTIONAL, [*contents]))
    assert isinstance(run, IncomingRun)
    assert (run.header.number, run.last, run.lefts_ms) == (4, 6, [4_000, 5_000, 6_000])
    assert list(run.headers()) == [decode(content) for content in contents]
    assert read(*contents, packet(7, 6)) == [(11, 3), (14, 1)]


def test_packets_of_other_classes_say_the_same_floor() -> None:
    """Nobody wants what is below it any more."""
    assert read(packet(4, 2), packet(5, 2), delivery=Delivery.RECOVERABLE) == [(11, 2)]
    assert read(packet(4, 2), packet(5, 4), delivery=Delivery.RECOVERABLE) == [(11, 1), (12, 1)]


def test_what_does_not_follow_begins_a_run_of_its_own() -> None:
    following = [packet(3, 2), packet(2, 1, stream=2), packet(2, 1, queue="r"), packet(2, 0)]
    assert [read(packet(1, 0), it) for it in following] == [[(11, 1), (12, 1)]] * 4


def test_what_is_not_plain_comes_by_itself() -> None:
    odd = [packet(2, 1, body=body) for body in (RICH, FRAGMENT, b"\x01short")]
    for content in (*odd, OrderAckPacket(ORIGIN, 1, 1, 1).encode(), b"", b"\x01"):
        assert read(packet(1, 0), content, packet(3, 2)) == [(11, 1), 12, (13, 1)]


def test_pieces_behind_the_first_of_a_message_are_one_run() -> None:
    """Of that message alone: each is counted as none, but the last."""
    pieces = [it.body for it in pack([bytes(4_500)], 1_000, 7, 5)[0]]
    other = pack([bytes(4_500)], 1_000, 8, 5)[0][2].body
    longer = pack([bytes(5_500)], 1_000, 7, 5)[0][2].body
    contents = [packet(at, at - 1, body=body) for at, body in enumerate(pieces, 1)]
    assert read(*contents, packet(len(pieces) + 1, len(pieces))) == [11, (12, len(pieces) - 1), (11 + len(pieces), 1)]
    run = list(read_runs(RunArrived(11, Delivery.TRANSACTIONAL, contents)))[1]
    assert isinstance(run, IncomingRun)
    assert (run.piece_of, run.counts) == ((7, 4_500), (*[0] * (len(pieces) - 2), 1))
    for stranger in (other, longer, BATCH):
        assert read(*contents[:2], packet(3, 2, body=stranger))[1:] == [(12, 1), (13, 1)]
    for odd in (pieces[1][:40], b"\x01" + pieces[1][1:], pieces[0]):
        assert read(*contents[:2], packet(3, 2, body=odd))[1:] == [(12, 1), 13]


# Neighbouring packets share the record of what was handed out.

STREAM = {"queue": "q", "origin": "a1" * 16, "stream": 1, "sequence": 5, "class": "transactional"}


def drawn(number: int, first: int = 0, count: int = 10, *, stream: int = 1, redelivered: bool = False) -> Run:
    packet = QueuedPacket([], b"\xa1" * 16, stream, 5, number, Delivery.TRANSACTIONAL, 10, 0, [])
    run = Run(packet, first, 10, redelivered=redelivered)
    run.next = first + count
    return run


def fields(*runs: Run) -> list[dict[str, Any]]:
    return list(handed_fields("q", runs))


def test_packets_that_follow_each_other_are_one_record() -> None:
    (said,) = fields(drawn(3, 4, 6), drawn(4), drawn(5), drawn(6, 0, 2))
    assert said == {**STREAM, "redelivered": False, "number": 3, "place": 4, "counts": [[1, 6], [2, 10], [1, 2]]}


def test_what_does_not_follow_is_another_record() -> None:
    apart = [drawn(1), drawn(3), drawn(3, 4, 1), drawn(4, redelivered=True), drawn(5, stream=2)]
    assert [said["number"] for said in fields(*apart)] == [1, 3, 3, 4, 5]
    assert fields() == []


# Notes of what is in hand, and what a start makes of those of the one before.


class Notes:
    def __init__(self) -> None:
        self.words = begin_words(0, 1, {})
        self.leases = Leases(memoryview(self.words))

    @property
    def left(self) -> dict[int, tuple[int, int]]:
        return read_marks(self.words, 1)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def leased_packet(key: int, count: int = 3) -> QueuedPacket:
    return QueuedPacket([key], b"o" * 16, 1, 1, key, 3, count, 100, [b""])


@pytest.mark.parametrize("index", [0, 2, 63, 64, 999])
def test_what_is_held_is_left(notes: Notes, index: int) -> None:
    """Packets of a list are noted together; one for which there was no room does not keep the others from it."""
    one, without, small = leased_packet(7, 1_000), leased_packet(8), leased_packet(9)
    notes.leases.open([one])
    notes.leases.open([small])
    notes.leases.hold([(one, 1 << index), (without, 0b1), (small, 0b1), (small, 0b10)])
    assert notes.left == {7: (1 << index, 0), 9: (0b11, 0)}
    notes.leases.let_go(one, 1 << index)
    assert notes.left == {9: (0b11, 0)}


@pytest.mark.parametrize("index", [1, 100])
def test_what_is_done_is_done_once_all_before_it_is_safe(notes: Notes, index: int) -> None:
    """Else the process may have lost what the handler had sent. A node that ends leaves nothing else in flight."""
    one = leased_packet(7, index + 1)
    notes.leases.open([one])
    notes.leases.hold([(one, 1 << index)])
    notes.leases.settle([(one, 1 << index)], is_safe=False)
    assert notes.left == {}
    notes.leases.settle([(one, 1 << index)], is_safe=True)
    notes.leases.hold([(one, 0b1)])
    assert notes.left == {7: (0b1, 1 << index)}
    notes.leases.handle_end()
    assert notes.left == {7: (0, 1 << index)}
    notes.leases.hold([(one, 0b1)])


@pytest.mark.gate
def test_a_cell_is_used_again(notes: Notes) -> None:
    for key in range(1, 100_000):
        one = leased_packet(key)
        notes.leases.open([one])
        assert notes.leases.cells[one]
        notes.leases.hold([(one, 0b1)])
        notes.leases.close([one])
        assert one not in notes.leases.cells
    last = leased_packet(5)
    notes.leases.open([last])
    assert notes.left == {}


def test_more_packets_than_there_is_room_for_go_without(notes: Notes) -> None:
    packets = [leased_packet(key) for key in range(1, 20_000)]
    for one in packets:
        notes.leases.open([one])
        notes.leases.hold([(one, 0b1)])
    assert 8_000 < len(notes.left) < len(packets)
    assert packets[-1] not in notes.leases.cells


def test_without_words_nothing_is_noted() -> None:
    one = leased_packet(7)
    nowhere = Leases(None)
    nowhere.open([one])
    nowhere.hold([(one, 1)])
    nowhere.settle([(one, 1)], is_safe=True)
    nowhere.close([one])
    nowhere.forget_left()
    assert nowhere.cells == {}
