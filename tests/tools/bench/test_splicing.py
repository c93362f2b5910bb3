"""A log that is made longer is that of a run that took longer."""

import json
from pathlib import Path

import pytest

from tests.tools.replay.builder import World
from triack.base.units import SECOND
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


def test_a_process_that_stood_still_does_so_in_each_round(tmp_path: Path) -> None:
    world = World()
    world.alpha.start()
    world.beta.start()
    world.open()
    world.deliver("transactional", 4)
    world.beta.stand_still(SECOND)
    world.close()
    (tmp_path / "logs").mkdir()
    for log in world.logs:
        log.write("node_stopped")
    world.number()
    for log in world.logs:
        lines = "".join(json.dumps(record) + "\n" for record in log.records)
        (tmp_path / "logs" / f"{log.name}-000001-000001.jsonl").write_text(lines)
    lengthen(tmp_path / "logs", tmp_path / "long", 3)
    verdict = replay(tmp_path / "long", engine="local")
    assert (verdict.verdict, verdict.violations) == ("pass", {})
