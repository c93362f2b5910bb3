"""The proof of the replay window finds nothing, and would."""

import pytest

from proof.window import compare
from triack.transport import replay_window
from triack.transport.replay_window import WINDOW, ReplayWindow


@pytest.mark.slow
def test_window_and_oracle_agree_on_a_million_counters() -> None:
    """``make window`` shows them ten million."""
    found = compare(1_000_000)
    assert found.violations == 0
    assert 400_000 < found.taken < 900_000


def forget_nothing(window: ReplayWindow, counter: int, skipped: int) -> None:
    """Slots keep what was in them a window ago."""


@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW + 2])
def test_a_window_of_another_length_is_found(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too short by one, and too long by two: the slot of one too many is that of the newest, which is taken."""
    monkeypatch.setattr(replay_window, "WINDOW", length)
    assert compare(100_000).violations > 0


def test_slots_that_are_not_emptied_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters that never came would be refused."""
    monkeypatch.setattr(ReplayWindow, "_forget", forget_nothing)
    assert compare(100_000).violations > 0
