"""The Spark engine: deals records out to the judges on any number of machines, and brings home what they find.

The driver lists the files, the workers read them, and every step is a function from DataFrame to DataFrame. Python runs
the same judges as the local engine, partition by partition and chunk by chunk, so neither a giant session nor a giant
stream has to fit into memory. In the end one task concludes (``spark_conclusion.py``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import DisorderError, Output, Record
from triack.tools.replay.engines.arrow_rows import each, over, pack
from triack.tools.replay.engines.checkpoint import freeze, revive, revive_part
from triack.tools.replay.engines.dealing import Chunk, deal, in_order, unpack_chunk
from triack.tools.replay.engines.spark_conclusion import Told, conclude_all, verdict_in, violations_in
from triack.tools.replay.engines.spark_files import list_files, read_files, tabulate_files
from triack.tools.replay.engines.spark_session import compiling
from triack.tools.replay.engines.summary import Loaded, load_summaries
from triack.tools.replay.judges.at_once import AtOnce
from triack.tools.replay.judges.conclusion import Read, cover
from triack.tools.replay.judges.journal import Journal, Unit
from triack.tools.replay.judges.judge import Part, UnitJudge
from triack.tools.replay.judges.past import NO_CUTS, Cut, Past, behind
from triack.tools.replay.log.files import Reading, split
from triack.tools.replay.log.listing import OPEN_SUFFIX, Listing
from triack.tools.replay.log.schema import Verdict, Violation
from triack.tools.replay.log.validity import complaint
from triack.tools.replay.tables.counts import Tee, disagreements, is_countable, open_packed, totals

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

DEALT: Final = "kind string, unit string, node string, incarnation bigint, n bigint, place int, data binary"
"""A chunk on its way to its judge: ``kind`` and ``unit`` name the judge, the others its place among the chunks.

Of kind ``found`` is what a task was told (``Told``); of kind ``counted`` records as columns, for the second count, and
the event of all of them in ``unit``.
"""
TASK_BYTES: Final = 8 << 20
"""Chunks that are judged by one task: a second's work or so, and many tasks of a large log."""
STATE: Final = -1
"""The place of a row with the state of its unit: before all that is new to it."""
COUNTED: Final = "counted"
"""The kind of a row with records for the second count."""
COUNTED_BYTES: Final = 1 << 20
"""Records up to this size, packed, are counted by one task, without code of their own: a few seconds' work, as dealing
them out and compiling would be."""
PART: Final = "part"
"""The kind of a row with one node's part of a unit, as far as it was judged."""
PENDING: Final = 2_048
"""Records whose findings and facts are passed on together, before a unit is judged to its end."""
FINDS_MAX: Final = 5
"""How often segments are looked for: running nodes rename them, each every few minutes."""
_RENAMED: Final = re.compile(rf"FILE_NOT_EXIST\b.*{re.escape(OPEN_SUFFIX)}\b")
"""Spark's error for a segment that was completed, and so renamed, before a task came to it."""
Row = tuple[str, str, str, int, int, int, bytes]
Result = TypeVar("Result")


def deal_files(files: DataFrame, *, at_once: bool = True, cuts: Mapping[str, Cut] = NO_CUTS) -> DataFrame:
    """Return the records of segments, dealt out in chunks, and what reading them found.

    Args:
        files: a table of ``spark_files.FILES``.
        at_once: whether what can be judged is judged while it is read, and parts take the place of its records. Logs
            that are out of order fail with ``DisorderError`` then, here or where they are judged.
        cuts: the last record of each node that is in a summary.
    """
    return files.mapInArrow(each(partial(_deal_files, at_once=at_once, cuts=cuts), DEALT), DEALT)


def deal_past(spark: SparkSession, past: Past) -> DataFrame:
    """Return what summaries hold, as ``deal_files`` returns what it judged at once."""
    import pyarrow as pa

    return spark.createDataFrame(pa.Table.from_batches([pack(list(_rows_of_past(past)), DEALT)]), DEALT)


def _rows_of_past(past: Past) -> Iterator[Row]:
    yield found_row(Told(segments=past.segments, out=past.found))
    cuts = past.cuts
    for unit, node, state in past.kept:
        part = resumed_part(unit, state)
        part.until = cuts[node]
        yield unit[0], "/".join(unit[1:]), node, 0, 0, STATE, freeze(part)


def resumed_part(unit: Unit, state: bytes) -> Part:
    """Return one node's part of a unit, as a summary holds it."""
    part = Part(unit)
    judge = revive_part(state, part.out)
    assert isinstance(judge, UnitJudge)
    part.judge = judge
    judge.go_on(forgets=False)
    return part


def deal_records(records: DataFrame) -> DataFrame:
    """Do the same with a table of records, as ``triack.replay.load`` returns it."""
    ordered = records.repartition("file").sortWithinPartitions("file", "line")
    return ordered.mapInArrow(over(_deal_rows, DEALT), DEALT)


def judge(dealt: DataFrame, kinds: Sequence[str], tasks: int) -> DataFrame:
    """Judge each node's records of the units of some kinds; return what is found, the parts, and facts for streams."""
    mine = dealt.where(f.col("kind").isin(*kinds)).repartition(tasks, "unit", "node")
    ordered = mine.sortWithinPartitions("kind", "unit", "node", "incarnation", "n", "place")
    return ordered.mapInArrow(each(_judge_parts, DEALT), DEALT)


def join(judged: DataFrame, tasks: int) -> DataFrame:
    """Merge the parts of each unit, and return what they show together."""
    parts = judged.where(f.col("kind") == PART).repartition(tasks, "unit")
    return parts.sortWithinPartitions("unit", "node").mapInArrow(each(_join_parts, DEALT), DEALT)


# ---- what runs on the workers


def _deal_files(rows: Iterator[dict[str, Any]], *, at_once: bool, cuts: Mapping[str, Cut]) -> Iterator[Row]:
    told, tee = Told(), Tee()
    for row in rows:
        path = os.fsdecode(row["name"])
        reading = Reading(path, row["content"])
        segments = ((line, behind(records, cuts)) for line, records in reading.segments())
        records = yield from _deal_segments(path, segments, told, tee, at_once=at_once)
        reading.compare(row["size"])
        told.read.append(Read(path, records, reading.torn, reading.fault))
    yield found_row(told)
    yield from _counted(tee.finish())


def _deal_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    from triack.tools.replay.log.columns import unpack_rows

    told, tee = Told(), Tee()
    rows = (row for batch in batches for row in unpack_rows(batch))
    for path, mine in groupby(rows, key=lambda row: row[0]):
        records = yield from _deal_segments(path, split(_checked(path, mine)), told, tee, at_once=False)
        told.read.append(Read(path, records))
    yield found_row(told)
    yield from _counted(tee.finish())


def _counted(packed: Iterable[tuple[str, bytes]]) -> Iterator[Row]:
    """Yield records for the second count as rows."""
    return ((COUNTED, event, "", 0, 0, 0, data) for event, data in packed)


def _checked(path: str, rows: Iterable[tuple[str, int, Record]]) -> Iterator[Record]:
    """Yield the records of rows; the user may have written, joined and filtered the table."""
    for _, line, record in rows:
        if said := complaint(record):
            raise ReplayError(f"{path} line {line} {said}")
        yield record


def _deal_segments(
    path: str, segments: Iterable[tuple[int, Iterable[Record]]], told: Told, tee: Tee, *, at_once: bool
) -> Generator[Row, None, int]:
    """Deal out the segments of a file; return how many records they have."""
    count = 0
    for line, records in segments:
        out = Output()
        journal = Journal(path, out, line)
        judging = AtOnce(journal)
        yield from rows_of(deal((judging if at_once else journal).read(tee.read(records))))
        yield from _parts_of(journal, judging, told)
        yield from _taken(told, out)
        count += journal.records
        yield from _counted(tee.take())
    return count


def _parts_of(journal: Journal, judging: AtOnce, told: Told) -> Iterator[Row]:
    """Tell of a segment as a whole, and yield the units that were judged while it was read."""
    segment = journal.segment()
    if segment is None:
        return
    told.segments.append(segment)
    for unit, (n, part) in judging.parts.items():
        yield from _taken(told, part.out)
        yield unit[0], "/".join(unit[1:]), segment.node, segment.incarnation, n, STATE, freeze(part)


def _taken(told: Told, out: Output) -> Iterator[Row]:
    """Take what was found, and leave nothing of it; yield facts for streams, and what was told if that is much."""
    yield from rows_of(deal((("stream", fact["origin"], str(fact["stream"])), fact) for fact in out.facts))
    told.take(out)
    out.clear()
    if told.is_much:
        yield found_row(told)
        told.clear()


def _judge_parts(rows: Iterator[dict[str, Any]]) -> Iterator[Row]:
    told = Told()
    for (kind, name, node), mine in groupby(rows, key=lambda row: (row["kind"], row["unit"], row["node"])):
        data = yield from _judge_part(unit_of(kind, name), mine, told)
        yield PART, f"{kind}/{name}", node, 0, 0, 0, data
    yield found_row(told)


def _judge_part(unit: Unit, rows: Iterator[dict[str, Any]], told: Told) -> Generator[Row, None, bytes]:
    """Judge one node's records of a unit; tell what is found, and return the part afterwards."""
    first = next(rows)
    part, more = Part(unit), chain([first], rows)
    if first["place"] == STATE:
        second = next(rows, None)
        if second is None:
            data: bytes = first["data"]
            return data
        part, more = revive(first["data"], Part), chain([second], rows)
    for records in in_order(opened(_behind(part, more))):
        for begin in range(0, len(records), PENDING):
            part.see(records[begin : begin + PENDING])
            yield from _taken(told, part.out)
    yield from _taken(told, part.out)
    return freeze(part)


def _behind(part: Part, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield chunks; all of them follow what was judged where it was read, if anything was."""
    for row in rows:
        if row["place"] == STATE or (row["incarnation"], row["n"]) <= part.until:
            raise DisorderError
        yield row


def _join_parts(rows: Iterator[dict[str, Any]]) -> Iterator[Row]:
    told = Told()
    for _, mine in groupby(rows, key=lambda row: row["unit"]):
        parts = [revive(row["data"], Part) for row in mine]
        for other in parts[1:]:
            parts[0].join(other)
        parts[0].finish()
        for part in parts:
            yield from _taken(told, part.out)
    yield found_row(told)


def unit_of(kind: str, name: str) -> Unit:
    """Return the unit that a row names."""
    if kind == "stream":
        return (kind, *name.rsplit("/", 1))
    return (kind, *name.split("/", 1)) if kind == "topic" else (kind, name)


def opened(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[str, int, int], list[Record]]]:
    """Open the chunks in rows, for ``in_order``."""
    for row in rows:
        yield (row["node"], row["incarnation"], row["n"]), unpack_chunk(row["data"])


def rows_of(chunks: Iterable[Chunk]) -> Iterator[Row]:
    """Yield chunks as rows."""
    for at, chunk in enumerate(chunks):
        unit = chunk.unit
        yield unit[0], "/".join(unit[1:]), chunk.node, chunk.incarnation, chunk.n, at, chunk.data


def found_row(told: Told) -> Row:
    """Return what a task was told as a row."""
    return "found", "", "", 0, 0, 0, freeze(told)


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

    The records stay where they are read, as far as they can be judged there. The result is in Spark's cache until
    ``unpersist()``.
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
            renamed, or if logs that are out of order cannot be judged where they are read.
    """
    given, at_once, finds = list(paths), True, FINDS_MAX
    while True:
        listing = list_files(spark, given)
        loaded = load_summaries(listing, partial(read_files, spark))
        files = tabulate_files(spark, listing)
        finds -= 1
        try:
            dealt = deal_files(files, at_once=at_once, cuts=loaded.past.cuts if loaded.past is not None else NO_CUTS)
            if loaded.past is not None:
                dealt = dealt.unionByName(deal_past(spark, loaded.past))
            return use(dealt, listing, loaded)
        except Exception as error:
            if at_once and DisorderError.__name__ in str(error):
                at_once = False
            elif finds < 1 or not _RENAMED.search(str(error)):
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
        (size,) = dealt.where(f.col("kind") != COUNTED).agg(f.sum(f.length("data"))).first() or (0,)
        tasks = 1 + (size or 0) // TASK_BYTES
        sessions = keep(judge(dealt, ["session"], tasks))
        streams = keep(judge(dealt.unionByName(sessions.where("kind = 'stream'")), ["stream", "topic"], tasks))
        parts = sessions.unionByName(streams)
        found = dealt.unionByName(parts).where("kind = 'found'").unionByName(join(parts, tasks))
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
