"""A local queue."""

import gc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sure import sure
from triack.base.commit import HEAD_BYTES, MessageIndex
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS
from triack.queues.body_head import read_plain
from triack.queues.mailboxes.mailbox import PARTIAL_MAX, Lease, Mailbox, Notices, QueuedPacket, Run, rank_of
from triack.queues.mailboxes.priority_queue import CACHE_BYTES, PACKET_BYTES, Cache
from triack.queues.mailboxes.progress import Progress
from triack.queues.mailboxes.redelivery import Wait
from triack.queues.messages import Outgoing
from triack.queues.packing import pack

ORIGIN = b"o" * 16
FIELDS = [name for name in QueuedPacket.__slots__ if name not in ("pieces", "content")]


class Box:
    """A mailbox with these messages, the disk behind it, and what was put so far."""

    def __init__(self, *bodies: bytes, cache_bytes: int = CACHE_BYTES) -> None:
        self.notices = Notices(Counter(), cache=Cache(cache_bytes))
        self.box = Mailbox(1, "q", self.notices)
        self.disk: dict[int, bytes] = {}
        self.numbers: dict[int, int] = {}
        self.now_ms = 1_000
        if bodies:
            self.put(*bodies)

    def put(
        self,
        *bodies: bytes,
        stream: int = 1,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        limit: int = 1_200,
        priority: int = 0,
    ) -> None:
        packed, _ = pack(list(bodies), limit, len(self.disk) * 1_000, 1, priority=priority)
        for item in packed:
            self.put_raw(item.body, stream, delivery)

    def put_raw(self, body: bytes, stream: int = 1, delivery: Delivery = Delivery.TRANSACTIONAL) -> None:
        key = len(self.disk) + 1
        self.disk[key] = body
        number = self.numbers[stream] = self.numbers.get(stream, 0) + 1
        keys = [] if delivery is Delivery.EXPRESS else [key]
        packet = QueuedPacket(keys, ORIGIN, stream, 1, number, delivery, 1, len(body), [body])
        self.box.put(packet, body[:HEAD_BYTES])

    def run(self) -> Run:
        return sure(self.box.open_run(self.now_ms))

    def take(self) -> Lease | None:
        """The next message, fetched from the disk if need be."""
        run = self.box.open_run(self.now_ms)
        if run is None and self.box in self.notices.wanting:
            del self.notices.wanting[self.box]
            if (fetch := self.box.poll_fetch()) is not None:
                fetch.take({key: self.disk[key] for key in fetch.keys})
            run = self.box.open_run(self.now_ms)
        return None if run is None else run.lease(run.draw())

    def take_all(self) -> list[Lease]:
        found = []
        while (handed := self.take()) is not None:
            found.append(handed)
        return found


def restarted(box: Box, now_ms: int) -> Box:
    """The next process, with what it finds on the disk of the first packet and of what was done with that."""
    ((packet,), orphans) = box.box.take_changes()
    assert not orphans
    fresh, body = Box(), box.disk[1]
    fresh.disk, fresh.now_ms = box.disk, now_ms
    again = QueuedPacket([1], ORIGIN, 1, 1, 1, Delivery.TRANSACTIONAL, 1, len(body), [], restored=True)
    progress = Progress.decode(box.box.reader.progress_of(packet).encode(), packet.number, now_ms)
    fresh.box.put(again, body[:HEAD_BYTES], progress)
    return fresh


def bodies(handed: list[Lease]) -> list[bytes]:
    return [one.body for one in handed]


def test_what_is_acknowledged_together_counts_as_one_by_one() -> None:
    boxes = [Box(), Box()]
    for box in boxes:
        for delivery in (Delivery.EXPRESS, Delivery.TRANSACTIONAL, Delivery.EXPRESS):
            box.put(*[b"%d" % number for number in range(200)], delivery=delivery)
        box.put(b"large" * 1_000)
    single, together = boxes
    taken = [box.take_all() for box in boxes]
    assert [len(leases) for leases in taken] == [601, 601]
    for leases in (slice(0, 150), slice(100, 350), slice(340, 601)):
        for lease in taken[0][leases]:
            single.box.acknowledge_many([(lease.packet, 1 << lease.index)])
        together.box.acknowledge_many([(lease.packet, 1 << lease.index) for lease in taken[1][leases]])
        assert state(single) == state(together)
    assert together.box.length == together.notices.express.total_bytes == together.notices.disk.total_bytes == 0


def state(box: Box) -> list[object]:
    """What is left, and what it counts for."""
    inner, notices = box.box, box.notices
    changed, orphans = inner.take_changes()
    fill = (inner.fill.messages.value, inner.fill.bytes.value, inner.fill.is_full)
    accounts = (notices.express.total_bytes, notices.disk.total_bytes)
    return [inner.length, inner.size_bytes, fill, accounts, [packet.first_place for packet in changed], orphans]


@given(st.lists(st.booleans(), min_size=12, max_size=12), st.permutations(range(12)), st.sampled_from(list(Delivery)))
def test_what_is_given_back_comes_again_in_the_old_order(
    give_back: list[bool], order: list[int], delivery: Delivery
) -> None:
    box = Box()
    for number in range(0, 12, 3):
        box.put(*(b"%02d" % (number + one) for one in range(3)), delivery=delivery)
    box.put(b"younger", delivery=delivery)
    taken = [handed for handed in (box.take() for _ in range(12)) if handed is not None]
    for at in order:
        if give_back[at]:
            box.box.give_back(taken[at])
        else:
            box.box.acknowledge(taken[at])
    again = box.take_all()
    assert bodies(again) == [b"%02d" % at for at in range(12) if give_back[at]] + [b"younger"]
    assert [handed.redelivered for handed in again] == [True] * (len(again) - 1) + [False]


def test_what_waits_keeps_everything_younger_back() -> None:
    box = Box(b"1", b"2", b"3")
    box.put(b"4")
    first, second = sure(box.take()), sure(box.take())
    box.box.give_back(second, Wait(box.now_ms + 500, 500, keep_order=True))
    assert box.take() is None
    box.box.give_back(first)
    assert bodies(box.take_all()) == [b"1"]
    assert box.notices.resuming.earliest() == (box.now_ms + 500) * MS
    box.now_ms += 500
    assert bodies(box.take_all()) == [b"2", b"3", b"4"]


def test_younger_messages_pass_one_that_waits_when_it_lets_them() -> None:
    box = Box(b"1", b"2", b"3")
    first = sure(box.take())
    box.box.give_back(first, Wait(box.now_ms + 500, 500, keep_order=False))
    second = sure(box.take())
    assert second.body == b"2"
    box.now_ms += 500
    assert box.notices.resuming.poll_due(box.now_ms * MS) == [box.box]
    box.box.interrupt()
    assert bodies(box.take_all()) == [b"1", b"3"]


@pytest.mark.parametrize("keep_order", [True, False])
def test_a_wait_survives_a_restart(keep_order: bool) -> None:
    box = Box(b"1", b"2", b"3")
    taken = box.take_all()
    box.box.acknowledge(taken[0])
    box.box.give_back(taken[1], Wait(box.now_ms + 500, 500, keep_order))
    fresh = restarted(box, 10)
    assert bodies(fresh.take_all()) == ([] if keep_order else [b"3"])
    assert fresh.notices.resuming.earliest() == 510 * MS
    fresh.now_ms = 510
    assert bodies(fresh.take_all()) == ([b"2", b"3"] if keep_order else [b"2"])


def test_progress_survives_a_restart() -> None:
    box = Box(b"1", b"2", b"3")
    handed = box.take_all()
    box.box.acknowledge(handed[1])
    assert box.box.count_failure(handed[0]) == 1
    fresh = restarted(box, box.now_ms)
    assert fresh.box.length == 2
    left = fresh.take_all()
    assert [(one.body, one.redelivered) for one in left] == [(b"1", True), (b"3", True)]
    assert [fresh.box.failures_of(one) for one in left] == [1, 0]


def packets_in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, QueuedPacket) for one in gc.get_objects())


@pytest.mark.slow
def test_the_unread_take_their_records_and_no_objects() -> None:
    notices = Notices(Counter(), cache=Cache(1024**2))
    box = Mailbox(1, "q", notices)
    body = pack([b"unread"], 400, 1, 1)[0][0].body
    before = packets_in_memory()
    for number in range(1, 200_001):
        packet = QueuedPacket([number], ORIGIN, 1, 1, number, Delivery.TRANSACTIONAL, 1, len(body), [body])
        box.put(packet, body[:HEAD_BYTES])
    assert packets_in_memory() - before < 1024**2 // PACKET_BYTES + 10
    assert (box.length, box.size_bytes) == (200_000, 200_000 * len(body))


def test_what_is_looked_through_on_the_disk_stays_in_its_place() -> None:
    box = Box(cache_bytes=0)
    for number in range(0, 1_500, 3):
        box.put(*(b"%04d" % (number + one) for one in range(3)))
    seen = [packet.first_place + index for packet, index in box.box.waiting()]
    assert seen == list(range(1, 1_501))
    assert next(box.box.waiting((rank_of(0), 1_199)))[1] == 2
    wanted = {*seen[300:600], 749, 1_497}
    assert len(box.box.withdraw(wanted)) == len(wanted)
    assert len(box.box.take_changes()[0]) == 100 + 2
    left = [b"%04d" % (place - 1) for place in seen if place not in wanted]
    assert bodies(box.take_all()) == left
    assert box.box.length == len(left)


@given(st.permutations(range(4)))
def test_recoverable_fragments_may_come_in_any_order(order: list[int]) -> None:
    box = Box()
    body = bytes(range(200)) * 7
    packed = [item.body for item in pack([body], 400, 1, 1)[0]]
    assert len(packed) == 4
    for at in order:
        box.put_raw(packed[at], delivery=Delivery.RECOVERABLE)
    assert bodies(box.take_all()) == [body]


def test_half_a_message_is_dead_when_something_follows_it() -> None:
    """In a sequence the rest can only have expired: its rows are orphans and never block what follows."""
    box = Box()
    packed = [item.body for item in pack([b"x" * 900], 400, 1, 1)[0]]
    for piece in packed[:-1]:
        box.put_raw(piece)
    assert box.take() is None
    box.put(b"next")
    assert list(box.notices.dirty) == [box.box]
    assert box.box.take_changes() == ([], [1, 2])
    assert bodies(box.take_all()) == [b"next"]


def spans(runs: list[Run]) -> list[tuple[int, int, int, bool]]:
    """What runs say was handed out: place of the packet, first and last message, whether marked."""
    return [(run.packet.number, run.first, run.next - 1, run.redelivered) for run in runs]


def test_who_reads_a_queue_draws_from_the_same_run() -> None:
    """So that two readers get messages in turns, and nothing is set aside for either."""
    box = Box(b"1", b"2", b"3")
    one, other = box.run(), box.run()
    assert [one.draw(), other.draw(), one.draw(), other.draw(), one.draw()] == [0, 1, 2, -1, -1]


def test_what_comes_back_ends_the_run_that_goes_on() -> None:
    """Nobody draws anything younger before it, not even the holder of the run; it is a marked run of its own."""
    box = Box(b"1", b"2", b"3")
    run = box.run()
    old = run.lease(run.draw())
    box.box.give_back(old)
    assert run.draw() == -1
    assert bodies(box.take_all()) == [b"1", b"2", b"3"]
    assert spans(box.box.take_runs()) == [(1, 0, 0, False), (1, 0, 0, True), (1, 1, 2, False)]


def test_a_run_of_one_that_nobody_drew_gives_way_to_something_older() -> None:
    box = Box(b"1", b"2", b"3")
    first, second, _ = box.take_all()
    box.box.give_back(second)
    opened = box.run()
    box.box.give_back(first)
    assert opened.draw() == -1
    assert bodies(box.take_all()) == [b"1", b"2"]


def test_too_many_unfinished_express_messages_give_way_and_are_counted() -> None:
    box = Box()
    halves = [
        [item.body for item in pack([b"%03d" % number * 200], 400, number, 1)[0]] for number in range(PARTIAL_MAX + 2)
    ]
    for half in halves:
        box.put_raw(half[0], delivery=Delivery.EXPRESS)
    assert box.notices.drops == {DropReason.PARTIAL_OVERFLOW: 2}
    for half in (halves[2], halves[1]):
        for piece in half[1:]:
            box.put_raw(piece, delivery=Delivery.EXPRESS)
    assert bodies(box.take_all()) == [b"002" * 200]


def test_what_is_taken_out_is_never_handed_out_nor_fetched() -> None:
    box = Box()
    for at in range(0, 12, 3):
        box.put(*(b"%02d" % (at + one) for one in range(3)))
    taken = [box.take() for _ in range(4)]
    assert taken[0] is not None
    assert taken[1] is not None
    box.box.give_back(taken[0])
    box.box.give_back(taken[1], Wait(box.now_ms + 500, 500, keep_order=False))
    waiting = [packet.first_place + index for packet, index in box.box.waiting()]
    assert waiting == [1, 2, 5, 6, 7, 8, 9, 10, 11, 12]
    out = box.box.withdraw({2, 3, 6, 7, 8, 9})
    assert bodies(out) == [b"01", b"05", b"06", b"07", b"08"]
    box.now_ms += 1_000
    assert bodies(box.take_all()) == [b"00", b"04", b"09", b"10", b"11"]
    assert box.box.length == 7
    assert box.box.withdraw(set()) == []


def test_taking_out_what_only_the_disk_has_lets_the_rest_be_fetched() -> None:
    box = Box()
    big = [bytes([number]) * 1_000_000 for number in range(20)]
    for body in big:
        box.put(body, limit=60_000)
    assert box.box.cached_bytes <= CACHE_BYTES + 1_100_000
    places = [packet.first_place for packet, _ in box.box.waiting()]
    assert len(box.box.withdraw(places[:19])) == 19
    assert bodies(box.take_all()) == [big[19]]
    assert (box.box.cached_bytes, box.box.length) == (0, 20 - 19)


def test_a_large_message_that_was_done_before_a_restart_counts_no_more() -> None:
    """Its first piece says that it is done, and counts for the quota before anything is known of the others."""
    box, again = Box(), Box()
    box.put(b"x" * 3_000)
    for number, body in box.disk.items():
        row = QueuedPacket([number], ORIGIN, 1, 1, number, Delivery.TRANSACTIONAL, 1, len(body), [], restored=True)
        again.box.put(row, body[:HEAD_BYTES], Progress(1) if number == 1 else None)
    assert len(box.disk) > 1
    assert (again.box.length, again.box.fill.messages.value, again.box.fill.bytes.value) == (0, 0, 0)
    assert [packet.keys for packet in again.box.take_changes()[0]] == [list(box.disk)]


def test_failures_are_forgotten_with_their_packet() -> None:
    box = Box(b"1", b"2")
    first, second = box.take_all()
    box.box.count_failure(first)
    box.box.give_back(first, Wait(box.now_ms + 5, 5, keep_order=True))
    box.box.acknowledge(second)
    box.now_ms += 5
    run = box.run()
    again = run.lease(run.draw())
    assert box.box.failures_of(again) == 1
    box.box.acknowledge(again)
    assert (box.box.failures_of(again), box.box.reader.setbacks.waits) == (0, {})
    assert run.failures_of(again.index) == 1  # who has the message still sees it


def test_a_run_says_how_often_its_messages_had_failed() -> None:
    box = Box(b"1", b"2", b"3")
    first, second, _ = box.take_all()
    box.box.count_failure(first)
    box.box.count_failure(second, died=True)
    for lease in (first, second):
        box.box.give_back(lease)
    found = []
    while (run := box.box.open_run(box.now_ms)) is not None:
        found.append((list(run.draw_many(9)), [run.failures_of(at) for at in range(3)], run.killed))
    assert found == [([0], [1, 1, 0], False), ([1], [1, 1, 0], True)]


def test_what_was_taken_out_ahead_does_not_come_when_the_rest_is_acknowledged() -> None:
    """The packet is done then, and still is the first one that waits."""
    box = Box(b"1", b"2")
    box.put(b"3")
    first = sure(box.take())
    assert bodies(box.box.withdraw([2])) == [b"2"]
    box.box.acknowledge(first)
    assert bodies(box.take_all()) == [b"3"]


@pytest.mark.parametrize("cache_bytes", [0, CACHE_BYTES])
def test_the_higher_priority_comes_first_and_each_keeps_its_order(cache_bytes: int) -> None:
    box = Box(cache_bytes=cache_bytes)
    for number in range(40):
        box.put(b"%d.%02d" % (number % 4, number), stream=number % 4, priority=number % 4)
    taken = [lease.body for lease in iter(box.take, None)]
    assert taken == sorted(taken, key=lambda body: (-int(body[:1]), body))
    assert len(taken) == 40


def test_a_higher_priority_ends_the_run_that_is_read_and_what_comes_back_keeps_its_own() -> None:
    """The next message is of the higher one, although the packet that is read has more."""
    box = Box(b"a", b"b", b"c")
    low = sure(box.take())
    box.put(b"urgent", b"high", stream=2, priority=7)
    assert sure(box.take()).body == b"urgent"
    box.box.give_back(low)
    assert bodies(box.take_all()) == [b"high", b"a", b"b", b"c"]


@pytest.mark.parametrize("cache_bytes", [0, CACHE_BYTES])
def test_a_wait_that_keeps_the_order_stops_only_its_own_priority(cache_bytes: int) -> None:
    """Between priorities no order is promised; bodies of lower ones are fetched from the disk meanwhile."""
    box = Box(cache_bytes=cache_bytes)
    box.put(b"high", stream=2, priority=7)
    high = sure(box.take())
    box.put(b"younger", stream=2, priority=7)
    box.put(b"low")
    box.box.give_back(high, Wait(2_000, 1_000, keep_order=True))
    for now_ms, expected in ((1_000, [b"low"]), (2_000, [b"high", b"younger"])):
        box.now_ms = now_ms
        assert [lease.body for lease in (box.take() for _ in range(4)) if lease is not None] == expected


def test_browsing_shows_the_order_of_reading_from_any_position_on() -> None:
    box = Box(b"low 1", b"low 2")
    box.put(b"high", stream=2, priority=7)
    box.put(b"low 3")

    def seen(after: tuple[int, int] = (0, 0)) -> list[bytes]:
        return [packet.open().bodies[index] for packet, index in box.box.waiting(after)]

    assert seen() == [b"high", b"low 1", b"low 2", b"low 3"]
    assert seen((rank_of(7), 3)) == [b"low 1", b"low 2", b"low 3"]
    assert seen((rank_of(0), 1)) == [b"low 2", b"low 3"]
    assert [lease.place for lease in box.box.withdraw({1, 3})] == [3, 1]
    assert (seen(), box.box.lengths[0], box.box.lengths[7]) == ([b"low 2", b"low 3"], 2, 0)


def test_expiries_are_known_for_lines_that_wait_only_on_the_disk() -> None:
    box = Box(cache_bytes=0)
    box.put(b"in memory")
    for priority, receive_by_ms in ((0, 3_000), (7, 5_000)):
        (item,) = pack([Outgoing(b"x", receive_by_ms=receive_by_ms)], 1_200, priority, 1, priority=priority)[0]
        box.put_raw(item.body, priority + 1)
    assert box.notices.expiring.earliest() == 3_000 * MS
    assert [packet.priority for packet in box.box.poll_expired(4_000, 9)] == [0]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(0, 3), st.integers(0, 3))
def test_packets_that_are_restored_together_are_as_those_that_are_put_one_by_one(
    counts: list[int], priority: int, room: int
) -> None:
    boxes = Box(cache_bytes=room * PACKET_BYTES), Box(cache_bytes=room * PACKET_BYTES)
    alike = []
    for key, count in enumerate(counts, 1):
        (item,), _ = pack([b"x"] * count, 1_200, key * 1_000, 1, priority=priority)
        head, size_bytes = item.body[:HEAD_BYTES], len(item.body)
        index = MessageIndex(key, ORIGIN, 1, 1, key, size_bytes, head, None, Delivery.TRANSACTIONAL)
        alike.append((index, *sure(read_plain(head))))
        packet = QueuedPacket(
            range(key, key + 1), ORIGIN, 1, 1, key, Delivery.TRANSACTIONAL, 1, size_bytes, [], restored=True
        )
        boxes[0].box.put(packet, head)
    boxes[1].box.put_restored(alike)
    one, other = (
        [*state(box), box.box.lengths, box.box.cached_bytes]
        + [[getattr(it, name) for name in FIELDS] for it in box.box.unindexed(-1)]
        for box in boxes
    )
    assert one == other


def test_messages_whose_reader_died_come_one_at_a_time() -> None:
    """One of them may have killed it: nothing else is in hand with it, so that only that one dies of it again."""
    box = Box()
    heard: list[int] = []
    box.box.listeners.append(lambda: heard.append(1))
    box.put(b"a", b"b", b"c")
    suspects = box.take_all()
    for lease in suspects:
        box.box.count_failure(lease, died=True)
        box.box.give_back(lease)
    first = sure(box.take())
    assert (first.body, box.take()) == (b"a", None)
    heard.clear()
    box.box.acknowledge(first)
    assert heard
    second = sure(box.take())
    assert (second.body, box.take()) == (b"b", None)
    box.box.give_back(second)  # not processed, and alone again
    assert bodies(box.take_all()) == [b"b"]
    box.box.acknowledge(second)
    assert bodies(box.take_all()) == [b"c"]
