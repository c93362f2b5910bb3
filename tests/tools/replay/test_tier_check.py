"""The resend tiers, by the settings in force and the clock."""

import pytest

from tests.tools.replay.judging import assert_found, breaking

CHECKS = ("resend_tiers",)


@pytest.mark.parametrize("name", breaking(*CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)
