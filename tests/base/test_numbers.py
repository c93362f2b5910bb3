"""Ranges of numbers, units, and settings that are checked."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.checks import check_between, check_datagram, check_kind, check_most, check_settings, check_texts
from triack.base.errors import TriackError, UsageError
from triack.base.ranges import NumberSet, as_ranges, without
from triack.base.transitions import IllegalTransition, next_state
from triack.base.units import MS, SECOND, end_ns, in_ns

NUMBER = st.integers(1, 40)


def flatten(numbers: NumberSet) -> set[int]:
    told = set(range(1, numbers.cumulative + 1))
    for first, last in numbers.ranges:
        told.update(range(first, last + 1))
    return told


def number_set(numbers: Iterable[int]) -> NumberSet:
    made = NumberSet()
    for number in numbers:
        made.add(number)
    return made


def assert_canonical(numbers: NumberSet) -> None:
    floor = numbers.cumulative + 1
    for first, last in numbers.ranges:
        assert floor < first <= last
        floor = last + 1


@pytest.mark.gate
@given(st.lists(st.tuples(st.booleans(), NUMBER)))
def test_it_behaves_as_a_set(steps: list[tuple[bool, int]]) -> None:
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


@given(st.sets(NUMBER), st.integers(1, 50))
def test_it_reads_back(model: set[int], limit: int) -> None:
    numbers = number_set(model)
    assert flatten(NumberSet(numbers.cumulative, numbers.ranges)) == model
    assert (numbers.lowest_ranges(2), numbers.highest_ranges(2)) == (numbers.ranges[:2], numbers.ranges[-2:])
    below = numbers.below(limit)
    assert {number for number in range(1, 100) if number in below} == {number for number in model if number < limit}


@given(st.sets(NUMBER), st.lists(st.tuples(NUMBER, NUMBER)))
def test_a_run_is_taken_as_its_numbers_would_be(before: set[int], runs: list[tuple[int, int]]) -> None:
    numbers, added, model = number_set(before), number_set(before), set(before)
    for first, last in map(sorted, runs):
        fresh = [number for part in numbers.take_run(first, last) for number in part]
        added.add_run(first, last)
        assert fresh == sorted(set(range(first, last + 1)) - model)
        model.update(fresh)
        assert_canonical(numbers)
        assert flatten(numbers) == model
        assert (added.cumulative, added.ranges) == (numbers.cumulative, numbers.ranges)


@given(st.sets(NUMBER), st.sets(NUMBER))
def test_ranges_without_others_are_the_rest(some: set[int], others: set[int]) -> None:
    """Ascending numbers become ranges that are apart, with the same numbers in them."""
    ranges = as_ranges(sorted(some))
    assert [number for first, last in ranges for number in range(first, last + 1)] == sorted(some)
    assert all(left[1] + 1 < right[0] for left, right in pairwise(ranges))
    rest = without(ranges, as_ranges(sorted(others)))
    assert [number for first, last in rest for number in range(first, last + 1)] == sorted(some - others)


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_start_at_one(number: int) -> None:
    assert not NumberSet().add(number)


def test_a_tenth_of_a_second_is_one() -> None:
    assert [in_ns(seconds) for seconds in (0, 0.1, 1.5, 2, 1.1)] == [0, 100 * MS, 1_500 * MS, 2 * SECOND, 1_100 * MS]
    ends = [end_ns(MS + wait_ns, wait_ns) for wait_ns in (0, SECOND - 1, SECOND, 2 * SECOND - MS)]
    assert ends == [MS, SECOND + MS - 1, 1_000 * MS, 2 * SECOND]


# Invalid settings are refused by name, when they are made.


@dataclass
class Settings:
    count: int = 1
    limit: int | None = None
    name: str = "x"
    share: float = 0.5
    wait_s: float | None = 1.5


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(limit=1), Settings(wait_s=None), Settings(count=10**12, name="", share=-1.0)]
)
def test_what_can_be_passes(settings: Settings) -> None:
    before = replace(settings)
    check_settings(settings)
    assert settings == before


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Settings(count=0), "count must be a whole number of at least 1, not 0$"),
        (Settings(count=-1), "count .* not -1"),
        (Settings(limit=0), "limit .* not 0"),
        (Settings(count=1.5), "count .* not 1.5"),  # type: ignore[arg-type]
        (Settings(count=True), "count .* not True"),
        (Settings(count=None), "count .* not None"),  # type: ignore[arg-type]
        (Settings(wait_s=0), "wait_s must be a number of seconds above 0, not 0"),
        (Settings(wait_s=1e-10), "wait_s .* not 1e-10"),
        (Settings(wait_s=float("inf")), "wait_s .* not inf"),
        (Settings(wait_s=1e300), "wait_s .* not 1e\\+300"),
        (Settings(wait_s=True), "wait_s .* not True"),
    ],
)
def test_what_cannot_be_is_named(settings: Settings, named: str) -> None:
    with pytest.raises(UsageError, match=f"^Settings: {named}"):
        check_settings(settings)


def test_zero_may_have_a_meaning() -> None:
    check_settings(Settings(count=0, wait_s=0), may_be_zero=("count", "wait_s"))
    with pytest.raises(UsageError, match="at least 0, not -1"):
        check_settings(Settings(count=-1), may_be_zero=("count",))


@pytest.mark.parametrize(("size", "fits"), [(576, True), (65_535, True), (575, False), (65_536, False), (-1, False)])
def test_a_datagram_has_a_size_that_networks_carry(size: int, fits: bool) -> None:
    wrong = f"max_datagram_bytes must be 576 to 65535, not {size}"
    with nullcontext() if fits else pytest.raises(UsageError, match=wrong):
        check_datagram("max_datagram_bytes", size)


@pytest.mark.parametrize(("value", "most", "wanted"), [(30, 1, "between 0 and 1"), (float("nan"), inf, "at least 0")])
def test_a_number_beyond_its_limits_is_refused(value: float, most: float, wanted: str) -> None:
    check_between("loss", 0, 0, most)
    for wrong in (value, "1", None, True):
        with pytest.raises(UsageError, match=f"^loss must be {wanted}, not {wrong!r}$"):
            check_between("loss", wrong, 0, most)


@pytest.mark.parametrize("most", [0, -1, True, 1.0, "1", None])
def test_what_is_no_number_of_messages_is_refused(most: object) -> None:
    check_most("q", 1)
    check_most("q", 10**9)
    with pytest.raises(UsageError, match=r"^receive from q: .* whole number above 0, not "):
        check_most("q", most)


@dataclass
class Whole:
    part: Settings = field(default_factory=Settings)
    parts: Mapping[str, Settings] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Whole(part=5), "part must be a Settings, not 5"),  # type: ignore[arg-type]
        (Whole(part=None), "part must be a Settings, not None"),  # type: ignore[arg-type]
        (Whole(parts=[Settings()]), "parts must be a Mapping, not "),  # type: ignore[arg-type]
    ],
)
def test_settings_in_the_wrong_place_are_named(settings: Whole, named: str) -> None:
    check_settings(Whole(parts={"a": Settings()}))
    with pytest.raises(UsageError, match=f"^Whole: {named}"):
        check_settings(settings)


def test_what_is_of_another_class_is_refused() -> None:
    check_kind("x", 5, int | None)
    with pytest.raises(UsageError, match=r"^x must be an int, not '5'$"):
        check_kind("x", "5", int | None)


def test_a_text_is_no_list_of_texts() -> None:
    """Letter by letter it would be one, of names that nobody means."""
    listed: list[Iterable[str]] = [[], ("orders", "in-*"), iter(["orders"]), {"orders"}, {"orders": 1}]
    assert [check_texts("send", texts) for texts in listed] == [[], ["orders", "in-*"], *3 * [["orders"]]]
    for wrong in ("orders", "", b"orders", 5, None, ["orders", 5]):
        with pytest.raises(UsageError, match=r"^send must be a list of texts, not "):
            check_texts("send", wrong)


class Door(Enum):
    OPEN = 0
    SHUT = 1


class Push(Enum):
    PUSHED = 0
    PULLED = 1


TABLE = {Door.OPEN: {Push.PULLED: Door.SHUT}, Door.SHUT: {Push.PUSHED: Door.OPEN, Push.PULLED: Door.SHUT}}


def test_what_the_table_does_not_have_is_an_error_with_both_names() -> None:
    assert next_state(TABLE, Door.OPEN, Push.PULLED) is next_state(TABLE, Door.SHUT, Push.PULLED) is Door.SHUT
    with pytest.raises(IllegalTransition, match="Door OPEN: PUSHED cannot happen") as caught:
        next_state(TABLE, Door.OPEN, Push.PUSHED)
    assert isinstance(caught.value, TriackError)
