"""What the plots of the report show, gathered by Spark in buckets of wall time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.local_engine import TIMELINE_GRAIN_NS, bucket_width
from triack.tools.replay.schema import LATENCY_BUCKETS_PER_DECADE, SessionLine, Timeline
from triack.tools.replay.spark_records import LINK, STREAM, names, pick
from triack.tools.replay.spark_sessions import unacked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The events that the plots are made of; their span is the time axis.
_SHOWN: Final = ("packet_sent", "queued", "committed", "session_opened", "session_closed")
_DUPLICATE: Final = "(event = 'packet_received' and duplicate) or (event = 'rejected' and reason = 'duplicate')"


def gather_timeline(records: DataFrame, lines: DataFrame, links: DataFrame) -> Timeline:
    """Return the timeline of a record.

    Args:
        records: all records.
        lines: the lines behind them, for names.
        links: what ``links`` returned.
    """
    shown = records.where(f.col("event").isin(*_SHOWN) | f.coalesce(f.expr(_DUPLICATE), f.lit(False)))
    row = shown.agg(f.min("wall_ns").alias("begin"), f.max("wall_ns").alias("end")).first()
    if row is None or row["begin"] is None:
        return Timeline()
    timeline = Timeline(row["begin"], bucket_width(row["begin"], row["end"]) * TIMELINE_GRAIN_NS)
    bucket = (f.floor(f.col("wall_ns") / timeline.bucket_ns) - timeline.start_ns // timeline.bucket_ns).alias("bucket")
    timeline.committed = _counts(pick(records, "committed"), bucket, f.sum("count"))
    timeline.duplicates = _counts(records.where(_DUPLICATE), bucket, f.count("*"))
    timeline.resends = _counts(_sent_again(records, links), bucket, f.count("*"))
    timeline.latency = _latency(records)
    _add_sessions(timeline, records, lines, links, bucket)
    return timeline


def _counts(rows: DataFrame, bucket: Column, count: Column) -> dict[int, int]:
    found = rows.groupBy(bucket).agg(count.alias("value")).collect()
    return {row["bucket"]: row["value"] for row in found if row["value"]}


def _sent_again(records: DataFrame, links: DataFrame) -> DataFrame:
    """Return the sends of packets that had left before."""
    moves = pick(records, "packet_sent")
    out = links.where("outgoing and moved is not null and lane is not null")
    first = Window.partitionBy("node", *STREAM, "number")
    # Only packets with more than one send, in one session or in several, can have been sent again.
    several = out.withColumn("moves", f.sum("moves").over(first)).where("moves > 1")
    begun = several.groupBy("node", *STREAM, "number").agg(f.min("moved").alias("begun"))
    again = moves.join(begun, ["node", *STREAM, "number"]).where("pos > begun").select("wall_ns")
    return again.unionByName(moves.where("lane is null and resend").select("wall_ns"))


def _latency(records: DataFrame) -> dict[int, int]:
    """Return a histogram of the wall time from queued to committed, over messages."""
    queued = pick(records, "queued").where("not coalesce(recovered, false)")
    queued = queued.select(*STREAM, f.col("first").alias("at"), "last", f.col("wall_ns").alias("begun"))
    done = pick(records, "committed").select(*STREAM, f.col("last").alias("at"), "wall_ns", "count")
    window = Window.partitionBy(*STREAM).orderBy("at", f.col("begun").isNull())
    both = queued.unionByName(done, allowMissingColumns=True)
    both = both.withColumn("begun", f.last("begun", ignorenulls=True).over(window))
    both = both.withColumn("last", f.last("last", ignorenulls=True).over(window)).where(
        "count is not null and at <= last"
    )
    took = f.col("wall_ns") - f.col("begun")
    scale = f.log10(f.greatest(took, f.lit(1000)) / 1000) * LATENCY_BUCKETS_PER_DECADE
    bucket = f.floor(scale).alias("bucket")
    return _counts(both.where(took >= 0), bucket, f.sum("count"))


def _add_sessions(timeline: Timeline, records: DataFrame, lines: DataFrame, links: DataFrame, bucket: Column) -> None:
    """Add the lives of the sessions, and how many packets each had unacknowledged."""
    lives = pick(records, "session_opened", "session_closed").groupBy(*LINK).agg(
        f.min(f.when(f.col("event") == "session_opened", f.col("wall_ns"))).alias("opened"),
        f.max(f.when(f.col("event") == "session_closed", f.col("wall_ns"))).alias("closed"),
        f.max("reason").alias("reason"),
    )  # fmt: skip
    rows = lives.where("opened is not null").collect()
    times = pick(records, "packet_sent").select("node", "pos", "wall_ns")
    peaks = unacked(links).join(times, ["node", "pos"]).groupBy(*LINK, bucket).agg(f.max("unacked").alias("unacked"))
    points = peaks.collect()
    called = names(lines, {row[name] for row in [*rows, *points] for name in LINK})
    for row in rows:
        line = SessionLine(
            called[row["node"]], called[row["session"]], row["opened"], row["closed"] or 0, row["reason"] or ""
        )
        timeline.sessions.append(line)
    timeline.sessions.sort(key=lambda line: (line.opened_ns, line.node))
    for row in points:
        key = (called[row["node"]], called[row["session"]])
        timeline.unacked.setdefault(key, {})[row["bucket"]] = row["unacked"]
