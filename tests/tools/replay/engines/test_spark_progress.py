"""Spark reports its progress while it works."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.machine import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_tasks_of_a_step_are_reported(spark: "SparkSession", tmp_path: Path) -> None:
    """The task waits until somebody has heard of it."""
    from triack.tools.replay.engines.spark_progress import telling

    heard = tmp_path / "heard"

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        until_s = time.monotonic() + PATIENCE_S
        while not heard.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        yield from batches

    with telling(spark, heard.write_text):  # type: ignore[arg-type]
        spark.range(1).repartition(1).mapInArrow(wait, "id bigint").collect()
    assert "of its 1 tasks done" in heard.read_text()
