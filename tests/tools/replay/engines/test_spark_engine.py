"""The replay on Spark."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from proof.lies.logs import honest_logs
from tests.machine import PATIENCE_S
from tests.tools.replay.builder import close_segments
from tests.tools.replay.cutting import cut, random_cuts, told, write_segments
from tests.tools.replay.engines.test_prune import ALL, change, having
from tests.tools.replay.faults import rename
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.base.errors import ReplayError
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.engines.prune import prune
from triack.tools.replay.log.compact import compact
from triack.tools.replay.log.files import LogFile, find_logs
from triack.tools.replay.log.listing import Listing
from triack.tools.replay.log.schema import Verdict, Violation
from triack.tools.replay.run import replay

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# The Spark engine: the same judges, so the same verdict, evidence and all, over all worlds at once.

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOME = 6
"""One of every six worlds is enough to have more violations of a check than are taken."""


def save_all(directory: Path, each: int = 1) -> list[LogFile]:
    for at, name in enumerate((*PLANTED, *HARMLESS)[::each], start=1):
        world = HARMLESS[name]() if name in HARMLESS else plant(name)[0]
        if name in HARMLESS:
            world.number()
        rename(world, f"{at:04x}").save(directory, number=False)
    return find_logs([directory])


@pytest.mark.gate
def test_both_engines_say_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    """`make lies` compares the engines over hundreds of lies about logs of real nodes."""
    from triack.tools.replay.engines.spark_engine import replay_spark

    logs = save_all(tmp_path)
    local, judged = replay_local(logs), replay_spark(spark, [str(tmp_path)])
    assert (local.engine, judged.engine) == ("local", "spark")
    judged.engine = "local"
    assert judged.findings == local.findings
    assert judged == local
    assert len(local.violations) > 25


def test_both_engines_go_on_alike_from_summaries(spark: "SparkSession", tmp_path: Path) -> None:
    """Of the pruned logs of several runs, each of nodes of its own; records of two runs are changed after the prune."""
    from triack.tools.replay.engines.spark_engine import replay_spark

    for run, (seed, log) in enumerate(honest_logs(5)):
        folder = tmp_path / str(run)
        before, behind = cut((record for start in log.values() for record in start), random_cuts(log, Random(seed)))
        write_segments([*before, *behind], folder)
        prune(folder, ALL)
        if run < 2:
            change(having(folder, "packet_sent"), "packet_sent", "packet")
    local = replay([tmp_path], engine="local")
    assert (local.verdict, bool(local.findings)) == ("fail", True)
    assert told(replay_spark(spark, [str(tmp_path)])) == told(local)


def test_the_driver_takes_the_first_violations_of_each_check(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted all the same, and a caller that writes them gets all, in order, one by one."""
    from triack.tools.replay.engines import spark_conclusion, spark_engine

    local = replay_local(save_all(tmp_path, SOME))
    monkeypatch.setattr(spark_conclusion, "FIRST_OF_EACH", 2)
    written: list[Violation] = []
    judged = spark_engine.replay_spark(spark, [str(tmp_path)], lambda _, violations: written.extend(violations))
    assert judged.violations == local.violations
    assert max(judged.violations.values()) > 2
    assert judged.findings == [it for check in local.violations for it in of(check, local)[:2]]
    assert written == local.findings
    assert judged.lost == local.lost


def of(check: str, verdict: Verdict) -> list[Violation]:
    return [it for it in verdict.findings if it.check == check]


def test_logs_and_what_was_made_of_them_are_not_judged_together(spark: "SparkSession", tmp_path: Path) -> None:
    from triack.tools.replay.engines.spark_engine import replay_spark

    HARMLESS["healthy"]().save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "logs-compact")
    with pytest.raises(ReplayError, match="begin with the same record: give only one of them"):
        replay_spark(spark, [str(tmp_path)])


def test_segments_that_are_renamed_or_removed_before_a_task_reads_them(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renamed one is read by its new name; one that is gone is named, and no verdict is a pass without it."""
    from triack.tools.replay.engines import spark_engine, spark_files

    tabulate = spark_files.tabulate_files

    def tabulating(spark: "SparkSession", listing: Listing) -> "DataFrame":
        close_segments(tmp_path)
        return tabulate(spark, listing)

    monkeypatch.setattr(spark_engine, "tabulate_files", tabulating)
    HARMLESS["healthy"]().save(tmp_path)
    records = replay_local(find_logs([tmp_path])).records
    judged = spark_engine.replay_spark(spark, [str(tmp_path)])
    assert (judged.verdict, judged.records) == ("pass", records)
    monkeypatch.setattr(spark_engine, "tabulate_files", lambda spark, listing: gone(tabulate(spark, listing), tmp_path))
    judged = spark_engine.replay_spark(spark, [str(tmp_path)])
    assert judged.verdict == "incomplete"
    assert [*judged.unread.values()] == ["cannot be read: No such file or directory"]


def gone(files: "DataFrame", directory: Path) -> "DataFrame":
    next(directory.glob("beta/*-000001-000001.jsonl")).unlink()
    return files


def test_a_file_that_no_worker_tells_of_is_no_pass(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever loses it on the way: what was listed and what was read are compared."""
    from pyspark.sql import functions as f

    from triack.tools.replay.engines import spark_engine, spark_files

    tabulate = spark_files.tabulate_files
    HARMLESS["healthy"]().save(tmp_path)
    (lost,) = tmp_path.glob("beta/*-000001-000001.jsonl")
    monkeypatch.setattr(
        spark_engine,
        "tabulate_files",
        lambda spark, listing: tabulate(spark, listing).where(~(f.col("name") == f.lit(bytes(lost)))),
    )
    assert spark_engine.replay_spark(spark, [str(tmp_path)]).unread == {str(lost): "was not read"}


def test_the_tasks_of_a_step_are_reported(spark: "SparkSession", tmp_path: Path) -> None:
    """The task waits until somebody has heard of it."""
    from triack.tools.replay.engines.spark_session import telling

    heard = tmp_path / "heard"

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        until_s = time.monotonic() + PATIENCE_S
        while not heard.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        yield from batches

    with telling(spark, heard.write_text):  # type: ignore[arg-type]
        spark.range(1).repartition(1).mapInArrow(wait, "id bigint").collect()
    assert "of its 1 tasks done" in heard.read_text()
