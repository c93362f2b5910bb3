"""What records say, one row for each range of packets: tables that need nothing but the record itself.

Each is a select over the table of records, without a worker's Python, so Spark may push a filter through it and leave
out what nobody asks for. A row of such a table never changes: new records add rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMMON: Final = ("node", "incarnation as start", "n", "at_ns", "wall_ns")
"""The columns that every table of facts begins with: the node, which start of it, serial and times of the record."""
STREAM: Final = ("class", "origin", "stream", "sequence")
"""The columns that name a stream, and the class of its packets."""
CHANGES: Final = {
    "queued": "queued", "committed": "committed", "position_recovered": "found", "removed": "removed",
    "rejected": "rejected", "route_refused": "rejected", "transit_committed": "relayed", "transit_freed": "passed",
}  # fmt: skip
"""Event -> what it did to packets at its node."""
DELIVERIES: Final = {
    "handed": "handed", "settled": "acknowledged", "returned": "returned", "purged": "purged", "expired": "expired",
}  # fmt: skip
"""Event -> what happened to messages that waited in a queue."""
ACKS: Final = {
    "ack_sent": ("session", "sent"), "ack_received": ("session", "received"),
    "store_ack_sent": ("store", "sent"), "store_ack_received": ("store", "received"),
    "order_ack_sent": ("order", "sent"), "order_ack_received": ("order", "received"),
}  # fmt: skip
"""Event -> which acknowledgement, and whether it left or arrived."""

SUBSCRIBING: Final = {
    "subscribed": "subscribed", "unsubscribed": "unsubscribed", "subscription_changed": "changed",
    "subscription_suspended": "suspended", "subscription_resumed": "resumed",
}  # fmt: skip
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


_ALL_RUNS: Final = f"number + {_RUNS} - 1"
_RECOVERED: Final = "coalesce(recovered, false) as recovered"


@dataclass(frozen=True, slots=True)
class Fact:
    """A table of facts, which makes rows of records.

    Attributes:
        events: those of its records.
        columns: its own, beside the common ones and the place of the record.
        where: which of these records, if not all.
        spans: an array, of which each item makes a row, as ``span``.
    """

    events: Iterable[str]
    columns: Iterable[str]
    where: str = "true"
    spans: str = ""

    def __call__(self, records: DataFrame) -> DataFrame:
        """Return the rows of records."""
        there = records.where(f.col("event").isin(*self.events)).where(self.where)
        if self.spans:
            there = there.withColumn("span", f.explode(f.expr(self.spans)))
        place = [name for name in ("file", "line") if name in there.columns]
        return there.selectExpr(*COMMON, *self.columns, *place)


def _word(words: dict[str, str], name: str) -> str:
    """Return the column with the word for an event."""
    return f"map({str([word for pair in words.items() for word in pair])[1:-1]})[event] as {name}"


def segments(records: DataFrame) -> DataFrame:
    """Return the files: a row for each start of a node in a file."""
    return records.groupBy("node", f.col("incarnation").alias("start"), "file").agg(
        f.min("n").alias("first_n"),
        f.max("n").alias("last_n"),
        f.count("*").alias("records"),
        f.min("wall_ns").alias("begin_wall_ns"),
        f.max("wall_ns").alias("end_wall_ns"),
    )


FACTS: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "segments": segments,
    # What begins and ends starts of nodes.
    "starts": Fact(
        ("node_started", "node_continued", "node_stopped", "start_before"),
        ("event as word", "name", "address", "boot", "survives"),
    ),
    # A row for each end of a session that says so.
    "openings": Fact(
        ("session_opened", "session_closed"),
        ("event as word", "session", "peer", "peer_name", "role", "address", "window as window_packets", "reason",
         "unacked as unacked_packets"),
    ),
    # A row for each burst of a session.
    "packets": Fact(
        ("packet_sent", "packet_received"),
        ("if(event = 'packet_sent', 'sent', 'received') as direction", "session", "packet as packet_first",
         "packet + packets - 1 as packet_last", *STREAM, "number as first", "number + packets - 1 as last", "previous",
         f"{_MESSAGES} as messages", "counts", "size as size_bytes", "coalesce(resend, duplicate) as again", "hops"),
    ),
    # A row for each range. What is acknowledged up to a number is the range from 1.
    "acks": Fact(
        ACKS,
        (_word({event: ack for event, (ack, _) in ACKS.items()}, "ack"),
         _word({event: direction for event, (_, direction) in ACKS.items()}, "direction"), "session", "peer", "origin",
         "stream", "sequence", "span.first as first", "span.last as last", "span.cumulative as cumulative", "trigger",
         "pending as pending_packets"),
        spans="""
            case when event like 'order%' then array(struct(1L as first, number as last, true as cumulative))
                 else concat(
                     if(cumulative > 0, array(struct(1L as first, cumulative as last, true as cumulative)), array()),
                     transform(ranges, it -> struct(it[0] as first, it[1] as last, false as cumulative))) end""",
    ),
    # What became of packets at a node: queued, committed, found at a start, removed and so on.
    "commits": Fact(
        CHANGES,
        (_word(CHANGES, "change"), *STREAM, "span[0] as first", "span[1] as last", "count as messages", "queue",
         "peer_name", _RECOVERED, "reason", f"if(event in ('queued', 'committed'), {_PRIORITY}, null) as priority"),
        spans="""
            filter(case when event = 'position_recovered' and ranges is not null then ranges
                 when event = 'position_recovered' then array(array(1L, number))
                 when event = 'rejected' then array(array(number, number))
                 else array(array(first, last)) end, it -> it[0] <= it[1])""",
    ),
    # What happened to messages in a queue, or to those of a subscription: a row for each range of places.
    "deliveries": Fact(
        DELIVERIES,
        (_word(DELIVERIES, "delivery"), *STREAM, "number as first", f"{_ALL_RUNS} as last", "span[0] as place",
         f"if(subscription is null, {_MESSAGES}, span[1] - span[0] + 1) as messages", "counts", "queue", "redelivered",
         f"if(event = 'handed' and subscription is null, {_PRIORITY}, null) as priority", "topic", "subscription"),
        spans="if(subscription is null, array(array(place, place)), ranges)",
    ),
    # What left again, and tiers that ran out: a session's own resends, and those of a sequence.
    "resends": Fact(
        ("packet_sent", "resend_scheduled"),
        ("if(event = 'resend_scheduled', 'sequence', 'session') as resent_by", "session", *STREAM,
         "if(event = 'resend_scheduled', first, number) as first",
         "if(event = 'resend_scheduled', last, number + packets - 1) as last",
         "if(event = 'resend_scheduled', last - first + 1, packets) as packets", "attempt", "interval_ns",
         "size as size_bytes"),
        "resend or event = 'resend_scheduled'",
    ),
    # Messages that arrived in topics: a row for each series of packets of one name.
    "placements": Fact(
        ("placed",),
        (*STREAM, "number as first", f"{_ALL_RUNS} as last", "topic",
         "concat_ws('.', topic, nullif(below, '')) as name", "at_place as place_first",
         f"at_place + {_MESSAGES} - 1 as place_last", f"{_MESSAGES} as messages", _RECOVERED),
    ),
    # What topics let go, to whom, and what they dropped for subscriptions: a row for each range of places.
    "dispatches": Fact(
        DISPATCHES,
        (_word(DISPATCHES, "change"), "topic", "subscription", "first as place_first", "last as place_last",
         "coalesce(count, last - first + 1) as messages", "age_ns", "pending as pending_messages"),
    ),
    # Subscriptions begin, end, change, are suspended, and go on.
    "subscriptions": Fact(
        SUBSCRIBING,
        (_word(SUBSCRIBING, "change"), "topic", "subscription", "pattern", "durable", "after", "max_unacked",
         "ack_wait_ns", "reason"),
    ),
}  # fmt: skip
"""The tables of facts by their names: each is a function of records."""
