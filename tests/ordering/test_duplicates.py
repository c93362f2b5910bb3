"""The filter of express and recoverable streams lets each packet through once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ordering.pair import make_entry, make_header
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.ordering.duplicates import MAX_RANGES, DuplicateFilter
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import OutgoingSequence


def feed(seen: DuplicateFilter, *numbers: int, previous: int = 0, sequence: int = 1) -> list[bool]:
    return [seen.handle_packet(make_header(number, previous, sequence)) for number in numbers]


def test_each_number_once_in_any_order() -> None:
    """Order does not matter to these classes; a second copy does."""
    seen = DuplicateFilter()
    assert feed(seen, 3, 1, 3, 2, 1) == [True, True, False, True, False]


def test_what_is_under_the_floor_is_not_new() -> None:
    """``previous`` says that nothing up to it is wanted: a late copy from there is a duplicate."""
    seen = DuplicateFilter()
    assert feed(seen, 10, previous=7) == [True]
    assert feed(seen, 7, 6, 1) == [False, False, False]
    assert feed(seen, 8, 9) == [True, True]


def test_the_floor_never_falls() -> None:
    """An older packet with a lower floor changes nothing."""
    seen = DuplicateFilter()
    feed(seen, 10, previous=7)
    assert feed(seen, 8, previous=3) == [True]
    assert feed(seen, 5) == [False]


def test_the_floor_keeps_memory_short() -> None:
    """Gaps that will never be filled are forgotten."""
    seen = DuplicateFilter()
    feed(seen, *range(2, 200, 2))
    assert len(seen.encode()) == 16 + 99 * 16
    feed(seen, 201, previous=200)
    assert len(seen.encode()) == 16


def test_a_newer_sequence_starts_afresh_and_ends_the_older() -> None:
    """After a reinstallation numbers begin again, under a greater id."""
    seen = DuplicateFilter()
    feed(seen, 1, 2, 9)
    assert feed(seen, 1, 2, sequence=5) == [True, True]
    assert feed(seen, 10, sequence=1) == [False]
    assert feed(seen, 1, sequence=5) == [False]
    assert seen.sequence == 5


@given(st.lists(st.integers(1, 60)), st.integers(1, 2**63))
def test_it_reads_back(numbers: list[int], sequence: int) -> None:
    """After a restart the same packets are new, and no others."""
    seen = DuplicateFilter()
    feed(seen, *numbers, sequence=sequence)
    again = DuplicateFilter.decode(seen.encode())
    assert again.encode() == seen.encode()
    assert feed(again, *range(1, 62), sequence=sequence) == [number not in numbers for number in range(1, 62)]


@pytest.mark.parametrize("data", [b"", b"x" * 15, b"x" * 17, b"x" * 31])
def test_a_damaged_filter_is_refused(data: bytes) -> None:
    """Not taken for an empty one, which would let everything through again."""
    with pytest.raises(StoreDamaged):
        DuplicateFilter.decode(data)


def test_too_many_gaps_are_noticed() -> None:
    """A correct sender never leaves as many gaps."""
    seen = DuplicateFilter()
    feed(seen, *range(2, 2 * MAX_RANGES, 2))
    assert not seen.full
    feed(seen, 2 * MAX_RANGES)
    assert seen.full


@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=80))
def test_with_a_real_sender_nothing_wanted_is_taken_for_a_duplicate(steps: list[tuple[int, bool]]) -> None:
    """Packets are sent in any order and any number of times, and freed when the receiver has them: each passes once."""
    out = OutgoingSequence(Delivery.RECOVERABLE, 1, 1, OrderSettings())
    for number in range(1, 21):
        out.append([make_entry(number)])
    seen, passed = DuplicateFilter(), list[int]()
    late = []
    for number, freed in [*steps, *((number, True) for number in range(1, 21))]:
        if number in out.entries:
            header = make_header(number, out.previous_of(out.entries[number]))
            late.append(header)
            passed += [number] if seen.handle_packet(header) else []
            if freed:
                assert out.handle_store_ack([out.entries[number]])
    passed += [header.number for header in late if seen.handle_packet(header)]
    assert sorted(passed) == list(range(1, 21))


def test_what_the_sender_gave_up_was_not_seen() -> None:
    """A packet that expired at its sender and comes all the same is not fresh, and must not be called stored."""
    seen = DuplicateFilter()
    feed(seen, 1, 4, 6, previous=0)
    feed(seen, 9, previous=7)
    assert [number for number in range(1, 10) if seen.has_skipped(make_header(number, 0, 1))] == [2, 3, 5, 7]
    assert feed(seen, 3, 4) == [False, False]


def test_of_an_older_sequence_nothing_is_known() -> None:
    """Not even of a number that the newer one has."""
    seen = DuplicateFilter()
    feed(seen, 1, 2)
    assert seen.handle_packet(make_header(1, 0, 9))
    assert not seen.handle_packet(make_header(1, 0, 1))
    assert seen.has_skipped(make_header(1, 0, 1))
    assert not seen.has_skipped(make_header(1, 0, 9))


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(1, 25), st.integers(0, 24), st.integers(1, 5))
def test_a_run_is_seen_as_its_packets_would_be(before: list[int], first: int, previous: int, packets: int) -> None:
    """Or not taken at all, and then nothing has changed."""
    together, alone = DuplicateFilter(), DuplicateFilter()
    feed(together, *before)
    feed(alone, *before)
    previous = min(previous, first - 1)
    taken = together.handle_run(make_header(first, previous, 1), packets)
    if taken:
        assert all(feed(alone, *range(first, first + packets), previous=previous))
    assert together.encode() == alone.encode()
    follows = bool(before) and first == max(before) + 1
    assert taken is follows
