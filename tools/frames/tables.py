"""Records of session logs as a table of Spark, and the judges over it.

The table has a column for each field of the schema (docs/session-log.md), null where a record has none, and the file
and line of each record. It may be written, joined and filtered like any other; the judges want all records of what
they judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from triack.base.errors import UsageError
from triack.tools.replay.columns import BATCH_RECORDS, SPARK_SCHEMA, pack
from triack.tools.replay.files import Record, read_content
from triack.tools.replay.schema import BROKEN, Verdict
from triack.tools.replay.spark_engine import Found, deal_records, explain, judge_dealt, keep_found
from triack.tools.replay.spark_files import find_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TABLE: Final = f"{SPARK_SCHEMA}, `file` string, `line` bigint"
"""The columns of the table."""


def load(spark: SparkSession, *paths: str) -> DataFrame:
    """Return the records of session logs, of both versions and of Parquet files that were made of them.

    Args:
        spark: the Spark session; its workers need Triack and PyArrow.
        paths: directories with logs (searched in depth), or single segments, as Spark names files.

    Raises:
        ReplayError: a path does not exist. What is damaged fails the job that reads it, and so does a segment that its
            node has renamed by then: load once more.
    """
    return find_files(spark, paths).select("path", "content").mapInArrow(_load_segments, TABLE)


def _load_segments(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            records, _ = read_content(row["path"], row["content"])
            yield from tabulate(row["path"], records)


def tabulate(path: str, records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment as batches of the table.

    Args:
        path: its file.
        records: all of them.
    """
    import pyarrow as pa

    at, line = iter(records), 1
    while some := list(islice(at, BATCH_RECORDS)):
        columns = pack(some)
        columns = columns.append_column("file", pa.array([path] * len(some), pa.string()))
        yield columns.append_column("line", pa.array(range(line, line + len(some)), pa.int64()))
        line += len(some)


def violations(records: DataFrame) -> DataFrame:
    """Judge records; return the promises that they break, each with what shows it.

    The judges run now. The result stays in Spark's cache until ``unpersist()``.

    Args:
        records: a table as ``load`` returns it.

    Raises:
        UsageError: the table lacks columns.
        ReplayError: a log is damaged.
    """
    kept: list[Any] = []
    try:
        found = Found(keep_found(_dealt(records), kept)).violations.where(f"standing = {BROKEN}").persist()
        found.count()
    except Exception as error:
        raise explain(error) from error
    finally:
        for frame in kept:
            frame.unpersist()
    return found


def verdict(records: DataFrame) -> Verdict:
    """Judge records; return what ``triack replay`` says of them.

    Args:
        records: a table as ``load`` returns it.

    Raises:
        UsageError: the table lacks columns.
        ReplayError: a log is damaged.
    """
    return judge_dealt(_dealt(records))


def _dealt(records: DataFrame) -> DataFrame:
    missing = {"event", "node", "file", "line"} - set(records.columns)
    if missing:
        raise UsageError(f"this is no table of triack.replay.load: it lacks {', '.join(sorted(missing))}")
    return deal_records(records)
