"""Spark is set up for one machine, or as somebody has set it up."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from triack.tools.replay.spark_session import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_without_a_word_it_is_this_machine() -> None:
    settings = settings_for(None, {})
    assert (settings["spark.master"], settings["spark.driver.memory"]) == ("local[*]", "2g")


def test_a_cluster_has_the_memory_that_it_has() -> None:
    settings = settings_for("spark://host:7077", {})
    assert settings["spark.master"] == "spark://host:7077"
    assert "spark.driver.memory" not in settings


def test_what_spark_submit_or_the_environment_says_holds() -> None:
    """All of it; a master that is asked for is the one exception."""
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        assert settings_for(None, {name: "some"}) == {}
        assert settings_for("local[1]", {name: "some"}) == {"spark.master": "local[1]"}


@pytest.mark.spark
@pytest.mark.slow
def test_segments_travel_one_by_one_and_few_to_a_task(spark: "SparkSession", tmp_path: Path) -> None:
    """Copies of many would be the largest thing that a replay has in memory, and tasks of many end far apart."""
    from triack.tools.replay.spark_files import find_files

    for number in range(12):
        (tmp_path / f"{number}.jsonl").write_bytes(bytes(2 << 20))

    def sizes(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"task": [context.partitionId()], "segments": [batch.num_rows]})

    as_opened = spark.newSession()
    rows = find_files(as_opened, [str(tmp_path)]).mapInArrow(sizes, "task bigint, segments bigint").collect()
    assert [row["segments"] for row in rows] == [1] * 12
    tasks = [row["task"] for row in rows]
    assert max(map(tasks.count, tasks)) <= 4
