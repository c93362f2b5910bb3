"""What a sequence promises over all sessions, in Spark: order, no gaps, no loss, no repetition.

The same rules as ``local_streams``, over ranges of packets: a stream is swept once from its first number to its last,
and only packets whose fate the counts of whole ranges do not tell are looked at one by one.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.spark_records import (
    RECOVERABLE_CODE,
    STREAM,
    TRANSACTIONAL_CODE,
    explode_range,
    in_order,
    pick,
    violations,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

_DURABLE: Final = f"cls >= {RECOVERABLE_CODE}"
_TRANSACTIONAL: Final = f"cls = {TRANSACTIONAL_CODE}"
_STATES: Final = ("fresh", "again", "removed", "final", "anywhere", "covered", "order_acked")
# What a packet adds to each number of the verdict, times its messages.
EFFECTS: Final = ("sent", "delivered", "unqueued", "lost")


def forwarders(moves: DataFrame) -> DataFrame:
    """Return the (node, origin, lane) of nodes that sent packets of others on: no destinations, though they commit."""
    passed = pick(moves, "packet_sent").where("lane is not null and node <> origin")
    return passed.select("node", "origin", "lane").distinct()


def at_destination(rows: DataFrame, forwarders: DataFrame) -> DataFrame:
    """Return the rows of nodes that are the lane's destination."""
    return rows.join(f.broadcast(forwarders), ["node", "origin", "lane"], "left_anti")


def arrivals(records: DataFrame, forwarders: DataFrame) -> DataFrame:
    """Return what destinations committed, recovered and order-acked, with what they had reached before.

    `reached` is the highest committed number of the sequence, `top` the highest (sequence, number) of the lane.
    """
    rows = pick(records, "committed", "position_recovered").where(_TRANSACTIONAL)
    rows = rows.unionByName(pick(records, "order_ack_sent"))
    end = f.coalesce(f.col("last"), f.col("number"))
    rows = rows.select("node", *STREAM, "event", "pos", "first", end.alias("last"), "count")
    rows = at_destination(rows, forwarders)
    on_disk = f.col("event") != "order_ack_sent"
    reached = f.max(f.when(on_disk, f.col("last"))).over(in_order("node", *STREAM))
    top = f.max(f.when(on_disk, f.struct("sequence", "last"))).over(in_order("node", "origin", "lane"))
    return rows.withColumn("reached", f.coalesce(reached, f.lit(0))).withColumn("top", top)


def check_commit_order(arrivals: DataFrame) -> DataFrame:
    """Find commits that fall behind earlier ones of the same lane."""
    late = arrivals.where("event = 'committed' and struct(sequence, first) <= top")
    evidence = f.format_string("committed %d..%d after %d/%d", "first", "last", "top.sequence", "top.last")
    return violations(late, "order", evidence, number=f.col("first"), messages=f.col("count"))


def check_order_acks(arrivals: DataFrame) -> DataFrame:
    """Find order acks above what their node had committed."""
    early = arrivals.where("event = 'order_ack_sent' and last > reached")
    evidence = f.format_string("order ack up to %d, committed up to %d", "last", "reached")
    return violations(early, "order_ack_before_commit", evidence, number=f.col("last"))


def check_gaps(arrivals: DataFrame, segments: DataFrame) -> DataFrame:
    """Find commits that leave out queued packets which were not removed."""
    holes = arrivals.where("event = 'committed' and first > reached + 1")
    holes = holes.select("node", *STREAM, f.col("first").alias("number"), (f.col("reached") + 1).alias("begin"))
    wanted = segments.where("fresh + again > 0 and removed = 0").select(*STREAM, "first", "last")
    part_first, part_last = f.greatest("first", "begin"), f.least(f.col("last"), f.col("number") - 1)
    parts = (
        wanted.join(f.broadcast(holes), [*STREAM])
        .where((f.col("first") < f.col("number")) & (f.col("last") >= f.col("begin")))
        .groupBy("node", *STREAM, "number", "begin")
        .agg(f.sum(part_last - part_first + 1).alias("missing"), f.min(part_first).alias("lowest"))
    )
    text = "%d packets from %d on were not committed before %d"
    return violations(parts, "gaps", f.format_string(text, "missing", "lowest", "number"))


def handed(records: DataFrame) -> DataFrame:
    """Return messages handed out unmarked, of the durable classes."""
    rows = pick(records, "handed").where(f"{_DURABLE} and not coalesce(redelivered, false)")
    return rows.select("node", "queue", *STREAM, "number", "first", "last", "cls", "pos")


def check_handed_order(handed: DataFrame) -> DataFrame:
    """Find transactional messages handed out behind later ones of their lane."""
    before = f.max(f.struct("sequence", "number", "last")).over(in_order("node", "queue", "origin", "lane"))
    rows = handed.where(_TRANSACTIONAL).withColumn("before", before).where("struct(sequence, number, first) <= before")
    text = "messages %d..%d handed out after %d/%d message %d"
    evidence = f.format_string(text, "first", "last", "before.sequence", "before.number", "before.last")
    return violations(rows, "order", evidence, messages=f.expr("last - first + 1"))


def check_handed_again(handed: DataFrame) -> DataFrame:
    """Find messages handed out once more without a mark."""
    keys = ["node", "queue", *STREAM, "number"]
    rows = handed.withColumn("part", _repeated_part(*keys)).where("part > 0")
    rows = rows.groupBy(*keys).agg(f.sum("part").alias("extra"))
    evidence = f.format_string("%d messages handed out again without being marked", "extra")
    return violations(rows, "duplicates_delivered", evidence, messages=f.col("extra"))


def committed_again(records: DataFrame, forwarders: DataFrame) -> DataFrame:
    """Return packets with `extra`: how many times too many one destination committed them."""
    rows = at_destination(pick(records, "committed").where(_DURABLE), forwarders)
    rows = rows.select("node", *STREAM, "first", "last", "pos").withColumn("part", _repeated_part("node", *STREAM))
    rows = rows.where("part > 0").select("node", *STREAM, explode_range(f.col("first"), _part_end()).alias("number"))
    return rows.groupBy("node", *STREAM, "number").agg(f.count("*").alias("extra"))


def _repeated_part(*keys: str) -> Column:
    """Return how many numbers at a range's begin an earlier range (by begin) has already."""
    window = Window.partitionBy(*keys).orderBy("first", "last").rowsBetween(Window.unboundedPreceding, -1)
    reach = f.coalesce(f.max("last").over(window), f.lit(-1))
    return f.least("last", reach) - f.col("first") + 1


def _part_end() -> Column:
    return f.col("first") + f.col("part") - 1


def segments(records: DataFrame, forwarders: DataFrame) -> DataFrame:
    """Return each stream as consecutive parts (first, last) in which all packets had the same fate.

    The fate is counted: `fresh` and `again` queued records, `removed`, `final` commits at a destination, commits
    `anywhere`, `covered` by a recovered position, `order_acked` at the origin.
    """
    marks = _marks(records, forwarders)
    begin = marks.select(*STREAM, "cls", f.col("first").alias("first"), "state", f.lit(1).alias("step"))
    end = marks.select(*STREAM, "cls", (f.col("last") + 1).alias("first"), "state", f.lit(-1).alias("step"))
    steps = [f.sum(f.when(f.col("state") == state, f.col("step")).otherwise(0)).alias(state) for state in _STATES]
    points = begin.unionByName(end).groupBy(*STREAM, "first").agg(f.max("cls").alias("cls"), *steps)
    ordered = Window.partitionBy(*STREAM).orderBy("first")
    so_far = ordered.rowsBetween(Window.unboundedPreceding, 0)
    whole = Window.partitionBy(*STREAM).orderBy("first").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )  # fmt: skip
    return points.select(
        *STREAM,
        "first",
        (f.lead("first").over(ordered) - 1).alias("last"),
        f.max("cls").over(whole).alias("cls"),
        *(f.sum(state).over(so_far).alias(state) for state in _STATES),
    ).where("last is not null")


def _marks(records: DataFrame, forwarders: DataFrame) -> DataFrame:
    """Return the ranges that tell the fate of packets, each with its `state`."""
    ranged = pick(records, "queued", "removed", "committed").where(_DURABLE)
    state = f.when(f.col("event") == "removed", "removed").when(f.col("event") == "committed", "anywhere")
    state = state.when(f.coalesce(f.col("recovered"), f.lit(False)), "again").otherwise("fresh")
    parts = [ranged.withColumn("state", state)]
    final = at_destination(pick(records, "committed").where(_DURABLE), forwarders)
    parts.append(final.withColumn("state", f.lit("final")))
    started = at_destination(pick(records, "position_recovered").where(_TRANSACTIONAL), forwarders)
    parts.append(_from_one(started.groupBy(*STREAM, "cls"), "covered"))
    acked = pick(records, "order_ack_received").where("node = origin").withColumn("cls", f.lit(0))
    parts.append(_from_one(acked.groupBy(*STREAM, "cls"), "order_acked"))
    columns = (*STREAM, "cls", "first", "last", "state")
    return reduce(lambda one, other: one.unionByName(other), [part.select(*columns) for part in parts])


def _from_one(groups: GroupedData, state: str) -> DataFrame:
    highest = groups.agg(f.max("number").alias("last")).where("last > 0")
    return highest.withColumn("first", f.lit(1).cast("long")).withColumn("state", f.lit(state))


def effects(segments: DataFrame) -> DataFrame:
    """Return the segments whose packets must be weighed, with what each adds to the verdict, and `suspect`.

    A suspect packet is recoverable and nowhere committed: lost if a store ack freed it at its origin.
    """
    queued, kept = "(fresh + again > 0)", "(removed = 0)"
    there = f"(final > 0 or ({queued} and {kept} and covered > 0))"
    durable = segments.where(_DURABLE)
    told = durable.select(
        *STREAM,
        "first",
        "last",
        f.expr(f"int({queued} and ({there} or {kept})) - (fresh - removed)").alias("sent"),
        f.expr(f"int({there}) - final").alias("delivered"),
        f.expr(f"int({there} and not {queued})").alias("unqueued"),
        f.expr(f"int({_TRANSACTIONAL} and {queued} and {kept} and order_acked > 0 and not {there})").alias("lost"),
        f.expr(f"{RECOVERABLE_CODE} = cls and {queued} and {kept} and anywhere = 0").alias("suspect"),
    )
    return told.where("sent <> 0 or delivered <> 0 or unqueued <> 0 or lost <> 0 or suspect")


def corrections(effects: DataFrame, again: DataFrame, links: DataFrame) -> DataFrame:
    """Return single packets with what they add to the verdict, times their messages.

    Args:
        effects: from ``effects``.
        again: from ``committed_again``: they must be weighed, too.
        links: from ``links``, for the store acks of recoverable packets.
    """
    single = effects.select("*", explode_range(f.col("first"), f.col("last")).alias("number"))
    stored = links.where(f"outgoing and node = origin and cls = {RECOVERABLE_CODE} and stored > moved")
    stored = stored.select(*STREAM, "number", f.lit(1).alias("freed")).distinct()
    suspects = single.where("suspect").join(stored, [*STREAM, "number"])
    lost = suspects.select(*STREAM, "number", *_effect("lost", f.lit(1)))
    told = single.select(*STREAM, "number", "sent", "delivered", "unqueued", "lost")
    repeated = again.select(*STREAM, "number", *_effect("", f.lit(0)))
    sums = [f.sum(name).alias(name) for name in EFFECTS]
    return told.unionByName(lost).unionByName(repeated).groupBy(*STREAM, "number").agg(*sums)


def _effect(name: str, value: Column) -> list[Column]:
    return [(value if name == effect else f.lit(0)).cast("long").alias(effect) for effect in EFFECTS]


def weighed(packets: DataFrame, moves: DataFrame, records: DataFrame) -> DataFrame:
    """Add `messages` to packets: what their own records say, else an even share of a range that has them.

    Args:
        packets: rows with the stream and number of packets.
        moves: the records of packets on the wire.
        records: the other records.
    """
    keys = [*STREAM, "number"]
    moved = moves.where(f"{_DURABLE} and lane is not null")
    wanted = packets.select(*keys).distinct()
    known = moved.join(f.broadcast(wanted), keys).groupBy(*keys).agg(f.max("count").alias("known"))
    shares = _even_shares(wanted, pick(records, "queued", "committed").where(_DURABLE))
    messages = f.coalesce(f.col("known"), f.col("share"), f.lit(0)).alias("messages")
    return packets.join(known, keys, "left").join(shares, keys, "left").select(packets["*"], messages)


def _even_shares(wanted: DataFrame, ranges: DataFrame) -> DataFrame:
    at, size = f.col("number") - f.col("first"), f.col("last") - f.col("first") + 1
    share = f.floor(f.col("count") * (at + 1) / size) - f.floor(f.col("count") * at / size)
    rows = ranges.select(*STREAM, "first", "last", "count").join(f.broadcast(wanted), [*STREAM])
    rows = rows.where("number between first and last")
    return rows.groupBy(*STREAM, "number").agg(f.min(share).alias("share"))


def check_lost(weighed: DataFrame) -> DataFrame:
    """Find packets that the origin forgot and no destination has."""
    evidence = f.format_string("acknowledged at its origin, committed nowhere; messages: %d", "messages")
    return violations(weighed.where("lost > 0"), "lost", evidence, messages=f.col("messages"))


def check_committed_again(again: DataFrame, weighed: DataFrame) -> DataFrame:
    """Find packets that one destination committed more than once."""
    rows = again.join(weighed.select(*STREAM, "number", "messages"), [*STREAM, "number"])
    evidence = f.format_string("committed %d times; messages: %d", f.col("extra") + 1, f.col("messages"))
    return violations(rows, "duplicates_delivered", evidence, messages=f.expr("extra * messages"))
