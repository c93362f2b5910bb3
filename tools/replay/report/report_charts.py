"""What the report shows beside the verdict: gathered record by record, however a record is judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Final

from triack.base.printable import printable
from triack.tools.replay.checks.findings import Output, Record
from triack.tools.replay.checks.side import by_event
from triack.tools.replay.checks.silence_check import Left
from triack.tools.replay.log.messages import count_of
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.log.schema import FAILURE_REASONS, POLICY_SHOWN, priority_in
from triack.tools.replay.log.series import DELAY_BUCKETS_PER_DECADE, latency_bucket
from triack.tools.replay.report.report_tables import BETWEEN

_shown: Final = lru_cache(4096)(printable)
"""The same few names come again and again."""
EDGES_MAX: Final = 500
"""Begins and ends of holds of a segment that are told: where one follows the other all the time, these show it."""
TIERS: Final = ("in session", "tier 1-3", "tier 4-6", "tier 7-9", "tier 10 on")
"""Resends of the session, and those of the sequence by their attempt."""


def tier_of(attempt: int) -> str:
    """Return the name of the tier that an attempt belongs to."""
    return TIERS[min((attempt + 2) // 3, len(TIERS) - 1)]


class Once(Left):
    """When the packets of a session left that did so once: of others it is unknown which time an ack is for."""

    def __init__(self) -> None:
        super().__init__()
        self.again = RangeSet()

    def put(self, first: int, last: int, at_ns: int) -> None:
        """Packets have left; a damaged log may say it of the same twice."""
        end, begin, left_ns = self._bursts[-1] if self._bursts else (0, -1, 0)
        if first > begin:
            self._bursts[-1:] = [(min(end, first - 1), begin, left_ns)] if self._bursts else []
            super().put(first, last, at_ns)
        self.again.take(0, self._bursts[0][1] - 1)

    def when(self, packet: int) -> int | None:
        """When a packet left, if it did so once."""
        return None if packet in self.again else super().when(packet)


class Charts:
    """Follows one segment of a log.

    The names of its numbers are parts with tabs between them: ``between NODE PEER WHAT``, or ``link NODE SESSION WHAT``
    where the peer is not known yet; ``queue WHAT NODE QUEUE``, ``stream ORIGIN STREAM QUEUE``, ``name NODE NAME``,
    ``alias NODE NAME`` for what a peer calls it, and ``heard NODE SESSION`` for the wall time at which a node heard its
    peer for the last time in a session that failed; ``hold NODE ORIGIN STREAM WALL_NS REASON`` and ``pause NODE QUEUE
    WALL_NS WORD`` where a stream was held and a queue was paused, without a reason or word where that ended;
    ``priority ORIGIN STREAM PRIORITY``, and ``hand NODE TOPIC SUBSCRIPTION WHAT`` for what a subscription was handed.
    The judges of streams add ``flow ORIGIN STREAM WHAT``, and the conclusion which node is at the other end of a
    session.

    From here on, names of nodes and queues contain no tabs and no other invisible characters.
    """

    def __init__(self, out: Output) -> None:
        self._out = out
        self._left: defaultdict[str, Once] = defaultdict(Once)
        # How the names of a session's numbers begin.
        self._names: dict[str, str] = {}
        self._edges = 0
        # The wall time of the last record of something that arrived in a session.
        self._heard: dict[str, int] = {}

    def see(self, record: Record) -> None:
        """Take the next record."""
        handler = self._SEES.get(record["event"])
        if handler is not None:
            handler(self, record)

    def _link(self, record: Record, what: str, value: int = 1) -> None:
        session = record["session"]
        name = self._names.get(session)
        if name is None:
            name = self._names[session] = f"link\t{record['node']}\t{session}\t"
        self._out.count(name + what, value)

    def _queue(self, record: Record, what: str) -> None:
        self._out.count(f"queue\t{what}\t{record['node']}\t{_shown(record['queue'])}", count_of(record))

    def _on_node_started(self, record: Record) -> None:
        self._out.count(f"name\t{record['node']}\t{_shown(record['name'])}", 1)

    def _on_session_opened(self, record: Record) -> None:
        self._out.count(f"alias\t{record['peer']}\t{_shown(record['peer_name'])}", 1)
        self._names[record["session"]] = f"{BETWEEN}\t{record['node']}\t{record['peer']}\t"
        self._out.chart("window", record["wall_ns"], record["window"], "max")
        for name, limit in (("ack_timeout_min_ns", "least"), ("ack_timeout_max_ns", "longest")):
            if name in record:
                self._out.chart(f"ack_timeout {limit}", record["wall_ns"], record[name], "max")
        values = "\t".join(str(record.get(name, 0)) for name in POLICY_SHOWN)
        self._out.count(f"policy\t{record['node']}\t{values}\t{record['peer']}", 1)

    def _on_session_closed(self, record: Record) -> None:
        self._left.pop(record["session"], None)
        self._names.pop(record["session"], None)
        heard_ns = self._heard.pop(record["session"], 0)
        if heard_ns and record["reason"] in FAILURE_REASONS:
            self._out.count(f"heard\t{record['node']}\t{record['session']}", heard_ns)

    def _on_packet_sent(self, record: Record) -> None:
        packets, left = record["packets"], self._left[record["session"]]
        self._link(record, "sent", packets)
        self._link(record, "bytes", record["size"])
        span = record["packet"], record["packet"] + packets - 1
        if record["resend"]:
            left.again.add(*span)
            self._out.chart(f"tiers {TIERS[0]}", record["wall_ns"], packets)
            return
        left.put(*span, record["at_ns"])
        self._link(record, "messages", count_of(record))

    def _on_packet_received(self, record: Record) -> None:
        packets = record["packets"]
        self._heard[record["session"]] = record["wall_ns"]
        self._link(record, "received", packets)
        if record["duplicate"]:
            self._link(record, "duplicate", packets)
            self._out.chart("causes known to the session", record["wall_ns"], packets)

    def _on_ack_sent(self, record: Record) -> None:
        self._out.chart(f"acks {record['trigger']}", record["wall_ns"], 1)
        self._link(record, f"ack {record['trigger']}")

    def _on_ack_received(self, record: Record) -> None:
        """An ack answers the last packet that it covers."""
        self._heard[record["session"]] = record["wall_ns"]
        left = self._left.get(record["session"])
        if left and record["ranges"] and (sent_ns := left.when(record["ranges"][-1][1])) is not None:
            taken_ns = record["at_ns"] - sent_ns
            self._link(record, f"trip {latency_bucket(taken_ns, DELAY_BUCKETS_PER_DECADE)}")
            self._out.chart("round_trip", record["wall_ns"], taken_ns, "max")

    def _on_rejected(self, record: Record) -> None:
        if record["reason"] in ("duplicate", "stale-sequence"):
            self._out.chart(f"causes {record['reason']}", record["wall_ns"], 1)

    def _on_resend_scheduled(self, record: Record) -> None:
        packets = record["last"] - record["first"] + 1
        self._out.chart(f"tiers {tier_of(record['attempt'])}", record["wall_ns"], packets)
        self._out.chart("resend_wait", record["wall_ns"], record["interval_ns"], "max")

    def _on_queued(self, record: Record) -> None:
        stream = f"{record['origin']}\t{record['stream']}"
        self._out.count(f"stream\t{stream}\t{_shown(record['queue'])}", 1)
        self._out.count(f"priority\t{stream}\t{priority_in(record)}", 1)

    def _on_handed(self, record: Record) -> None:
        what = "handed again" if record["redelivered"] else "handed"
        if "queue" in record:
            self._queue(record, f"{what} {priority_in(record)}")
            return
        names = f"{record['node']}\t{_shown(record['topic'])}\t{_shown(record['subscription'])}"
        self._out.count(f"hand\t{names}\t{what}", sum(last - first + 1 for first, last in record["ranges"]))

    def _on_expired(self, record: Record) -> None:
        if "queue" in record:
            self._queue(record, record["event"])

    def _on_hold_received(self, record: Record) -> None:
        where = record["node"], record["origin"], str(record["stream"])
        self._edge("hold", *where, str(record["wall_ns"]), record.get("reason", ""))

    def _on_queue_paused(self, record: Record) -> None:
        word = "paused" if record["event"] == "queue_paused" else ""
        self._edge("pause", record["node"], _shown(record["queue"]), str(record["wall_ns"]), word)

    def _edge(self, *parts: str) -> None:
        self._edges += 1
        if self._edges <= EDGES_MAX:
            self._out.count("\t".join(parts), 1)

    _SEES: ClassVar[dict[str, Callable[[Charts, Record], None]]] = {
        **by_event(vars()),
        "committed": _on_queued,
        "purged": _on_expired,
        "queue_resumed": _on_queue_paused,
    }
