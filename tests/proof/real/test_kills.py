"""``kill -9`` again and again: what was committed stays, and everything is passed on once, in order."""

from pathlib import Path

import pytest

from proof.real.kills import kill_loop
from proof.real.restart import restart

pytestmark = pytest.mark.slow

KILLS = 20


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_nodes_that_are_killed_while_they_work_and_while_they_start(tmp_path: Path, scheme: str) -> None:
    found = kill_loop(tmp_path, kills=KILLS, seed=1, scheme=scheme)
    assert found.violations == []
    assert found.kills.total() >= KILLS
    assert {key.split()[1] for key in found.kills} == {"working", "starting"}
    assert found.messages > 20 * KILLS
    assert found.records > found.messages / 10


def test_a_large_store_whose_recovery_is_killed_again_and_again(tmp_path: Path) -> None:
    """It is ready soon, and has everything that was committed."""
    found = restart(tmp_path, messages=50_000, size_bytes=100, kill_after_s=0.003)
    assert found.violations == []
    assert found.messages >= 50_000
    assert found.nested >= 1
    assert found.ready_seconds < 30
