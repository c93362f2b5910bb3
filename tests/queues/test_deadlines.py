"""Deadlines: the earliest is seen at once, what was moved or removed does not come back, and nothing piles up."""

from heapq import heapify

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.queues import deadlines
from triack.queues.deadlines import STALE_MIN, Deadlines


def made(*items: tuple[str, int]) -> Deadlines[str]:
    found = Deadlines[str]()
    for key, at_ns in items:
        found.set(key, at_ns)
    return found


def test_the_earliest_is_seen_and_polled_first() -> None:
    """Later deadlines stay."""
    found = made(("c", 30), ("a", 10), ("b", 20))
    assert (len(found), found.earliest()) == (3, 10)
    assert found.poll_due(9) == []
    assert found.poll_due(20) == ["a", "b"]
    assert (len(found), found.earliest()) == (1, 30)
    assert found.poll_due(29) == []


def test_ties_go_by_the_order_of_setting() -> None:
    """Also when keys cannot be compared; one that is set to what it says already keeps its place."""
    keys = [object() for _ in range(5)]
    found = Deadlines[object]()
    for key in keys:
        found.set(key, 7)
    found.set(keys[0], 7)
    found.set(keys[1], 8)
    found.set(keys[1], 7)
    assert found.poll_due(7) == [keys[0], *keys[2:], keys[1]]


@pytest.mark.parametrize("at_ns", [5, 50])
def test_a_deadline_moves_either_way(at_ns: int) -> None:
    """Each comes once, when it is due now."""
    found = made(("a", 10), ("b", 20))
    found.set("a", at_ns)
    assert found.earliest() == min(at_ns, 20)
    assert found.poll_due(100) == (["a", "b"] if at_ns < 20 else ["b", "a"])
    assert found.poll_due(100) == []


def test_what_was_removed_never_comes() -> None:
    """Removing what has none is nothing; it can be set again, to the same."""
    found = made(("a", 10))
    found.set("a", None)
    found.set("b", None)
    assert (len(found), found.earliest(), found.poll_due(100)) == (0, None, [])
    found.set("a", 10)
    assert found.poll_due(10) == ["a"]


def test_moving_without_end_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session moves its deadline with every packet: stale entries are bounded, and seldom cleared away."""
    cleared: list[int] = []

    def clear(heap: list[tuple[int, int, str]]) -> None:
        cleared.append(len(heap))
        heapify(heap)

    monkeypatch.setattr(deadlines, "heapify", clear)
    found = made(("still", 10**9))
    for at_ns in range(10_000, 0, -1):
        found.set("moved", at_ns)
        assert len(found.heap) <= STALE_MIN + 2 * 2 + 1
    assert cleared
    assert set(cleared) == {2}
    assert len(cleared) <= 10_000 // STALE_MIN
    assert (found.earliest(), found.poll_due(10**9)) == (1, ["moved", "still"])


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 30) | st.just(-1)), max_size=200))
def test_it_does_what_a_table_would_do(steps: list[tuple[str, int | None]]) -> None:
    """-1 polls what is due at 15."""
    found, table = Deadlines[str](), dict[str, int]()
    for key, at_ns in steps:
        if at_ns == -1:
            due = found.poll_due(15)
            assert sorted(due) == sorted(name for name, due_ns in table.items() if due_ns <= 15)
            times = [table.pop(name) for name in due]
            assert times == sorted(times)
        else:
            found.set(key, at_ns)
            table.pop(key, None)
            table |= {key: at_ns} if at_ns is not None else {}
        assert found.earliest() == min(table.values(), default=None)
        assert len(found) == len(table)
