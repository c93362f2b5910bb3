"""What both ends of a session have in force."""

import pytest

from tests.tools.replay.judging import assert_found, breaking

CHECKS = ("policy",)


@pytest.mark.parametrize("name", breaking(*CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)
