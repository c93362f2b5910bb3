"""``spark.read.format("triack")``."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import ALPHA, close_segments, healthy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_it_reads_what_load_reads(spark: "SparkSession", records: "DataFrame", logs: Path) -> None:
    """A path may have a scheme; one of this machine needs none."""
    from triack import replay

    replay.register(spark)
    found = spark.read.format("triack").load(logs.as_uri())
    assert found.columns == records.columns
    assert found.exceptAll(records).isEmpty()
    assert found.count() == records.count()


def test_several_paths_and_patterns_are_read_and_an_empty_path_is_none(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory, which has logs too, is not what was asked for."""
    from triack import replay

    healthy().save(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    replay.register(spark)
    read = spark.read.format("triack")
    whole = read.load(str(tmp_path / "one")).count()
    assert read.load([f"{tmp_path}/one/alpha", f"{tmp_path}/one/beta"]).count() == whole
    assert read.load(f"{tmp_path}/one/*/*-00000?-*").count() == whole
    assert replay.load(spark, f"{tmp_path}/o*").count() == whole
    for paths in ([], [""], ["one", ""]):
        with pytest.raises(Exception, match=r"no path was given|an empty path names no logs"):
            read.load(paths).count()


def test_filters_are_tested_where_the_logs_are_read(spark: "SparkSession", logs: Path, records: "DataFrame") -> None:
    from triack import replay

    found = replay.load(spark, str(logs))
    first = records.where(f"node = '{ALPHA}'").agg({"wall_ns": "min"}).collect()[0][0]
    for where in (
        f"node = '{ALPHA}'",
        "event in ('packet_sent', 'committed') and session is null",
        f"wall_ns < {first + 5_000_000} and node = '{ALPHA}'",
        "session = '0000000000000001' and packet >= 2",
        "line > 3 and event like 'packet%'",
    ):
        assert found.where(where).exceptAll(records.where(where)).isEmpty()
        assert found.where(where).count() == records.where(where).count() > 0 or "is null" in where


def test_what_cannot_pass_a_filter_is_not_read(tmp_path: Path) -> None:
    """Of a segment of another node its first line alone; of one that goes on behind a time, nothing behind that."""
    pytest.importorskip("pyspark")
    from pyspark.sql.datasource import EqualTo, LessThan

    from triack.replay.source import TriackReader

    world = healthy()
    world.save(tmp_path)
    (file,) = tmp_path.glob("beta/*-000001-000001.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:3], "damaged\n", *lines[4:]]))
    early = world.beta.records[1]["wall_ns"] + 1
    for unread in (EqualTo(("node",), ALPHA), LessThan(("wall_ns",), early)):
        reader = TriackReader([str(tmp_path)], ["node", "wall_ns"])
        assert list(reader.pushFilters([unread])) == []
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
        assert rows
        assert all(row["node"] == ALPHA or row["wall_ns"] < early for row in rows)


def test_columns_are_named_and_have_their_types(spark: "SparkSession", logs: Path, records: "DataFrame") -> None:
    from triack import replay
    from triack.base.errors import UsageError

    few = replay.load(spark, str(logs), columns=["event", "line", "node"])
    assert few.columns == ["event", "line", "node"]
    assert few.exceptAll(records.select("event", "line", "node")).isEmpty()
    with pytest.raises(UsageError, match="no column 'evnt'"):
        replay.load(spark, str(logs), columns=["evnt"])
    replay.register(spark)
    for schema, said in (
        ("evnt string", "no column 'evnt'"),
        ("n string", "of session logs is `n` bigint, not `n` string"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format("triack").schema(schema).load(str(logs)).count()


def test_many_files_are_a_few_tasks(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from triack.replay.source import Segments, TriackReader
    from triack.tools.replay.log.listing import Listed

    files = [Listed(f"{at}", 70_000) for at in range(1_000)]
    parts = [it for it in TriackReader([], ["n"], files, tasks=2).partitions() if isinstance(it, Segments)]
    sizes = [sum(size for _, size in part.files) for part in parts]
    assert (len(parts), sum(sizes)) == (4, 70_000_000)
    assert max(sizes) - min(sizes) <= 70_000


def test_what_has_no_log_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from triack.base.errors import ReplayError
    from triack.replay.source import TriackReader

    for path, said in (
        (tmp_path, "no session log"),
        (tmp_path / "nowhere", "no such directory"),
        ("a/*", "is like a/"),
    ):
        with pytest.raises(ReplayError, match=said):
            TriackReader([str(path)], ["n"]).partitions()


def test_a_packed_segment_is_not_missed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from triack.base.errors import ReplayError
    from triack.replay.source import TriackReader

    (tmp_path / "a.jsonl.gz").write_bytes(b"packed")
    with pytest.raises(ReplayError, match=r"a\.jsonl\.gz is packed: unpack it"):
        TriackReader([str(tmp_path)], ["n"]).partitions()


def test_a_segment_may_be_renamed_before_a_task_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from triack.replay.source import TriackReader

    healthy().save(tmp_path)
    reader = TriackReader([str(tmp_path)], ["n"])
    parts = reader.partitions()
    listed = [path for part in parts for path, _ in getattr(part, "files", [])]
    close_segments(tmp_path)
    assert any(path.endswith(".open") for path in listed)
    assert all(next(reader.read(part)).num_rows for part in parts)
