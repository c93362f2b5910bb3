"""What one session promises, in Spark: the window, the acks, their timing, commits before store acks.

``links`` brings together what happened to each packet at each end of a session; the checks read it or the records.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.schema import (
    ACK_BURST_PACKETS,
    ACK_RANGE_PACKETS_MAX,
    IDLE_ACK_TOLERANCE_NS,
    STAYING_REASONS,
)
from triack.tools.replay.spark_records import (
    DURABLE,
    LINK,
    PACKET,
    STREAM,
    cases,
    explode_range,
    facts,
    in_order,
    pick,
    union,
)
from triack.tools.replay.spark_streams import spans

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def links(moves: DataFrame, records: DataFrame) -> DataFrame:
    """Return what happened to each packet at each end of each session.

    One row for each (node, session, packet, outgoing): `moved`, the position of its first send or arrival, its
    `wall_ns`, `moved_last` and `moves`; `acked` and `stored`, the positions of the first session ack and store ack that
    covered it; and the packet's place in its sequence.

    Args:
        moves: the records of packets on the wire.
        records: the other records.
    """
    moved = moves.select(
        *LINK, "packet", (f.col("event") == "packet_sent").alias("outgoing"), f.col("pos").alias("moved"), "wall_ns",
        _nothing("acked"), _nothing("stored"), *PACKET,
    )  # fmt: skip
    parts = [moved, _acks(_received_ranges(records), outgoing=True), _acks(_sent_ranges(records), outgoing=False)]
    return (
        union(parts)
        .groupBy(*LINK, "packet", "outgoing")
        .agg(
            f.min("moved").alias("moved"),
            f.min("wall_ns").alias("wall_ns"),
            f.max("moved").alias("moved_last"),
            f.count("moved").alias("moves"),
            f.min("acked").alias("acked"),
            f.min("stored").alias("stored"),
            # A resend inside a session carries what the packet carried first.
            *(f.min_by(name, "moved").alias(name) for name in PACKET),
        )
    )


def unacked(links: DataFrame, records: DataFrame) -> DataFrame:
    """Return how many packets were unacknowledged with each first send, with the time and the session's window.

    A packet that was acknowledged before is no burden to the window; that it was, is a finding of its own.
    """
    out = links.where("outgoing and moved is not null and (acked is null or acked > moved)")
    ends = f.array(
        f.struct(f.col("moved").alias("pos"), f.lit(1).alias("step")),
        f.struct(f.col("acked").alias("pos"), f.lit(-1).alias("step")),
    )
    steps = out.select(*LINK, "packet", "wall_ns", f.explode(ends).alias("end")).where("end.pos is not null")
    steps = steps.select(*LINK, "packet", "wall_ns", "end.pos", "end.step", _nothing("window"))
    opened = pick(records, "session_opened").select(*LINK, "packet", "wall_ns", "pos", f.lit(0).alias("step"), "window")
    so_far = Window.partitionBy(*LINK).orderBy("pos").rowsBetween(Window.unboundedPreceding, 0)
    rows = steps.unionAll(opened).withColumn("unacked", f.sum("step").over(so_far))
    return rows.withColumn("window", _first_known("window").over(Window.partitionBy(*LINK))).where("step = 1")


def check_window(unacked: DataFrame) -> DataFrame:
    """Find first sends with more packets unacknowledged than the window allows."""
    evidence = f.format_string("%d packets unacknowledged, the window is %d", "unacked", "window")
    return facts(unacked.where("unacked > window"), "window", evidence, number=f.col("packet"))


def check_acks(links: DataFrame) -> DataFrame:
    """Find acks for packets that this end had not sent, or not received."""
    early = links.where("acked is not null and (moved is null or moved > acked)").select(*LINK, "packet", "outgoing")
    kind = f.when(f.col("outgoing"), "ack_unreceived").otherwise("ack_unsent")
    unsent, unreceived = "acknowledged but not sent before", "acknowledged but not received before"
    evidence = f.when(f.col("outgoing"), unsent).otherwise(unreceived)
    return facts(early, kind, evidence, number=f.col("packet"))


def doubtful_store_acks(links: DataFrame, settled: DataFrame, forwarders: DataFrame | None) -> DataFrame:
    """Return durable packets whose store ack is not proved by the last range that begins at or before them.

    One sort instead of a join: in a healthy log it proves nearly everything, and ``check_store_acks`` looks at what is
    left range by range.

    Args:
        links: from ``links``.
        settled: from ``settlements``.
        forwarders: lanes that a node passed on, without a record of what it stored; None if there are none.
    """
    came = links.where(f"not outgoing and moved < stored and {DURABLE} and number is not null")
    if forwarders is not None:
        came = came.join(f.broadcast(forwarders), ["node", "origin", "lane"], "left_anti")
    packets = came.select(
        "node", *STREAM, f.col("number").alias("at"), f.lit(1).alias("kind"), "session", "packet", "number", "stored",
        _nothing("reach"), _nothing("pos"),
    )  # fmt: skip
    proofs = settled.select(
        "node", *STREAM, f.col("first").alias("at"), f.lit(0).alias("kind"), _nothing("session"), _nothing("packet"),
        _nothing("number"), _nothing("stored"), f.col("last").alias("reach"), "pos",
    )  # fmt: skip
    window = Window.partitionBy("node", *STREAM).orderBy("at", "kind", "pos")
    so_far = window.rowsBetween(Window.unboundedPreceding, 0)
    both = packets.unionAll(proofs)
    both = both.withColumn("proof_reach", f.last("reach", ignorenulls=True).over(so_far))
    both = both.withColumn("proof_pos", f.last("pos", ignorenulls=True).over(so_far))
    proved = (f.col("proof_reach") >= f.col("number")) & (f.col("proof_pos") < f.col("stored"))
    left = both.where((f.col("kind") == 1) & ~f.coalesce(proved, f.lit(False)))
    return left.select("node", *STREAM, "session", "packet", "number", "stored")


def check_store_acks(doubtful: DataFrame, settled: DataFrame) -> DataFrame:
    """Find store acks that cover a durable packet before it was on its node's disk."""
    keys = ["node", *STREAM]
    proof = settled.withColumnsRenamed({name: f"{name}_settled" for name in keys})
    same = reduce(lambda one, other: one & other, [f.col(name) == f.col(f"{name}_settled") for name in keys])
    covers = (f.col("first") <= f.col("number")) & (f.col("number") <= f.col("last")) & (f.col("pos") < f.col("stored"))
    guilty = doubtful.join(proof, same & covers, "left_anti")
    evidence = f.format_string("session packet %d was store-acked before its commit", "packet")
    return facts(guilty, "store_ack_before_commit", evidence)


def settlements(records: DataFrame) -> DataFrame:
    """Return ranges of packets with the position from which a store ack may cover them."""
    rows = pick(records, "committed", "position_recovered").where(DURABLE)
    rows = rows.select("node", *STREAM, "pos", f.explode(spans()).alias("span"))
    kept = rows.select("node", *STREAM, "pos", f.col("span")[0].alias("first"), f.col("span")[1].alias("last"))
    refused = pick(records, "rejected").where(DURABLE).where(~f.col("reason").isin(*STAYING_REASONS))
    number = f.col("number")
    return kept.unionAll(refused.select("node", *STREAM, "pos", number.alias("first"), number.alias("last")))


def check_ack_timing(moves: DataFrame, records: DataFrame, logs: DataFrame) -> DataFrame:
    """Find runs of new packets that were too long, or waited too long, for their ack.

    Args:
        moves: the records of packets on the wire.
        records: the other records.
        logs: for each incarnation of a node, `log_end`: the time of its last record.
    """
    runs = _runs(moves, records)
    runs = runs.join(f.broadcast(logs.select("node", "incarnation", "log_end")), ["node", "incarnation"], "left")
    limit = f.col("wait_ns") + IDLE_ACK_TOLERANCE_NS
    text = f.format_string("%d new packets without an ack, the threshold is %d", "fresh", "threshold")
    waited = f.when(f.col("ack_at").isNull(), f.lit("never")).otherwise(
        f.format_string("after %d ms", _milliseconds(f.col("ack_at") - f.col("first_at")))
    )
    idle = f.format_string("acknowledged %s, at most %d ms are allowed", waited, _milliseconds(limit))
    # An ack, the end of the session or the end of the log: the first of them must not come after the deadline.
    late = f.least("ack_at", "closed_at", "log_end") > f.col("first_at") + limit
    long = (f.col("threshold") > 0) & (f.col("fresh") >= f.col("threshold") + ACK_BURST_PACKETS)
    rows = cases(runs, ("half_window", long, text), ("idle_delay", late, idle))
    return facts(rows, f.col("kind"), f.col("evidence"), number=f.col("packet"))


def _runs(moves: DataFrame, records: DataFrame) -> DataFrame:
    """Return the runs of new packets between two acks of a session end: how many, since when, acknowledged when."""
    columns = (*LINK, "event", "incarnation", "pos", "at_ns", "packet", "ack_threshold", "idle_ack_delay_ns")
    came = pick(moves, "packet_received").where("not coalesce(duplicate, false)")
    marked = came.select(*columns).unionAll(
        pick(records, "ack_sent", "session_opened", "session_closed").select(*columns)
    )
    fresh, is_ack, closed = (
        f.col("event") == event for event in ("packet_received", "ack_sent", "session_closed")
    )  # fmt: skip
    run = f.coalesce(f.count(f.when(is_ack, 1)).over(in_order(*LINK)), f.lit(0))
    whole = Window.partitionBy(*LINK)
    return (
        marked.withColumn("run", run)
        .withColumn("threshold", _first_known("ack_threshold").over(whole))
        .withColumn("wait_ns", _first_known("idle_ack_delay_ns").over(whole))
        .withColumn("closed_at", f.min(f.when(closed, f.col("at_ns"))).over(whole))
        .groupBy(*LINK, "run")
        .agg(
            f.count(f.when(fresh, 1)).alias("fresh"),
            f.min(f.when(fresh, f.col("at_ns"))).alias("first_at"),
            f.min(f.when(fresh, f.col("packet"))).alias("packet"),
            f.min(f.when(is_ack, f.col("at_ns"))).alias("ack_at"),
            *(f.max(name).alias(name) for name in ("threshold", "wait_ns", "closed_at")),
            f.min("incarnation").alias("incarnation"),
        )
        .where("fresh > 0")
    )


def _first_known(name: str) -> Column:
    """Return a column's value in the first record that has one."""
    return f.min_by(name, f.when(f.col(name).isNotNull(), f.col("pos")))


def _milliseconds(column: Column) -> Column:
    return f.floor(column / 1_000_000)


def _nothing(name: str) -> Column:
    return f.lit(None).cast("long").alias(name)


def _received_ranges(records: DataFrame) -> DataFrame:
    acks = pick(records, "ack_received", "store_ack_received")
    return acks.select(*LINK, "pos", _is_store().alias("store"), f.explode("ranges").alias("range"))


def _sent_ranges(records: DataFrame) -> DataFrame:
    """Return what each ack covers beyond the cumulative number of earlier ones."""
    acks = pick(records, "ack_sent", "store_ack_sent")
    before = f.coalesce(f.max("cumulative").over(in_order(*LINK, "event")), f.lit(0))
    acks = acks.select(*LINK, "event", "pos", "cumulative", "ranges").withColumn("before", before)
    news = f.when(f.col("cumulative") > f.col("before"), f.array(f.array(f.col("before") + 1, f.col("cumulative"))))
    empty = f.array().cast("array<array<bigint>>")
    covered = f.concat(f.coalesce(news, empty), f.coalesce(f.col("ranges"), empty))
    return acks.select(*LINK, "pos", _is_store().alias("store"), f.explode(covered).alias("range"))


def _is_store() -> Column:
    return f.col("event").startswith("store")


def _acks(ranges: DataFrame, *, outgoing: bool) -> DataFrame:
    """Return one row for each packet of each range, shaped like the moves of packets."""
    first, last = f.col("range")[0], f.col("range")[1]
    packets = explode_range(first, f.least(last, first + (ACK_RANGE_PACKETS_MAX - 1)))
    return (
        ranges.where(last >= first)
        .select(*LINK, "pos", "store", packets.alias("packet"))
        .select(
            *LINK, "packet", f.lit(outgoing).alias("outgoing"), _nothing("moved"), _nothing("wall_ns"),
            f.when(~f.col("store"), f.col("pos")).alias("acked"), f.when(f.col("store"), f.col("pos")).alias("stored"),
            *(f.lit(None).cast("int" if name == "cls" else "long").alias(name) for name in PACKET),
        )
    )  # fmt: skip
