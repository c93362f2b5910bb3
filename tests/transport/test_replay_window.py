"""No counter is taken twice, and none of the last 8,192 is refused unless it has come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.transport.replay_window import WINDOW, ReplayWindow


def taken(*counters: int) -> ReplayWindow:
    window = ReplayWindow()
    for counter in counters:
        assert not window.has(counter)
        window.take(counter)
    return window


def test_it_is_as_long_as_promised() -> None:
    """8,192 counters up to the newest can be told apart; before that, everything counts as seen."""
    window = taken(0, WINDOW)
    assert WINDOW == 8_192
    assert window.has(0)
    assert not any(window.has(counter) for counter in range(1, WINDOW))
    assert window.has(WINDOW)
    assert not window.has(WINDOW + 1)
    window.take(1)
    assert window.has(1)
    assert window.newest == WINDOW


@pytest.mark.parametrize("start", [0, 1, WINDOW - 1, WINDOW, 5 * WINDOW + 17, 2**63])
@pytest.mark.parametrize("jump", [1, 2, 100, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW, 2**40])
def test_what_a_jump_skips_may_still_come(start: int, jump: int) -> None:
    """Wherever it begins and ends, also across the place where the slots begin again."""
    full = range(max(0, start - WINDOW + 1), start + 1)
    window = taken(*full)
    window.take(start + jump)
    for counter in range(max(0, start + jump - WINDOW + 1), start + jump):
        assert window.has(counter) == (counter in full)
    assert window.has(start + jump - WINDOW)


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=60))
def test_it_agrees_with_a_set(counters: list[int]) -> None:
    """In any order of arrival."""
    window, seen = ReplayWindow(), set[int]()
    for counter in counters:
        too_old = bool(seen) and max(seen) - counter >= WINDOW
        assert window.has(counter) == (counter in seen or too_old)
        if not window.has(counter):
            window.take(counter)
            seen.add(counter)
