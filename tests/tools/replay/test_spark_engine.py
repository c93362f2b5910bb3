"""The Spark engine: the same judges, so the same verdict, evidence and all, over all worlds at once."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proof.lies.engines import compare
from tests.tools.replay.builder import close_segments
from tests.tools.replay.faults import rename
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.base.errors import ReplayError
from triack.tools.replay.compact import compact
from triack.tools.replay.files import LogFile, find_logs
from triack.tools.replay.local_engine import replay_local
from triack.tools.replay.schema import Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIES = 30
"""`make lies` compares the engines over many more."""
SOME = 6
"""One of so many worlds is enough to have more violations of a check than are taken."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def save_all(directory: Path, each: int = 1) -> list[LogFile]:
    """The logs of all planted worlds, or one of so many, each under ids of its own."""
    for at, name in enumerate((*PLANTED, *HARMLESS)[::each], start=1):
        world = HARMLESS[name]() if name in HARMLESS else plant(name)[0]
        if name in HARMLESS:
            world.number()
        rename(world, f"{at:04x}").save(directory, number=False)
    return find_logs([directory])


@pytest.mark.gate
def test_both_engines_say_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    from triack.tools.replay.spark_engine import replay_spark

    logs = save_all(tmp_path)
    local, judged = replay_local(logs), replay_spark(spark, [str(tmp_path)])
    assert (local.engine, judged.engine) == ("local", "spark")
    judged.engine = "local"
    assert judged.findings == local.findings
    assert judged == local
    assert len(local.violations) > 25


def test_no_lie_divides_the_engines(spark: "SparkSession", tmp_path: Path) -> None:
    """Lies about logs of real nodes, many in one replay: the same verdict, numbers and evidence."""
    compared = compare(spark, LIES, 2, tmp_path)
    assert compared.different == []
    assert compared.violations > LIES / 2


def test_the_driver_takes_the_first_violations_of_each_check(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted all the same, and whoever writes them gets all, in order, one by one."""
    from triack.tools.replay import spark_engine

    local = replay_local(save_all(tmp_path, SOME))
    monkeypatch.setattr(spark_engine, "FIRST_OF_EACH", 2)
    written: list[Violation] = []
    judged = spark_engine.replay_spark(spark, [str(tmp_path)], lambda _, violations: written.extend(violations))
    assert judged.violations == local.violations
    assert max(judged.violations.values()) > 2
    assert judged.findings == [it for check in local.violations for it in of(check, local)[:2]]
    assert written == local.findings
    assert judged.lost == local.lost


def of(check: str, verdict: Verdict) -> list[Violation]:
    return [it for it in verdict.findings if it.check == check]


def test_damage_is_named_by_the_worker_that_met_it(spark: "SparkSession", tmp_path: Path) -> None:
    from triack.tools.replay.spark_engine import replay_spark

    HARMLESS["healthy"]().save(tmp_path)
    (file,) = tmp_path.glob("alpha/*-000001-000001.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:2], '{"v": 1, "ev\n', *lines[3:]]))
    with pytest.raises(ReplayError, match=r"alpha-000001-000001\.jsonl line 3 is damaged"):
        replay_spark(spark, [str(tmp_path)])


def test_a_packed_segment_is_named_by_the_worker_that_met_it(spark: "SparkSession", tmp_path: Path) -> None:
    from triack.tools.replay.spark_engine import replay_spark

    HARMLESS["healthy"]().save(tmp_path)
    (tmp_path / "alpha" / "alpha-000001-000002.jsonl.gz").write_bytes(b"packed")
    with pytest.raises(ReplayError, match=r"alpha-000001-000002\.jsonl\.gz is packed: unpack it"):
        replay_spark(spark, [str(tmp_path)])


def test_logs_and_what_was_made_of_them_are_not_judged_together(spark: "SparkSession", tmp_path: Path) -> None:
    from triack.tools.replay.spark_engine import replay_spark

    HARMLESS["healthy"]().save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "logs-compact")
    with pytest.raises(ReplayError, match="begin with the same record: give only one of them"):
        replay_spark(spark, [str(tmp_path)])


def test_segments_that_are_renamed_before_a_task_reads_them_are_looked_for_again(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So often as is worth it; what was not there at all is said."""
    from triack.tools.replay import spark_engine
    from triack.tools.replay.spark_files import find_files

    def finding(spark: "SparkSession", paths: list[str]) -> "DataFrame":
        found = find_files(spark, paths)
        close_segments(tmp_path)
        return found

    monkeypatch.setattr(spark_engine, "find_files", finding)
    HARMLESS["healthy"]().save(tmp_path)
    logs = find_logs([tmp_path])
    judged, local = spark_engine.replay_spark(spark, [str(tmp_path)]), replay_local(logs)
    assert (judged.verdict, judged.records) == ("pass", local.records)
    HARMLESS["healthy"]().save(tmp_path / "more")
    monkeypatch.setattr(spark_engine, "FINDS_MAX", 1)
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST.*\.jsonl\.open"):
        spark_engine.replay_spark(spark, [str(tmp_path / "more")])
