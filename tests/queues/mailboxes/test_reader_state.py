"""What a reader has done with the messages of a queue, by their places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.delivery import Delivery
from triack.queues.mailboxes.progress import Progress, Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.reader_state import ReaderState
from triack.queues.mailboxes.redelivery import Wait


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
    """Whatever the order, and however often: each message once, and a packet is done with its last message."""
    put, reader, model = packets(5, 1, 3, 5, 2), ReaderState(), [0] * 5
    for at, some in acks:
        bits = some & ((1 << put[at].count) - 1)
        assert reader.acknowledge(put[at], bits) == bits & ~model[at]
        model[at] |= bits
        assert [reader.acked(one) for one in put] == model
        assert [reader.is_done(one) for one in put] == [
            bits == (1 << one.count) - 1 for one, bits in zip(put, model, strict=True)
        ]


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
    """Whatever is acknowledged in between, all of a packet included; and in the end all has come that is not done."""
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


def test_neighbours_that_wait_are_found_between_those_that_are_done() -> None:
    """None that was handed out comes again this way."""
    (packet,), reader = packets(6), ReaderState()
    assert reader.next_waiting(packet) == (0, 6)
    reader.acknowledge(packet, 0b100110)
    assert reader.ahead(packet) == [0, 3, 4]
    found = []
    while (run := reader.next_waiting(packet))[0] < 6:
        found.append(run)
        reader.lines[packet.priority].next = packet.first_place + run[1]
    assert (found, reader.ahead(packet)) == ([(0, 1), (3, 5)], [])


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
    """Whatever place the packet has; indices that no message of it has are passed over."""
    first, second = packets(3, 4)
    progress = Progress(0b1001, Setbacks({1: 2}, {1: 1}, {1: Wait(5, 5, keep_order=False)}))
    reader = ReaderState()
    reader.restore(second, progress)
    assert (reader.progress_of(second), reader.progress_of(first)) == (progress, Progress())
    assert [reader.failures_of(5), reader.deaths_of(5), reader.failures_of(1)] == [2, 1, 0]
    beyond = ReaderState()
    beyond.restore(first, Progress(0b11001))
    assert (beyond.acked(first), beyond.acked(second)) == (0b001, 0)


def test_nothing_is_kept_of_what_was_done_before_a_restart() -> None:
    """There is nothing left to hand out of it."""
    (packet,), reader = packets(2), ReaderState()
    reader.restore(packet, Progress(0b11, Setbacks({1: 1}, {1: 1})))
    assert reader.is_done(packet)
    assert reader.setbacks == Setbacks()
