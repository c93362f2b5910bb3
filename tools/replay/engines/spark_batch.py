"""One batch of a stream: judges what is new, starting from the table of what was known before.

The table has rows of ``DEALT``: the state of each segment, session and stream, permanent findings, and what holds for
each unit for now. A batch writes what it changed, as a piece of its own (``pieces.py``); of a unit that is in several
pieces, the last one counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from triack.tools.replay.engines.checkpoint import freeze, revive
from triack.tools.replay.engines.dealing import deal, in_order
from triack.tools.replay.engines.spark_engine import (
    DEALT,
    PENDING,
    STATE,
    TASK_BYTES,
    Row,
    each,
    found_row,
    opened,
    pack,
    results,
    rows_of,
    told,
    unit_of,
)
from triack.tools.replay.engines.spark_growth import Row as Grown
from triack.tools.replay.engines.standing import Growing, Standing
from triack.tools.replay.judges.past import NO_CUTS, Cut, Past
from triack.tools.replay.log.listing import OPEN_SUFFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


KINDS: Final = (("segment",), ("session",), ("stream", "topic"))
"""The kinds of units: those of a later group have news of an earlier one."""
Work = Callable[[Iterator[dict[str, Any]]], Iterator[Row]]

KNOWN: Final = f"{DEALT}, upto int"
"""A row of the table, and which piece it is in."""
_WHOSE: Final = "CASE WHEN kind = 'found' THEN node ELSE concat_ws('/', kind, unit) END"
"""The unit that a row of the table is about."""


def judge_batch(
    grown: Sequence[Grown],
    before: DataFrame,
    merged: DataFrame | None,
    to: str,
    *,
    forgets: bool,
    cuts: Mapping[str, Cut] = NO_CUTS,
) -> None:
    """Judge what is new, and write what is then known of each unit with news.

    Args:
        grown: the segments that have grown, as ``spark_growth.watch`` has them.
        before: what was known, as ``KNOWN``. Rows with the place ``STATE`` have the state of their unit; of those of
            kind ``found`` the node says of which unit they are true for now, or nothing.
        merged: what is in force of those pieces of it that are to be written once more with what is new, if any.
        to: where to write.
        forgets: whether what is settled is kept as sums only.
        cuts: the last record of each node that is in a summary.
    """
    import pyarrow as pa

    tasks = 1 + sum(more for _, _, more in grown) // TASK_BYTES
    rows = [("segment", _unit_of(path), "", 0, size, 0, path) for path, size, _ in grown]
    # Of a table of Arrow Spark makes rows in its plan, without a job.
    news = before.sparkSession.createDataFrame(pa.Table.from_batches([pack(rows)]), DEALT)
    frames: list[DataFrame] = []
    for kinds in KINDS:
        work = partial(go_on, forgets=forgets, cuts=cuts)
        judged = _judge_kinds(kinds, news, before, tasks, work).persist()
        frames.append(judged)
        news = news.unionByName(judged)
    known = news.where(f"kind = 'found' OR place = {STATE}")
    if merged is not None:
        known = known.unionByName(_others(merged, known, tasks).drop("upto"))
    known.write.mode("overwrite").partitionBy("kind").parquet(to)
    for frame in frames:
        frame.unpersist()


def _unit_of(path: bytes) -> str:
    """Return the name of a segment's unit: that of its file when it is complete, each byte of it as a character."""
    return path.removesuffix(OPEN_SUFFIX.encode()).decode("latin-1")


def in_force(table: DataFrame) -> DataFrame:
    """Return the rows of a table, as ``KNOWN``, that no later piece has made invalid."""
    owned = table.withColumn("whose", f.expr(_WHOSE))
    newest = owned.where(f.col("place") == STATE).groupBy("whose").agg(f.max("upto").alias("newest"))
    # Permanent findings belong to no unit.
    return owned.join(newest, "whose", "left").where("newest IS NULL OR upto = newest").drop("whose", "newest")


def _judge_kinds(kinds: Sequence[str], news: DataFrame, before: DataFrame, tasks: int, work: Work) -> DataFrame:
    """Let all units of some kinds go on that have news."""
    mine = news.where(f.col("kind").isin(*kinds))
    units = _told_to_all(mine.select("kind", "unit"), tasks)
    known = before.where(f.col("kind").isin(*kinds) & (f.col("place") == STATE))
    states = known.join(units, ["kind", "unit"], "left_semi")
    # A unit's states come before all that is new, and the last one follows the others.
    states = states.withColumn("incarnation", f.lit(STATE).cast("bigint")).withColumn("n", f.col("upto").cast("bigint"))
    ordered = (
        mine.unionByName(states.drop("upto"))
        .repartition(tasks, "unit")
        .sortWithinPartitions("kind", "unit", "node", "incarnation", "n", "place")
    )
    return ordered.mapInArrow(each(work), DEALT)


def _told_to_all(units: DataFrame, tasks: int) -> DataFrame:
    """Return units with news, sent to all tasks where news of one task bounds their number: that spares a shuffle."""
    return f.broadcast(units) if tasks == 1 else units


def _others(before: DataFrame, known: DataFrame, tasks: int) -> DataFrame:
    """Return what was known before of units that had no news, and what was found for good."""
    touched = _told_to_all(known.where(f.col("place") == STATE).select(f.expr(_WHOSE).alias("whose")), tasks)
    return before.withColumn("whose", f.expr(_WHOSE)).join(touched, "whose", "left_anti").drop("whose")


def rows_of_past(past: Past, *, forgets: bool) -> Iterator[Row]:
    """Yield what summaries hold as rows of the table."""
    yield from results(past.found)
    for segment in past.segments:
        yield found_row("segment", segment)
    for unit, kept in groupby(sorted(past.kept), key=lambda it: it.unit):
        standing = Standing(unit, forgets=forgets)
        standing.resume((it.state for it in kept), past.cuts)
        yield from _kept(unit[0], "/".join(unit[1:]), standing)


# ---- what runs on the workers


def go_on(rows: Iterator[dict[str, Any]], *, forgets: bool, cuts: Mapping[str, Cut] = NO_CUTS) -> Iterator[Row]:
    """Process the news of units; yield what they pass on, what was found, and their states.

    Args:
        rows: of ``DEALT``, those of a unit together and in its order, its states first if it has any, the last of which
            counts.
        forgets: as of ``judge_batch``.
        cuts: as of ``judge_batch``.
    """
    for (kind, name), mine in groupby(rows, key=lambda row: (row["kind"], row["unit"])):
        yield from _go_on_with(kind, name, mine, forgets=forgets, cuts=cuts)


def _go_on_with(
    kind: str, name: str, rows: Iterator[dict[str, Any]], *, forgets: bool, cuts: Mapping[str, Cut]
) -> Iterator[Row]:
    first, state = next(rows), b""
    while first["place"] == STATE:
        first, state = next(rows), first["data"]
    news = chain([first], rows)
    if kind == "segment":
        segment = revive(state, Growing) if state else Growing()
        yield from _grow(segment, news, cuts)
        yield from _kept(kind, name, segment)
    else:
        standing = revive(state, Standing) if state else Standing(unit_of(kind, name), forgets=forgets)
        yield from _judge_on(standing, news)
        yield from _kept(kind, name, standing)


def _grow(segment: Growing, rows: Iterable[dict[str, Any]], cuts: Mapping[str, Cut]) -> Iterator[Row]:
    """Deal out what is new in a segment."""
    # It may have been renamed, and have grown more than once.
    last = max(rows, key=lambda row: (row["n"], not row["data"].endswith(OPEN_SUFFIX.encode())))
    yield from rows_of(deal(segment.grow(os.fsdecode(last["data"]), last["n"], cuts)))
    yield from told(segment.out)


def _judge_on(standing: Standing, rows: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """Judge what is new in a session or a stream."""
    out = standing.out
    for records in in_order(opened(rows)):
        for begin in range(0, len(records), PENDING):
            standing.see(records[begin : begin + PENDING])
            yield from told(out)


def _kept(kind: str, name: str, state: Growing | Standing) -> Iterator[Row]:
    """Yield the state of a unit, and what holds for it for now."""
    parts = [found_row(what, value) for what, value in state.parts()]
    for what, unit, _, incarnation, n, place, data in chain(parts, results(state.now()), results(state.out)):
        yield what, unit, f"{kind}/{name}", incarnation, n, place, data
    yield kind, name, "", 0, STATE, STATE, freeze(state)
