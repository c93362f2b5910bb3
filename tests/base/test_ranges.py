"""A NumberSet is a set of numbers, kept as a cumulative number and ranges."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.ranges import NumberSet, as_ranges, without

NUMBER = st.integers(1, 40)


def flatten(numbers: NumberSet) -> set[int]:
    told = set(range(1, numbers.cumulative + 1))
    for first, last in numbers.ranges:
        told.update(range(first, last + 1))
    return told


def assert_canonical(numbers: NumberSet) -> None:
    floor = numbers.cumulative + 1
    for first, last in numbers.ranges:
        assert floor < first <= last
        floor = last + 1


@given(st.lists(st.tuples(st.booleans(), NUMBER)))
def test_it_behaves_as_a_set(steps: list[tuple[bool, int]]) -> None:
    """Adds and forgets leave the numbers that a Python set has, in canonical ranges; ``add`` says what is new."""
    numbers, model = NumberSet(), set[int]()
    for forgets, number in steps:
        if forgets:
            numbers.forget_below(number)
            model.update(range(1, number + 1))
        else:
            assert numbers.add(number) == (number not in model)
            model.add(number)
        assert_canonical(numbers)
        assert flatten(numbers) == model == {number for number in range(1, 50) if number in numbers}
        assert numbers.highest == max(model, default=0)


@given(st.sets(NUMBER))
def test_it_reads_back(model: set[int]) -> None:
    """The same set can be rebuilt from its cumulative number and ranges."""
    numbers = NumberSet()
    for number in model:
        numbers.add(number)
    assert flatten(NumberSet(numbers.cumulative, numbers.ranges)) == model
    assert numbers.lowest_ranges(2) == numbers.ranges[:2]


@given(st.sets(NUMBER), st.lists(st.tuples(NUMBER, NUMBER)))
def test_a_run_is_taken_as_its_numbers_would_be(before: set[int], runs: list[tuple[int, int]]) -> None:
    """And what it returns is what was new."""
    numbers, model = NumberSet(), set(before)
    for number in before:
        numbers.add(number)
    for one, other in runs:
        first, last = min(one, other), max(one, other)
        fresh = [number for part in numbers.take_run(first, last) for number in part]
        assert fresh == sorted(set(range(first, last + 1)) - model)
        model.update(fresh)
        assert_canonical(numbers)
        assert flatten(numbers) == model


@given(st.sets(NUMBER), st.sets(NUMBER))
def test_ranges_without_others_are_the_rest(some: set[int], others: set[int]) -> None:
    """Number by number."""
    left = without(as_ranges(sorted(some)), as_ranges(sorted(others)))
    assert [number for first, last in left for number in range(first, last + 1)] == sorted(some - others)


def test_filling_the_last_hole_leaves_no_range() -> None:
    """A hole that is filled joins both sides; the first one moves the cumulative number over all that follows."""
    numbers = NumberSet(2, [(4, 5), (7, 9)])
    assert numbers.add(6)
    assert (numbers.cumulative, numbers.ranges) == (2, [(4, 9)])
    assert numbers.add(3)
    assert (numbers.cumulative, numbers.ranges) == (9, [])


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_start_at_one(number: int) -> None:
    """Nothing below 1 is ever new."""
    assert not NumberSet().add(number)


@given(st.sets(NUMBER))
def test_as_ranges_folds_and_loses_nothing(model: set[int]) -> None:
    """Ascending numbers become ranges that are apart, with the same numbers in them."""
    ranges = as_ranges(sorted(model))
    assert {number for first, last in ranges for number in range(first, last + 1)} == model
    assert all(left[1] + 1 < right[0] for left, right in pairwise(ranges))


@given(st.lists(NUMBER, max_size=10), NUMBER, st.integers(0, 9))
def test_neighbours_are_added_at_once(before: list[int], first: int, more: int) -> None:
    """As if one by one, wherever they are."""
    together, alone = NumberSet(), NumberSet()
    for number in before:
        together.add(number)
        alone.add(number)
    together.add_run(first, first + more)
    for number in range(first, first + more + 1):
        alone.add(number)
    assert (together.cumulative, together.ranges) == (alone.cumulative, alone.ranges)


@given(st.sets(st.integers(1, 60)), st.integers(1, 70))
def test_the_numbers_below_a_limit(numbers: set[int], limit: int) -> None:
    """Those, and nothing else."""
    some = NumberSet()
    for number in numbers:
        some.add(number)
    below = some.below(limit)
    assert {number for number in range(1, 100) if number in below} == {number for number in numbers if number < limit}
