"""Records of session logs as a table of Spark, and the judges over it.

The table has a column for each field of the schema (docs/session-log.md), null where a record has none, and the file
and line of each record. It may be written, joined and filtered like any other; the judges want all records of what
they judge.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from triack.base.errors import ReplayError, UsageError
from triack.base.printable import escaped
from triack.tools.replay.engines.spark_engine import broken_of, deal_records, in_any_order, judge_dealt, judged
from triack.tools.replay.log.columns import BATCH_RECORDS, SPARK_COLUMNS, pack
from triack.tools.replay.log.files import Reading, Record
from triack.tools.replay.log.listing import is_remote, local_path
from triack.tools.replay.log.schema import Verdict

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_PLACE: Final = {"file": "`file` string", "line": "`line` bigint"}
_TYPES: Final = {**SPARK_COLUMNS, **_PLACE}
TABLE: Final = ", ".join(_TYPES.values())
"""The columns of the table."""
COLUMNS: Final = tuple(_TYPES)
"""Their names: the judges want all of them, also those that are null everywhere."""


def column(name: str) -> str:
    """Return a column of the table in Spark's notation."""
    if name not in _TYPES:
        raise UsageError(f"session logs have no column {name!r}; docs/session-log.md lists them")
    return _TYPES[name]


def expand(paths: Iterable[str]) -> list[str]:
    """Return paths of this machine with the names that patterns stand for in the place of these.

    A name that is there stands for itself, whatever characters it has. Spark expands patterns of other machines.
    """
    found: list[str] = []
    for path in paths:
        if not path:
            raise ReplayError("an empty path names no logs: give a directory or a file")
        name = path if is_remote(path) else local_path(path)
        if is_remote(path) or os.path.lexists(name) or not glob.has_magic(name):
            found.append(path)
            continue
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - a path may be absolute or not
        if not matches:
            raise ReplayError(f"no name of a file or directory is like {path}")
        found += matches
    return found


def tabulate(reading: Reading, size: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file as batches of the table."""
    file, line = escaped(reading.path), 1
    for _, records in reading.segments():
        while some := list(islice(records, BATCH_RECORDS)):
            yield _batch(some, file, line, columns)
            line += len(some)
    reading.compare(size)
    if reading.fault:
        raise ReplayError(f"{file} {reading.fault}")


def _batch(records: list[Record], file: str, line: int, columns: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa

    names = [name for name in columns if name not in _PLACE]
    made = dict(zip(names, pack(records, names).columns, strict=True))
    made["file"] = pa.array([file] * len(records), pa.string())
    made["line"] = pa.array(range(line, line + len(records)), pa.int64())
    return pa.RecordBatch.from_arrays([made[name] for name in columns], list(columns))


def violations(records: DataFrame) -> DataFrame:
    """Judge records; return the promises that they break, each with what shows it.

    The judges run now. The result stays in Spark's cache until ``unpersist()``.

    Args:
        records: a table as ``load`` returns it.

    Raises:
        UsageError: the table lacks columns.
        ReplayError: a log is damaged.
    """

    def judge(orderly: bool) -> DataFrame:
        with judged(_dealt(records, orderly=orderly)) as concluded:
            return broken_of(concluded)

    return in_any_order(judge)


def verdict(records: DataFrame) -> Verdict:
    """Judge records; return the verdict that ``triack replay`` gives of them.

    Args:
        records: a table as ``load`` returns it.

    Raises:
        UsageError: the table lacks columns.
        ReplayError: a log is damaged.
    """
    return in_any_order(lambda orderly: judge_dealt(_dealt(records, orderly=orderly)))


def _dealt(records: DataFrame, *, orderly: bool) -> DataFrame:
    missing = set(COLUMNS) - set(records.columns)
    if missing:
        raise UsageError(f"this is no table of triack.replay.load: it lacks {', '.join(sorted(missing))}")
    return deal_records(records, orderly=orderly)
