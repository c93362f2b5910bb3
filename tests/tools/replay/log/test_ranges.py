"""Sets of ranges behave like sets of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from triack.tools.replay.log.ranges import RangeSet, Tally, size

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=20)


@given(spans, st.integers(0, 60), st.integers(0, 20))
def test_a_range_set_is_a_set(added: list[tuple[int, int]], first: int, length: int) -> None:
    """Whatever is added in whatever order, the set holds it, and its parts of any span are right."""
    ranges, plain = RangeSet(), set[int]()
    for begin, more in added:
        ranges.add(begin, begin + more)
        plain.update(range(begin, begin + more + 1))
    asked = set(range(first, first + length + 1))

    def numbers(parts: list[tuple[int, int]]) -> list[int]:
        return [number for begin, end in parts for number in range(begin, end + 1)]

    assert numbers(list(ranges)) == sorted(plain)
    assert numbers(list(ranges.overlap(first, first + length))) == sorted(asked & plain)
    assert numbers(list(ranges.missing(first, first + length))) == sorted(asked - plain)
    assert all((number in ranges) == (number in plain) for number in asked)
    ranges.add(first + 1, first)
    assert numbers(list(ranges)) == sorted(plain)
    assert (size(ranges), bool(ranges)) == (len(plain), bool(plain))
    assert numbers(ranges.take(first, first + length)) == sorted(asked & plain)
    assert numbers(list(ranges)) == sorted(plain - asked)
    assert all(end + 1 < begin for end, begin in zip(ranges.lasts, ranges.firsts[1:], strict=False))


@given(spans, spans)
def test_what_is_put_and_was_not_there_is_returned(put: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    ranges, plain, more = RangeSet(), set[int](), RangeSet()
    for begin, length in put:
        asked = set(range(begin, begin + length))
        assert ranges.lacks(begin, begin + length - 1) == len(asked - plain)
        news = ranges.put(begin, begin + length - 1)
        assert [each for first, last in news for each in range(first, last + 1)] == sorted(asked - plain)
        plain |= asked
    for begin, length in others:
        more.add(begin, begin + length)
        plain.update(range(begin, begin + length + 1))
    ranges.join(more)
    assert [each for first, last in ranges for each in range(first, last + 1)] == sorted(plain)
    assert all(end + 1 < begin for end, begin in zip(ranges.lasts, ranges.firsts[1:], strict=False))


def test_nothing_is_in_an_empty_span() -> None:
    """Not even in the middle of a range."""
    assert list(RangeSet([(1, 9)]).overlap(5, 4)) == []
    assert size([(1, 5), (7, 7)]) == 6


def test_repetitions_are_parts() -> None:
    """Each number is there as often as it came."""
    tally = Tally()
    for first, last in ((1, 5), (3, 4), (4, 8)):
        tally.add(first, last, 10)
    assert tally.again == [(3, 4), (4, 5)]
    assert tally.count == 30
    assert sorted(number for first, last in tally for number in range(first, last + 1)) == [
        1,
        2,
        3,
        3,
        4,
        4,
        4,
        5,
        5,
        6,
        7,
        8,
    ]


def test_a_set_may_have_more_numbers_than_python_counts() -> None:
    """It has no length then, and is gone through all the same."""
    assert list(RangeSet([(1, 10**19)])) == [(1, 10**19)]
