"""T9 with few sessions: all of them open, before and after."""

from pathlib import Path

import pytest

from tests.tools.bench.measuring import measured

pytestmark = pytest.mark.slow


async def test_every_session_is_open_and_stays_so(tmp_path: Path) -> None:
    result = await measured("T9", tmp_path, 20, seconds=0.5)
    assert result.verified, result.notes
    assert (result.details["receiver_sessions"], result.details["receiver_still"]) == (20, 20)
    assert result.notes == ["20 sessions; the row asks for 10,000"]
    assert result.figures["processor"].values[0] >= 0
