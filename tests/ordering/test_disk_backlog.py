"""Packets that only the disk has: they come back as they were, and take little memory until then."""

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base import columns
from triack.base.columns import BLOCK_OVERHEAD_BYTES, BLOCK_RECORDS, Columns
from triack.ordering.departing import StreamPacketState
from triack.ordering.disk_backlog import RECORD_BYTES, DiskBacklog
from triack.ordering.transit_packet import TransitPacket

NUMBERS = st.integers(1, 60)
EVENTS = st.lists(st.tuples(st.integers(0, 5), NUMBERS, st.integers(0, 8)), max_size=80)


def packet(number: int, left_by_ms: int = 0, previous: int | None = None) -> TransitPacket:
    before = number - 1 if previous is None else previous
    entry = TransitPacket(number, b"x", 70 + number % 3, 1, before, 5_000 + number, place=2 * number)
    entry.reach_by_ms = left_by_ms
    entry.sends, entry.ack_requested = number % 2, number % 5 == 0
    return entry


def as_it_returns(entry: TransitPacket) -> TransitPacket:
    return replace(entry, body=None, state=StreamPacketState.WAITING_TO_SEND)


@given(EVENTS)
def test_it_is_a_set_of_packets_in_the_order_of_their_numbers(events: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BLOCK_RECORDS", 4)
        backlog, plain = DiskBacklog(), dict[int, TransitPacket]()
        for event, number, time_ms in events:
            if event <= 1 and number not in plain:
                entry = packet(number, time_ms, max(0, number - 1 - time_ms))
                backlog.add(entry)
                plain[number] = as_it_returns(entry)
            elif event == 2 and plain:
                taken = backlog.take_block()
                assert taken == [plain.pop(it) for it in sorted(plain)[: len(taken)]]
            elif event == 3 and number in plain:
                assert backlog.remove(number)
                del plain[number]
            elif event == 4:
                expired = backlog.take_expired(time_ms, 3)
                due = {it for it, entry in plain.items() if 0 < entry.reach_by_ms <= time_ms}
                assert {entry.number for entry in expired} <= due
                assert len(expired) == min(3, len(due))
                assert all(entry == plain.pop(entry.number) for entry in expired)
            elif event == 5:
                assert backlog.linked_after(number) == plain_link(plain, number)
            check(backlog, plain)


def check(backlog: DiskBacklog, plain: dict[int, TransitPacket]) -> None:
    assert len(backlog) == len(plain)
    assert [backlog.find(number) for number in range(62)] == [plain.get(number) for number in range(62)]
    numbers = [number for first, last in backlog.ranges() for number in range(first, last + 1)]
    assert numbers == sorted(plain)
    some = [number for first, last in backlog.ranges([(7, 9), (20, 20)]) for number in range(first, last + 1)]
    assert {it for it in plain if it in (7, 8, 9, 20)} <= set(some) <= set(plain)
    earliest_ms = min((entry.reach_by_ms for entry in plain.values() if entry.reach_by_ms), default=None)
    assert (backlog.earliest_ms is None) is (earliest_ms is None)
    assert earliest_ms is None or (backlog.earliest_ms or 0) <= earliest_ms
    assert plain or backlog.size_bytes == 0
    if plain:
        assert backlog.first == min(plain)
        assert backlog.came_ns <= min(entry.came_ns for entry in plain.values())


def plain_link(plain: dict[int, TransitPacket], number: int) -> int:
    for further in sorted(plain):
        if further > number:
            if plain[further].before > number:
                break
            number = further
    return number


@pytest.mark.slow
def test_a_packet_takes_a_few_bytes() -> None:
    """Of a day in which the factory was away; also when it is looked at, and its size is what is said."""
    backlog, count = DiskBacklog(), 200_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, count + 1):
            entry = packet(number)
            entry.came_ns, entry.reach_by_ms = number * 1_000_003, 0
            backlog.add(entry)
        for number in range(1, count, 1_111):
            assert backlog.find(number)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 5 * count
    assert taken < backlog.size_bytes + 10_000


@pytest.mark.parametrize("step", [1, -1])
def test_what_is_asked_costs_a_look_at_a_block(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    backlog, looks = DiskBacklog(), 0
    for number in range(10, 20 * BLOCK_RECORDS)[::step]:
        backlog.add(packet(number))
    assert backlog.linked_after(9) == 20 * BLOCK_RECORDS - 1
    unpack = Columns.unpack

    def counted(its: Columns, packed: bytes) -> bytearray:
        nonlocal looks
        looks += 1
        return unpack(its, packed)

    monkeypatch.setattr(Columns, "unpack", counted)
    assert backlog.linked_after(9) == 20 * BLOCK_RECORDS - 1
    assert backlog.ranges() == [(10, 20 * BLOCK_RECORDS - 1)]
    assert backlog.find(20 * BLOCK_RECORDS) is None
    assert looks == 0
    assert [backlog.find(number) is None for number in range(2_000, 2_100)] == [False] * 100
    assert looks <= 2


def test_no_order_takes_more_than_its_records() -> None:
    backlog = DiskBacklog()
    for number in range(8_000, 0, -2):
        backlog.add(packet(number))
    open_bytes = 3 * BLOCK_RECORDS * RECORD_BYTES
    assert backlog.size_bytes <= 4_000 * RECORD_BYTES // 4 + 20 * BLOCK_OVERHEAD_BYTES + open_bytes
