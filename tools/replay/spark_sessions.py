"""What one session promises, in Spark: the window, the acks, their timing, commits before store acks.

``links`` brings together what happened to each packet at each end of a session; the checks read it or the records.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.local_streams import PASSING_REJECTIONS
from triack.tools.replay.schema import ACK_BURST_PACKETS, ACK_RANGE_PACKETS_MAX, IDLE_ACK_TOLERANCE_NS
from triack.tools.replay.spark_records import (
    LINK,
    RECOVERABLE_CODE,
    STREAM,
    TRANSACTIONAL_CODE,
    explode_range,
    in_order,
    pick,
    violations,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PACKET: Final = ("cls", *STREAM, "number")


def links(moves: DataFrame, records: DataFrame) -> DataFrame:
    """Return what happened to each packet at each end of each session.

    One row for each (node, session, packet, outgoing): `moved`, the position of its first send or arrival, `moved_last`
    and `moves`; `acked` and `stored`, the positions of the first session ack and store ack that covered it; and the
    packet's place in its sequence.

    Args:
        moves: the records of packets on the wire.
        records: the other records.
    """
    moved = moves.select(
        *LINK, "packet", (f.col("event") == "packet_sent").alias("outgoing"), f.col("pos").alias("moved"),
        _nothing("acked"), _nothing("stored"), *_PACKET,
    )  # fmt: skip
    parts = [moved, _acks(_received_ranges(records), outgoing=True), _acks(_sent_ranges(records), outgoing=False)]
    return (
        reduce(lambda one, other: one.unionByName(other), parts)
        .groupBy(*LINK, "packet", "outgoing")
        .agg(
            f.min("moved").alias("moved"),
            f.max("moved").alias("moved_last"),
            f.count("moved").alias("moves"),
            f.min("acked").alias("acked"),
            f.min("stored").alias("stored"),
            *(f.max(name).alias(name) for name in _PACKET),
        )
    )


def check_window(links: DataFrame, records: DataFrame) -> DataFrame:
    """Find first sends with more packets unacknowledged than the window allows."""
    limits = pick(records, "session_opened").groupBy(*LINK).agg(f.max("window").alias("window"))
    evidence = f.format_string("%d packets unacknowledged, the window is %d", "unacked", "window")
    crowded = unacked(links).join(f.broadcast(limits), [*LINK]).where("unacked > window")
    return violations(crowded, "window", evidence, number=f.col("packet"))


def unacked(links: DataFrame) -> DataFrame:
    """Return how many packets were unacknowledged with each first send, at its position."""
    out = links.where("outgoing and moved is not null")
    sends = out.select(*LINK, "packet", f.col("moved").alias("pos"), f.lit(1).alias("step"))
    acks = out.where("acked > moved").select(*LINK, "packet", f.col("acked").alias("pos"), f.lit(-1).alias("step"))
    window = Window.partitionBy(*LINK).orderBy("pos").rowsBetween(Window.unboundedPreceding, 0)
    return sends.unionByName(acks).withColumn("unacked", f.sum("step").over(window)).where("step = 1")


def check_acks(links: DataFrame) -> DataFrame:
    """Find acks for packets that this end had not sent, or not received."""
    early = links.where("acked is not null and (moved is null or moved > acked)")
    unsent = f.lit("acknowledged but not sent before")
    unreceived = f.lit("acknowledged but not received before")
    number = f.col("packet")
    received = violations(_bare(early.where("outgoing")), "ack_unreceived", unsent, number=number)
    return received.unionByName(violations(_bare(early.where("not outgoing")), "ack_unsent", unreceived, number=number))


def check_store_acks(links: DataFrame, records: DataFrame) -> DataFrame:
    """Find store acks that cover a durable packet before its node had settled it."""
    came = links.where(f"not outgoing and moved < stored and cls >= {RECOVERABLE_CODE} and number is not null")
    came = came.select("node", "session", "packet", *STREAM, "number", "stored")
    settled = settlements(records)
    doubtful = _without_quick_proof(came, settled)
    keys = ["node", *STREAM]
    proof = settled.withColumnsRenamed({name: f"{name}_settled" for name in keys})
    same = reduce(lambda one, other: one & other, [f.col(name) == f.col(f"{name}_settled") for name in keys])
    covers = (f.col("first") <= f.col("number")) & (f.col("number") <= f.col("last")) & (f.col("pos") < f.col("stored"))
    guilty = doubtful.join(proof, same & covers, "left_anti")
    evidence = f.format_string("session packet %d was store-acked before its commit", "packet")
    return violations(guilty, "store_ack_before_commit", evidence)


def settlements(records: DataFrame) -> DataFrame:
    """Return ranges of packets with the position from which a store ack may cover them."""
    ranges = pick(records, "committed").where(f"cls >= {RECOVERABLE_CODE}")
    committed = ranges.select("node", *STREAM, "first", "last", "pos")
    start = pick(records, "position_recovered").where(f"cls = {TRANSACTIONAL_CODE} and number > 0")
    recovered = start.select(
        "node", *STREAM, f.lit(1).cast("long").alias("first"), f.col("number").alias("last"), "pos"
    )
    final = pick(records, "rejected").where(~f.col("reason").isin(*PASSING_REJECTIONS))
    rejected = final.select("node", *STREAM, f.col("number").alias("first"), f.col("number").alias("last"), "pos")
    return committed.unionByName(recovered).unionByName(rejected)


def check_ack_timing(moves: DataFrame, records: DataFrame, logs: DataFrame) -> DataFrame:
    """Find runs of new packets that were too long, or waited too long, for their ack.

    Args:
        moves: the records of packets on the wire.
        records: the other records.
        logs: for each incarnation of a node, `log_end`: the time of its last record.
    """
    runs = _runs(moves, records)
    settings = pick(records, "session_opened").groupBy(*LINK).agg(
        f.max("ack_threshold").alias("threshold"), f.max("idle_ack_delay_ns").alias("wait_ns")
    )  # fmt: skip
    closed = pick(records, "session_closed").groupBy(*LINK).agg(f.min("at_ns").alias("closed_at"))
    runs = (
        runs.join(f.broadcast(settings), [*LINK])
        .join(f.broadcast(closed), [*LINK], "left")
        .join(f.broadcast(logs.select("node", "incarnation", "log_end")), ["node", "incarnation"], "left")
        .withColumn("limit", f.col("wait_ns") + IDLE_ACK_TOLERANCE_NS)
        .withColumn("deadline", f.col("first_at") + f.col("limit"))
    )
    long = runs.where(f.col("fresh") >= f.col("threshold") + ACK_BURST_PACKETS)
    text = f.format_string("%d new packets without an ack, the threshold is %d", "fresh", "threshold")
    # An ack, the end of the session or the end of the log: the first of them must not come after the deadline.
    late = runs.where(f.least("ack_at", "closed_at", "log_end") > f.col("deadline"))
    waited = f.when(f.col("ack_at").isNull(), f.lit("never")).otherwise(
        f.format_string("after %d ms", _milliseconds(f.col("ack_at") - f.col("first_at")))
    )
    idle = f.format_string("acknowledged %s, at most %d ms are allowed", waited, _milliseconds(f.col("limit")))
    number = f.col("packet")
    return violations(long, "half_window", text, number=number).unionByName(
        violations(late, "idle_delay", idle, number=number)
    )


def _runs(moves: DataFrame, records: DataFrame) -> DataFrame:
    """Return the runs of new packets between two acks of a session end: how many, since when, acknowledged when."""
    came = pick(moves, "packet_received").where("not coalesce(duplicate, false)")
    columns = (*LINK, "incarnation", "pos", "at_ns", "packet")
    marked = came.select(*columns, f.lit(False).alias("is_ack"))
    marked = marked.unionByName(pick(records, "ack_sent").select(*columns, f.lit(True).alias("is_ack")))
    run = f.coalesce(f.sum(f.col("is_ack").cast("int")).over(in_order(*LINK)), f.lit(0))
    fresh = ~f.col("is_ack")
    return (
        marked.withColumn("run", run)
        .groupBy(*LINK, "run")
        .agg(
            f.count(f.when(fresh, 1)).alias("fresh"),
            f.min(f.when(fresh, f.col("at_ns"))).alias("first_at"),
            f.min(f.when(fresh, f.col("packet"))).alias("packet"),
            f.min(f.when(f.col("is_ack"), f.col("at_ns"))).alias("ack_at"),
            f.min("incarnation").alias("incarnation"),
        )
        .where("fresh > 0")
    )


def _milliseconds(column: Column) -> Column:
    return f.floor(column / 1_000_000)


def _nothing(name: str) -> Column:
    return f.lit(None).cast("long").alias(name)


def _bare(rows: DataFrame) -> DataFrame:
    """Return rows whose violations are about a session, not about a place in a sequence."""
    return rows.select(*LINK, "packet")


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
            *LINK, "packet", f.lit(outgoing).alias("outgoing"), _nothing("moved"),
            f.when(~f.col("store"), f.col("pos")).alias("acked"), f.when(f.col("store"), f.col("pos")).alias("stored"),
            *(f.lit(None).cast("int" if name == "cls" else "long").alias(name) for name in _PACKET),
        )
    )  # fmt: skip


def _without_quick_proof(came: DataFrame, settled: DataFrame) -> DataFrame:
    """Return the packets for which the last range that begins at or before them is no proof of an earlier commit.

    One sort instead of a join: in a healthy log it proves everything, and what is left is looked at range by range.
    """
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
    both = packets.unionByName(proofs)
    both = both.withColumn("proof_reach", f.last("reach", ignorenulls=True).over(so_far))
    both = both.withColumn("proof_pos", f.last("pos", ignorenulls=True).over(so_far))
    proved = (f.col("proof_reach") >= f.col("number")) & (f.col("proof_pos") < f.col("stored"))
    left = both.where((f.col("kind") == 1) & ~f.coalesce(proved, f.lit(False)))
    return left.select("node", *STREAM, "session", "packet", "number", "stored")
