"""When a session with nothing to do ends."""

import pytest

from tests.tools.replay.judging import assert_found, breaking


@pytest.mark.parametrize("name", breaking("idle_close", "idle_open"))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)
