"""Effects are counted, and a process ends before the one that was planned."""

import pytest

from triack.tools.sim.effects import Effects


@pytest.mark.parametrize("left", [0, 1, 5])
def test_a_process_ends_after_a_number_of_effects(left: int) -> None:
    """That many still happen; the next one is counted, and is the end."""
    effects = Effects()
    assert not effects.end_process()
    effects.left = left
    ends = [effects.end_process() for _ in range(left + 1)]
    assert ends == [False] * left + [True]
    assert effects.count == left + 2


def test_a_planned_end_comes_once() -> None:
    """The next process of the machine is not the one that it was planned for."""
    effects = Effects()
    effects.left = 1
    assert [effects.end_process() for _ in range(5)] == [False, True, False, False, False]


def test_nothing_ends_that_was_not_planned() -> None:
    """However many effects there are."""
    effects = Effects()
    assert not any(effects.end_process() for _ in range(1_000))
    assert effects.count == 1_000
