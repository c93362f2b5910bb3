"""What the plots of the report show, gathered by Spark in buckets of wall time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.local_engine import TIMELINE_GRAIN_NS, bucket_width
from triack.tools.replay.schema import LATENCY_BUCKETS_PER_DECADE, SessionLine, Timeline
from triack.tools.replay.spark_records import LINK, STREAM, facts, pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

DUPLICATE: Final = "((event = 'packet_received' and duplicate) or (event = 'rejected' and reason = 'duplicate'))"
"""A packet arrived again."""
SHOWN: Final = (
    "event in ('packet_sent', 'queued', 'committed', 'session_opened', 'session_closed')"
    f" or coalesce({DUPLICATE}, false)"
)
"""The records that the plots are made of; their span is the time axis."""
_PREFIX: Final = "plot "
"""Tells the facts for plots from those for the verdict."""


def empty_timeline(start_ns: int, end_ns: int) -> Timeline:
    """Return a timeline for a span of wall time, with nothing in its buckets yet."""
    return Timeline(start_ns, bucket_width(start_ns, end_ns) * TIMELINE_GRAIN_NS)


def timeline_facts(timeline: Timeline, records: DataFrame, sends: DataFrame, unacked: DataFrame) -> list[DataFrame]:
    """Return what ``fill_timeline`` needs, as facts: `number` is a bucket, `value` what belongs into it.

    Args:
        timeline: the empty timeline.
        records: all records.
        sends: from ``sends``.
        unacked: from ``unacked``.
    """
    bucket = (f.floor(f.col("wall_ns") / timeline.bucket_ns) - timeline.start_ns // timeline.bucket_ns).alias("bucket")
    peaks = unacked.groupBy(*LINK, bucket).agg(f.max("unacked").alias("peak"))
    return [
        _sums("committed", pick(records, "committed"), bucket, f.sum("count")),
        _sums("duplicates", records.where(DUPLICATE), bucket, f.count("*")),
        _sums("resends", _sent_again(records, sends), bucket, f.count("*")),
        _latency(records),
        facts(peaks, _PREFIX + "unacked", number=f.col("bucket"), value=f.col("peak")),
        _lives(records),
    ]


def fill_timeline(timeline: Timeline, rows: list[Row], called: dict[int, str]) -> None:
    """Put facts into the timeline.

    Args:
        timeline: from ``empty_timeline``.
        rows: all facts; those that are not for plots are left alone.
        called: names behind hashed ids.
    """
    counts = {_PREFIX + name: getattr(timeline, name) for name in ("committed", "duplicates", "resends", "latency")}
    for row in rows:
        if row["kind"] in counts and row["value"]:
            counts[row["kind"]][row["number"]] = row["value"]
        elif row["kind"] == _PREFIX + "unacked":
            key = (called[row["node"]], called[row["session"]])
            timeline.unacked.setdefault(key, {})[row["number"]] = row["value"]
        elif row["kind"] == _PREFIX + "life":
            key = (called[row["node"]], called[row["session"]])
            timeline.sessions.append(SessionLine(*key, row["number"], row["value"] or 0, row["evidence"] or ""))
    timeline.sessions.sort(key=lambda line: (line.opened_ns, line.node))


def _sums(name: str, rows: DataFrame, bucket: Column, value: Column) -> DataFrame:
    found = rows.groupBy(bucket).agg(value.alias("sum"))
    return facts(found, _PREFIX + name, number=f.col("bucket"), value=f.col("sum"))


def _sent_again(records: DataFrame, sends: DataFrame) -> DataFrame:
    """Return the sends of packets that had left before."""
    moves = pick(records, "packet_sent")
    several = sends.where("sends > 1").select("node", *STREAM, "number", "begun")
    again = moves.join(several, ["node", *STREAM, "number"]).where("pos > begun").select("wall_ns")
    return again.unionAll(moves.where("lane is null and resend").select("wall_ns"))


def _latency(records: DataFrame) -> DataFrame:
    """Return a histogram of the wall time from queued to committed, over messages."""
    rows = pick(records, "queued", "committed").where("not coalesce(recovered, false)")
    queued = f.col("event") == "queued"
    rows = rows.select(
        *STREAM, "wall_ns", "count", queued.alias("queued"),
        f.when(queued, f.col("first")).otherwise(f.col("last")).alias("at"),
        f.when(queued, f.col("wall_ns")).alias("begun"), f.when(queued, f.col("last")).alias("reach"),
    )  # fmt: skip
    window = Window.partitionBy(*STREAM).orderBy("at", ~f.col("queued"))
    begun, reach = (f.last(name, ignorenulls=True).over(window) for name in ("begun", "reach"))
    rows = rows.withColumns({"begun": begun, "reach": reach}).where("not queued and at <= reach")
    took = f.col("wall_ns") - f.col("begun")
    scale = f.log10(f.greatest(took, f.lit(1000)) / 1000) * LATENCY_BUCKETS_PER_DECADE
    return _sums("latency", rows.where(took >= 0), f.floor(scale).alias("bucket"), f.sum("count"))


def _lives(records: DataFrame) -> DataFrame:
    """Return when each session opened (`number`) and closed (`value`) at each end, and why (`evidence`)."""
    lives = pick(records, "session_opened", "session_closed").groupBy(*LINK).agg(
        f.min(f.when(f.col("event") == "session_opened", f.col("wall_ns"))).alias("opened"),
        f.max(f.when(f.col("event") == "session_closed", f.col("wall_ns"))).alias("closed"),
        f.max("reason").alias("reason"),
    )  # fmt: skip
    found = lives.where("opened is not null")
    return facts(found, _PREFIX + "life", f.col("reason"), number=f.col("opened"), value=f.col("closed"))
