"""Synchronous links: ages, bounds, and what is awaited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sure import sure
from triack.base.units import MS, SECOND
from triack.ordering import onward
from triack.ordering.onward import Awaited, LinkMode, OnwardSettings, SyncLink

TEN_AND_FIVE = OnwardSettings(10 * SECOND, 5 * SECOND, 0)
SYNC, ASYNC = LinkMode.SYNC, LinkMode.ASYNC


@pytest.mark.parametrize(
    ("mode", "age_ms", "after"),
    [
        (SYNC, 0, SYNC),
        (SYNC, 10_000, SYNC),
        (SYNC, 10_001, ASYNC),
        (ASYNC, 60_000, ASYNC),
        (ASYNC, 10_000, ASYNC),
        (ASYNC, 5_000, ASYNC),
        (ASYNC, 4_900, SYNC),
        (SYNC, 4_900, SYNC),
        (SYNC, 7_000, SYNC),
        (ASYNC, 7_000, ASYNC),
    ],
)
def test_between_the_bounds_a_link_stays_as_it_is(mode: LinkMode, age_ms: int, after: LinkMode) -> None:
    """Age 10 s, upgrade below 5 s: the vectors of AMPS's rule."""
    link = SyncLink(TEN_AND_FIVE, 0)
    link.mode = mode
    assert link.handle_oldest(100 * SECOND - age_ms * MS, 100 * SECOND) is (mode is not after)
    assert link.mode is after


def test_the_deadline_is_the_first_moment_that_is_too_late() -> None:
    """One nanosecond after the age; none while nothing waits, or the link is asynchronous."""
    link = SyncLink(TEN_AND_FIVE, 0)
    deadline_ns = link.deadline_ns(7)
    assert deadline_ns == 10 * SECOND + 8
    assert not link.handle_oldest(7, deadline_ns - 1)
    assert link.handle_oldest(7, deadline_ns)
    assert link.deadline_ns(7) is None
    assert link.handle_oldest(None, deadline_ns)
    assert (link.mode, link.deadline_ns(None)) == (SYNC, None)


def test_no_link_is_downgraded_in_its_grace() -> None:
    """After a start the neighbour may need a while; the deadline is the end of that time."""
    link = SyncLink(OnwardSettings(SECOND, SECOND // 2, 30 * SECOND), 100 * SECOND)
    assert not link.handle_oldest(100 * SECOND, 130 * SECOND - 1)
    assert link.deadline_ns(100 * SECOND) == 130 * SECOND
    assert link.handle_oldest(100 * SECOND, 130 * SECOND)


NUMBERS = st.tuples(st.integers(1, 40), st.integers(0, 10)).map(lambda it: (it[0], it[0] + it[1]))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=12), st.lists(NUMBERS, max_size=8), st.lists(NUMBERS, max_size=4)
)
def test_awaited_is_a_map_of_numbers_to_times(
    lengths: list[int], removed: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    awaited, model, number = Awaited(), dict[int, int](), 1
    for at, length in enumerate(lengths):
        awaited.add(number, number + length - 1, at)
        model |= dict.fromkeys(range(number, number + length), at)
        number += length
    gone = [number for first, last in awaited.remove(removed) for number in range(first, last + 1)]
    assert sorted(gone) == [it for it in model if any(first <= it <= last for first, last in removed)]
    for first, last in removed:
        model = {it: since for it, since in model.items() if not first <= it <= last}
    assert (awaited.packets, awaited.since_ns) == (len(model), min(model.values(), default=None))
    spans: list[tuple[int, int]] = []
    for first, last in sorted(kept):
        if not spans or first > spans[-1][1] + 1:
            spans.append((first, last))
    awaited.keep(spans)
    model = {it: since for it, since in model.items() if any(first <= it <= last for first, last in spans)}
    assert (awaited.packets, awaited.since_ns) == (len(model), min(model.values(), default=None))


def test_times_of_neighbours_are_joined_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one stands for both, so a link is never taken for less behind than it is."""
    monkeypatch.setattr(onward, "MARKS_MAX", 4)
    awaited = Awaited()
    for at in range(1, 40):
        awaited.add(at, at, at)
    awaited.remove([(1, 20)])
    since_ns = sure(awaited.since_ns)
    assert since_ns <= 21
    assert awaited.packets == 19
