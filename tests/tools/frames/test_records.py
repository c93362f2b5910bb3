"""Records as a table: what is in it is what is in the logs, and the judges say the same of both."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.machine import PATIENCE_S
from tests.tools.frames.test_table_set import rows_of
from tests.tools.replay.builder import ALPHA, close_segments, healthy
from triack.base.errors import ReplayError, UsageError
from triack.base.session_log import COMMON, FIELDS
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs, read_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_row_for_each_record_and_a_column_for_each_field(records: "DataFrame", logs: Path) -> None:
    rows = [row.asDict() for row in records.orderBy("node", "incarnation", "n").collect()]
    assert list(rows[0]) == [*COMMON, *FIELDS, "file", "line"]
    written = [
        {**record, "file": str(log.path), "line": line}
        for log in find_logs([logs])
        for line, record in enumerate(read_records(log), start=1)
    ]
    there = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert there == sorted(written, key=lambda record: (record["node"], record["incarnation"], record["n"]))


def test_the_verdict_is_that_of_the_logs(records: "DataFrame", logs: Path) -> None:
    """Evidence, file and line included."""
    from triack import replay

    judged, local = replay.verdict(records), replay_local(find_logs([logs]))
    assert (judged.engine, judged.verdict) == ("spark", "fail")
    judged.engine = "local"
    assert judged == local


def test_other_tables_and_paths_are_refused(spark: "SparkSession", records: "DataFrame", tmp_path: Path) -> None:
    from triack import replay

    with pytest.raises(UsageError, match=r"lacks ack_at_once, ack_bytes, .*, window$"):
        replay.verdict(spark.range(1))
    with pytest.raises(UsageError, match=r"lacks previous, queue$"):
        replay.verdict(records.drop("queue", "previous"))
    with pytest.raises(ReplayError, match=f"no such directory: {tmp_path}/nowhere$"):
        replay.load(spark, f"{tmp_path}/nowhere")
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(ReplayError, match=r"a\.jsonl is empty, as no complete segment is"):
        replay.load(spark, str(tmp_path))


def test_a_table_that_somebody_has_changed_is_judged_or_refused(spark: "SparkSession", records: "DataFrame") -> None:
    """Two starts may be in one file of it; a record that is none is named with its line."""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    from triack import replay

    line = f.row_number().over(Window.orderBy("node", "incarnation", "n")).cast("bigint")
    together = records.withColumn("line", line).withColumn("file", f.lit("all"))
    judged = replay.verdict(together)
    assert judged.verdict == "fail"
    assert judged.violations == replay.verdict(records).violations
    assert judged.files == {"all": judged.records}
    with pytest.raises(ReplayError, match=r"-00000\d\.jsonl.* line \d+ is damaged: \w+ with the fields"):
        replay.verdict(records.withColumn("queue", f.lit(None).cast("string")))


def test_each_check_of_the_catalogue_is_a_function() -> None:
    pytest.importorskip("pyspark")
    from triack.replay import checks

    assert dir(checks) == sorted(CHECKS)
    assert CHECKS["order"].sentence in (checks.order.__doc__ or "")
    with pytest.raises(AttributeError, match="no check 'older'"):
        checks.older  # noqa: B018


def test_a_check_finds_what_breaks_it_and_nothing_else(records: "DataFrame") -> None:
    from triack.replay import checks

    (found,) = checks.order_ack_before_commit(records).collect()
    assert found.evidence == "order ack up to 4, committed up to 0"
    assert (found.check, found.number, "/[a]/beta/beta-000001-00000" in found.file) == (
        "order_ack_before_commit", 4, True,
    )  # fmt: skip


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
    """A packed segment is not missed."""
    pytest.importorskip("pyspark")
    from triack.replay.source import TriackReader

    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "a.jsonl.gz").write_bytes(b"packed")
    (tmp_path / "none").mkdir()
    for path, said in (
        (tmp_path / "none", "no session log"), (tmp_path / "nowhere", "no such directory"), ("a/*", "is like a/"),
        (tmp_path / "packed", r"a\.jsonl\.gz is packed: unpack it"),
    ):  # fmt: skip
        with pytest.raises(ReplayError, match=said):
            TriackReader([str(path)], ["n"]).partitions()


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


def test_workers_without_triack_are_named_before_a_frame_is_used(logs: Path, tmp_path: Path) -> None:
    """A session that the user has opened starts whatever Python it finds: here one without installed packages."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o700)
    program = (
        "import sys; from pyspark.sql import SparkSession; from triack import replay\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.log.level', 'OFF').getOrCreate()\n"
        "try: replay.load(spark, sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    environ = {**os.environ, "PYSPARK_PYTHON": str(bare)}
    command = [sys.executable, "-c", program, str(logs)]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert said.startswith("ReplayError a worker in Python: ModuleNotFoundError: No module named 'triack'; PYSPARK")


def failing(said: str) -> Any:
    from pyspark.errors import PySparkException

    def load(self: object, *args: object) -> None:
        raise PySparkException(said)

    return load


# Tables that grow with their logs: each record once, wherever the job was killed.


FACTS = ("packets", "acks", "commits", "deliveries", "resends", "starts", "openings")
KILLS = 3 if "TRIACK_LONG_TESTS" in os.environ else 1
"""Each is one more start of Spark."""
EVERY = ("--every", "0.2")


class Growing:
    """Logs that get line by line what whole ones have; each last segment is complete in the end."""

    def __init__(self, whole: Path, logs: Path) -> None:
        self.logs = logs
        self._parts = [
            (logs / file.relative_to(whole), file.read_bytes().splitlines(keepends=True))
            for file in sorted(whole.rglob("*.jsonl*"))
        ]
        self.lines = sum(len(lines) for _, lines in self._parts)

    def grow(self, until: int) -> None:
        """Have the first lines of each segment, and half of the next line."""
        for path, lines in self._parts:
            torn = lines[until][: len(lines[until]) // 2] if until < len(lines) else b""
            self._extend(path, b"".join(lines[:until]) + torn)

    def finish(self) -> None:
        for path, lines in self._parts:
            self._extend(path, b"".join(lines))
            if path.suffix == ".open":
                path.rename(path.with_suffix(""))

    def _extend(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(content[file.tell() :])


def assert_same(spark: "SparkSession", out: Path, logs: Path) -> None:
    """The tables are those of the logs as they are: no record is missing, and none is there twice."""
    from triack import replay

    kept, fresh = replay.read_tables(spark, str(out)), replay.tables(replay.load(spark, str(logs)).cache())
    for name in (*FACTS, "nodes"):
        assert [row.replace(".open'", "'") for row in rows_of(kept[name])] == rows_of(fresh[name]), name


def started(logs: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "triack", "log", "tables", str(logs), "--out", str(out), "--follow", *EVERY]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_a_job_that_is_killed_takes_each_record_once(spark: "SparkSession", tmp_path: Path) -> None:
    """Killed with all of its processes in the midst of batches, while the logs go on growing."""
    healthy().save(tmp_path / "whole")
    growing, out = Growing(tmp_path / "whole", tmp_path / "logs"), tmp_path / "out"
    lines = 2
    growing.grow(lines)
    for _ in range(KILLS):
        job = started(growing.logs, out)
        assert job.stdout is not None
        try:
            assert job.stdout.readline().startswith("batch ")
            lines += 20
            growing.grow(lines)
            # The next batch writes by now, or has begun to.
            wait_for_more(out)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            job.stdout.close()
    growing.finish()
    job = started(growing.logs, out)
    assert job.stdout is not None
    assert job.stdout.readline().startswith("batch ")
    os.kill(job.pid, signal.SIGINT)
    assert "violations in all" in job.communicate(timeout=PATIENCE_S)[0]
    assert job.returncode == 0
    assert_same(spark, out, growing.logs)


def wait_for_more(out: Path) -> None:
    """Wait until something more is written."""
    known, end_s = len(list(out.rglob("*.parquet"))), time.monotonic() + PATIENCE_S
    while len(list(out.rglob("*.parquet"))) <= known:
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_tables_are_there_while_their_logs_grow(spark: "SparkSession", tmp_path: Path) -> None:
    """From Python: each batch is reported, and what is made of facts is computed when it is used."""
    from triack import replay

    healthy().save(tmp_path / "whole")
    growing, out, stop, seen = Growing(tmp_path / "whole", tmp_path / "logs"), str(tmp_path / "out"), Event(), []
    growing.logs.mkdir()
    growing.grow(5)
    news = Event()

    def tell(added: object) -> None:
        seen.append(added)
        news.set()

    done: list[replay.Tables | object] = []
    thread = Thread(
        target=lambda: done.append(replay.follow(spark, [str(growing.logs)], out, every_s=0.2, stop=stop, tell=tell))
    )
    thread.start()
    assert news.wait(PATIENCE_S)
    tables = replay.read_tables(spark, out)
    assert tables.packets.count() == replay.tables(replay.load(spark, str(growing.logs))).packets.count()
    assert tables.nodes.count() > 0
    assert "violations" not in tables
    growing.finish()
    news.clear()
    assert news.wait(PATIENCE_S)
    stop.set()
    thread.join(PATIENCE_S)
    assert len(done) == 1
    assert "violations" in replay.read_tables(spark, out)
    assert_same(spark, tmp_path / "out", growing.logs)
