"""The Spark engine: deals records out to the judges on any number of machines, and brings home what they find.

Every step is a function from DataFrame to DataFrame. Records travel as the lines that they were read from, with the
three columns by which Spark brings them together: the unit that judges them, and their place in it. Python runs the
same judges as the local engine, partition by partition and record by record, so neither a giant session nor a
giant lane has to fit into memory.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from triack.base.errors import ReplayError
from triack.tools.replay.conclusion import World, conclude, place
from triack.tools.replay.files import LogFile, read_records
from triack.tools.replay.findings import Due, Finding, Life, Opening, Output, Record
from triack.tools.replay.journal import Journal, Segment, Unit, join_segments
from triack.tools.replay.judge import judge_unit, order_of
from triack.tools.replay.schema import Verdict, Violation
from triack.tools.replay.series import Series

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RECORDS: Final = "kind string, unit string, node string, incarnation long, n long, place int, line string"
"""A record on its way to its judge: ``kind`` and ``unit`` say to which, the others where among its records it comes.

Of kind ``found`` are findings, numbers and the like, as lines of JSON of their own.
"""
BATCH_ROWS: Final = 8_192
"""Rows in one batch from Python to Spark: enough that the batch costs nothing, little enough to stay small."""
Row = tuple[str, str, str, int, int, int, str]
_DECODE: Final[dict[str, Callable[[Any], Any]]] = {
    "segment": lambda it: Segment(*it),
    "life": lambda it: Life(*it),
    "opening": lambda it: Opening(*it),
    "finding": lambda it: Finding(Violation(**it[0]), tuple(Due(*due) for due in it[1])),
}


def open_spark(master: str | None) -> SparkSession:
    """Return a Spark session for a replay: quiet, and without a web page.

    Args:
        master: the cluster to run on; None for what ``spark-submit`` says, or all processors of this machine.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("triack replay")
    given = os.environ.get("SPARK_CONF_DIR") or os.environ.get("PYSPARK_SUBMIT_ARGS") or "spark.master" in os.environ
    if master is not None or not given:
        builder = builder.master(master or "local[*]")
    settings: dict[str, object] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        # Noting the line of Python behind every expression multiplies the calls to the virtual machine.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if master is None or master.startswith("local"):
        # The judges are Python, and that of this process has them.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # One machine: few partitions, no network, and a virtual machine that need not live long.
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": 2 * (os.cpu_count() or 1),
            "spark.sql.adaptive.enabled": "false",
            "spark.python.worker.reuse": "true",
        }
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


def read_logs(spark: SparkSession, logs: list[LogFile]) -> DataFrame:
    """Return the records of segments, and what reading them found.

    Args:
        spark: the Spark session.
        logs: the segments, as ``find_logs`` returns them; the workers must see them under the same paths.
    """
    paths = spark.createDataFrame([(str(log.path), log.torn) for log in logs], "path string, torn string")
    spread = paths.repartition(max(1, min(len(logs), spark.sparkContext.defaultParallelism * 4)), "path")
    return spread.mapInArrow(_each(_read_segments), RECORDS)


def judge_sessions(records: DataFrame) -> DataFrame:
    """Judge all sessions; return findings, and facts for lanes."""
    return _judged(records, "session")


def judge_lanes(records: DataFrame) -> DataFrame:
    """Judge all lanes; return findings.

    Args:
        records: those of ``read_logs`` and the facts of ``judge_sessions``.
    """
    return _judged(records, "lane")


def _judged(records: DataFrame, kind: str) -> DataFrame:
    mine = records.where(f.col("kind") == kind)
    sorted_ = mine.repartition("unit").sortWithinPartitions("unit", "node", "incarnation", "n", "place")
    return sorted_.mapInArrow(_each(_judge_units), RECORDS)


def _each(work: Callable[[Iterator[dict[str, Any]]], Iterator[Row]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Turn a function over rows into one over Arrow batches."""

    def over_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        def pack(rows: list[Row]) -> pa.RecordBatch:
            columns = list(zip(*rows, strict=True))
            types = [pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int32(), pa.string()]
            arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
            names = [column.split()[0] for column in RECORDS.split(", ")]
            return pa.RecordBatch.from_arrays(arrays, names)

        rows: list[Row] = []
        for row in work(row for batch in batches for row in batch.to_pylist()):
            rows.append(row)
            if len(rows) >= BATCH_ROWS:
                yield pack(rows)
                rows.clear()
        if rows:
            yield pack(rows)

    return over_batches


def _read_segments(rows: Iterator[dict[str, Any]]) -> Iterator[Row]:
    from pathlib import Path

    for row in rows:
        out = Output()
        journal = Journal(row["path"], out)
        log = LogFile(Path(row["path"]), row["torn"], ("", 0, 0))
        for unit, record in journal.read(read_records(log)):
            yield _row(unit, record)
        segment = journal.segment()
        if segment is not None:
            yield _found("segment", segment)
        yield from _results(out)


def _judge_units(rows: Iterator[dict[str, Any]]) -> Iterator[Row]:
    for (kind, name), mine in groupby(rows, key=lambda row: (row["kind"], row["unit"])):
        out = Output()
        unit: Unit = (kind, *name.rsplit("/", 1)) if kind == "lane" else (kind, name)
        judge_unit(unit, (json.loads(row["line"]) for row in mine), out)
        for fact in out.facts:
            yield _row(("lane", fact["origin"], str(fact["lane"])), fact)
        yield from _results(out)


def _row(unit: Unit, record: Record) -> Row:
    node, incarnation, n, late, fact = order_of(record)
    return unit[0], "/".join(unit[1:]), node, incarnation, n, late + fact, _encode(record)


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _found(what: str, value: object) -> Row:
    return "found", what, "", 0, 0, 0, _encode(value)


def _results(out: Output) -> Iterator[Row]:
    """Yield what was found as rows."""
    for finding in out.findings:
        yield _found("finding", (asdict(finding.violation), finding.dues))
    for opening in out.openings:
        yield _found("opening", opening)
    for name, value in out.numbers.items():
        yield "found", f"number {name}", "", 0, value, 0, ""
    for name, series in out.series.items():
        yield _found("series", (name, series.mode, series.bits, list(series.buckets.items())))
    if out.begin_ns:
        yield "found", "begin", "", 0, out.begin_ns, 0, ""
    if out.end_ns:
        yield "found", "end", "", 0, out.end_ns, 0, ""


def _collect(found: Iterable[Any], what: str) -> list[Any]:
    return [_DECODE[what](json.loads(row["line"])) for row in found if row["unit"] == what]


def replay_spark(spark: SparkSession, logs: list[LogFile]) -> Verdict:
    """Replay the segments with Spark.

    Args:
        spark: the Spark session.
        logs: the segments, as ``find_logs`` returns them.

    Raises:
        ReplayError: the logs cannot be read.
    """
    records = read_logs(spark, logs).persist()
    sessions = judge_sessions(records).persist()
    try:
        lanes = judge_lanes(records.unionByName(sessions.where("kind = 'lane'")))
        found = _gather(records.unionByName(sessions).unionByName(lanes))
    except Exception as error:
        raise _explain(error) from error
    finally:
        sessions.unpersist()
        records.unpersist()
    out = Output()
    segments: list[Segment] = _collect(found, "segment")
    lives = join_segments(segments, out)
    numbers = {row["unit"].partition(" ")[2]: row["n"] for row in found if row["unit"].startswith("number ")}
    verdict = Verdict(engine="spark", torn_lines=sum(bool(log.torn) for log in logs))
    findings = out.findings + _collect(found, "finding")
    conclude(verdict, findings, World(lives, _collect(found, "opening")), numbers, _merge(found))
    times = {row["unit"]: row["n"] for row in found if row["unit"] in ("begin", "end")}
    verdict.time(times.get("begin", 0), times.get("end", 0))
    place(verdict.findings, segments)
    return verdict


def _gather(rows: DataFrame) -> list[Any]:
    """Return what was found, with numbers added up by Spark."""
    found = rows.where("kind = 'found'")
    unit = f.col("unit")
    total = f.sum(f.when(unit.startswith("number "), f.col("n")))
    value = f.when(unit == "begin", f.min("n")).when(unit == "end", f.max("n")).otherwise(total)
    # Rows that say the same are one, and how often it was said counts for what is added up.
    return found.groupBy("unit", "line").agg(value.alias("n"), f.count("*").alias("times")).collect()


def _merge(found: Iterable[Any]) -> dict[str, Series]:
    merged: dict[str, Series] = {}
    for row in found:
        if row["unit"] == "series":
            name, mode, bits, buckets = json.loads(row["line"])
            part = Series(mode, bits)
            times = row["times"] if mode == "sum" else 1
            part.buckets = {bucket: times * value for bucket, value in buckets}
            merged.setdefault(name, Series(mode, bits)).merge(part)
    return merged


def _explain(error: Exception) -> Exception:
    """Return the error of a damaged log if that is what a worker failed with."""
    text = str(error)
    if "ReplayError: " in text:
        return ReplayError(text.partition("ReplayError: ")[2].splitlines()[0])
    return error
