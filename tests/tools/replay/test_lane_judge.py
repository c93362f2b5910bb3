"""What a lane promises over all its nodes."""

import pytest

from tests.tools.replay.judging import assert_found, breaking

CHECKS = (
    "each",
    "broken",
    "promise",
    "is",
    "found.:lost",
    "queue",
    "gaps",
    "previous",
    "claims",
    "duplicates_delivered",
    "store_ack_before_commit",
)


@pytest.mark.parametrize("name", breaking(*CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)
