"""Reading logs into one DataFrame and the small vocabulary that all Spark checks share.

Ids of nodes, sessions and queues become 64-bit hashes at once: Spark groups and joins numbers several times faster than
strings. Whoever shows a result turns them back with ``names``.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.base.session_log import COMMON, SCHEMA_VERSION
from triack.tools.replay.files import LogFile, torn_record
from triack.tools.replay.schema import BOOL_FIELDS, CLASS_CODES, INT_FIELDS, POSITION_SHIFT, record_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession, WindowSpec

STREAM: Final = ("origin", "lane", "sequence")
"""What names a stream."""
PACKET: Final = ("cls", *STREAM, "number")
"""What names a packet in a stream, and its class."""
LINK: Final = ("node", "session")
"""What names one end of a session."""
RECOVERABLE_CODE: Final = CLASS_CODES["recoverable"]
DURABLE: Final = f"cls >= {RECOVERABLE_CODE}"
TRANSACTIONAL: Final = f"cls = {CLASS_CODES['transactional']}"
FACT_TYPES: Final = {
    "kind": "string",
    "node": "long",
    "session": "long",
    "origin": "long",
    "lane": "long",
    "sequence": "long",
    "number": "long",
    "evidence": "string",
    "value": "long",
}
"""The columns of all results: one form, so that all checks are one union and one job."""


def read_lines(spark: SparkSession, logs: list[LogFile]) -> DataFrame:
    """Return the records as they stand in the files; torn and damaged lines have their text in `damaged`."""
    paths = [str(log.path.resolve()) for log in logs]
    return spark.read.schema(record_schema()).option("columnNameOfCorruptRecord", "damaged").json(paths)


def encode(lines: DataFrame, logs: list[LogFile]) -> DataFrame:
    """Return the records without torn ones, with ids hashed, `cls` for the class and `pos` for a node's order."""
    columns = [hashed(name) for name in ("node", "session", "origin", "peer", "queue")]
    columns += [f.col(name) for name in INT_FIELDS if name not in ("v", "n")]
    columns += [f.col(name) for name in ("n", "event", "reason", "ranges", *BOOL_FIELDS)]
    columns += [position().alias("pos"), class_code().alias("cls"), damage().alias("damaged")]
    return lines.where(~torn(logs)).select(*columns)


def hashed(name: str) -> Column:
    """Return an optional id as a number; absent stays absent."""
    return f.when(f.col(name).isNotNull(), f.xxhash64(f.col(name))).alias(name)


def position() -> Column:
    """Return the number that orders the records of a node."""
    return f.shiftleft(f.col("incarnation"), POSITION_SHIFT) + f.col("n")


def class_code() -> Column:
    """Return the delivery class as a number; absent stays absent."""
    code = f.when(f.lit(False), f.lit(0))
    for name, value in CLASS_CODES.items():
        code = code.when(f.col("class") == name, f.lit(value))
    return code


def torn(logs: list[LogFile]) -> Column:
    """Return whether a line is the torn last line of a file."""
    texts = [log.torn for log in logs if log.torn]
    found = f.coalesce(f.col("damaged").isin(texts), f.lit(False)) if texts else f.lit(False)
    for log in logs:
        record = torn_record(log) if log.torn else None
        if record is not None:
            keys = ("node", "incarnation", "n")
            same = [f.col(key).eqNullSafe(f.lit(record.get(key))) for key in keys]
            found = found | (same[0] & same[1] & same[2])
    return found


def damage() -> Column:
    """Return whether a line does not fit the schema."""
    bad = f.col("damaged").isNotNull() | (f.col("v") != SCHEMA_VERSION)
    for name in COMMON:
        bad = bad | f.col(name).isNull()
    return bad


def names(lines: DataFrame, ids: Iterable[int]) -> dict[int, str]:
    """Return the names behind hashed ids.

    Args:
        lines: what ``read_lines`` returned.
        ids: the hashes to look up.
    """
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    listed = f.array(*(f.col(name) for name in ("node", "session", "origin", "peer")))
    found = lines.select(f.explode(listed).alias("name")).where("name is not null").distinct()
    hashes = found.select(f.xxhash64("name").alias("id"), "name").where(f.col("id").isin(wanted))
    return {row["id"]: row["name"] for row in hashes.collect()}


def split(records: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the records of packets on the wire, which are most, and all others: few checks need to read the many."""
    moves = f.col("event").isin("packet_sent", "packet_received")
    return records.where(moves), records.where(~moves)


def pick(records: DataFrame, *events: str) -> DataFrame:
    """Return the records of some events."""
    return records.where("event in ({})".format(", ".join(f"'{event}'" for event in events)))


def in_order(*columns: str) -> WindowSpec:
    """Return a window over all earlier records of a group, in the node's order."""
    return Window.partitionBy(*columns).orderBy("pos").rowsBetween(Window.unboundedPreceding, -1)


def facts(found: DataFrame, kind: str | Column, evidence: Column | None = None, **changes: Column) -> DataFrame:
    """Return rows in the one form in which all results leave Spark; columns that the rows lack stay empty.

    A fact whose kind is the name of a check is a violation. `value` is what it adds to the number of its kind.

    Args:
        found: one row for each fact.
        kind: what the facts are.
        evidence: the sentence that shows a violation.
        changes: columns that are called differently in `found`.
    """
    given = {"kind": f.lit(kind) if isinstance(kind, str) else kind, "evidence": evidence, **changes}
    had = set(found.columns) - {"value"}
    columns = []
    for name, type_ in FACT_TYPES.items():
        column = given.get(name)
        if column is None:
            columns.append(f.expr(f"cast({name if name in had else 'null'} as {type_}) as {name}"))
        else:
            columns.append(column.cast(type_).alias(name))
    return found.select(*columns)


def cases(rows: DataFrame, *found: tuple[str, Column, Column]) -> DataFrame:
    """Return a row for each case (kind, condition, evidence) that holds, with its `kind` and `evidence`."""
    judged = [f.when(holds, f.struct(f.lit(kind).alias("kind"), said.alias("evidence"))) for kind, holds, said in found]
    some = rows.where(reduce(lambda one, other: one | other, [holds for _, holds, _ in found]))
    return some.select("*", f.explode(f.array(*judged)).alias("case")).where("case is not null").select("*", "case.*")


def counted(rows: DataFrame, kind: str) -> DataFrame:
    """Return one fact: how many rows there are."""
    return facts(rows.agg(f.count("*").alias("rows")), kind, value=f.col("rows"))


def union(parts: list[DataFrame]) -> DataFrame:
    """Return the rows of frames with the same columns."""
    return reduce(lambda one, other: one.unionAll(other), parts)


def explode_range(first: Column, last: Column) -> Column:
    """Return one row for each number of a range that is known not to be empty."""
    return f.explode(f.sequence(first, last))
