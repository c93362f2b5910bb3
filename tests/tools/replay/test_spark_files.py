"""Paths as they are given, as Spark takes them, and as a person reads them."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from triack.base.errors import ReplayError
from triack.tools.replay.files import VIOLATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def test_a_directory_within_another_one_is_read_once(tmp_path: Path) -> None:
    from triack.tools.replay.spark_files import outermost

    (tmp_path / "logs" / "a").mkdir(parents=True)
    (tmp_path / "logs-2").mkdir()
    given = [str(tmp_path / name) for name in ("logs/a", "logs", "logs/../logs", "logs-2")]
    assert sorted(outermost([*given, "s3a://b/logs/a", "s3a://b/logs/"])) == sorted(
        [given[2], given[3], "s3a://b/logs/"],
    )


def test_a_path_without_logs_is_named(tmp_path: Path) -> None:
    from triack.tools.replay.spark_files import require_files

    (tmp_path / "empty").mkdir()
    found = [str(tmp_path / "logs" / "a.jsonl")]
    require_files([str(tmp_path / "logs"), "s3a://bucket/*"], found)
    with pytest.raises(ReplayError, match=r"^no session log .* in .*/empty$"):
        require_files([str(tmp_path / "empty")], found)
    with pytest.raises(ReplayError, match=r"^no session log .* in s3a://bucket/logs$"):
        require_files(["s3a://bucket/logs"], [])


@pytest.mark.spark
@pytest.mark.slow
def test_only_segments_are_found(spark: "SparkSession", tmp_path: Path) -> None:
    """Not what was only just begun, what is something else, and the violations of a report."""
    from triack.tools.replay.spark_files import find_files

    for name, content in {"a.jsonl": "{}", "b.jsonl.open": "", "page.html": "x", VIOLATIONS: "{}"}.items():
        (tmp_path / name).write_text(content)
    assert [Path(row.path).name for row in find_files(spark, [str(tmp_path)]).select("path").collect()] == ["a.jsonl"]


@pytest.mark.spark
@pytest.mark.slow
def test_hundreds_of_directories_have_their_names(spark: "SparkSession", tmp_path: Path) -> None:
    """Each in the way in which it was given."""
    from pyspark.sql import functions as f

    from triack.tools.replay.spark_files import as_given, name_of

    roots = [tmp_path / f"logs-{number:03d}" for number in range(800)]
    for root in roots:
        root.mkdir()
    files = [(name_of(root / "a.jsonl"),) for root in roots[::799]] + [("s3a://bucket/a.jsonl",)]
    named = spark.createDataFrame(files, "path string").select(as_given(f.col("path"), map(str, roots)).alias("path"))
    wanted = {str(roots[0] / "a.jsonl"), str(roots[-1] / "a.jsonl"), "s3a://bucket/a.jsonl"}
    assert {row["path"] for row in named.collect()} == wanted
