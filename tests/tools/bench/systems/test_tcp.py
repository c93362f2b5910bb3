"""A small run of tcp: counted, and in order."""

from pathlib import Path

import pytest

from tests.tools.bench.systems.peers import ran, whole_run
from triack.tools.bench.work import Work

pytestmark = pytest.mark.slow


async def test_a_stream_arrives(tmp_path: Path) -> None:
    """And no more is said of it than what was seen."""
    found = await whole_run("tcp", tmp_path)
    assert found.guarantee == ["every message once, in order"]


@pytest.mark.parametrize("mode", ["paced", "single"])
async def test_other_rows_can_be_compared(tmp_path: Path, mode: str) -> None:
    found = await ran("tcp", tmp_path, Work(messages=50, mode=mode, rate=200))  # type: ignore[arg-type]
    assert (found.delivered, found.flaw) == (50, "")
    assert bool(found.latencies) == (mode == "paced")
