"""The tables of docs/tables.md: of logs, lazily; and as Parquet files that a run adds to.

``write`` keeps facts in batches: ``OUT/packets/batch=0/day=2026-01-31/...``. A batch counts when its files are in the
table ``files``, which is written last: a run that dies leaves a batch that the next run writes anew, under the same
number. What is made of facts (``SUMMARIES``) is made of all batches, by each run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, IntegerType
from pyspark.sql.utils import is_remote as is_connect

from triack.base.errors import ReplayError
from triack.base.printable import escaped
from triack.replay.records import TABLE, expand, violations
from triack.replay.source import load
from triack.tools.replay.engines.spark_engine import explain, find_violations
from triack.tools.replay.engines.spark_files import list_files, rows_of
from triack.tools.replay.engines.spark_session import compiling
from triack.tools.replay.log.listing import complete, is_remote, local_path
from triack.tools.replay.tables.facts import FACTS, READ
from triack.tools.replay.tables.summaries import SUMMARIES, summarize, summary
from triack.tools.replay.tables.up_to_date import TABLES_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

LARGE_BYTES: Final = 8 * 1024 * 1024
"""From here on Spark compiles its expressions; and of new logs one task more writes the facts of a day for each."""
DAY_FILES_MAX: Final = 8
"""The most files that a batch has of one table and day."""
VIOLATIONS: Final = "violations"
_FILES: Final = "file string, size_bytes bigint, version int"


class Tables(Mapping[str, "DataFrame"]):
    """Tables by their names, also as attributes: ``tables["packets"]`` is ``tables.packets``.

    Nothing is computed before a table is used. ``violations`` runs the judges as soon as it is named.

    Args:
        frames: all tables but the violations.
        records: what the judges judge; None where violations are no table.
    """

    def __init__(self, frames: Mapping[str, DataFrame], records: DataFrame | None) -> None:
        self._frames = dict(frames)
        self._records = records

    def __getitem__(self, name: str) -> DataFrame:
        if name == VIOLATIONS and self._records is not None and name not in self._frames:
            self._frames[name] = violations(self._records)
        return self._frames[name]

    def __getattr__(self, name: str) -> DataFrame:
        if name.startswith("_") or name not in self:
            raise AttributeError(f"no table {name!r}; there are {', '.join(self)}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._frames
        if self._records is not None and VIOLATIONS not in self._frames:
            yield VIOLATIONS

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def register(self, prefix: str = "") -> None:
        """Give each table but the violations its name in Spark's SQL.

        Args:
            prefix: what the names begin with.
        """
        for name, frame in self._frames.items():
            frame.createOrReplaceTempView(f"{prefix}{name}")


def tables(records: DataFrame) -> Tables:
    """Return the tables of records; see docs/tables.md.

    Args:
        records: a table as ``load`` returns it. Cache it if several tables are used: each reads the logs anew.
    """
    facts = {name: make(records) for name, make in FACTS.items()}
    return Tables(_dated({**facts, **summarize(facts)}), records)


def _dated(frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return tables in which a timestamp follows each wall time: ``timestamp``, ``opened_timestamp`` and so on."""
    dated = {}
    for name, frame in frames.items():
        columns = []
        for it in frame.columns:
            columns.append(f.col(it))
            if it.endswith("wall_ns"):
                columns.append(f.expr(f"timestamp_micros({it} div 1000)").alias(it.replace("wall_ns", "timestamp")))
        dated[name] = frame.select(*columns)
    return dated


def read_tables(spark: SparkSession, out: str) -> Tables:
    """Return the tables that ``triack log tables`` wrote.

    While logs are followed, tables that are made of facts are computed when they are used, and there are no violations.

    Args:
        spark: the Spark session.
        out: the directory, of any file system of Spark.

    Raises:
        ReplayError: it has none, or such of another version.
    """
    batch, _ = _known(spark, out)
    if not batch:
        raise ReplayError(f"{out} has no tables: triack log tables writes them")
    facts = _read_facts(spark, out, batch)
    if _made(spark, out) < batch:
        return Tables(_dated({**facts, **summarize(facts)}), None)
    made = {name: spark.read.parquet(f"{out}/{name}") for name in (*SUMMARIES, VIOLATIONS)}
    return Tables(_dated({**facts, **made}), None)


def _made(spark: SparkSession, out: str) -> int:
    """Return of how many batches the tables that are made of facts are."""
    rows = rows_of(lambda: spark.read.schema("batches int").parquet(f"{out}/made"))
    return int(rows[0]["batches"]) if rows else 0


def _read_facts(spark: SparkSession, out: str, batches: int) -> dict[str, DataFrame]:
    """Return the facts of all batches that were written to their end."""
    nothing = spark.createDataFrame([], TABLE)
    facts = {}
    for name, make in FACTS.items():
        # Where there are no rows, Parquet has no files that would tell the columns.
        schema = make(nothing).schema.add("batch", IntegerType()).add("day", DateType())
        facts[name] = spark.read.schema(schema).parquet(f"{out}/{name}").where(f.col("batch") < batches)
    return facts


class Written(NamedTuple):
    """The result of a run.

    Attributes:
        files: how many files were new, or had grown.
        records: how many of their records no earlier run had taken.
        violations: how many broken promises the table of violations has.
    """

    files: int
    records: int
    violations: int


def write(spark: SparkSession, paths: Iterable[str], out: str) -> Written:
    """Write the tables of session logs as Parquet files; of logs that an earlier run wrote, what is new.

    Args:
        spark: the Spark session.
        paths: as of ``load``; by the same names in each run, as a file is known by its name.
        out: the directory, of any file system of Spark; not within the logs.

    Raises:
        ReplayError: there are no logs, one cannot be read, or the directory has tables of another version.
    """
    given = expand(paths)
    added = append(spark, given, out)
    if _made(spark, out) < added.batches:
        _summarize(spark, out, added.batches)
        found = find_violations(spark, given)
        _replace(spark, found, f"{out}/{VIOLATIONS}")
        found.unpersist()
        _replace(spark, spark.createDataFrame([(added.batches,)], "batches int"), f"{out}/made")
    return Written(added.files, added.records, spark.read.parquet(f"{out}/{VIOLATIONS}").count())


def _summarize(spark: SparkSession, out: str, batches: int) -> None:
    """Write the tables that are made of the facts of all batches."""
    facts = _read_facts(spark, out, batches)
    made: dict[str, DataFrame] = {}
    _, sizes = _known(spark, out)
    with _compiling_for(spark, sum(sizes.values())):
        for name in SUMMARIES:
            _replace(spark, summary(name, facts, made), f"{out}/{name}")
            # Read back, and not computed once more for those that are made of it.
            made[name] = spark.read.parquet(f"{out}/{name}")


def _replace(spark: SparkSession, frame: DataFrame, path: str) -> None:
    """Write a table beside the one that is there, and put it in its place, as others may read that meanwhile."""
    rows = frame.coalesce(1).write.mode("overwrite")
    if is_connect():  # which has no way to rename
        rows.parquet(path)
        return
    rows.parquet(f"{path}.new")
    session: Any = spark
    hadoop = session._jvm.org.apache.hadoop.fs  # noqa: SLF001 - Spark has no other way to Hadoop's file systems
    here, new = hadoop.Path(path), hadoop.Path(f"{path}.new")
    system = here.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001 - the same
    system.delete(here, True)
    if not system.rename(new, here):
        raise ReplayError(f"cannot rename {path}.new to {path}")


def _compiling_for(spark: SparkSession, size_bytes: int) -> AbstractContextManager[None]:
    """Return ``compiling`` for logs of that size, if it pays."""
    return compiling(spark) if size_bytes >= LARGE_BYTES else nullcontext()


class Added(NamedTuple):
    """A batch of facts."""

    files: int
    records: int
    batches: int


def append(spark: SparkSession, paths: Sequence[str], out: str, *, may_be_empty: bool = False) -> Added:
    """Write the facts of what is new in session logs as one more batch, if anything is."""
    _refuse_within(paths, out)
    listing = list_files(spark, paths, may_be_empty=may_be_empty).require_all()
    batch, known = _known(spark, out)
    new = {it.path: it.size for it in listing.logs if known.get(escaped(complete(it.path)), -1) < it.size}
    if not new:
        return Added(0, 0, batch)
    size_bytes = sum(new.values())
    files = min(1 + size_bytes // LARGE_BYTES, DAY_FILES_MAX)
    with _compiling_for(spark, size_bytes):
        rows = load(spark, *new, columns=READ).persist()
        try:
            fresh = _unknown(rows, spark, out, batch)
            records = fresh.count()
            for name, make in FACTS.items():
                _write_facts(make(fresh), name, f"{out}/{name}/batch={batch}", files=files)
        except PySparkException as error:
            raise explain(error) from error
        finally:
            rows.unpersist()
    read = [(escaped(complete(path)), size, TABLES_VERSION) for path, size in new.items()]
    spark.createDataFrame(read, _FILES).coalesce(1).write.mode("overwrite").parquet(f"{out}/files/batch={batch}")
    return Added(len(new), records, batch + 1)


def _refuse_within(paths: Iterable[str], out: str) -> None:
    """Raise if the tables would be among the logs, where a replay would take their files for logs."""
    if is_remote(out):
        return
    place = Path(local_path(out)).resolve()
    for path in paths:
        if not is_remote(path) and Path(local_path(path)).resolve() in (place, *place.parents):
            raise ReplayError(f"{out} is within {path}, where a replay would take its files for logs")


def _known(spark: SparkSession, out: str) -> tuple[int, dict[str, int]]:
    """Return the number of the next batch, and the size of each file that earlier ones took."""
    rows = rows_of(lambda: spark.read.parquet(f"{out}/files"))
    if rows is None:
        return 0, {}
    for row in rows:
        if row["version"] != TABLES_VERSION:
            said = f"has tables of version {row['version']}, and this Triack writes {TABLES_VERSION}"
            raise ReplayError(f"{out} {said}: name another directory")
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row["file"]] = max(row["size_bytes"], sizes.get(row["file"], 0))
    return 1 + max(row["batch"] for row in rows), sizes


def _unknown(records: DataFrame, spark: SparkSession, out: str, batch: int) -> DataFrame:
    """Return the records that no earlier batch has."""
    if not batch:
        return records
    file = f.regexp_replace("file", r"\.open$", "")
    segments = _read_facts(spark, out, batch)["segments"]
    taken = segments.groupBy(file.alias("taken_file"), f.col("node").alias("taken_node"), "start").agg(
        f.max("last_n").alias("taken_n")
    )
    same = (file == taken["taken_file"]) & (records["node"] == taken["taken_node"])
    joined = records.join(taken, same & (records["incarnation"] == taken["start"]), "left")
    return joined.where("taken_n is null or n > taken_n").select(*records.columns)


def _write_facts(frame: DataFrame, name: str, path: str, *, files: int) -> None:
    """Write facts by the days of their records (UTC), those of each day as that many files at most."""
    time = "begin_wall_ns" if name == "segments" else "wall_ns"
    day = f.expr(f"date_add(date'1970-01-01', int({time} div 86400000000000))")
    named = "node" if name == "segments" else f.expr("struct(node, n div 1024)")
    part = f.pmod(f.hash(named), f.lit(files))
    frame.withColumn("day", day).repartition("day", part).write.partitionBy("day").mode("overwrite").parquet(path)
