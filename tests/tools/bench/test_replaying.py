"""T11: copies of logs are logs of other nodes, and are judged like those."""

from pathlib import Path

import pytest

from tests.tools.bench.measuring import measured
from triack.base.errors import ReplayError
from triack.tools.bench import replaying
from triack.tools.bench.replaying import copy_logs
from triack.tools.bench.run import run_once
from triack.tools.bench.systems.catalogue import SYSTEMS
from triack.tools.bench.work import Work
from triack.tools.replay.run import replay


@pytest.mark.slow
async def test_a_copy_is_another_pair_of_nodes(tmp_path: Path) -> None:
    await run_once(SYSTEMS["triack"], Work(messages=1_000), tmp_path, {}, lambda _progress: None)
    copy_logs(tmp_path / "logs", tmp_path / "copy", 1)
    alone = replay([tmp_path / "logs"], engine="local")
    both = replay([tmp_path / "logs", tmp_path / "copy"], engine="local")
    assert (alone.verdict, both.verdict) == ("pass", "pass")
    assert (both.records, both.nodes) == (2 * alone.records, 4)
    assert both.delivered == 2 * alone.delivered == 2_000


async def test_without_spark_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ReplayError("replay on Spark needs PySpark")

    monkeypatch.setattr(replaying, "require_spark", fail)
    result = await measured("T11", tmp_path, 10)
    assert (result.notes, result.headline.values) == (["not run: replay on Spark needs PySpark"], [])


@pytest.mark.slow
@pytest.mark.spark
async def test_few_and_many_are_replayed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    result = await measured("T11", tmp_path, 500)
    assert result.verified, result.notes
    assert result.figures["clean"].values[0] > 0
    assert result.details["clean records"] > 0
