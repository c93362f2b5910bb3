"""``spark.read.format("triack")``."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


@pytest.mark.parametrize("by_format", [False, True])
def test_a_frame_that_is_used_twice_has_the_rows_of_each_use(
    spark: "SparkSession", logs: Path, by_format: bool
) -> None:
    """In a union, in a join with itself and in a query within one; also where the session pushes filters down."""
    from pyspark.sql import functions as f

    from triack import replay

    replay.register(spark)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        plain = spark.read.format("triack").load(logs.as_uri()) if by_format else replay.load(spark, str(logs))
        for frame in (plain, cached := replay.load(spark, str(logs)).cache()):
            frame.createOrReplaceTempView("plain" if frame is plain else "cached")
        events = ("queued", "committed", "handed")
        ends = "s.event = 'packet_sent' and r.event = 'packet_received'"
        queries = (
            " union all ".join(
                f"select event, count(*) from it where event = '{name}' group by event" for name in events
            ),
            f"select s.n, r.n from it s join it r using (session, packet) where {ends}",
            "select n from it where event = 'committed' and origin in (select node from it where event = 'queued')",
            f"select event, count(*) from it where node = '{ALPHA}' and line > 3 group by event",
        )
        for query in queries:
            rows = [sorted(spark.sql(query.replace(" it", f" {name}")).collect()) for name in ("plain", "cached")]
            assert rows[0] == rows[1] != [], query
        assert plain.where(f.col("event") == "queued").count() < plain.count() == cached.count()
        cached.unpersist()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


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


def test_an_error_is_one_sentence(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of load always, also when the workers have no Triack; of Spark's own calls where the trace is hidden."""
    from triack import replay
    from triack.base.errors import ReplayError

    healthy().save(tmp_path)
    damaged = tmp_path / "alpha/alpha-000001-000001.jsonl"
    damaged.write_text(damaged.read_text() + "{broken\n")
    hidden = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"
    spark.conf.set(hidden, "true")
    try:
        with pytest.raises(Exception, match=r"alpha-000001-000001\.jsonl line \d+ is damaged") as raised:
            replay.load(spark, str(tmp_path)).count()
    finally:
        spark.conf.unset(hidden)
    assert "Traceback" not in str(raised.value)
    with pytest.raises(ReplayError) as told:
        replay.verdict(replay.load(spark, str(tmp_path)))
    assert str(told.value).startswith(f"{damaged} line ")
    with pytest.raises(ReplayError) as told:
        replay.write(spark, [str(tmp_path)], str(tmp_path.with_name("tables")))
    assert str(told.value).startswith(f"{damaged} line ")
    # Whatever a worker says when Spark asks it for its source.
    trace = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'triack'\n"
    monkeypatch.setattr("pyspark.sql.DataFrameReader.load", failing(trace))
    with pytest.raises(
        ReplayError, match=r"^a worker in Python: ModuleNotFoundError: No module named 'triack'; PYSPARK"
    ):
        replay.load(spark, str(tmp_path / "beta"))


def failing(said: str) -> Any:
    from pyspark.errors import PySparkException

    def load(self: object, *args: object) -> None:
        raise PySparkException(said)

    return load
