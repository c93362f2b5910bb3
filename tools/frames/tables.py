"""Records of session logs as a table of Spark, and the judges over it.

The table has a column for each field of the schema (docs/session-log.md), null where a record has none, and the file
and line of each record. It may be written, joined and filtered like any other; the judges want all records of what
they judge.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from triack.base.errors import ReplayError, UsageError
from triack.base.printable import escaped
from triack.base.session_log import COMMON, FIELDS
from triack.tools.replay.engines.spark_engine import Found, deal_records, judge_dealt, judging, keep_found
from triack.tools.replay.engines.spark_files import list_files, tabulate_files
from triack.tools.replay.log.columns import BATCH_RECORDS, SPARK_SCHEMA, pack
from triack.tools.replay.log.files import Reading
from triack.tools.replay.log.schema import BROKEN, Verdict

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TABLE: Final = f"{SPARK_SCHEMA}, `file` string, `line` bigint"
"""The columns of the table."""
_COLUMNS: Final = (*COMMON, *FIELDS, "file", "line")
"""Their names: the judges want all of them, also those that are null everywhere."""


def load(spark: SparkSession, *paths: str) -> DataFrame:
    """Return the records of session logs, and of Parquet files that were made of them.

    Args:
        spark: the Spark session; its workers need Triack and PyArrow.
        paths: directories with logs (searched in depth), or single files, as of ``triack replay`` on Spark.

    Raises:
        ReplayError: a path does not exist, or something that looks like a log cannot be read, which a table cannot
            express. Damage in a log fails the job that reads it.
    """
    listing = list_files(spark, paths).require_all()
    return tabulate_files(spark, listing).mapInArrow(_load_files, TABLE)


def _load_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield from tabulate(Reading(os.fsdecode(row["name"]), row["content"]), row["size"])


def tabulate(reading: Reading, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file as batches of the table.

    Args:
        reading: the file.
        size: bytes that it had when it was listed.

    Raises:
        ReplayError: it is damaged, or not all of it was read.
    """
    import pyarrow as pa

    file, line = escaped(reading.path), 1
    at = chain.from_iterable(records for _, records in reading.segments())
    while some := list(islice(at, BATCH_RECORDS)):
        columns = pack(some)
        columns = columns.append_column("file", pa.array([file] * len(some), pa.string()))
        yield columns.append_column("line", pa.array(range(line, line + len(some)), pa.int64()))
        line += len(some)
    reading.compare(size)
    if reading.fault:
        raise ReplayError(f"{file} {reading.fault}")


def violations(records: DataFrame) -> DataFrame:
    """Judge records; return the promises that they break, each with what shows it.

    The judges run now. The result stays in Spark's cache until ``unpersist()``.

    Args:
        records: a table as ``load`` returns it.

    Raises:
        UsageError: the table lacks columns.
        ReplayError: a log is damaged.
    """
    with judging() as kept:
        found = Found(keep_found(_dealt(records), kept)).violations.where(f"standing = {BROKEN}").persist()
        found.count()
    return found


def verdict(records: DataFrame) -> Verdict:
    """Judge records; return the verdict that ``triack replay`` gives of them.

    Args:
        records: a table as ``load`` returns it.

    Raises:
        UsageError: the table lacks columns.
        ReplayError: a log is damaged.
    """
    return judge_dealt(_dealt(records))


def _dealt(records: DataFrame) -> DataFrame:
    missing = set(_COLUMNS) - set(records.columns)
    if missing:
        raise UsageError(f"this is no table of triack.replay.load: it lacks {', '.join(sorted(missing))}")
    return deal_records(records)
