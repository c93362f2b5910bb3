"""A log that is made longer is that of a run that took longer."""

from pathlib import Path

import pytest

from triack.tools.bench import splicing
from triack.tools.bench.run import run_once
from triack.tools.bench.splicing import lengthen
from triack.tools.bench.systems.catalogue import SYSTEMS
from triack.tools.bench.work import Work
from triack.tools.replay.log.files import find_logs, read_records
from triack.tools.replay.run import replay

pytestmark = pytest.mark.slow


async def test_what_happened_is_repeated_with_other_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session of five times as many messages, in as many segments as a node would write."""
    await run_once(SYSTEMS["triack"], Work(messages=1_000), tmp_path, {}, lambda _progress: None)
    monkeypatch.setattr(splicing, "BLOCK_RECORDS", 16)
    monkeypatch.setattr("triack.base.log_lines.SEGMENT_BYTES", 4_096)
    lengthen(tmp_path / "logs", tmp_path / "long", 5)
    short, long = (replay([tmp_path / name], engine="local") for name in ("logs", "long"))
    assert (long.verdict, long.violations, long.delivered, long.nodes) == ("pass", {}, 5_000, 2)
    assert long.records > 4 * short.records
    logs = find_logs([tmp_path / "long"])
    assert len(logs) > 4
    opened = [it["session"] for log in logs for it in read_records(log) if it["event"] == "session_opened"]
    assert len(opened) == 2
    assert len(set(opened)) == 1
