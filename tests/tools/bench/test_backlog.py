"""T12 with few messages: they wait on the disk, outlive the process, and arrive in order."""

from pathlib import Path

import pytest

from tests.tools.bench.measuring import measured

pytestmark = pytest.mark.slow


async def test_a_backlog_waits_and_arrives(tmp_path: Path) -> None:
    result = await measured("T12", tmp_path, 3_000)
    assert result.verified, result.notes
    assert result.guarantee[0] == "every message once, in order"
    assert result.details["messages"] == 3_000
    assert result.figures["drained"].values[0] > 0
    assert result.notes == ["3,000 messages; the row asks for 1,000,000 (--messages 1000000), which take minutes"]
