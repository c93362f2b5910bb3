"""What a sender promises about sending again, in Spark; and that the logs themselves have no gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.schema import FAILURE_REASONS, POSITION_SHIFT, TIER_NOISE_NS, TIER_TOLERANCE_PERCENT
from triack.tools.replay.spark_records import LINK, RECOVERABLE_CODE, STREAM, in_order, pick, violations

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PACKET: Final = ("cls", *STREAM, "number")


def sends(links: DataFrame) -> DataFrame:
    """Return each node's sequence packets: how often they left, when last, and whether an ack of a link freed them."""
    acked = f.expr("cls = 0 and acked > moved")
    stored = f.expr(f"(cls = {RECOVERABLE_CODE} or node <> origin) and stored > moved")
    out = links.where("outgoing and moved is not null and lane is not null")
    freed = f.max(f.when(acked | stored, 1).otherwise(0))
    return out.groupBy("node", *_PACKET).agg(
        f.sum("moves").alias("sends"), f.max("moved_last").alias("pos"), freed.alias("freed")
    )


def failures(records: DataFrame) -> DataFrame:
    """Return the ends of sessions that closed for a reason that is a failure."""
    return pick(records, "session_closed").where(f.col("reason").isin(*FAILURE_REASONS)).select(*LINK).distinct()


def check_resent(links: DataFrame, sends: DataFrame, records: DataFrame) -> DataFrame:
    """Find packets of failed sessions that a later session skipped."""
    out = links.where("outgoing and moved is not null and lane is not null")
    failed = out.join(f.broadcast(failures(records)), [*LINK]).select("session", "node", *_PACKET, "moved_last")
    left = failed.join(sends.where("freed = 0"), ["node", *_PACKET]).where("moved_last = pos")
    left = _never_freed(left.drop("sends", "freed", "moved_last"), records)
    skipped = left.join(_lanes(out, left), ["node", "origin", "lane"]).where(_went_on())
    evidence = f.lit("unacknowledged when its session failed, and skipped by later sessions")
    rows = skipped.select("node", "session", *_PACKET).distinct()
    return violations(rows, "close_without_full_resend", evidence)


def _never_freed(left: DataFrame, records: DataFrame) -> DataFrame:
    """Return packets that neither an order ack nor a removal lets their origin forget."""
    acked = pick(records, "order_ack_received").where("node = origin")
    acked = acked.groupBy("node", *STREAM).agg(f.max("number").alias("order_acked"))
    removed = pick(records, "removed").select(*STREAM, "first", "last")
    kept = left.join(f.broadcast(acked), ["node", *STREAM], "left")
    kept = kept.where("order_acked is null or number > order_acked").drop("order_acked")
    same = [f.col(f"kept.{name}") == f.col(f"removed.{name}") for name in STREAM]
    inside = f.expr("kept.number between removed.first and removed.last")
    return kept.alias("kept").join(removed.alias("removed"), same[0] & same[1] & same[2] & inside, "left_anti")


def _lanes(out: DataFrame, left: DataFrame) -> DataFrame:
    """Return the sessions that carried the lanes of the packets left behind: since when, and up to which packet."""
    lanes = left.select("node", "origin", "lane").distinct()
    carried = out.join(f.broadcast(lanes), ["node", "origin", "lane"])
    return carried.groupBy("node", "origin", "lane", f.col("session").alias("later")).agg(
        f.min("moved").alias("begun"), f.max(f.struct("sequence", "number")).alias("top")
    )


def _went_on() -> Column:
    """Return whether a later session carried a later packet of the lane."""
    later = f.expr("later <> session and begun > pos and top > struct(sequence, number)")
    # Express packets live in memory: another start of the node owes nothing of them.
    alive = f.expr(f"cls > 0 or shiftright(begun, {POSITION_SHIFT}) = shiftright(pos, {POSITION_SHIFT})")
    return later & alive


def check_attempts(records: DataFrame) -> DataFrame:
    """Find resend attempts that do not count up, or start again without a reason."""
    rows = pick(records, "resend_scheduled", "order_ack_received", "session_opened")
    columns = ("node", *STREAM, "event", "pos", "incarnation", "attempt", "number")
    opens = f.count(f.when(f.col("event") == "session_opened", 1)).over(in_order("node"))
    progress = f.max(f.when(f.col("event") == "order_ack_received", f.col("number"))).over(in_order("node", *STREAM))
    rows = rows.select(*columns).withColumn("opens", opens).withColumn("progress", f.coalesce(progress, f.lit(0)))
    attempts = rows.where("event = 'resend_scheduled'")
    ordered = Window.partitionBy("node", *STREAM).orderBy("pos")
    reset = f.lit(False)
    for name in ("incarnation", "opens", "progress"):
        reset = reset | (f.col(name) != f.lag(name).over(ordered))
    before = f.coalesce(f.lag("attempt").over(ordered), f.lit(0))
    attempts = attempts.withColumn("before", before).withColumn("reset", f.coalesce(reset, f.lit(False)))
    wrong = attempts.where("attempt <> before + 1 and not (attempt = 1 and reset)")
    evidence = f.format_string("attempt %d follows attempt %d", "attempt", "before")
    return violations(wrong.withColumn("number", f.col("attempt")), "resend_tiers", evidence)


def check_waits(records: DataFrame) -> DataFrame:
    """Find waits that differ within a resend tier, or shrink from one tier to the next."""
    keys = ("node", *STREAM, "incarnation")
    tier = f.expr("least(floor((greatest(attempt, 1) - 1) / 3), 3) + 1")
    tiers = pick(records, "resend_scheduled").groupBy(*keys, tier.alias("tier"))
    waits = tiers.agg(f.min("interval_ns").alias("shortest"), f.max("interval_ns").alias("longest"))
    before = f.lag("shortest").over(Window.partitionBy(*keys).orderBy("tier"))
    waits = waits.withColumn("before", f.coalesce(before, f.lit(0))).withColumn("number", f.expr("3 * tier - 2"))
    allowed = f"shortest * {100 + TIER_TOLERANCE_PERCENT} + {100 * TIER_NOISE_NS}"
    uneven = f.format_string("waits of tier %d go from %d to %d ns", "tier", "shortest", "longest")
    shrunk = f.format_string("tier %d waits %d ns, the tier before %d ns", "tier", "shortest", "before")
    rows = violations(waits.where(f"longest * 100 > {allowed}"), "resend_tiers", uneven)
    return rows.unionByName(violations(waits.where(f"before * 100 > {allowed}"), "resend_tiers", shrunk))


def check_serials(records: DataFrame, logs: DataFrame) -> DataFrame:
    """Find places where the serial numbers of a node's records jump.

    Args:
        records: all records.
        logs: for each incarnation of a node, how many `records`, their lowest and highest `n` and their sum.
    """
    keys = ["node", "incarnation"]
    # Sorting all records is dear; sums tell which logs can have a gap at all.
    doubtful = logs.where("low <> 1 or high <> records or sum <> records * (records + 1) div 2").select(*keys)
    rows = records.select(*keys, "n").join(f.broadcast(doubtful), keys)
    before = f.coalesce(f.lag("n").over(Window.partitionBy(*keys).orderBy("n")), f.lit(0))
    jumps = rows.withColumn("before", before).where("n <> before + 1")
    text = "incarnation %d: record %d follows record %d"
    evidence = f.format_string(text, "incarnation", "n", "before")
    return violations(jumps, "log_gap", evidence, number=f.col("n"))
