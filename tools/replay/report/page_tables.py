"""The tables of the page as plain data: the page shows nothing else, and ``tables.json`` beside it has all of it.

A table that is too long for the page adds up the rows that it leaves out in one, so that its sums stay true.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

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
SHORT_NS: Final = 1_000_000_000
"""Outages below a second are folded: a process that stands still for some milliseconds is no news."""
_TELLING: Final = ("sent", "unqueued", "delivered")
"""Without any of these, a stream has no messages."""
_CLASSES: Final = {code: name for name, code in CLASS_CODES.items()}
_COUNTS: Final = ("sent", "unqueued", "delivered", "pending", "lost", "purged", "dead_delivered", "unkept")
_HANDS: Final = {"handed": "handed", "handed again": "again"}
"""Words of ``Timeline.hands`` and ``Timeline.queues``, and their columns."""
_LEFT: Final = {"expired": "expired_there", "purged": "taken_out"}
"""Words of ``Timeline.queues`` for messages that ended in their queue and were not read, and their columns."""
_TOPIC: Final = "topic:"
"""With this the name of the queue begins in which the messages of a topic arrive."""
_LINKED: Final = {
    "messages": "messages", "packets": "sent", "resends": "again", "arrived": "received", "duplicates": "duplicate",
    "bytes": "bytes",
}  # fmt: skip
"""Columns of links, and words of ``Timeline.links``."""
_OPTIONAL: Final = (
    "what", "topic", "priority", "unqueued", "at_relays", "acknowledged", "dead", "purged", "dead_delivered",
    "unkept", "lost", "waits_ns", "again", "expired_there", "taken_out", "expired", "discarded", "gone",
)  # fmt: skip
"""Columns that are left out where they are empty."""
_NO_SUMS: Final = ("window",)
"""Columns of counts that cannot be added up."""

Row = dict[str, Any]


class Column(NamedTuple):
    """A column of a table: the key of its values, what the page calls it, and their kind (``readable.shown``).

    ``ids``: the key of the ids behind the names that it shows, if it has such.
    """

    name: str
    label: str
    kind: str = "text"
    ids: str = ""


@dataclass(slots=True)
class Table:
    """A table of the page.

    Attributes:
        rows: a value for each column; there may be more values.
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


class _Kind(NamedTuple):
    """A table without its rows; ``columns``: ``NAME:KIND:IDS LABEL`` of each, with bars between them.

    A kind is ``text`` where it is left out, and a label the name.
    """

    title: str
    columns: str
    note: str = ""
    adds_up: bool = False


_FLOW: Final = (
    "sent:count | unqueued:count not seen queued | delivered:count | pending:count | at_relays:count of these at relays"
    " | acknowledged:count of these acknowledged | dead:count | purged:count | dead_delivered:count of these delivered"
    " | unkept:count express, not kept | lost:count | waits_ns:ns oldest waits for"
)
_QUEUE: Final = (
    f"destination node | queue | topic of the topic | priority:number | {_FLOW} | handed:count handed out"
    " | again:count handed out again | expired_there:count expired there | taken_out:count taken out by hand"
)
_STREAM: Final = f"origin::origin_id from | destination::destination_ids to | queue | stream:number | class | {_FLOW}"
_READING: Final = (
    "given:count | read:count | expired:count | taken_out:count taken out by hand | pending:count wait"
    " | discarded:count dropped | gone:count gone with its process | handed:count handed out"
    " | again:count handed out again"
)
_BRIDGING: Final = (
    "taken:count | known:count known before | acked:count acknowledged | given:count | refused:count | pending:count"
)
_OUTAGE: Final = (
    "who::ids what was away, or waited | what what waited | begin_ns:wall_ns from (UTC) | end_ns:wall_ns to (UTC)"
    " | lasted_ns:ns lasted | cause"
)
_OF_STREAMS: Final = "One row for each stream: first those with messages that are lost, wait or are dead."

_KINDS: Final = {
    "queues": _Kind("Queues", _QUEUE,
        "Messages of all classes by the queue that they are for. Sent are those that their node accepted, each once:"
        " they are delivered, pending, dead, purged, express ones that were not kept, or lost. A dead or purged message"
        " may be delivered, too, where its acknowledgement came too late: it is counted in both columns, and once more"
        " in its own. What is moved, or sent again from the dead letters, is sent anew. Delivered messages that were"
        " not read may have expired there, in their queue, or may have been taken out of it by hand. A topic's messages"
        " count once here, however many subscriptions get them.", adds_up=True),
    "priorities": _Kind("Queues by priority", _QUEUE,
        "Queues whose messages had several priorities, with a row for each of them."),
    "system": _Kind("System queues", _QUEUE,
        "Queues of the system itself, such as dead letters, journals, replies, and subscriptions at other nodes.",
        adds_up=True),
    "dead": _Kind("Dead and purged",
        "reason | destination node | queue | origin from | messages:count",
        f"Messages that were given up on their way, by the reasons of their origin. Those of {AT_RELAY} were given up"
        " by a relay, which has the reason. Each is a dead letter there, if its sender wanted one. In the"
        " tables of triack log tables, the rows of commits that are removed name each of them.", adds_up=True),
    "readers": _Kind("Subscriptions",
        f"node | topic | subscription | pattern | {_READING}",
        "Messages of topics, each once for each subscription that was to get it. All that were given to it were read,"
        " have expired, were taken out by hand, wait at the end of the log, were dropped, or are gone: express ones"
        " with their process, and all with the end of a subscription that is not durable. Handed out are those that"
        " were read, and those that a reader has not finished.", adds_up=True),
    "bridges": _Kind("Bridges", f"node | bridge | {_BRIDGING}",
        "Messages of bridges to brokers. Taken are those that came from the broker and were queued here; known before,"
        " those that came again; acknowledged, those that the broker was told are here. Given are those that the broker"
        " has acknowledged; refused, those that it, or the protocol, does not take; pending, those that it still has at"
        " the end of the log."),
    "streams": _Kind("Streams", _STREAM, _OF_STREAMS, adds_up=True),
    "system_streams": _Kind("Streams to system queues", _STREAM, _OF_STREAMS, adds_up=True),
    "latency": _Kind("Latency",
        "destination node | queue | origin from | measured:count messages | median_ns:ns half within"
        " | p90_ns:ns 90 % within | p99_ns:ns 99 % within | p999_ns:ns 99.9 % within | slowest_ns:ns slowest",
        "From queued at the origin to on disk at the destination (express: in its queue), by the wall clocks of the"
        " two: it is as good as these agree. Figures but the slowest are up to 7.5 % too high.", adds_up=True),
    "outages": _Kind("Outages", _OUTAGE,
        "The longest first; gaps in the plots. A node is away between two of its starts. Two nodes are parted from the"
        " last word in a session that failed until their next session. A stream waits while its destination has no"
        " room, and a queue while it is paused, though both nodes are there. Messages that wait then take longer."),
    "short_outages": _Kind("Outages below a second", _OUTAGE),
    "ways": _Kind("Ways over relays",
        "origin::origin_id from | queue | stream:number | way::way_ids | relay::relay_id stay at | packets:count"
        " | median_ns:ns half within | p99_ns:ns 99 % within",
        "The nodes that a stream passes, and for how long its packets stayed at each relay until the next hop had them."
        " A relay that several ways have in common counts in each. Times are up to a third too high."),
    "links": _Kind("Links",
        "sender::sender_id from | receiver::receiver_id to | messages:count | packets:count | resends:count"
        " | arrived:count | duplicates:count | bytes:bytes | median_ns:ns round trip: half within"
        " | p99_ns:ns 99 % within | slowest_ns:ns slowest | acks session acks by trigger",
        "One row for each direction; a message that is passed on counts on every hop. A resend is a packet that left"
        " again, in the same session or a later one. The round trip is from a packet sent once to its session ack,"
        " the wait of the ack included, up to 7.5 % too high. Acks are those that answered this direction.",
        adds_up=True),
    "pairs": _Kind("Sessions",
        "node::node_id | peer::peer_id | sessions:count | in_order:count ended in order"
        " | restart:count ended by a restart | failed:count | open:count open at the end"
        " | counted:count counted as closed by a failure | reasons",
        "A session of two nodes is one, however many of its ends have logs. A restart of a node ends its sessions, and"
        " the peer may learn that by a timeout: that is no failure of the network.", adds_up=True),
    "sessions": _Kind("Sessions one by one",
        "session::id | opened_ns:wall_ns opened (UTC) | lasted_ns:ns lasted | end | reason",
        "First those that failed, then those that a restart ended. The number counts the sessions of the two nodes."),
    "policies": _Kind("Policies in force",
        "node::node_id | peer::peer_id | sessions:count | window:count | session_acks session acks after"
        " | store_acks store acks after | silence",
        "What both ends of a session had agreed on when it opened, as each of them wrote it: when an end acknowledges"
        " what arrives, and how long it bears a silence."),
    "nodes": _Kind("Nodes and their starts",
        "node::node_id | start:number | begin_ns:wall_ns first record (UTC) | end_ns:wall_ns last record (UTC)"
        " | records:count | ended how its log ends",
        "Each start of each node of which there are records.", adds_up=True),
    "files": _Kind("Files", "file | records:count", adds_up=True),
}  # fmt: skip
"""The tables by their names, in the order of the page."""


def _columns(told: str) -> tuple[Column, ...]:
    found = []
    for part in told.split(" | "):
        head, _, label = part.partition(" ")
        name, kind, ids = (*head.split(":"), "", "")[:3]
        found.append(Column(name, label or name, kind or "text", ids))
    return tuple(found)


def tables_of(verdict: Verdict, timeline: Timeline, sessions: list[Session], outages: list[Outage]) -> dict[str, Table]:
    """Return the tables by their names, in the order of the page."""
    streams = _streams(timeline)
    users, system = ([row for row in streams if is_system(row["queue"]) is kind] for kind in (False, True))
    queues = list(_queue_rows(timeline, streams))
    lasted = list(_outage_rows(timeline, outages))
    made: dict[str, Iterable[Row]] = {
        "queues": (row for row in queues if not is_system(row["queue"])),
        "priorities": (row for row in _queue_rows(timeline, streams, by_priority=True) if not is_system(row["queue"])),
        "system": (row for row in queues if is_system(row["queue"])),
        "dead": _dead_rows(streams),
        "readers": _reader_rows(timeline),
        "bridges": _bridge_rows(timeline),
        "streams": _stream_rows(users),
        "system_streams": _stream_rows(system),
        "latency": _latency_rows(streams),
        "outages": (row for row in lasted if row["lasted_ns"] >= SHORT_NS),
        "short_outages": (row for row in lasted if row["lasted_ns"] < SHORT_NS),
        "ways": _way_rows(timeline),
        "links": _link_rows(timeline),
        "pairs": _pair_rows(timeline, sessions),
        "sessions": _session_rows(timeline, sessions),
        "policies": _policy_rows(timeline),
        "nodes": _node_rows(timeline),
        "files": ({"file": path, "records": records} for path, records in verdict.files.items()),
    }
    tables = {}
    for name, kind in _KINDS.items():
        columns, rows = _columns(kind.columns), list(made[name])
        sums = {columns[0].name: "all", **_sums(rows, columns)} if kind.adds_up and rows else {}
        # A column that tells nothing is left out.
        told = tuple(it for it in columns if it.name not in _OPTIONAL or any(row.get(it.name) for row in [*rows, sums]))
        tables[name] = Table(name, kind.title, told, rows, kind.note, sums)
    for names, account, mine in (
        (("queues", "streams"), verdict, users),
        (("system", "system_streams"), verdict.system, system),
    ):
        for name in names:
            tables[name].says = _flow_says(account, tables[name].sums, mine)
    _compare_rest(verdict, timeline, tables, streams)
    return tables


def _compare_rest(verdict: Verdict, timeline: Timeline, tables: Mapping[str, Table], streams: list[Row]) -> None:
    """Say how sums other than those of messages agree with the verdict."""
    readers, latency, links, pairs, nodes = (tables[it] for it in ("readers", "latency", "links", "pairs", "nodes"))
    if readers.rows:
        readers.says = (
            "Each row adds up, and so do the sums: what was given is all that follows up to what was handed out."
        )
    delivered, measured = verdict.delivered + verdict.system.delivered, latency.sums.get("measured", 0)
    latency.sums |= _joined(streams) if latency.rows else {}
    latency.says = f"All {delivered:,} that were delivered were measured." if delivered else ""
    if measured != delivered:
        latency.says = (
            f"{counted(delivered, 'message')} were delivered, {measured:,} were measured: of the others no record shows"
            " when they were queued or first on disk, or the clock of one node was ahead of the other's; a message that"
            " was on disk twice was measured twice."
        )
        latency.sums["delivered"] = delivered
    by_streams = sum(flow.get("duplicates", 0) for flow in timeline.flows.counts.values())
    links.says = _links_say(verdict, links.sums, by_streams)
    links.sums["duplicates_by_streams"] = by_streams
    pairs.says = "The last sum is the verdict's number of sessions closed."
    if pairs.sums.get("counted", 0) != verdict.sessions_closed:
        pairs.says = (
            f"The verdict counts {verdict.sessions_closed:,} sessions closed: of some only the end is in the logs, and"
            " their peers are not known."
        )
    if nodes.rows:
        nodes.says = "The sum is the verdict's number of records."
        if nodes.sums["records"] != verdict.records:
            nodes.says = f"The verdict counts {counted(verdict.records, 'record')}."


def _ids(timeline: Timeline, **nodes: str) -> Row:
    """Return the names of nodes, and their ids beside them."""
    names = {what: timeline.name(node) or "not known" for what, node in nodes.items()}
    return {**names, **{f"{what}_id": node for what, node in nodes.items()}}


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
            **_ids(timeline, origin=origin),
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


def _dead_rows(streams: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for (node, queue, origin), some in _grouped(streams, "destination", "queue", "origin").items():
        dead = Counter[str]()
        for row in some:
            dead.update({**row["dead_by_reason"], PURGED: row["purged"]})
        names = {"destination": node, "queue": queue, "origin": origin}
        rows += [{**names, "reason": reason, "messages": count} for reason, count in sorted(dead.items()) if count]
    return sorted(rows, key=lambda row: (row["reason"], -row["messages"]))


def _queue_rows(timeline: Timeline, streams: Iterable[Row], *, by_priority: bool = False) -> Iterator[Row]:
    """Yield a row for each queue; or for each priority of those in which there were several, high ones first."""
    parts: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in streams:
        parts[(row["destination"], row["queue"])].append(row)
    for place, counts in timeline.queues.items():
        parts[place] += _handed(counts)
    for (node, queue), some in sorted(parts.items()):
        groups = _grouped(some, "priority") if by_priority else {(None,): some} if some else {}
        if by_priority and len(groups.keys() - {(None,)}) < 2:  # noqa: PLR2004 - several
            continue
        topic = queue.removeprefix(_TOPIC) if queue.startswith(_TOPIC) else ""
        for (priority,), mine in sorted(groups.items(), key=lambda it: -1 if it[0][0] is None else -it[0][0]):
            names = {"destination": node, "queue": queue, "topic": topic, "priority": priority}
            yield {**names, **_sums(mine, _columns(_QUEUE))}


def _handed(counts: Mapping[str, int]) -> Iterator[Row]:
    """Yield what of a queue was handed out, by priority."""
    for what, count in counts.items():
        kind, _, priority = what.rpartition(" ")
        if kind in _HANDS:
            yield {"priority": int(priority), _HANDS[kind]: count}
        elif what in _LEFT:
            yield {"priority": None, _LEFT[what]: count}


def _reader_rows(timeline: Timeline) -> Iterator[Row]:
    hands = dict(timeline.hands)
    for key, counts in sorted(timeline.readers.items()):
        told = Counter(counts)
        done = told["settled"] - told["expired"]
        read = min(done, told["delivered"])
        # Of a subscription that has changed its pattern, the first row has it.
        again = hands.pop(key[:3], {}).get("handed again", 0)
        mine = {"read": read, "taken_out": done - read, "handed": told["delivered"], "again": again}
        names = dict(zip(("node", "topic", "subscription", "pattern"), key, strict=True))
        yield {**names, **{it.name: told[it.name] for it in _columns(_READING)}, **mine}


def _bridge_rows(timeline: Timeline) -> Iterator[Row]:
    for (node, bridge), counts in sorted(timeline.bridges.items()):
        yield {"node": node, "bridge": bridge, **{it.name: counts.get(it.name, 0) for it in _columns(_BRIDGING)}}


def _stream_rows(streams: list[Row]) -> Iterator[Row]:
    for row in sorted(streams, key=lambda row: (-row["lost"], -row["pending"], -row["dead"])):
        yield {name: value for name, value in row.items() if name != "delays"}


def delays_of(counts: Mapping[int, int], longest_ns: int = 0) -> Row:
    """Return how many of narrow buckets were measured, the percentiles, and the slowest.

    ``longest_ns``: what that took; 0 if it is known as its bucket alone.
    """
    if not counts:
        return {"measured": 0}
    most_ns = longest_ns or _percentile_ns(counts, 1.0)
    shares = {name: min(_percentile_ns(counts, share), most_ns) for name, share in SHARES}
    return {"measured": sum(counts.values()), **shares, "slowest_ns": most_ns}


def _percentile_ns(counts: Mapping[int, int], share: float) -> int:
    return round(percentile_ms(counts, share, DELAY_BUCKETS_PER_DECADE) * 1_000_000)


def _latency_rows(streams: list[Row]) -> Iterator[Row]:
    for (node, queue, origin), some in _grouped(streams, "destination", "queue", "origin").items():
        told = _joined(some)
        if told["measured"]:
            yield {"destination": node, "queue": queue, "origin": origin, **told}


def _joined(streams: Iterable[Row]) -> Row:
    delays, longest_ns = Counter[int](), 0
    for row in streams:
        delays.update(row["delays"])
        longest_ns = max(longest_ns, row["longest_ns"])
    return delays_of(delays, longest_ns)


def _outage_rows(timeline: Timeline, outages: list[Outage]) -> Iterator[Row]:
    for it in sorted(outages, key=lambda it: it.begin_ns - it.end_ns):
        yield {
            "who": who(timeline, it),
            "what": it.what,
            "ids": f"{it.node} and {it.peer}" if it.peer else it.node,
            "begin_ns": it.begin_ns,
            "end_ns": it.end_ns,
            "lasted_ns": it.end_ns - it.begin_ns,
            "cause": it.cause if it.over else f"{it.cause}; not over when the logs end",
        }


def who(timeline: Timeline, outage: Outage) -> str:
    """Return what was away or parted, by name."""
    return " and ".join(timeline.name(it) for it in (outage.node, outage.peer) if it)


def _way_rows(timeline: Timeline) -> Iterator[Row]:
    for stream in sorted(timeline.ways):
        for line in ways_of(timeline, stream):
            common = {
                **_ids(timeline, origin=stream[0]),
                "queue": timeline.streams.get(stream, "not known"),
                "stream": stream[1],
                "way": " → ".join(timeline.name(node) for node in line),
                "way_ids": " → ".join(line),
            }
            at = [node for node in dict.fromkeys(line) if (*stream, node) in timeline.dwell]
            yield from ({**common, **_stay(timeline, node, timeline.dwell[(*stream, node)])} for node in at)
            if not at:
                yield common


def _stay(timeline: Timeline, node: str, counts: Mapping[int, int]) -> Row:
    return {
        **_ids(timeline, relay=node),
        "packets": sum(counts.values()),
        "median_ns": round(percentile_ms(counts, 0.5) * 1_000_000),
        "p99_ns": round(percentile_ms(counts, 0.99) * 1_000_000),
    }


def _link_rows(timeline: Timeline) -> list[Row]:
    rows = []
    for sender, receiver in sorted({*timeline.links, *timeline.trips}):
        counts = Counter(timeline.links.get((sender, receiver), {}))
        acks = {name.removeprefix("ack "): count for name, count in sorted(counts.items()) if name.startswith("ack ")}
        row = {
            **_ids(timeline, sender=sender, receiver=receiver),
            **{column: counts[what] for column, what in _LINKED.items()},
            **delays_of(timeline.trips.get((sender, receiver), {})),
            "acks": _listed(acks),
            "acks_by_trigger": acks,
        }
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["resends"], row["sender"], row["receiver"]))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _links_say(verdict: Verdict, sums: Row, by_streams: int) -> str:
    says = ["The sum of resends is the verdict's number."]
    if sums.get("resends", 0) != verdict.resends:
        says = [f"The verdict counts {counted(verdict.resends, 'resend')}: of some the session is not known."]
    if by_streams:
        by_number = f"{counted(by_streams, 'packet')} recognised by the number in the stream, and not by a session"
        says.append(f"The verdict's number of duplicates is the sum of these and {by_number}.")
    elif sums.get("duplicates", 0) == verdict.duplicates_on_wire:
        says.append("The sum of duplicates is the verdict's number.")
    return " ".join(says)


def _pair_rows(timeline: Timeline, sessions: list[Session]) -> Iterator[Row]:
    pairs: defaultdict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in sessions:
        pairs[(session.node, session.peer)].append(session)
    for (node, peer), mine in sorted(pairs.items(), key=lambda it: (timeline.name(it[0][0]), timeline.name(it[0][1]))):
        ends = Counter(it.end for it in mine)
        reasons = dict(sorted(Counter(it.reason for it in mine if it.reason).items()))
        yield {
            **_ids(timeline, node=node, peer=peer),
            "sessions": len(mine),
            "in_order": ends[IN_ORDER],
            "restart": ends[RESTART],
            "failed": ends[FAILED],
            "open": ends[OPEN],
            "counted": sum(it.failed for it in mine),
            "reasons": _listed(reasons),
            "by_reason": reasons,
        }


def _session_rows(timeline: Timeline, sessions: list[Session]) -> Iterator[Row]:
    order = {FAILED: 0, RESTART: 1, OPEN: 2, IN_ORDER: 3}
    for it in sorted(sessions, key=lambda it: (order[it.end], it.opened_ns)):
        yield {
            "session": named(timeline, it),
            "id": it.session,
            "opened_ns": it.opened_ns,
            "lasted_ns": it.closed_ns - it.opened_ns if it.closed_ns else None,
            "end": it.end,
            "reason": it.reason,
        }


def named(timeline: Timeline, session: Session) -> str:
    """Return a session's name: its two nodes, and which one of theirs it is."""
    return f"{timeline.name(session.node)} and {timeline.name(session.peer) or 'not known'}, session {session.number:,}"


def _policy_rows(timeline: Timeline) -> Iterator[Row]:
    for (node, peer), found in sorted(timeline.policies.items()):
        for values, sessions in sorted(found.items()):
            window, *acks, least_ns, most_ns = values
            yield {
                **_ids(timeline, node=node, peer=peer),
                "sessions": sessions,
                "window": window,
                "session_acks": _due(*acks[:3]),
                "store_acks": _due(*acks[3:]),
                "silence": _silence(least_ns, most_ns),
                "values": list(values),
            }


def _silence(least_ns: int, most_ns: int) -> str:
    if not most_ns:
        return "not known"
    return duration(least_ns) + (f" to {duration(most_ns)}" if most_ns != least_ns else "")


def _due(packets: int, size_bytes: int, delay_ns: int) -> str:
    parts = [counted(packets, "packet")] * bool(packets) + [size(size_bytes)] * bool(size_bytes)
    return " or ".join([*parts, duration(delay_ns)])


def _node_rows(timeline: Timeline) -> Iterator[Row]:
    last = {it.node: it.start for it in timeline.starts}
    for it in timeline.starts:
        ended = "stopped in good order" if it.stopped else "killed: another start follows"
        if not it.stopped and it.start == last[it.node]:
            ended = "without a stop: runs on, was killed, or the log was cut"
        yield {
            **_ids(timeline, node=it.node),
            "start": it.start,
            "begin_ns": it.begin_ns,
            "end_ns": it.end_ns,
            "records": it.records,
            "ended": ended if it.whole else f"its begin is missing; {ended}",
        }
