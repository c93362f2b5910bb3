"""``kill -9`` again and again: what was committed stays, and everything is passed on once, in order."""

from pathlib import Path

import pytest

from proof.real.kills import kill_loop

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
