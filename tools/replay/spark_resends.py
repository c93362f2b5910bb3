"""What a sender promises about sending again, in Spark; and that the logs themselves have no gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.schema import FAILURE_REASONS, POSITION_SHIFT, TIER_NOISE_NS, TIER_TOLERANCE_PERCENT
from triack.tools.replay.spark_records import LINK, PACKET, RECOVERABLE_CODE, STREAM, cases, facts, in_order, pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def sends(links: DataFrame) -> DataFrame:
    """Return each node's sequence packets.

    How often they left (`sends`), when first (`begun`) and when last (`pos`), in which `session` that was, and whether
    an ack of a session `freed` them.
    """
    acked = f.expr("cls = 0 and acked is not null")
    stored = f.expr(f"(cls = {RECOVERABLE_CODE} or node <> origin) and stored is not null")
    out = links.where("outgoing and moved is not null and lane is not null")
    return out.groupBy("node", *STREAM, "number").agg(
        f.max_by("cls", "moved_last").alias("cls"),
        f.sum("moves").alias("sends"),
        f.min("moved").alias("begun"),
        f.max("moved_last").alias("pos"),
        f.max_by("session", "moved_last").alias("session"),
        f.max(f.when(acked | stored, 1).otherwise(0)).alias("freed"),
    )


def count_resends(sends: DataFrame) -> DataFrame:
    """Return one fact: how many sequence packets left again."""
    return facts(sends.agg(f.sum(f.col("sends") - 1).alias("sum")), "resends", value=f.col("sum"))


def check_resent(links: DataFrame, sends: DataFrame, records: DataFrame, *, removals: bool) -> DataFrame:
    """Find packets of failed sessions that a later session skipped.

    Args:
        links: from ``links``.
        sends: from ``sends``.
        records: the other records.
        removals: whether packets were removed at all.
    """
    failed = pick(records, "session_closed").where(f.col("reason").isin(*FAILURE_REASONS)).select(*LINK).distinct()
    left = sends.where("freed = 0").join(f.broadcast(failed), [*LINK]).select(*LINK, *PACKET, "pos")
    acked = pick(records, "order_ack_received").where("node = origin")
    acked = acked.groupBy("node", *STREAM).agg(f.max("number").alias("order_acked"))
    left = left.join(f.broadcast(acked), ["node", *STREAM], "left")
    left = left.where("order_acked is null or number > order_acked").drop("order_acked")
    if removals:
        left = _never_removed(left, records)
    # Position of the lane's begin in each session, and the highest packet of each sequence that the session carried.
    carried = links.where("outgoing and moved is not null and lane is not null")
    carried = carried.groupBy(
        "node", "origin", "lane", f.col("session").alias("later"), f.col("sequence").alias("top")
    ).agg(f.min("moved").alias("begun"), f.max("number").alias("highest"))
    begun = f.min("begun").over(Window.partitionBy("node", "origin", "lane", "later"))
    skipped = left.join(carried.withColumn("begun", begun), ["node", "origin", "lane"]).where(_went_on())
    evidence = f.lit("unacknowledged when its session failed, and skipped by later sessions")
    return facts(skipped.select(*LINK, *PACKET).distinct(), "close_without_full_resend", evidence)


def _never_removed(left: DataFrame, records: DataFrame) -> DataFrame:
    removed = pick(records, "removed").select(*STREAM, "first", "last")
    same = [f.col(f"kept.{name}") == f.col(f"removed.{name}") for name in STREAM]
    inside = f.expr("kept.number between removed.first and removed.last")
    return left.alias("kept").join(removed.alias("removed"), same[0] & same[1] & same[2] & inside, "left_anti")


def _went_on() -> Column:
    """Return whether a later session carried a later packet of the lane."""
    later = f.expr("later <> session and begun > pos and (top > sequence or (top = sequence and highest > number))")
    # Express packets live in memory: another start of the node owes nothing of them.
    alive = f.expr(f"cls > 0 or shiftright(begun, {POSITION_SHIFT}) = shiftright(pos, {POSITION_SHIFT})")
    return later & alive


def check_attempts(records: DataFrame) -> DataFrame:
    """Find resend attempts that do not count up, or start again without a reason."""
    rows = pick(records, "resend_scheduled", "order_ack_received", "session_opened", "removed")
    columns = ("node", *STREAM, "event", "pos", "incarnation", "attempt", "number")
    opens = f.count(f.when(f.col("event") == "session_opened", 1)).over(in_order("node"))
    # By incarnation: what a process had freed comes back when it died before that was on its disk.
    progress = f.max(f.when(f.col("event") == "order_ack_received", f.col("number")))
    progress = progress.over(in_order("node", *STREAM, "incarnation"))
    removals = f.count(f.when(f.col("event") == "removed", 1)).over(in_order("node", *STREAM))
    rows = rows.select(*columns).withColumns(
        {"opens": opens, "progress": f.coalesce(progress, f.lit(0)), "removals": removals}
    )
    attempts = rows.where("event = 'resend_scheduled'")
    ordered = Window.partitionBy("node", *STREAM).orderBy("pos")
    reset = f.lit(False)
    for name in ("incarnation", "opens", "progress", "removals"):
        reset = reset | (f.col(name) != f.lag(name).over(ordered))
    before = f.coalesce(f.lag("attempt").over(ordered), f.lit(0))
    attempts = attempts.withColumn("before", before).withColumn("reset", f.coalesce(reset, f.lit(False)))
    wrong = attempts.where("attempt <> before + 1 and not (attempt = 1 and reset)")
    evidence = f.format_string("attempt %d follows attempt %d", "attempt", "before")
    return facts(wrong.withColumn("number", f.col("attempt")), "resend_tiers", evidence)


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
    rows = cases(
        waits,
        ("resend_tiers", f.expr(f"longest * 100 > {allowed}"), uneven),
        ("resend_tiers", f.expr(f"before * 100 > {allowed}"), shrunk),
    )
    return facts(rows, f.col("kind"), f.col("evidence"))


def check_serials(records: DataFrame) -> DataFrame:
    """Find places where the serial numbers of a node's records jump. Sorts all records: for logs that have such."""
    keys = ["node", "incarnation"]
    before = f.coalesce(f.lag("n").over(Window.partitionBy(*keys).orderBy("n")), f.lit(0))
    jumps = records.select(*keys, "n").withColumn("before", before).where("n <> before + 1")
    text = "incarnation %d: record %d follows record %d"
    evidence = f.format_string(text, "incarnation", "n", "before")
    return facts(jumps, "log_gap", evidence, number=f.col("n"))
