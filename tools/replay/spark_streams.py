"""What a sequence promises over all sessions, in Spark: order, no gaps, no loss, no repetition.

The same rules as ``local_streams``, over ranges of packets: a stream is swept once from its first number to its last,
and only packets whose fate the counts of whole ranges do not tell are looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.spark_records import (
    DURABLE,
    RECOVERABLE_CODE,
    STREAM,
    TRANSACTIONAL,
    cases,
    explode_range,
    facts,
    in_order,
    pick,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_STATES: Final = ("fresh", "again", "removed", "committed", "covered", "order_acked")
"""What can be true of a packet: queued (again after a start), given up, on a disk, found there, order-acked."""
_EFFECTS: Final = ("sent", "delivered", "unqueued", "lost")
"""What a packet adds to each number of the verdict, times its messages."""


def forwarders(moves: DataFrame) -> DataFrame:
    """Return the (node, origin, lane) of nodes that sent packets of others on: what they stored, no record tells."""
    passed = pick(moves, "packet_sent").where("lane is not null and node <> origin")
    return passed.select("node", "origin", "lane").distinct()


def arrivals(records: DataFrame) -> DataFrame:
    """Return what nodes committed, recovered and order-acked in order, with what they had reached before.

    `reached` is the highest number on disk of the sequence, `top` the highest (sequence, number) of the lane.
    """
    rows = pick(records, "committed", "position_recovered", "order_ack_sent")
    rows = rows.where(f"{TRANSACTIONAL} or event = 'order_ack_sent'")
    end = f.coalesce(f.col("last"), f.col("number"))
    rows = rows.select("node", *STREAM, "event", "pos", "first", end.alias("last"), "count")
    on_disk = f.col("event") != "order_ack_sent"
    reached = f.max(f.when(on_disk, f.col("last"))).over(in_order("node", *STREAM))
    top = f.max(f.when(on_disk, f.struct("sequence", "last"))).over(in_order("node", "origin", "lane"))
    return rows.withColumn("reached", f.coalesce(reached, f.lit(0))).withColumn("top", top)


def check_arrivals(arrivals: DataFrame) -> DataFrame:
    """Find commits behind earlier ones of the same lane, and order acks above what their node had on disk."""
    late = f.expr("event = 'committed' and struct(sequence, first) <= top")
    early = f.expr("event = 'order_ack_sent' and last > reached")
    rows = cases(
        arrivals,
        ("order", late, f.format_string("committed %d..%d after %d/%d", "first", "last", "top.sequence", "top.last")),
        (
            "order_ack_before_commit",
            early,
            f.format_string("order ack up to %d, committed up to %d", "last", "reached"),
        ),
    )
    number = f.when(f.col("event") == "committed", f.col("first")).otherwise(f.col("last"))
    return facts(rows, f.col("kind"), f.col("evidence"), number=number, value=f.col("count"))


def holes(arrivals: DataFrame) -> DataFrame:
    """Return the numbers between two commits, from `begin` to before `number`; whether they were wanted is open."""
    rows = arrivals.where("event = 'committed' and first > reached + 1")
    return rows.select("node", *STREAM, f.col("first").alias("number"), (f.col("reached") + 1).alias("begin"))


def check_gaps(holes: DataFrame, segments: DataFrame) -> DataFrame:
    """Find commits that leave out queued packets which were not removed."""
    wanted = segments.where("fresh + again > 0 and removed = 0").select(*STREAM, "first", "last")
    part_first, part_last = f.greatest("first", "begin"), f.least(f.col("last"), f.col("number") - 1)
    parts = (
        wanted.join(f.broadcast(holes), [*STREAM])
        .where((f.col("first") < f.col("number")) & (f.col("last") >= f.col("begin")))
        .groupBy("node", *STREAM, "number", "begin")
        .agg(f.sum(part_last - part_first + 1).alias("missing"), f.min(part_first).alias("lowest"))
    )
    text = "%d packets from %d on were not committed before %d"
    return facts(parts, "gaps", f.format_string(text, "missing", "lowest", "number"))


def handed(records: DataFrame) -> DataFrame:
    """Return messages handed out, of the durable classes; `marked` if they may have been handed out before."""
    marked = f.coalesce("redelivered", f.lit(False)).alias("marked")
    rows = pick(records, "handed").where(DURABLE)
    return rows.select("node", "queue", *STREAM, "number", "first", "last", "cls", "pos", marked)


def check_handed_order(handed: DataFrame) -> DataFrame:
    """Find transactional messages handed out unmarked behind later ones of their lane."""
    before = f.max(f.struct("sequence", "number", "last")).over(in_order("node", "queue", "origin", "lane"))
    rows = handed.where(TRANSACTIONAL).withColumn("before", before)
    rows = rows.where("not marked and struct(sequence, number, first) <= before")
    text = "messages %d..%d handed out after %d/%d message %d"
    evidence = f.format_string(text, "first", "last", "before.sequence", "before.number", "before.last")
    return facts(rows, "order", evidence, value=f.expr("last - first + 1"))


def check_handed_again(handed: DataFrame) -> DataFrame:
    """Find messages handed out once more without a mark."""
    keys = ["node", *STREAM, "number"]
    rows = handed.where("not marked").withColumn("part", _repeated_part(*keys)).where("part > 0")
    rows = rows.groupBy(*keys).agg(f.sum("part").alias("extra"))
    evidence = f.format_string("%d messages handed out again without being marked", "extra")
    return facts(rows, "duplicates_delivered", evidence, value=f.col("extra"))


def committed_again(records: DataFrame) -> DataFrame:
    """Return the parts of ranges, from `first` for `part` numbers, that one node had committed before."""
    rows = pick(records, "committed").where(DURABLE).select("node", *STREAM, "first", "last")
    return rows.withColumn("part", _repeated_part("node", *STREAM)).where("part > 0")


def repeated(again: DataFrame) -> DataFrame:
    """Return the packets of ``committed_again`` with `extra`: how many times too many one node committed them."""
    end = f.col("first") + f.col("part") - 1
    rows = again.select("node", *STREAM, explode_range(f.col("first"), end).alias("number"))
    return rows.groupBy("node", *STREAM, "number").agg(f.count("*").alias("extra"))


def _repeated_part(*keys: str) -> Column:
    """Return how many numbers at a range's begin an earlier range (by begin) has already."""
    window = Window.partitionBy(*keys).orderBy("first", "last").rowsBetween(Window.unboundedPreceding, -1)
    reach = f.coalesce(f.max("last").over(window), f.lit(-1))
    return f.least("last", reach) - f.col("first") + 1


def segments(records: DataFrame) -> DataFrame:
    """Return each stream as consecutive parts (first, last) in which all packets had the same fate.

    The fate is counted: `fresh` and `again` queued records, `removed`, `committed` anywhere, `covered` by what a node
    recovered, `order_acked` at the origin.
    """
    ends = f.array(
        f.struct(f.col("first").alias("at"), f.lit(1).alias("step")),
        f.struct((f.col("last") + 1).alias("at"), f.lit(-1).alias("step")),
    )
    points = _marks(records).select(*STREAM, "cls", "state", f.explode(ends).alias("end"))
    steps = [f.sum(f.when(f.col("state") == state, f.col("end.step")).otherwise(0)).alias(state) for state in _STATES]
    points = points.groupBy(*STREAM, f.col("end.at").alias("first")).agg(f.max("cls").alias("cls"), *steps)
    ordered = Window.partitionBy(*STREAM).orderBy("first")
    so_far = ordered.rowsBetween(Window.unboundedPreceding, 0)
    whole = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    return points.select(
        *STREAM,
        "first",
        (f.lead("first").over(ordered) - 1).alias("last"),
        f.max("cls").over(whole).alias("cls"),
        *(f.sum(state).over(so_far).alias(state) for state in _STATES),
    ).where("last is not null")


def _marks(records: DataFrame) -> DataFrame:
    """Return the ranges that tell the fate of packets, each with its `state`."""
    rows = pick(records, "queued", "removed", "committed", "position_recovered", "order_ack_received")
    rows = rows.where(f"{DURABLE} or (event = 'order_ack_received' and node = origin)")
    event = f.col("event")
    state = (
        f.when(event == "queued", f.when(f.coalesce(f.col("recovered"), f.lit(False)), "again").otherwise("fresh"))
        .when(event == "position_recovered", "covered")
        .when(event == "order_ack_received", "order_acked")
        .otherwise(event)
    )
    rows = rows.select(*STREAM, "cls", state.alias("state"), f.explode(spans()).alias("span"))
    rows = rows.select(*STREAM, "cls", "state", f.col("span")[0].alias("first"), f.col("span")[1].alias("last"))
    return rows.where("first <= last")


def spans() -> Column:
    """Return the ranges of numbers that a record is about: its `ranges`, `first` to `last`, or all up to `number`."""
    single = f.array(f.coalesce("first", f.lit(1).cast("long")), f.coalesce("last", "number"))
    return f.coalesce(f.col("ranges"), f.array(single))


def effects(segments: DataFrame) -> DataFrame:
    """Return the segments whose packets must be weighed, with what each adds to the verdict, and `suspect`.

    A suspect packet is recoverable and on no disk: lost if a store ack freed it at its origin.
    """
    queued, kept = "(fresh + again > 0)", "(removed = 0)"
    there = f"(committed > 0 or ({queued} and {kept} and covered > 0))"
    told = segments.where(DURABLE).select(
        *STREAM,
        "first",
        "last",
        f.expr(f"int({queued} and ({there} or {kept})) - (fresh - removed)").alias("sent"),
        f.expr(f"int({there}) - committed").alias("delivered"),
        f.expr(f"int({there} and not {queued})").alias("unqueued"),
        f.expr(f"int({TRANSACTIONAL} and {queued} and {kept} and order_acked > 0 and not {there})").alias("lost"),
        f.expr(f"{RECOVERABLE_CODE} = cls and {queued} and {kept} and not {there}").alias("suspect"),
    )
    return told.where("sent <> 0 or delivered <> 0 or unqueued <> 0 or lost <> 0 or suspect")


def corrections(effects: DataFrame, repeated: DataFrame, links: DataFrame, forwarders: DataFrame | None) -> DataFrame:
    """Return single packets with what they add to the verdict, times their messages.

    Args:
        effects: from ``effects``.
        repeated: from ``repeated``: they must be weighed, too.
        links: from ``links``, for the store acks of recoverable packets.
        forwarders: lanes that were passed on, for which the store ack of the first hop proves nothing; None if none.
    """
    single = effects.select("*", explode_range(f.col("first"), f.col("last")).alias("number"))
    stored = links.where(f"outgoing and node = origin and cls = {RECOVERABLE_CODE}")
    stored = stored.where("moved is not null and stored is not null")
    if forwarders is not None:
        stored = stored.join(
            f.broadcast(forwarders.select("origin", "lane").distinct()), ["origin", "lane"], "left_anti"
        )
    stored = stored.select(*STREAM, "number").distinct()
    suspects = single.where("suspect").join(stored, [*STREAM, "number"])
    lost = suspects.select(*STREAM, "number", *_effect("lost", f.lit(1)))
    told = single.select(*STREAM, "number", *_EFFECTS)
    again = repeated.select(*STREAM, "number", *_effect("", f.lit(0)))
    sums = [f.sum(name).alias(name) for name in _EFFECTS]
    return told.unionByName(lost).unionByName(again).groupBy(*STREAM, "number").agg(*sums)


def _effect(name: str, value: Column) -> list[Column]:
    return [(value if name == effect else f.lit(0)).cast("long").alias(effect) for effect in _EFFECTS]


def weighed(packets: DataFrame, moves: DataFrame, records: DataFrame) -> DataFrame:
    """Add `messages` to packets: what their own records say, else an even share of a range that has them.

    Args:
        packets: rows with the stream and number of packets.
        moves: the records of packets on the wire.
        records: the other records.
    """
    keys = [*STREAM, "number"]
    moved = moves.where(f"{DURABLE} and lane is not null")
    wanted = packets.select(*keys).distinct()
    known = moved.join(f.broadcast(wanted), keys).groupBy(*keys).agg(f.max("count").alias("known"))
    shares = _even_shares(wanted, pick(records, "queued", "committed").where(DURABLE))
    messages = f.coalesce(f.col("known"), f.col("share"), f.lit(0)).alias("messages")
    return packets.join(known, keys, "left").join(shares, keys, "left").select(packets["*"], messages)


def _even_shares(wanted: DataFrame, ranges: DataFrame) -> DataFrame:
    at, size = f.col("number") - f.col("first"), f.col("last") - f.col("first") + 1
    share = f.floor(f.col("count") * (at + 1) / size) - f.floor(f.col("count") * at / size)
    rows = ranges.select(*STREAM, "first", "last", "count").join(f.broadcast(wanted), [*STREAM])
    rows = rows.where("number between first and last")
    return rows.groupBy(*STREAM, "number").agg(f.min(share).alias("share"))


def totals(weighed: DataFrame) -> DataFrame:
    """Return what the packets add to the numbers of the verdict, one fact for each."""
    parts = [f.struct(f.lit(name).alias("kind"), (f.col(name) * f.col("messages")).alias("value")) for name in _EFFECTS]
    rows = weighed.select(f.explode(f.array(*parts)).alias("part")).where("part.kind <> 'lost'")
    rows = rows.groupBy(f.col("part.kind").alias("kind")).agg(f.sum("part.value").alias("sum"))
    return facts(rows, f.col("kind"), value=f.col("sum"))


def check_lost(weighed: DataFrame) -> DataFrame:
    """Find packets that the origin forgot and no destination has."""
    evidence = f.format_string("acknowledged at its origin, committed nowhere; messages: %d", "messages")
    return facts(weighed.where("lost > 0"), "lost", evidence, value=f.col("messages"))


def check_committed_again(repeated: DataFrame, weighed: DataFrame) -> DataFrame:
    """Find packets that one node committed more than once."""
    rows = repeated.join(weighed.select(*STREAM, "number", "messages"), [*STREAM, "number"])
    evidence = f.format_string("committed %d times; messages: %d", f.col("extra") + 1, f.col("messages"))
    return facts(rows, "duplicates_delivered", evidence, value=f.expr("extra * messages"))
