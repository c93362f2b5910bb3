"""When session acks leave."""

import pytest

from tests.tools.replay.judging import assert_found, breaking


@pytest.mark.parametrize("name", breaking("half_window", "idle_delay", "at_once", "claims"))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)
