"""A second count of what happened to every stream, in windows and joins of Spark alone, for comparison with the judges.

The judges are state machines in Python that see one record after the other. This module shares no code with them, and
no way of thinking: it cuts the numbers of a sequence at every place where any range begins or ends, and looks at each
part at once. ``explain()`` of a count shows all of it.

It counts what the records of whole logs say. It knows no clock and no missing log, so its counts are compared with the
judges' where the logs are whole (``disagreements``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from triack.tools.replay.tables import facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from triack.tools.replay.log.schema import Verdict

KEY: Final = ("origin", "stream", "sequence")
"""What one row of the counts is about."""
COUNTED: Final = (
    "sent",
    "delivered",
    "pending",
    "lost",
    "duplicates_delivered",
    "out_of_order",
    "gaps",
    "acked_early",
)
"""The counts of a stream: messages, but for ``gaps`` and ``acked_early``, which are packets."""
WIRE: Final = ("duplicates_on_wire", "resends")
"""The counts of packets on their way, over all classes."""
EVENTS: Final = (
    *facts.CHANGES,
    "packet_sent",
    "packet_received",
    "store_ack_sent",
    "store_ack_received",
    "order_ack_sent",
    "order_ack_received",
    "handed",
    "node_started",
)
"""The events whose records are counted."""
COLUMNS: Final = (
    "event", "node", "incarnation", "n", "at_ns", "wall_ns", "class", "origin", "stream", "sequence", "number",
    "previous", "counts", "place", "first", "last", "count", "queue", "recovered", "redelivered", "reason", "session",
    "peer", "peer_name", "packet", "packets", "resend", "duplicate", "size", "hops", "cumulative", "ranges", "trigger",
    "pending",
)  # fmt: skip
"""The columns of a table of records that are read."""
BUCKET: Final = 256
"""Ranges are joined where they touch the same stretch of this many packets: a window's worth, so a range touches few."""


def count_streams(records: DataFrame) -> DataFrame:
    """Count the messages of every sequence of the recoverable and transactional classes.

    Args:
        records: a table as ``triack.replay.load`` returns it, of ``COLUMNS`` at least.

    Returns:
        A row for each sequence: ``KEY``, ``class``, ``queue`` and ``COUNTED``.
    """
    commits = _durable(facts.commits(records))
    packets = _durable(facts.packets(records))
    acks = facts.acks(records.where("event not in ('ack_sent', 'ack_received')"))
    parts = _parts(_marks(commits, packets, acks, _last_starts(records)))
    counted = _weighed(parts, _sums(commits))
    others = (_out_of_order(commits), _acked_early(commits, packets, acks), _handed_again(records))
    for other in others:
        counted = counted.join(other, list(KEY), "left")
    again = f.coalesce("handed_again", f.lit(0))
    return counted.select(
        *KEY,
        "class",
        "queue",
        *(f.coalesce(name, f.lit(0)).alias(name) for name in ("sent", "delivered", "pending", "lost")),
        (f.coalesce("duplicates", f.lit(0)) + again).alias("duplicates_delivered"),
        *(f.coalesce(name, f.lit(0)).alias(name) for name in ("out_of_order", "gaps", "acked_early")),
    )


def count_wire(records: DataFrame) -> DataFrame:
    """Count packets that arrived again, and that left again, in one row of ``WIRE``."""
    packets = facts.packets(records)
    direction = f.col("direction")
    size = f.expr("packet_last - packet_first + 1")
    marked = packets.agg(
        f.sum(f.when((direction == "received") & f.col("again"), size)).alias("arrived_again"),
        f.sum(f.when((direction == "sent") & f.col("again") & f.col("stream").isNull(), size)).alias("control_again"),
    )
    rejected = facts.commits(records.where("event = 'rejected'")).where("reason = 'duplicate'")
    refused = rejected.agg(f.count("*").alias("refused"))
    sent = packets.where((direction == "sent") & f.col("stream").isNotNull())
    whose = ("node", *KEY)
    ends = [f.col("first").alias("at"), f.lit(1).alias("by")], [f.expr("last + 1").alias("at"), f.lit(-1).alias("by")]
    marks = sent.select(*whose, *ends[0]).unionByName(sent.select(*whose, *ends[1]))
    steps = marks.groupBy(*whose, "at").agg(f.sum("by").alias("by"))
    along = Window.partitionBy(*whose).orderBy("at")
    depth = f.sum("by").over(along.rowsBetween(Window.unboundedPreceding, 0))
    parts = steps.select(depth.alias("times"), (f.lead("at").over(along) - f.col("at")).alias("packets"))
    left = parts.where("times > 1").agg(f.sum(f.expr("(times - 1) * packets")).alias("left_again"))
    row = marked.crossJoin(refused).crossJoin(left)
    return row.select(
        (f.coalesce("arrived_again", f.lit(0)) + f.col("refused")).alias("duplicates_on_wire"),
        (f.coalesce("control_again", f.lit(0)) + f.coalesce("left_again", f.lit(0))).alias("resends"),
    )


def totals(records: DataFrame) -> dict[str, int]:
    """Count all of it, and return the sums by their names; Spark works now."""
    streams = count_streams(records)
    sums = streams.agg(*(f.coalesce(f.sum(name), f.lit(0)).cast("bigint").alias(name) for name in COUNTED))
    row = sums.crossJoin(count_wire(records)).first()
    assert row is not None, "an aggregate has one row"
    return {name: int(row[name]) for name in (*COUNTED, *WIRE)}


def disagreements(verdict: Verdict, counted: Mapping[str, int]) -> list[str]:
    """Compare the counts with those of the judges; return each that differs, in words.

    Args:
        verdict: the judges', of whole logs.
        counted: as ``totals`` returns it.
    """
    broken = verdict.violations
    early = sum(broken.get(check, 0) for check in ("order_ack_before_commit", "store_ack_before_commit"))
    judged: dict[str, int | bool] = {
        **{name: getattr(verdict, name) for name in (*COUNTED[:6], *WIRE)},
        # These are ranges in one place and packets in the other: they agree on whether there are any.
        "gaps": bool(broken.get("gaps", 0)),
        "acked_early": bool(early),
    }
    told = []
    for name, judges in judged.items():
        mine = counted[name]
        if (bool(mine) if isinstance(judges, bool) else mine) != judges:
            said = f"{int(judges):,}" if not isinstance(judges, bool) else ("some" if judges else "none")
            told.append(f"{name.replace('_', ' ')}: the judges count {said}, Spark's expressions {mine:,}")
    return told


def _durable(rows: DataFrame) -> DataFrame:
    # Stream 0 are dead letters, which their node itself puts into their queue.
    return rows.where((f.col("class") != "express") & (f.col("stream") > 0))


def _last_starts(records: DataFrame) -> DataFrame:
    return records.groupBy("node").agg(f.max("incarnation").alias("last_start"))


# ---- a sequence, cut where any range begins or ends

_KINDS: Final = (
    "fresh", "again_queued", "removed", "committed", "found", "held", "given_up", "acked", "refused", "weighed",
)  # fmt: skip


def _marks(commits: DataFrame, packets: DataFrame, acks: DataFrame, last_starts: DataFrame) -> DataFrame:
    """Return where ranges begin and end: by how much their kinds cover from there on."""
    change, recovered = f.col("change"), f.col("recovered")
    kind = (
        f.when((change == "queued") & recovered, "again_queued")
        .when(change == "queued", "fresh")
        .when(change.isin("removed", "committed"), change)
        # A first start has found nothing.
        .when((change == "found") & (f.col("start") > 1), "found")
        .when(change == "rejected", "refused")
    )
    ranges = _ranges(commits.withColumn("kind", kind).where("kind is not null"), f.col("kind"))
    # A relay has what it took since its last start, when it said all that it had, and did not pass on since then.
    moved = commits.where(change.isin("relayed", "passed")).join(f.broadcast(last_starts), "node")
    now = moved.where("start = last_start")
    held = _ranges(now, f.lit("held"), by=f.when(f.col("change") == "relayed", 1).otherwise(-1))
    given_up = _ranges(
        moved.where("change = 'passed' and reason in ('rejected', 'expired', 'purged')"), f.lit("given_up")
    )
    ordered = acks.where("ack = 'order' and direction = 'received' and node = origin")
    transactional = commits.where("change = 'queued' and class = 'transactional'").select(*KEY).distinct()
    freed = _ranges(ordered.join(transactional, list(KEY), "left_semi"), f.lit("acked"))
    stored = _ranges(_stored(packets, acks), f.lit("acked"))
    return ranges.unionByName(held).unionByName(given_up).unionByName(freed).unionByName(stored).unionByName(
        _weights(commits, packets)
    )


def _ranges(rows: DataFrame, kind: Column, *, by: Column | int = 1, messages: Column | None = None) -> DataFrame:
    """Return two marks for each range: it covers from its first number on, and no more behind its last one.

    Args:
        rows: the ranges.
        kind: what covers.
        by: how often.
        messages: of each packet, if the rows tell; else the begin of a queued range carries the range.
    """
    each = f.lit(by) if isinstance(by, int) else by
    value = messages if messages is not None else f.lit(0)
    count = f.col("messages") if "messages" in rows.columns else f.lit(None)
    whole = f.struct(f.col("last").alias("end"), f.col("first").alias("begin"), count.cast("bigint").alias("count"))
    span = f.when(kind.isin("fresh", "again_queued") & (f.col("first") < f.col("last")), whole)
    begins = rows.select(
        *KEY, f.col("first").alias("at"), kind.alias("kind"), each.alias("by"), value.alias("value"),
        span.alias("span"),
    )
    ends = rows.select(
        *KEY, f.expr("last + 1").alias("at"), kind.alias("kind"), (-each).alias("by"), (-value).alias("value"),
        f.when(f.lit(False), whole).alias("span"),
    )
    return begins.unionByName(ends)


def _weights(commits: DataFrame, packets: DataFrame) -> DataFrame:
    """Return marks of how many messages each packet holds, as records of packets say."""
    runs = packets.select(*KEY, "first", f.posexplode("counts").alias("at", "run"), "counts")
    before = "aggregate(slice(counts, 1, at), 0L, (sum, it) -> sum + it[0])"
    spread = runs.select(
        *KEY,
        f.expr(f"first + {before}").alias("first"),
        f.expr(f"first + {before} + run[0] - 1").alias("last"),
        f.expr("run[1]").alias("each"),
    )
    single = commits.where("change in ('queued', 'removed') and first = last")
    alone = single.select(*KEY, "first", "last", f.col("messages").alias("each"))
    said = spread.unionByName(alone).distinct()
    return _ranges(said, f.lit("weighed"), messages=f.col("each"))


def _parts(marks: DataFrame) -> DataFrame:
    """Return the parts of each sequence: first, last, how often each kind covers it, and messages of its packets."""
    kinds = [f.sum(f.when(f.col("kind") == kind, f.col("by")).otherwise(0)).alias(kind) for kind in _KINDS]
    steps = marks.groupBy(*KEY, "at").agg(*kinds, f.sum("value").alias("value"), f.min("span").alias("span"))
    along = Window.partitionBy(*KEY).orderBy("at")
    so_far = along.rowsBetween(Window.unboundedPreceding, 0)
    covers = [f.sum(name).over(so_far).alias(name) for name in (*_KINDS, "value")]
    covers.append(f.last("span", ignorenulls=True).over(so_far).alias("span"))
    parts = steps.select(*KEY, f.col("at").alias("first"), (f.lead("at").over(along) - 1).alias("last"), *covers)
    return parts.where("last is not null")


def _sums(commits: DataFrame) -> DataFrame:
    """Return the ranges' own counts of messages, added up, and how far each sequence was committed."""
    change = f.col("change")
    messages = f.col("messages")
    whole = (change == "queued") & ~f.col("recovered")
    committed = f.when(change == "committed", f.col("last"))
    return commits.groupBy(*KEY).agg(
        f.max("class").alias("class"),
        f.max("queue").alias("queue"),
        f.sum(f.when(whole, messages).otherwise(0)).alias("queued_messages"),
        f.sum(f.when(change == "removed", messages).otherwise(0)).alias("removed_messages"),
        f.sum(f.when(change == "committed", messages).otherwise(0)).alias("committed_messages"),
        f.max(committed).alias("committed_last"),
    )


def _weighed(parts: DataFrame, sums: DataFrame) -> DataFrame:
    """Return the counts of each sequence: its ranges' own counts, and what its parts correct."""
    size = "(last - first + 1)"
    length = "(span.end - span.begin + 1)"
    even = f"""
        if(span.end >= last, span.count * (last - span.begin + 1) div {length}
            - span.count * (first - span.begin) div {length}, 0)"""
    there = parts.join(sums, list(KEY)).withColumn(
        # Records of one packet agree on its messages; an average of equal numbers is that number.
        "weight",
        f.expr(f"if(weighed > 0, cast(round(value / weighed) as bigint) * {size}, 0)"),
    )
    # A packet that no record shows on its way holds an even share of its range.
    there = there.withColumn("weight", f.expr(f"if(weighed > 0, weight, coalesce({even}, 0))"))
    there = there.withColumn("is_queued", f.expr("fresh > 0 or again_queued > 0"))
    there = there.withColumn("is_there", f.expr("committed > 0 or (found > 0 and is_queued and removed <= 0)"))
    # What a relay gave up when its origin had forgotten it is sent no more; of ordered streams the origin still has it.
    waits = """is_queued and removed <= 0 and not (
        class = 'recoverable' and acked > 0 and given_up > 0 and held <= 0 and not is_there)"""
    there = there.withColumn("is_wanted", f.expr(waits))
    lost = "is_wanted and acked > 0 and not is_there and not (held > 0 and class = 'recoverable')"
    gap = """class = 'transactional' and is_queued and removed <= 0 and refused <= 0 and not is_there
        and first < committed_last"""
    summed = there.groupBy(*KEY).agg(
        *(f.first(name).alias(name) for name in ("class", "queue", "queued_messages", "removed_messages")),
        f.first("committed_messages").alias("committed_messages"),
        f.expr("sum(weight * (int(is_wanted) - (fresh - removed)))").alias("more_sent"),
        f.expr("sum(weight * (int(is_there) - committed))").alias("more_delivered"),
        f.expr("sum(if(is_there and not is_queued, weight, 0))").alias("unqueued"),
        f.expr("sum(if(removed > 0, 0, weight * committed))").alias("committed_and_wanted"),
        f.expr("sum(if(removed > 0 and committed > 0, weight, 0))").alias("committed_and_removed"),
        f.expr(f"sum(if({lost}, weight, 0))").alias("lost"),
        f.expr("sum(if(committed > 1, weight * (committed - 1), 0))").alias("duplicates"),
        f.expr(f"sum(if({gap}, {size}, 0))").alias("gaps"),
    )
    # Only the commit's own count tells whether a packet that its origin gave up is in it.
    both = f.expr("least(greatest(committed_messages - committed_and_wanted, 0), committed_and_removed)")
    summed = summed.withColumn("sent", f.expr("queued_messages - removed_messages + more_sent") + both)
    summed = summed.withColumn("delivered", f.expr("committed_messages + more_delivered"))
    return summed.withColumn("pending", f.expr("unqueued + sent - delivered - lost"))


# ---- what depends on the order of records


def _out_of_order(commits: DataFrame) -> DataFrame:
    """Count the messages that were committed behind a later one of their ordered stream."""
    ordered = commits.where("change = 'committed' and class = 'transactional'")
    before = Window.partitionBy("node", *KEY).orderBy("start", "n").rowsBetween(Window.unboundedPreceding, -1)
    late = ordered.withColumn("top", f.max("last").over(before)).where("first <= top")
    return late.groupBy(*KEY).agg(f.sum("messages").alias("out_of_order"))


def _handed_again(records: DataFrame) -> DataFrame:
    """Count the messages that were handed out once more without the mark that they may have been before."""
    handed = _durable(facts.deliveries(records.where("event = 'handed'")))
    runs = handed.select(
        "node", "start", "n", *KEY, "first", "place", "redelivered", f.posexplode("counts").alias("at", "run"), "counts"
    )
    before = "aggregate(slice(counts, 1, at), 0L, (sum, it) -> sum + it[0])"
    runs = runs.withColumn("from", f.expr(f"first + {before}"))
    each = runs.withColumn("number", f.explode(f.expr("sequence(`from`, `from` + run[0] - 1)")))
    place = f.when(f.expr("number = first"), f.col("place")).otherwise(0)
    each = each.select("node", "start", "n", *KEY, "number", place.alias("place"), "redelivered", f.expr("run[1] as m"))
    earlier = (
        Window.partitionBy("node", *KEY, "number", "place")
        .orderBy("start", "n")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    again = each.withColumn("times", f.count("*").over(earlier)).where("times > 0 and not redelivered")
    return again.groupBy(*KEY).agg(f.sum("m").alias("handed_again"))


def _acked_early(commits: DataFrame, packets: DataFrame, acks: DataFrame) -> DataFrame:
    """Count the packets that a node acknowledged before the commit that holds them."""
    early = _order_acked_early(commits, acks).unionByName(_store_acked_early(commits, packets, acks))
    return early.groupBy(*KEY).agg(f.sum("early").alias("acked_early"))


def _order_acked_early(commits: DataFrame, acks: DataFrame) -> DataFrame:
    """Return order acks beyond all that their node had committed, found or refused until then."""
    sent = acks.where("ack = 'order' and direction = 'sent'")
    place = ("node", "start", "n", *KEY)
    reached = commits.where("change in ('committed', 'found', 'rejected')").select(
        *place, f.col("last").alias("reached"), f.lit(None).cast("bigint").alias("acked")
    )
    told = sent.select(*place, f.lit(None).cast("bigint").alias("reached"), f.col("last").alias("acked"))
    before = Window.partitionBy("node", *KEY).orderBy("start", "n").rowsBetween(Window.unboundedPreceding, 0)
    both = reached.unionByName(told).withColumn("top", f.max("reached").over(before))
    beyond = f.expr("acked - coalesce(top, 0)")
    durable = commits.select(*KEY).distinct()
    return (
        both.where(beyond > 0).join(durable, list(KEY), "left_semi").select(*KEY, beyond.alias("early"))
    )


def _store_acked_early(commits: DataFrame, packets: DataFrame, acks: DataFrame) -> DataFrame:
    """Return the packets that a store ack covered and that their node did not have then."""
    sent = acks.where("ack = 'store' and direction = 'sent'")
    cumulative = Window.partitionBy("node", "session").orderBy("n").rowsBetween(Window.unboundedPreceding, -1)
    rising = sent.where("cumulative").withColumn("first", f.coalesce(f.max("last").over(cumulative) + 1, f.lit(1)))
    covered = rising.unionByName(sent.where("not cumulative")).where("first <= last")
    arrived = packets.where("direction = 'received' and not again")
    numbers = _carried(arrived, covered)
    had = commits.where("change in ('committed', 'found', 'relayed', 'rejected')").select(
        "node", *KEY, f.col("first").alias("from"), f.col("last").alias("to"), f.struct("start", "n").alias("had_at"),
        (f.col("change") == "rejected").alias("refused"),
    )
    pieces = _bucketed(numbers, "first", "last").join(
        _bucketed(had, "from", "to"), ["node", *KEY, "bucket"], "left"
    ).where(f"`from` is null or (`from` <= last and `to` >= first and bucket = greatest(`from`, first) div {BUCKET})")
    return _lacking(numbers, pieces)


def _lacking(numbers: DataFrame, pieces: DataFrame) -> DataFrame:
    """Return how many of the numbers no piece covers in time."""
    whose = ("node", *KEY, "acked_at", "first", "last")
    overlap = f.expr("least(`to`, last) - greatest(`from`, first) + 1")
    in_time = f.col("refused") | (f.col("had_at") <= f.col("acked_at"))
    there = pieces.groupBy(*whose).agg(f.sum(f.when(in_time, overlap).otherwise(0)).alias("there"))
    counted = numbers.select(*whose).distinct().join(there, list(whose), "left")
    early = f.expr("last - first + 1 - least(last - first + 1, coalesce(there, 0))")
    return counted.where(early > 0).select(*KEY, early.alias("early"))


def _stored(packets: DataFrame, acks: DataFrame) -> DataFrame:
    """Return the recoverable packets whose store acks reached their origin."""
    left = packets.where("direction = 'sent' and class = 'recoverable' and node = origin")
    return _carried(left, acks.where("ack = 'store' and direction = 'received'")).select(*KEY, "first", "last").distinct()


def _carried(packets: DataFrame, acks: DataFrame) -> DataFrame:
    """Return the numbers of the packets that acks cover, and the place of each ack's record."""
    carried = packets.select("node", "session", "packet_first", "packet_last", *KEY, f.col("first").alias("number"))
    covers = acks.select(
        "node", "session", f.col("first").alias("from"), f.col("last").alias("to"),
        f.struct("start", "n").alias("acked_at"),
    )
    met = _bucketed(carried, "packet_first", "packet_last").join(
        _bucketed(covers, "from", "to"), ["node", "session", "bucket"]
    )
    low = f.greatest("packet_first", "from")
    met = met.where("`from` <= packet_last and `to` >= packet_first").where(
        # Of all stretches that both touch, the one in which their overlap begins.
        f.col("bucket") == f.expr(f"greatest(packet_first, `from`) div {BUCKET}")
    )
    shift = f.col("number") - f.col("packet_first")
    return met.select(
        "node", *KEY, "acked_at", (low + shift).alias("first"), (f.least("packet_last", "to") + shift).alias("last")
    )


def _bucketed(rows: DataFrame, first: str, last: str) -> DataFrame:
    """Return a row for each stretch of ``BUCKET`` packets that a range touches."""
    return rows.withColumn("bucket", f.explode(f.expr(f"sequence(`{first}` div {BUCKET}, `{last}` div {BUCKET})")))

