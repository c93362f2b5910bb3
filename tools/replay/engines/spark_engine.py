"""The Spark engine: shows each node's records to the judges on any number of machines, and joins what these know.

The driver lists the files. One task reads and judges all of a node, as the local engine does; then the judges of a
session, a stream and so on are joined, unit by unit, and one task concludes (``spark_conclusion.py``). Every step is a
function from DataFrame to DataFrame. So neither a giant session nor a giant stream has to fit into memory.
"""

from __future__ import annotations

import marshal
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import DisorderError, Output, Record
from triack.tools.replay.engines.arrow_rows import each, over, pack
from triack.tools.replay.engines.checkpoint import freeze, freeze_part, revive, revive_part
from triack.tools.replay.engines.local_engine import begin_judge
from triack.tools.replay.engines.spark_conclusion import TOLD_MAX, Told, conclude_all, verdict_in, violations_in
from triack.tools.replay.engines.spark_files import list_files, processors, read_files, tabulate_files, tasks_of
from triack.tools.replay.engines.spark_session import compiling
from triack.tools.replay.engines.summary import Loaded, load_summaries
from triack.tools.replay.judges.conclusion import Read, cover
from triack.tools.replay.judges.judge import UnitJudge, join_parts
from triack.tools.replay.judges.past import Past
from triack.tools.replay.log.files import Reading, first_of, split
from triack.tools.replay.log.listing import OPEN_SUFFIX, PARQUET_SUFFIX, Listing
from triack.tools.replay.log.schema import Verdict, Violation
from triack.tools.replay.log.validity import complaint
from triack.tools.replay.tables.counts import Tee, disagreements, is_countable, open_packed, totals

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SEGMENTS: Final = "node string, incarnation bigint, n bigint, line int, name binary, size bigint, content binary"
"""What there is to judge of a node, in its order: a file, which begins with that start and serial, with its content if
Spark has read it; or a piece of a segment that begins with a line of a file, with its records. ``line`` may be one of
those below."""
FILE: Final = 0
READ: Final = -1
"""The line of a row that tells what was read of a file whose segments are in pieces."""
PAST: Final = -2
"""The line of a row with what a summary has of a node."""
PIECE_RECORDS: Final = 2_048
"""Records of a piece: some hundred kilobytes, so that a few hundred of them fit into the smallest worker."""
DEALT: Final = "kind string, unit string, node string, data binary"
"""What was made of a node's records.

Of kind ``part`` is what a judge of a unit knows of the node; of kind ``found`` what a task was told (``Told``); of kind
``counted`` records as columns, for the second count, and the event of all of them in ``unit``.
"""
PART: Final = "part"
FOUND: Final = "found"
COUNTED: Final = "counted"
TASK_BYTES: Final = 8 << 20
"""Parts that are joined by one task: a second's work or so."""
SHARES: Final = 8
"""Most tasks for each processor that share the nodes: so two large nodes seldom meet in one. Small logs have fewer, as
each task costs the work of some tenths of a second."""
COUNTED_BYTES: Final = 1 << 20
"""Records up to this size, packed, are counted by one task, without code of their own: a few seconds' work, as dealing
them out and compiling would be."""
FINDS_MAX: Final = 5
"""How often segments are looked for: running nodes rename them, each every few minutes."""
_RENAMED: Final = re.compile(rf"FILE_NOT_EXIST\b.*{re.escape(OPEN_SUFFIX)}\b")
"""Spark's error for a segment that was completed, and so renamed, before a task came to it."""
Row = tuple[str, int, int, int, bytes, int, bytes | None]
Dealt = tuple[str, str, str, bytes]
Result = TypeVar("Result")


def deal_files(files: DataFrame, tasks: int, past: Past | None = None, *, orderly: bool = True) -> DataFrame:
    """Judge what each node says in segments; return its parts, what was found, and records for the second count.

    Args:
        files: a table of ``spark_files.FILES``.
        tasks: how many tasks share the nodes.
        past: what is in summaries.
        orderly: whether each node's records are judged as they come. Logs that are out of order fail with
            ``DisorderError`` then; otherwise all records of a node are in memory.
    """
    segments = files.mapInArrow(each(_place_files, SEGMENTS), SEGMENTS)
    if past is not None:
        import pyarrow as pa

        rows = pack([(node, 0, 0, PAST, b"", 0, freeze(mine)) for node, mine in past.by_node().items()], SEGMENTS)
        segments = segments.unionByName(files.sparkSession.createDataFrame(pa.Table.from_batches([rows]), SEGMENTS))
    return _judge(segments.repartition(tasks, "node"), orderly=orderly)


def deal_records(records: DataFrame, *, orderly: bool = True) -> DataFrame:
    """Do the same with a table of records, as ``triack.replay.load`` returns it."""
    ordered = records.repartition("file").sortWithinPartitions("file", "line")
    return _judge(ordered.mapInArrow(over(_place_rows, SEGMENTS), SEGMENTS).repartition("node"), orderly=orderly)


def in_any_order(use: Callable[[bool], Result]) -> Result:
    """Return what ``use`` does with logs whose records come in order; with all in memory, where they do not."""
    try:
        return use(True)
    except Exception as error:
        if DisorderError.__name__ not in str(error):
            raise
        return use(False)


def _judge(segments: DataFrame, *, orderly: bool) -> DataFrame:
    order = ("incarnation", "n", "line") if orderly else ("name", "line", "n")
    ordered = segments.sortWithinPartitions("node", *order)
    return ordered.mapInArrow(each(partial(_judge_nodes, orderly=orderly), DEALT), DEALT)


def join(dealt: DataFrame, tasks: int) -> DataFrame:
    """Merge the parts of each unit, and return what they show together."""
    parts = dealt.where(f.col("kind") == PART).repartition(tasks, "unit")
    return parts.sortWithinPartitions("unit", "node").mapInArrow(each(_join_parts, DEALT), DEALT)


# ---- what runs on the workers


def _place_files(rows: Iterator[dict[str, Any]]) -> Iterator[Row]:
    """Yield files by their first records; those with segments of many nodes in pieces."""
    for row in rows:
        path = os.fsdecode(row["name"])
        if path.endswith(PARQUET_SUFFIX):
            reading = Reading(path, row["content"])
            yield from _pieces(path, reading.segments())
            reading.compare(row["size"])
            yield "", 0, 0, READ, row["name"], 0, freeze(Read(path, 0, reading.torn, reading.fault))
        else:
            first = first_of(path, row["content"])
            yield first["node"], first["incarnation"], first["n"], FILE, row["name"], row["size"], row["content"]


def _place_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    from triack.tools.replay.log.columns import unpack_rows

    rows = (row for batch in batches for row in unpack_rows(batch))
    for path, mine in groupby(rows, key=lambda row: row[0]):
        yield from _pieces(path, split(_checked(path, mine)))


def _pieces(path: str, segments: Iterable[tuple[int, Iterator[Record]]]) -> Iterator[Row]:
    for line, records in segments:
        while some := list(islice(records, PIECE_RECORDS)):
            place = some[0]["node"], some[0]["incarnation"], some[0]["n"]
            yield *place, line, os.fsencode(path), 0, marshal.dumps(some)


def _checked(path: str, rows: Iterable[tuple[str, int, Record]]) -> Iterator[Record]:
    """Yield the records of rows; the user may have written, joined and filtered the table."""
    for _, line, record in rows:
        if said := complaint(record):
            raise ReplayError(f"{path} line {line} {said}")
        yield record


def _judge_nodes(rows: Iterator[dict[str, Any]], *, orderly: bool) -> Iterator[Dealt]:
    told, tee = Told(), Tee()
    for node, mine in groupby(rows, key=itemgetter("node")):
        past, there = _past_in(mine)
        judge, segments = begin_judge(past), _segments(there, told)
        if orderly:
            for path, line, records in segments:
                judge.read(path, tee.read(records), line)
                yield from _counted(tee.take())
        else:
            judge.take_all((judge.begin(path, line), tee.read(records)) for path, line, records in segments)
        told.segments += judge.segments
        for out in judge.found:
            told.take(out)
        for unit, data in judge.parts(freeze_part):
            yield PART, "/".join(unit), node, data
        yield from _found(told, TOLD_MAX)
    yield from _found(told)
    yield from _counted(tee.finish())


def _past_in(rows: Iterator[dict[str, Any]]) -> tuple[Past | None, Iterator[dict[str, Any]]]:
    """Return what a summary has of a node, if it has anything, and the other rows."""
    first = next(rows)
    return (revive(first["content"], Past), rows) if first["line"] == PAST else (None, chain([first], rows))


def _segments(rows: Iterable[dict[str, Any]], told: Told) -> Iterator[tuple[str, int, Iterable[Record]]]:
    """Yield the segments of a node as path, first line and records; tell of files that were read."""
    for (name, line), parts in groupby(rows, key=itemgetter("name", "line")):
        path = os.fsdecode(name)
        if line == READ:
            told.read += [revive(row["content"], Read) for row in parts]
        elif line == FILE:
            (row,) = parts
            reading = Reading(path, row["content"])
            for begin, records in reading.segments():
                yield path, begin, records
            reading.compare(row["size"])
            told.read.append(Read(path, 0, reading.torn, reading.fault))
        else:
            pieces = (marshal.loads(row["content"]) for row in parts)  # noqa: S302 - what this program's workers packed
            yield path, line, chain.from_iterable(pieces)


def _join_parts(rows: Iterator[dict[str, Any]]) -> Iterator[Dealt]:
    told = Told()
    for _, mine in groupby(rows, key=itemgetter("unit")):
        out = Output()
        whole, *others = [revive_part(row["data"], out) for row in mine]
        assert isinstance(whole, UnitJudge)
        for other in others:
            join_parts(whole, other)
        whole.finish()
        told.take(out)
        yield from _found(told, TOLD_MAX)
    yield from _found(told)


def _found(told: Told, least: int = 0) -> Iterator[Dealt]:
    """Pass on what was told, if it is as much as that."""
    if told.size >= least:
        yield FOUND, "", "", freeze(told)
        told.clear()


def _counted(packed: Iterable[tuple[str, bytes]]) -> Iterator[Dealt]:
    """Yield records for the second count as rows."""
    return ((COUNTED, event, "", data) for event, data in packed)


# ---- what comes home


def replay_spark(
    spark: SparkSession, paths: Iterable[str], finish: Callable[[Verdict, Iterable[Violation]], None] | None = None
) -> Verdict:
    """Replay the segments under paths with Spark.

    Args:
        spark: the Spark session.
        paths: directories with logs (searched in depth), or single files, of this machine and mounted on all that work;
            or with a scheme that Spark knows.
        finish: called with the verdict, which has the first violations of each check, and with all of them, in order,
            one by one as Spark has them.

    Raises:
        ReplayError: there are no logs, or one is there twice.
    """
    return over_files(spark, paths, lambda dealt, listing, loaded: judge_dealt(dealt, finish, listing, loaded))


def find_violations(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Judge the segments under paths; return the promises that they break, as ``replay_spark`` finds them.

    The result is in Spark's cache until ``unpersist()``.
    """

    def use(dealt: DataFrame, listing: Listing, _: Loaded) -> DataFrame:
        listing.require_all()
        with judged(dealt) as concluded:
            for it in verdict_in(concluded)[1]:
                if it.fault:
                    raise ReplayError(f"{it.path} {it.fault}")
            return broken_of(concluded)

    return over_files(spark, paths, use)


def broken_of(concluded: DataFrame) -> DataFrame:
    """Return the promises that are broken; they stay in Spark's cache until ``unpersist()``."""
    broken = violations_in(concluded).persist()
    broken.count()
    return broken


def over_files(
    spark: SparkSession, paths: Iterable[str], use: Callable[[DataFrame, Listing, Loaded], Result]
) -> Result:
    """Return what becomes of the segments under paths, of which some may be renamed while they are listed and read.

    Args:
        spark: the Spark session.
        paths: as of ``replay_spark``.
        use: called with what was dealt out, what there was to read, and what summaries hold; once more if a segment was
            renamed, or if logs are out of order.
    """
    given, finds = list(paths), FINDS_MAX

    def find(orderly: bool) -> Result:
        listing = list_files(spark, given)
        loaded = load_summaries(listing, partial(read_files, spark))
        tasks = max(1, min(tasks_of(listing.logs, spark), SHARES * processors(spark)))
        return use(deal_files(tabulate_files(spark, listing), tasks, loaded.past, orderly=orderly), listing, loaded)

    while True:
        finds -= 1
        try:
            return in_any_order(find)
        except Exception as error:
            if finds < 1 or not _RENAMED.search(str(error)):
                raise


def judge_dealt(
    dealt: DataFrame,
    finish: Callable[[Verdict, Iterable[Violation]], None] | None = None,
    listing: Listing | None = None,
    loaded: Loaded | None = None,
) -> Verdict:
    """Judge what was dealt out; without a listing it is all of a table."""
    with judged(dealt) as concluded:
        verdict, read = verdict_in(concluded)
        cover(verdict, listing or Listing(), [*read, *(loaded.read if loaded is not None else ())])
        if loaded is None or loaded.past is None:
            # What was removed from pruned logs, no count of the rest can know.
            _compare(verdict, dealt)
        if finish is not None:
            finish(verdict, _all_of(verdict, concluded))
        return verdict


@contextmanager
def judged(dealt: DataFrame) -> Iterator[DataFrame]:
    """Run the judges; yield what ``conclude_all`` returns, which is in Spark's cache until then; explain errors."""
    kept = [dealt.persist()]

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist())
        return frame

    try:
        (size,) = dealt.where(f.col("kind") == PART).agg(f.sum(f.length("data"))).first() or (0,)
        tasks = 1 + (size or 0) // TASK_BYTES
        found = dealt.where(f.col("kind") == FOUND).unionByName(join(dealt, tasks))
        yield keep(conclude_all(found))
    except Exception as error:
        raise explain(error) from error
    finally:
        for frame in kept:
            frame.unpersist()


def _compare(verdict: Verdict, dealt: DataFrame) -> None:
    """Count a second time what the judges have judged, and report where the counts differ.

    The second count knows no clock and no missing log. So a difference is a broken promise only where all else is kept.
    """
    packed = dealt.where(f.col("kind") == COUNTED).select(f.col("unit").alias("event"), "data")
    (size,) = packed.agg(f.sum(f.length("data"))).first() or (0,)
    is_pass = verdict.verdict == "pass"
    if not is_pass and not is_countable(open_packed(packed)):
        verdict.differences = ["not counted a second time: a record tells of more packets than there can be"]
        return
    try:
        if (size or 0) <= COUNTED_BYTES:
            # One task has all of them, so nothing is shuffled.
            verdict.counted = totals(packed, tasks=1)
        else:
            with compiling(dealt.sparkSession):
                verdict.counted = totals(packed)
    except PySparkException as error:
        if is_pass:
            raise
        verdict.differences = [f"not counted a second time: {type(error).__name__}, as records are not as they must be"]
        return
    verdict.differences = disagreements(verdict, verdict.counted)
    if verdict.differences and is_pass:
        verdict.findings = [Violation("engines_disagree", evidence=evidence) for evidence in verdict.differences]
        verdict.violations = {"engines_disagree": len(verdict.differences)}


def _all_of(verdict: Verdict, concluded: DataFrame) -> Iterator[Violation]:
    """Yield all violations in order; those that are not on the driver come from Spark piece by piece."""
    if len(verdict.findings) == sum(verdict.violations.values()):
        yield from verdict.findings
    else:
        for row in violations_in(concluded).toLocalIterator():
            yield Violation(**row.asDict())


def explain(error: Exception) -> Exception:
    """Return the error of a damaged log if that is what a worker failed with."""
    text = str(error)
    if "ReplayError: " in text:
        return ReplayError(text.partition("ReplayError: ")[2].splitlines()[0])
    return error
