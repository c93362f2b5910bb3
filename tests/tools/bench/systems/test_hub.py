"""T13 with few messages: they pass a third process, once and in order, and a direct run is beside it."""

from pathlib import Path

import pytest

from tests.tools.bench.measuring import measured

pytestmark = pytest.mark.slow


async def test_messages_pass_a_relay(tmp_path: Path) -> None:
    result = await measured("T13", tmp_path, 2_000)
    assert result.verified, result.notes
    assert result.guarantee[:2] == ["every message once, in order", "synced at both ends"]
    assert result.figures["of direct"].values[0] > 0
