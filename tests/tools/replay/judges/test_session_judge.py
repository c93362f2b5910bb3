"""What both ends of a session promise."""

import pytest

from tests.tools.replay.judging import assert_found, breaking

CHECKS = (
    "ack_unsent",
    "ack_unreceived",
    "ack_from_nowhere",
    "ack_taken_back",
    "window",
    "wire",
    "silent_end",
    "ack_timeout",
    "store_ack_unsent",
)


@pytest.mark.parametrize("name", breaking(*CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)
