"""A large store after an unclean end."""

from pathlib import Path

import pytest

from proof.real.restart import restart


@pytest.mark.slow
def test_a_large_store_whose_recovery_is_killed_again_and_again(tmp_path: Path) -> None:
    """It is ready soon, and has everything that was committed."""
    found = restart(tmp_path, messages=50_000, size_bytes=100, kill_after_s=0.003)
    assert found.violations == []
    assert found.messages >= 50_000
    assert found.nested >= 1
    assert found.ready_seconds < 30
