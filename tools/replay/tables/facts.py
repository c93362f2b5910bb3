"""What records say, one row for each range of packets: tables that need nothing but the record itself.

Each is a select over the table of records, without a worker's Python, so Spark may push a filter through it and leave
out what nobody asks for. A row of such a table never changes: new records add rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COMMON: Final = ("node", "start", "n", "at_ns", "wall_ns")
"""The columns that every table of facts begins with: the node, which start of it, serial and times of the record."""
STREAM: Final = ("class", "origin", "stream", "sequence")
"""The columns that name a stream, and the class of its packets."""
CHANGES: Final = {
    "queued": "queued",
    "committed": "committed",
    "position_recovered": "found",
    "removed": "removed",
    "rejected": "rejected",
    "route_refused": "rejected",
    "transit_committed": "relayed",
    "transit_freed": "passed",
}
"""Event -> what it did to packets at its node."""
DELIVERIES: Final = {
    "handed": "handed",
    "settled": "acknowledged",
    "returned": "returned",
    "purged": "purged",
    "expired": "expired",
}
"""Event -> what happened to messages that waited in a queue."""
ACKS: Final = {
    "ack_sent": ("session", "sent"),
    "ack_received": ("session", "received"),
    "store_ack_sent": ("store", "sent"),
    "store_ack_received": ("store", "received"),
    "order_ack_sent": ("order", "sent"),
    "order_ack_received": ("order", "received"),
}
"""Event -> which acknowledgement, and whether it left or arrived."""

SUBSCRIBING: Final = {
    "subscribed": "subscribed",
    "unsubscribed": "unsubscribed",
    "subscription_changed": "changed",
    "subscription_suspended": "suspended",
    "subscription_resumed": "resumed",
}
"""Event -> what happened to a subscription."""
DISPATCHES: Final = {"dispatched": "dispatched", "assigned": "assigned", "discarded": "discarded"}
"""Event -> what a topic did with messages that had their places."""

# fmt: off
READ: Final = (
    "file", "line", "event", "node", "incarnation", "n", "at_ns", "wall_ns", "class", "origin", "stream", "sequence",
    "number", "previous", "counts", "place", "first", "last", "count", "queue", "priority", "hops", "recovered",
    "redelivered", "reason", "attempt", "interval_ns", "session", "peer", "peer_name", "role", "address", "window",
    "unacked", "packet", "packets", "resend", "duplicate", "size", "cumulative", "ranges", "trigger", "pending",
    "topic", "below", "at_place", "subscription", "pattern", "durable", "after", "max_unacked", "ack_wait_ns",
    "age_ns", "name", "boot", "survives",
)
# fmt: on
"""The columns of the records that facts are made of: half of all. A cache of records for facts needs no others."""

_PRIORITY: Final = "coalesce(priority, if(class = 'transactional', 0L, 3L))"
"""Of messages whose record leaves out the default of their class."""
_RUNS: Final = "aggregate(counts, 0L, (sum, it) -> sum + it[0])"
_MESSAGES: Final = "aggregate(counts, 0L, (sum, it) -> sum + it[0] * it[1])"


def packets(records: DataFrame) -> DataFrame:
    """Return packets that left or arrived: one row for each burst of a session."""
    there = records.where(f.col("event").isin("packet_sent", "packet_received"))
    return _rows(
        there,
        direction=f.when(f.col("event") == "packet_sent", "sent").otherwise("received"),
        session="session",
        packet_first=f.col("packet"),
        packet_last=f.expr("packet + packets - 1"),
        **_named(*STREAM),
        first="number",
        last=f.expr("number + packets - 1"),
        previous="previous",
        messages=f.expr(_MESSAGES),
        counts="counts",
        size_bytes=f.col("size"),
        again=f.expr("coalesce(resend, duplicate)"),
        hops="hops",
    )


def commits(records: DataFrame) -> DataFrame:
    """Return what became of packets at a node: queued, committed, found at a start, removed and so on."""
    there = records.where(f.col("event").isin(*CHANGES))
    spans = f.expr("""
        case when event = 'position_recovered' and ranges is not null then ranges
             when event = 'position_recovered' then array(array(1L, number))
             when event = 'rejected' then array(array(number, number))
             else array(array(first, last)) end""")
    return _rows(
        there.withColumn("span", f.explode(spans)).where("span[0] <= span[1]"),
        change=_mapped(CHANGES),
        **_named(*STREAM),
        first=f.expr("span[0]"),
        last=f.expr("span[1]"),
        messages="count",
        queue="queue",
        peer_name="peer_name",
        recovered=f.expr("coalesce(recovered, false)"),
        reason="reason",
        priority=f.expr(f"if(event in ('queued', 'committed'), {_PRIORITY}, null)"),
    )


def acks(records: DataFrame) -> DataFrame:
    """Return acknowledgements: a row for each range. What is acknowledged up to a number is the range from 1."""
    there = records.where(f.col("event").isin(*ACKS))
    spans = f.expr("""
        case when event like 'order%' then array(struct(1L as first, number as last, true as cumulative))
             else concat(
                 if(cumulative > 0, array(struct(1L as first, cumulative as last, true as cumulative)), array()),
                 transform(ranges, it -> struct(it[0] as first, it[1] as last, false as cumulative))) end""")
    return _rows(
        there.withColumn("span", f.explode(spans)),
        ack=_mapped({event: ack for event, (ack, _) in ACKS.items()}),
        direction=_mapped({event: direction for event, (_, direction) in ACKS.items()}),
        session="session",
        peer="peer",
        origin="origin",
        stream="stream",
        sequence="sequence",
        first=f.expr("span.first"),
        last=f.expr("span.last"),
        cumulative=f.expr("span.cumulative"),
        trigger="trigger",
        pending_packets=f.col("pending"),
    )


def deliveries(records: DataFrame) -> DataFrame:
    """Return what happened to messages in a queue, or to those of a subscription: a row for each range of places.

    They are handed out, acknowledged, returned, purged, expired.
    """
    there = records.where(f.col("event").isin(*DELIVERIES))
    spans = f.expr("if(subscription is null, array(array(place, place)), ranges)")
    return _rows(
        there.withColumn("span", f.explode(spans)),
        delivery=_mapped(DELIVERIES),
        **_named(*STREAM),
        first="number",
        last=f.expr(f"number + {_RUNS} - 1"),
        place=f.expr("span[0]"),
        messages=f.expr(f"if(subscription is null, {_MESSAGES}, span[1] - span[0] + 1)"),
        counts="counts",
        queue="queue",
        redelivered="redelivered",
        priority=f.expr(f"if(event = 'handed' and subscription is null, {_PRIORITY}, null)"),
        topic="topic",
        subscription="subscription",
    )


def placements(records: DataFrame) -> DataFrame:
    """Return messages that arrived in topics: a row for each series of packets of one name."""
    return _rows(
        records.where("event = 'placed'"),
        **_named(*STREAM),
        first="number",
        last=f.expr(f"number + {_RUNS} - 1"),
        topic="topic",
        name=f.expr("concat_ws('.', topic, nullif(below, ''))"),
        place_first=f.col("at_place"),
        place_last=f.expr(f"at_place + {_MESSAGES} - 1"),
        messages=f.expr(_MESSAGES),
        recovered=f.expr("coalesce(recovered, false)"),
    )


def dispatches(records: DataFrame) -> DataFrame:
    """Return what topics let go, to whom, and what they dropped for subscriptions: a row for each range of places."""
    return _rows(
        records.where(f.col("event").isin(*DISPATCHES)),
        change=_mapped(DISPATCHES),
        topic="topic",
        subscription="subscription",
        place_first=f.col("first"),
        place_last=f.col("last"),
        messages=f.expr("coalesce(count, last - first + 1)"),
        age_ns="age_ns",
        pending_messages=f.col("pending"),
    )


def subscriptions(records: DataFrame) -> DataFrame:
    """Return what happened to subscriptions: they begin, end, change, are suspended, and go on."""
    return _rows(
        records.where(f.col("event").isin(*SUBSCRIBING)),
        change=_mapped(SUBSCRIBING),
        topic="topic",
        subscription="subscription",
        pattern="pattern",
        durable="durable",
        after="after",
        max_unacked="max_unacked",
        ack_wait_ns="ack_wait_ns",
        reason="reason",
    )


def resends(records: DataFrame) -> DataFrame:
    """Return what left again, and tiers that ran out: a session's own resends, and those of a sequence."""
    there = records.where("(event = 'packet_sent' and resend) or event = 'resend_scheduled'")
    scheduled = f.col("event") == "resend_scheduled"
    return _rows(
        there,
        resent_by=f.when(scheduled, "sequence").otherwise("session"),
        session="session",
        **_named(*STREAM),
        first=f.when(scheduled, f.col("first")).otherwise(f.col("number")),
        last=f.when(scheduled, f.col("last")).otherwise(f.expr("number + packets - 1")),
        packets=f.when(scheduled, f.expr("last - first + 1")).otherwise(f.col("packets")),
        attempt="attempt",
        interval_ns="interval_ns",
        size_bytes=f.col("size"),
    )


def _rows(there: DataFrame, **columns: str | Column) -> DataFrame:
    """Return records as rows: the common columns, then the given ones, and where the record is if that is known."""
    place = [name for name in ("file", "line") if name in there.columns]
    common = [f.col("incarnation").alias("start") if name == "start" else f.col(name) for name in COMMON]
    own = [(f.col(it) if isinstance(it, str) else it).alias(name) for name, it in columns.items()]
    return there.select(*common, *own, *place)


def _named(*names: str) -> dict[str, str | Column]:
    return {name: name for name in names}


def _mapped(words: dict[str, str]) -> Column:
    """Return the word for an event."""
    pairs = [f.lit(word) for pair in words.items() for word in pair]
    return f.create_map(*pairs)[f.col("event")]


def starts(records: DataFrame) -> DataFrame:
    """Return what begins and ends starts of nodes: a row for each such record."""
    events = ("node_started", "node_continued", "node_stopped", "start_before")
    return _rows(
        records.where(f.col("event").isin(*events)),
        word="event",
        name="name",
        address="address",
        boot="boot",
        survives="survives",
    )


def openings(records: DataFrame) -> DataFrame:
    """Return openings and ends of sessions: a row for each end of a session that says so."""
    return _rows(
        records.where("event in ('session_opened', 'session_closed')"),
        word="event",
        session="session",
        peer="peer",
        peer_name="peer_name",
        role="role",
        address="address",
        window_packets=f.col("window"),
        reason="reason",
        unacked_packets=f.col("unacked"),
    )


def segments(records: DataFrame) -> DataFrame:
    """Return the files: a row for each start of a node in a file."""
    return records.groupBy("node", f.col("incarnation").alias("start"), "file").agg(
        f.min("n").alias("first_n"),
        f.max("n").alias("last_n"),
        f.count("*").alias("records"),
        f.min("wall_ns").alias("begin_wall_ns"),
        f.max("wall_ns").alias("end_wall_ns"),
    )


FACTS: Final = {
    "segments": segments,
    "starts": starts,
    "openings": openings,
    "packets": packets,
    "acks": acks,
    "commits": commits,
    "deliveries": deliveries,
    "resends": resends,
    "placements": placements,
    "dispatches": dispatches,
    "subscriptions": subscriptions,
}
"""The tables of facts by their names: each is a function of records."""
