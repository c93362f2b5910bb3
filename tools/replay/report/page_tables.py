"""The tables of the page as plain data: the page shows nothing else, and ``tables.json`` beside it has all of it.

A table that is too long for the page adds up the rows that it leaves out in one, so that its sums stay true.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from triack.base.printable import counted
from triack.tools.replay.log.schema import AT_RELAY, CLASS_CODES, PURGED, Account, Timeline, Verdict, is_system
from triack.tools.replay.log.series import DELAY_BUCKETS_PER_DECADE
from triack.tools.replay.report.outages import FAILED, IN_ORDER, OPEN, RESTART, Outage, Session
from triack.tools.replay.report.readable import duration, size
from triack.tools.replay.report.report_tables import percentile_ms, ways_of

ROWS_MAX: Final = 50
"""The most rows of a table on the page, so that it is read and stays small; what they leave out is in one more row."""
SHARES: Final = (("median_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999))
"""The percentiles of delays."""
_TELLING: Final = ("sent", "unqueued", "delivered")
"""Without any of these, a stream has no messages."""
_CLASSES: Final = {code: name for name, code in CLASS_CODES.items()}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: the key of its values.
        label: what the page calls it.
        kind: of its values, as ``readable.shown`` takes it.
        ids: the key of the ids behind the names that it shows, if it has such.
    """

    name: str
    label: str
    kind: str = "text"
    ids: str = ""


@dataclass(slots=True)
class Table:
    """A table of the page.

    Attributes:
        name: of the table.
        title: what the page calls it.
        columns: what it shows.
        rows: a value for each column; there may be more values.
        note: what it is about.
        sums: its last row; empty for none.
        says: how the sums agree with the verdict, or why they do not.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[Row]
    note: str = ""
    sums: Row = field(default_factory=dict)
    says: str = ""

    @property
    def shown(self) -> list[Row]:
        """The rows of the page: the first ones, and one with the sums of those that are left out."""
        rest = self.rows[ROWS_MAX:]
        more = {self.columns[0].name: f"and {counted(len(rest), 'row')} more", **_sums(rest, self.columns)}
        return [*self.rows[:ROWS_MAX], more] if rest else self.rows

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {"rows": self.rows, "sums": self.sums, "says": self.says}


_COUNTS: Final = ("sent", "unqueued", "delivered", "pending", "lost", "purged", "dead_delivered", "unkept")
_FLOW: Final = (
    Column("sent", "sent", "count"),
    Column("unqueued", "not seen queued", "count"),
    Column("delivered", "delivered", "count"),
    Column("pending", "pending", "count"),
    Column("at_relays", "of these at relays", "count"),
    Column("acknowledged", "of these acknowledged", "count"),
    Column("dead", "dead", "count"),
    Column("purged", "purged", "count"),
    Column("dead_delivered", "of these delivered", "count"),
    Column("unkept", "express, not kept", "count"),
    Column("lost", "lost", "count"),
    Column("waits_ns", "oldest waits for", "ns"),
)
_HANDS: Final = {"handed": "handed", "handed again": "again"}
"""Words of ``Timeline.hands`` and ``Timeline.queues``, and their columns."""
_LEFT: Final = {"expired": "expired_there", "purged": "taken_out"}
"""Words of ``Timeline.queues`` for messages that ended in their queue and were not read, and their columns."""
_TOPIC: Final = "topic:"
"""With this the name of the queue begins in which the messages of a topic arrive."""
_OPTIONAL: Final = (
    "what", "topic", "priority", "unqueued", "at_relays", "acknowledged", "dead", "purged", "dead_delivered",
    "unkept", "lost", "waits_ns", "again", "expired_there", "taken_out", "expired", "discarded", "gone",
)  # fmt: skip
"""Columns that are left out where they are empty."""

_NO_SUMS: Final = ("window",)
"""Columns of counts that cannot be added up."""


def tables_of(verdict: Verdict, timeline: Timeline, sessions: list[Session], outages: list[Outage]) -> dict[str, Table]:
    """Return the tables by their names, in the order of the page."""
    streams = _streams(timeline)
    tables = [
        _queues(verdict, timeline, streams),
        _priorities(timeline, streams),
        _queues(verdict, timeline, streams, of_system=True),
        _dead(streams),
        _readers(timeline),
        _bridges(timeline),
        _stream_table(verdict, streams),
        _stream_table(verdict, streams, of_system=True),
        _latency(verdict, streams),
        _outage_table(timeline, outages),
        _outage_table(timeline, outages, short=True),
        _ways(timeline),
        _links(verdict, timeline),
        _pairs(verdict, timeline, sessions),
        _session_table(timeline, sessions),
        _policies(timeline),
        _nodes(verdict, timeline),
        _files(verdict),
    ]
    return {table.name: _without_empty(table) for table in tables}


def _without_empty(table: Table) -> Table:
    """Leave out columns that tell nothing."""
    rows = [*table.rows, table.sums]
    table.columns = tuple(
        it for it in table.columns if it.name not in _OPTIONAL or any(row.get(it.name) for row in rows)
    )
    return table


def _streams(timeline: Timeline) -> list[Row]:
    """One row a stream, with all that the log says of it."""
    rows, (_, end_ns), judged = [], timeline.span_ns, {start.node for start in timeline.starts}
    for stream, counts in timeline.flows.counts.items():
        origin, number = stream
        flow = Counter(counts)
        if stream not in timeline.streams and not any(flow[name] for name in _TELLING):
            continue  # nothing of it but its end is in the logs
        takers = sorted(timeline.flows.takers.get(stream, ()))
        lost = timeline.flows.lost.get(stream, 0)
        since_ns, account = flow["since_ns"], Account()
        account.fill(flow)
        row = {
            "origin": timeline.name(origin),
            "origin_id": origin,
            "destination": ", ".join(timeline.name(it) for it in takers) or "not known",
            "destination_ids": ", ".join(takers),
            "queue": timeline.streams.get(stream, "not known"),
            "stream": number,
            "class": _CLASSES[flow["class"]],
            "priority": timeline.priorities.get(stream),
            **asdict(account),
            "dead": account.dead_sum,
            "dead_by_reason": account.dead,
            "maybe_delivered": 0 if judged.intersection(takers) else account.dead_sum + account.purged,
            "pending": account.pending - lost,
            "at_relays": flow["at_relays"],
            "acknowledged": max(flow["forgotten"] - lost, 0),
            "lost": lost,
            "since_ns": since_ns or None,
            "waits_ns": end_ns - since_ns if since_ns else None,
            "duplicates": flow["duplicates"],
            "longest_ns": flow["longest_ns"],
            "delays": timeline.flows.delays.get(stream, {}),
        }
        rows.append(row)
    return sorted(rows, key=lambda row: (row["destination"], row["queue"], row["origin"], row["stream"]))


def _grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return dict(groups)


def _sums(rows: Iterable[Row], columns: Iterable[Column]) -> Row:
    """Add up the counts; of what waits, the oldest."""
    rows, sums = list(rows), Row()
    for column in columns:
        values = [row[column.name] for row in rows if row.get(column.name) is not None]
        if column.kind in ("count", "bytes") and column.name not in _NO_SUMS:
            sums[column.name] = sum(values)
        elif column.name == "waits_ns":
            sums[column.name] = max(values, default=None)
    return sums


def _flow_says(account: Account, sums: Row, rows: Iterable[Row]) -> str:
    """How the sums agree with the verdict."""
    said = f"Each row adds up, and so do the sums, which are the verdict's numbers: {account}."
    if sums.get("unqueued"):
        said += " Messages of which no record shows that they were sent are delivered, dead or lost: their origin's log"
        said += " is missing, or lacks a part."
    if sums.get("acknowledged"):
        said += " Pending messages that are acknowledged were forgotten by their origin: the log that would show them"
        said += " delivered is missing, or lacks a part."
    if maybe := sum(row["maybe_delivered"] for row in rows):
        said += f" Of those that are dead or purged {maybe:,} may be delivered: no log of the node that they were for"
        said += " was given."
    agrees = all(sums.get(name, 0) == getattr(account, name) for name in _COUNTS)
    if not agrees or sums.get("dead", 0) != account.dead_sum:
        said = "The sums are not the verdict's numbers: the streams of some messages are not known."
    return said


_ADDS_UP: Final = (
    "Messages of all classes by the queue that they are for. Sent are those that their node accepted, each once: they"
    " are delivered, pending, dead, purged, express ones that were not kept, or lost. A dead or purged message may be"
    " delivered, too, where its acknowledgement came too late: it is counted in both columns, and once more in its own."
    " What is moved, or sent again from the dead letters, is sent anew. Delivered messages that were not read may have"
    " expired there, in their queue, or may have been taken out of it by hand. A topic's messages count once here,"
    " however many subscriptions get them."
)


_QUEUE: Final = (
    Column("destination", "node"),
    Column("queue", "queue"),
    Column("topic", "of the topic"),
    Column("priority", "priority", "number"),
    *_FLOW,
    Column("handed", "handed out", "count"),
    Column("again", "handed out again", "count"),
    Column("expired_there", "expired there", "count"),
    Column("taken_out", "taken out by hand", "count"),
)


def _queues(verdict: Verdict, timeline: Timeline, streams: list[Row], *, of_system: bool = False) -> Table:
    mine = [row for row in streams if is_system(row["queue"]) is of_system]
    rows = [row for row in _queue_rows(timeline, streams) if is_system(row["queue"]) is of_system]
    sums = {"destination": "all", **_sums(rows, _QUEUE)} if rows or not of_system else {}
    if of_system:
        note = "Queues of the system itself, such as dead letters, journals, replies, and subscriptions at other nodes."
        return Table("system", "System queues", _QUEUE, rows, note, sums, _flow_says(verdict.system, sums, mine))
    return Table("queues", "Queues", _QUEUE, rows, _ADDS_UP, sums, _flow_says(verdict, sums, mine))


def _priorities(timeline: Timeline, streams: list[Row]) -> Table:
    note = "Queues whose messages had several priorities, with a row for each of them."
    rows = [row for row in _queue_rows(timeline, streams, by_priority=True) if not is_system(row["queue"])]
    return Table("priorities", "Queues by priority", _QUEUE, rows, note)


def _dead(streams: list[Row]) -> Table:
    columns = (
        Column("reason", "reason"),
        Column("destination", "node"),
        Column("queue", "queue"),
        Column("origin", "from"),
        Column("messages", "messages", "count"),
    )
    rows: list[Row] = []
    for (node, queue, origin), some in _grouped(streams, "destination", "queue", "origin").items():
        dead = Counter[str]()
        for row in some:
            dead.update({**row["dead_by_reason"], PURGED: row["purged"]})
        names = {"destination": node, "queue": queue, "origin": origin}
        rows += [{**names, "reason": reason, "messages": count} for reason, count in sorted(dead.items()) if count]
    rows.sort(key=lambda row: (row["reason"], -row["messages"]))
    sums = {"reason": "all", **_sums(rows, columns)} if rows else {}
    note = (
        f"Messages that were given up on their way, by the reasons of their origin. Those of {AT_RELAY} were given up"
        " by a relay, which has the reason. Each is a dead letter there, if its sender wanted one. In the"
        " tables of triack log tables, the rows of commits that are removed name each of them."
    )
    return Table("dead", "Dead and purged", columns, rows, note, sums)


def _queue_rows(timeline: Timeline, streams: Iterable[Row], *, by_priority: bool = False) -> list[Row]:
    """Return a row for each queue; or for each priority of those in which there were several, high ones first."""
    parts: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in streams:
        parts[(row["destination"], row["queue"])].append(row)
    for place, counts in timeline.queues.items():
        parts[place] += _handed(counts)
    rows = []
    for (node, queue), some in sorted(parts.items()):
        groups = _grouped(some, "priority") if by_priority else {(None,): some} if some else {}
        if by_priority and len(groups.keys() - {(None,)}) < 2:  # noqa: PLR2004 - several
            continue
        topic = queue.removeprefix(_TOPIC) if queue.startswith(_TOPIC) else ""
        for (priority,), mine in sorted(groups.items(), key=lambda it: -1 if it[0][0] is None else -it[0][0]):
            names = {"destination": node, "queue": queue, "topic": topic, "priority": priority}
            rows.append({**names, **_sums(mine, _QUEUE)})
    return rows


def _handed(counts: Mapping[str, int]) -> Iterator[Row]:
    """Yield what of a queue was handed out, by priority."""
    for what, count in counts.items():
        kind, _, priority = what.rpartition(" ")
        if kind in _HANDS:
            yield {"priority": int(priority), _HANDS[kind]: count}
        elif what in _LEFT:
            yield {"priority": None, _LEFT[what]: count}


_READING: Final = (
    Column("given", "given", "count"),
    Column("read", "read", "count"),
    Column("expired", "expired", "count"),
    Column("taken_out", "taken out by hand", "count"),
    Column("pending", "wait", "count"),
    Column("discarded", "dropped", "count"),
    Column("gone", "gone with its process", "count"),
    Column("handed", "handed out", "count"),
    Column("again", "handed out again", "count"),
)


def _readers(timeline: Timeline) -> Table:
    names = ("node", "topic", "subscription", "pattern")
    columns = (*(Column(name, name) for name in names), *_READING)
    rows: list[Row] = []
    hands = dict(timeline.hands)
    for key, counts in sorted(timeline.readers.items()):
        told = Counter(counts)
        done = told["settled"] - told["expired"]
        read = min(done, told["delivered"])
        # Of a subscription that has changed its pattern, the first row has it.
        again = hands.pop(key[:3], {}).get("handed again", 0)
        mine = {"read": read, "taken_out": done - read, "handed": told["delivered"], "again": again}
        rows.append({**dict(zip(names, key, strict=True)), **{it.name: told[it.name] for it in _READING}, **mine})
    note = (
        "Messages of topics, each once for each subscription that was to get it. All that were given to it were read,"
        " have expired, were taken out by hand, wait at the end of the log, were dropped, or are gone: express ones"
        " with their process, and all with the end of a subscription that is not durable. Handed out are those that"
        " were read, and those that a reader has not finished."
    )
    sums = {"node": "all", **_sums(rows, columns)} if rows else {}
    says = "Each row adds up, and so do the sums: what was given is all that follows up to what was handed out."
    return Table("readers", "Subscriptions", columns, rows, note, sums, says if rows else "")


def _bridges(timeline: Timeline) -> Table:
    labels = {
        "taken": "taken", "known": "known before", "acked": "acknowledged",
        "given": "given", "refused": "refused", "pending": "pending",
    }  # fmt: skip
    columns = (
        Column("node", "node"),
        Column("bridge", "bridge"),
        *(Column(name, label, "count") for name, label in labels.items()),
    )
    rows: list[Row] = [
        {"node": node, "bridge": bridge, **{name: counts.get(name, 0) for name in labels}}
        for (node, bridge), counts in sorted(timeline.bridges.items())
    ]
    note = (
        "Messages of bridges to brokers. Taken are those that came from the broker and were queued here; known before,"
        " those that came again; acknowledged, those that the broker was told are here. Given are those that the broker"
        " has acknowledged; refused, those that it, or the protocol, does not take; pending, those that it still has at"
        " the end of the log."
    )
    return Table("bridges", "Bridges", columns, rows, note)


def _stream_table(verdict: Verdict, streams: list[Row], *, of_system: bool = False) -> Table:
    columns = (
        Column("origin", "from", ids="origin_id"),
        Column("destination", "to", ids="destination_ids"),
        Column("queue", "queue"),
        Column("stream", "stream", "number"),
        Column("class", "class"),
        *_FLOW,
    )
    mine = [row for row in streams if is_system(row["queue"]) is of_system]
    first = sorted(mine, key=lambda row: (-row["lost"], -row["pending"], -row["dead"]))
    rows = [{name: value for name, value in row.items() if name != "delays"} for row in first]
    sums = {"origin": "all", **_sums(mine, columns)} if rows or not of_system else {}
    name, title = ("system_streams", "Streams to system queues") if of_system else ("streams", "Streams")
    note = "One row for each stream: first those with messages that are lost, wait or are dead."
    account = verdict.system if of_system else verdict
    return Table(name, title, columns, rows, note, sums, _flow_says(account, sums, mine))


def delays_of(counts: Mapping[int, int], longest_ns: int = 0) -> Row:
    """Return how many were measured, the percentiles, and the slowest.

    Args:
        counts: narrow bucket -> how many.
        longest_ns: what the slowest took; 0 if it is known as its bucket alone.
    """
    if not counts:
        return {"measured": 0}
    most_ns = longest_ns or _percentile_ns(counts, 1.0)
    shares = {name: min(_percentile_ns(counts, share), most_ns) for name, share in SHARES}
    return {"measured": sum(counts.values()), **shares, "slowest_ns": most_ns}


def _percentile_ns(counts: Mapping[int, int], share: float) -> int:
    return round(percentile_ms(counts, share, DELAY_BUCKETS_PER_DECADE) * 1_000_000)


_DELAYS: Final = (
    Column("median_ns", "half within", "ns"),
    Column("p90_ns", "90 % within", "ns"),
    Column("p99_ns", "99 % within", "ns"),
    Column("p999_ns", "99.9 % within", "ns"),
    Column("slowest_ns", "slowest", "ns"),
)


def _latency(verdict: Verdict, streams: list[Row]) -> Table:
    columns = (
        Column("destination", "node"),
        Column("queue", "queue"),
        Column("origin", "from"),
        Column("measured", "messages", "count"),
        *_DELAYS,
    )
    rows = []
    for (node, queue, origin), some in _grouped(streams, "destination", "queue", "origin").items():
        told = _joined(some)
        if told["measured"]:
            rows.append({"destination": node, "queue": queue, "origin": origin, **told})
    measured = sum(row["measured"] for row in rows)
    sums = {"destination": "all", **_joined(streams)} if rows else {}
    note = (
        "From queued at the origin to on disk at the destination (express: in its queue), by the wall clocks of the"
        " two: it is as good as these agree. Figures but the slowest are up to 7.5 % too high."
    )
    delivered = verdict.delivered + verdict.system.delivered
    says = f"All {delivered:,} that were delivered were measured." if measured == delivered else ""
    if measured != delivered:
        says = (
            f"{counted(delivered, 'message')} were delivered, {measured:,} were measured: of the others no record shows"
            " when they were queued or first on disk, or the clock of one node was ahead of the other's; a message that"
            " was on disk twice was measured twice."
        )
        sums["delivered"] = delivered
    return Table("latency", "Latency", columns, rows, note, sums, says)


def _joined(streams: Iterable[Row]) -> Row:
    delays, longest_ns = Counter[int](), 0
    for row in streams:
        delays.update(row["delays"])
        longest_ns = max(longest_ns, row["longest_ns"])
    return delays_of(delays, longest_ns)


SHORT_NS: Final = 1_000_000_000
"""Outages below a second are folded: a process that stands still for some milliseconds is no news."""


def _outage_table(timeline: Timeline, outages: list[Outage], *, short: bool = False) -> Table:
    columns = (
        Column("who", "what was away, or waited", ids="ids"),
        Column("what", "what waited"),
        Column("begin_ns", "from (UTC)", "wall_ns"),
        Column("end_ns", "to (UTC)", "wall_ns"),
        Column("lasted_ns", "lasted", "ns"),
        Column("cause", "cause"),
    )
    rows = [
        {
            "who": who(timeline, it),
            "what": it.what,
            "ids": f"{it.node} and {it.peer}" if it.peer else it.node,
            "begin_ns": it.begin_ns,
            "end_ns": it.end_ns,
            "lasted_ns": it.end_ns - it.begin_ns,
            "cause": it.cause if it.over else f"{it.cause}; not over when the logs end",
        }
        for it in sorted(outages, key=lambda it: it.begin_ns - it.end_ns)
        if (it.end_ns - it.begin_ns < SHORT_NS) is short
    ]
    if short:
        return Table("short_outages", "Outages below a second", columns, rows)
    note = (
        "The longest first; gaps in the plots. A node is away between two of its starts. Two nodes are parted from the"
        " last word in a session that failed until their next session. A stream waits while its destination has no"
        " room, and a queue while it is paused, though both nodes are there. Messages that wait then take longer."
    )
    return Table("outages", "Outages", columns, rows, note)


def who(timeline: Timeline, outage: Outage) -> str:
    """Return what was away or parted, by name."""
    return " and ".join(timeline.name(it) for it in (outage.node, outage.peer) if it)


def _ways(timeline: Timeline) -> Table:
    columns = (
        Column("origin", "from", ids="origin_id"),
        Column("queue", "queue"),
        Column("stream", "stream", "number"),
        Column("way", "way", ids="way_ids"),
        Column("relay", "stay at", ids="relay_id"),
        Column("packets", "packets", "count"),
        Column("median_ns", "half within", "ns"),
        Column("p99_ns", "99 % within", "ns"),
    )
    rows = []
    for stream in sorted(timeline.ways):
        for line in ways_of(timeline, stream):
            common = {
                "origin": timeline.name(stream[0]),
                "origin_id": stream[0],
                "queue": timeline.streams.get(stream, "not known"),
                "stream": stream[1],
                "way": " → ".join(timeline.name(node) for node in line),
                "way_ids": " → ".join(line),
            }
            stays = [
                (node, timeline.dwell[(*stream, node)])
                for node in dict.fromkeys(line)
                if (*stream, node) in timeline.dwell
            ]
            rows += [{**common, **_stay(timeline, node, counts)} for node, counts in stays] or [common]
    note = (
        "The nodes that a stream passes, and for how long its packets stayed at each relay until the next hop had them."
        " A relay that several ways have in common counts in each. Times are up to a third too high."
    )
    return Table("ways", "Ways over relays", columns, rows, note)


def _stay(timeline: Timeline, node: str, counts: Mapping[int, int]) -> Row:
    return {
        "relay": timeline.name(node),
        "relay_id": node,
        "packets": sum(counts.values()),
        "median_ns": round(percentile_ms(counts, 0.5) * 1_000_000),
        "p99_ns": round(percentile_ms(counts, 0.99) * 1_000_000),
    }


def _links(verdict: Verdict, timeline: Timeline) -> Table:
    columns = (
        Column("sender", "from", ids="sender_id"),
        Column("receiver", "to", ids="receiver_id"),
        Column("messages", "messages", "count"),
        Column("packets", "packets", "count"),
        Column("resends", "resends", "count"),
        Column("arrived", "arrived", "count"),
        Column("duplicates", "duplicates", "count"),
        Column("bytes", "bytes", "bytes"),
        Column("median_ns", "round trip: half within", "ns"),
        Column("p99_ns", "99 % within", "ns"),
        Column("slowest_ns", "slowest", "ns"),
        Column("acks", "session acks by trigger"),
    )
    rows = []
    for sender, receiver in sorted({*timeline.links, *timeline.trips}):
        counts = Counter(timeline.links.get((sender, receiver), {}))
        acks = {name.removeprefix("ack "): count for name, count in sorted(counts.items()) if name.startswith("ack ")}
        row = {
            "sender": timeline.name(sender) or "not known",
            "receiver": timeline.name(receiver) or "not known",
            "sender_id": sender,
            "receiver_id": receiver,
            "messages": counts["messages"],
            "packets": counts["sent"],
            "resends": counts["again"],
            "arrived": counts["received"],
            "duplicates": counts["duplicate"],
            "bytes": counts["bytes"],
            **delays_of(timeline.trips.get((sender, receiver), {})),
            "acks": ", ".join(f"{name} {count:,}" for name, count in acks.items()),
            "acks_by_trigger": acks,
        }
        rows.append(row)
    rows.sort(key=lambda row: (-row["resends"], row["sender"], row["receiver"]))
    sums = _sums(rows, columns)
    note = (
        "One row for each direction; a message that is passed on counts on every hop. A resend is a packet that left"
        " again, in the same session or a later one. The round trip is from a packet sent once to its session ack,"
        " the wait of the ack included, up to 7.5 % too high. Acks are those that answered this direction."
    )
    by_streams = sum(flow.get("duplicates", 0) for flow in timeline.flows.counts.values())
    says = _links_say(verdict, sums, by_streams)
    sums["duplicates_by_streams"] = by_streams
    return Table("links", "Links", columns, rows, note, {"sender": "all", **sums}, says)


def _links_say(verdict: Verdict, sums: Row, by_streams: int) -> str:
    says = ["The sum of resends is the verdict's number."]
    if sums["resends"] != verdict.resends:
        says = [f"The verdict counts {counted(verdict.resends, 'resend')}: of some the session is not known."]
    if by_streams:
        by_number = f"{counted(by_streams, 'packet')} recognised by the number in the stream, and not by a session"
        says.append(f"The verdict's number of duplicates is the sum of these and {by_number}.")
    elif sums["duplicates"] == verdict.duplicates_on_wire:
        says.append("The sum of duplicates is the verdict's number.")
    return " ".join(says)


def _pairs(verdict: Verdict, timeline: Timeline, sessions: list[Session]) -> Table:
    columns = (
        Column("node", "node", ids="node_id"),
        Column("peer", "peer", ids="peer_id"),
        Column("sessions", "sessions", "count"),
        Column("in_order", "ended in order", "count"),
        Column("restart", "ended by a restart", "count"),
        Column("failed", "failed", "count"),
        Column("open", "open at the end", "count"),
        Column("counted", "counted as closed by a failure", "count"),
        Column("reasons", "reasons"),
    )
    pairs: defaultdict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in sessions:
        pairs[(session.node, session.peer)].append(session)
    rows = []
    for (node, peer), mine in sorted(pairs.items(), key=lambda it: (timeline.name(it[0][0]), timeline.name(it[0][1]))):
        ends = Counter(it.end for it in mine)
        reasons = Counter(it.reason for it in mine if it.reason)
        row = {
            "node": timeline.name(node),
            "node_id": node,
            "peer": timeline.name(peer) or "not known",
            "peer_id": peer,
            "sessions": len(mine),
            "in_order": ends[IN_ORDER],
            "restart": ends[RESTART],
            "failed": ends[FAILED],
            "open": ends[OPEN],
            "counted": sum(it.failed for it in mine),
            "reasons": ", ".join(f"{name} {count:,}" for name, count in sorted(reasons.items())),
            "by_reason": dict(sorted(reasons.items())),
        }
        rows.append(row)
    sums = _sums(rows, columns)
    note = (
        "A session of two nodes is one, however many of its ends have logs. A restart of a node ends its sessions, and"
        " the peer may learn that by a timeout: that is no failure of the network."
    )
    says = "The last sum is the verdict's number of sessions closed."
    if sums.get("counted", 0) != verdict.sessions_closed:
        says = (
            f"The verdict counts {verdict.sessions_closed:,} sessions closed: of some only the end is in the logs, and"
            " their peers are not known."
        )
    return Table("pairs", "Sessions", columns, rows, note, {"node": "all", **sums}, says)


def _session_table(timeline: Timeline, sessions: list[Session]) -> Table:
    columns = (
        Column("session", "session", ids="id"),
        Column("opened_ns", "opened (UTC)", "wall_ns"),
        Column("lasted_ns", "lasted", "ns"),
        Column("end", "end"),
        Column("reason", "reason"),
    )
    order = {FAILED: 0, RESTART: 1, OPEN: 2, IN_ORDER: 3}
    rows = [
        {
            "session": named(timeline, it),
            "id": it.session,
            "opened_ns": it.opened_ns,
            "lasted_ns": it.closed_ns - it.opened_ns if it.closed_ns else None,
            "end": it.end,
            "reason": it.reason,
        }
        for it in sorted(sessions, key=lambda it: (order[it.end], it.opened_ns))
    ]
    note = "First those that failed, then those that a restart ended. The number counts the sessions of the two nodes."
    return Table("sessions", "Sessions one by one", columns, rows, note)


def named(timeline: Timeline, session: Session) -> str:
    """Return a session's name: its two nodes, and which one of theirs it is."""
    return f"{timeline.name(session.node)} and {timeline.name(session.peer) or 'not known'}, session {session.number:,}"


def _policies(timeline: Timeline) -> Table:
    columns = (
        Column("node", "node", ids="node_id"),
        Column("peer", "peer", ids="peer_id"),
        Column("sessions", "sessions", "count"),
        Column("window", "window", "count"),
        Column("session_acks", "session acks after"),
        Column("store_acks", "store acks after"),
        Column("silence", "silence"),
    )
    rows = []
    for (node, peer), found in sorted(timeline.policies.items()):
        for values, sessions in sorted(found.items()):
            window, *acks, least_ns, most_ns = values
            row = {
                "node": timeline.name(node),
                "node_id": node,
                "peer": timeline.name(peer) or "not known",
                "peer_id": peer,
                "sessions": sessions,
                "window": window,
                "session_acks": _due(*acks[:3]),
                "store_acks": _due(*acks[3:]),
                "silence": _silence(least_ns, most_ns),
                "values": list(values),
            }
            rows.append(row)
    note = (
        "What both ends of a session had agreed on when it opened, as each of them wrote it: when an end acknowledges"
        " what arrives, and how long it bears a silence."
    )
    return Table("policies", "Policies in force", columns, rows, note)


def _silence(least_ns: int, most_ns: int) -> str:
    if not most_ns:
        return "not known"
    return duration(least_ns) + (f" to {duration(most_ns)}" if most_ns != least_ns else "")


def _due(packets: int, size_bytes: int, delay_ns: int) -> str:
    parts = [counted(packets, "packet")] * bool(packets) + [size(size_bytes)] * bool(size_bytes)
    return " or ".join([*parts, duration(delay_ns)])


def _nodes(verdict: Verdict, timeline: Timeline) -> Table:
    columns = (
        Column("node", "node", ids="node_id"),
        Column("start", "start", "number"),
        Column("begin_ns", "first record (UTC)", "wall_ns"),
        Column("end_ns", "last record (UTC)", "wall_ns"),
        Column("records", "records", "count"),
        Column("ended", "how its log ends"),
    )
    last = {it.node: it.start for it in timeline.starts}
    rows = []
    for it in timeline.starts:
        ended = "stopped in good order" if it.stopped else "killed: another start follows"
        if not it.stopped and it.start == last[it.node]:
            ended = "without a stop: runs on, was killed, or the log was cut"
        row = {
            "node": timeline.name(it.node),
            "node_id": it.node,
            "start": it.start,
            "begin_ns": it.begin_ns,
            "end_ns": it.end_ns,
            "records": it.records,
            "ended": ended if it.whole else f"its begin is missing; {ended}",
        }
        rows.append(row)
    sums: Row = {"node": "all", "records": sum(it.records for it in timeline.starts)} if rows else {}
    says = ""
    if rows:
        says = "The sum is the verdict's number of records."
        if sums["records"] != verdict.records:
            says = f"The verdict counts {counted(verdict.records, 'record')}."
    note = "Each start of each node of which there are records."
    return Table("nodes", "Nodes and their starts", columns, rows, note, sums, says)


def _files(verdict: Verdict) -> Table:
    columns = (Column("file", "file"), Column("records", "records", "count"))
    rows: list[Row] = [{"file": path, "records": records} for path, records in verdict.files.items()]
    sums = {"file": "all", **_sums(rows, columns)} if rows else {}
    return Table("files", "Files", columns, rows, "", sums)
