"""What a sending node promises of a stream."""

import pytest

from tests.tools.replay.judging import assert_found, breaking

CHECKS = (
    "each",
    "broken",
    "promise",
    "is",
    "found.:forgotten",
    "close_without_full_resend",
)


@pytest.mark.parametrize("name", breaking(*CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)
