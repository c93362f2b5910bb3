"""The proof of the replay window finds nothing, and would."""

import pytest

from proof.window import compare
from triack.transport import replay_window
from triack.transport.replay_window import WINDOW, ReplayWindow


@pytest.mark.slow
def test_window_and_oracle_agree_on_many_counters() -> None:
    """``make window`` shows them ten million."""
    found = compare(200_000)
    assert found.violations == 0
    assert 80_000 < found.taken < 180_000


@pytest.mark.slow
@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW + 1])
def test_a_window_of_another_length_is_found(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too short by one, and too long by one."""
    monkeypatch.setattr(replay_window, "WINDOW", length)
    monkeypatch.setattr(replay_window, "_ALL", (1 << length) - 1)
    assert compare(100_000).violations > 0


@pytest.mark.slow
@pytest.mark.gate
def test_counters_that_are_not_missed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were skipped would be refused."""

    def careless(window: ReplayWindow, counter: int) -> None:
        window.newest = max(window.newest, counter)

    monkeypatch.setattr(ReplayWindow, "take", careless)
    assert compare(100_000).violations > 0
