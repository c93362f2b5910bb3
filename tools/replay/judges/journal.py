"""One start of a node as its log records it: read in order, checked as a whole, and dealt out to its judges.

A record goes to the judge of its session, to that of its stream, or to both. Before its first record in a segment each
judge gets a ``life`` record with the node's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from triack.base.errors import ReplayError
from triack.base.session_log import EVENTS
from triack.tools.replay.checks.findings import Due, Output, Record
from triack.tools.replay.judges.queue_judge import is_judged
from triack.tools.replay.judges.sending_judge import EVENTS as SENDING_EVENTS
from triack.tools.replay.log.ranges import Span
from triack.tools.replay.log.schema import OF_TOPIC
from triack.tools.replay.report.report_charts import Charts

Unit = tuple[str, ...]
"""The judge of a record: ``("session", id)``, ``("stream", origin, stream)``; of one node, ``("queue", node, queue)``,
``("topic", node, topic)``, ``("bridge", node, bridge)``, and ``("sending", node)`` of all that it sends.
"""
RECOVERY: Final = (
    "node_started", "node_continued", "start_before", "position_recovered", "queued", "transit_committed",
    "topic_opened", "placed", "subscribed",
)  # fmt: skip
"""With these records a start reports what it found on its disk."""
MARKED: Final = ("queued", "transit_committed", "placed", "subscribed")
"""Those of them that a node also writes later: unless they are marked as recovered."""

SESSION_EVENTS: Final = frozenset(name for name, event in EVENTS.items() if "session" in event.fields)
STREAM_EVENTS: Final = frozenset(
    name for name, event in EVENTS.items() if any("stream" in (*event.fields, *more) for more in event.variants)
) - {"placed", "passed_on", "bridge_gave", "bridge_let_go"}
TOPIC_EVENTS: Final = frozenset(
    name
    for name, event in EVENTS.items()
    if "bridge" not in event.fields and any("topic" in (*event.fields, *more) for more in event.variants)
) | {"committed"}


class Segment(NamedTuple):
    """A segment of a log as a whole, or all segments of a start as one.

    Attributes:
        path: its file; empty for records in memory, and for a whole start.
        first_n, last_n: serials of its first and its last record; ``begin_ns`` and ``end_ns``: their monotonic clock.
            Of a whole start ``first_n`` is 1, unless the begin of its log is missing.
        offset_ns: its wall clock minus its monotonic clock.
        begins, stops: whether its first record is ``node_started``, its last ``node_stopped``.
        ready: whether the start said more than what it found on its disk.
        stood: from when to when the node stood still, as it recorded afterwards.
        name, boot, known: if the start begins here: the node's name, what identifies the boot of its machine, and how
            many records the previous start had, as it knew.
        line: where it begins in its file, from 1.
        continues: whether its first record is ``node_continued``.
        paused: peers to which a queue was paused.
    """

    node: str
    incarnation: int
    path: str
    first_n: int
    last_n: int
    begin_ns: int
    end_ns: int
    offset_ns: int
    begins: bool
    stops: bool
    ready: bool
    name: str
    records: int
    stood: Sequence[Span] = ()
    line: int = 1
    boot: str = ""
    known: int = 0
    continues: bool = False
    paused: Sequence[str] = ()


class Journal:
    """Reads one segment."""

    def __init__(self, path: str, out: Output, line: int = 1) -> None:
        self.path = path
        self._line = line
        self.records = 0
        self._out = out
        self._charts = Charts(out)
        self._first: Record = {}
        self._offset_ns = 0
        self._last: Record = {}
        self._life: Record = {}
        self._ready = False
        self._stopped = False
        self._stood: list[Span] = []
        self._paused: set[str] = set()
        self._before: Record = {}
        self._met: set[Unit] = set()
        # By peer: whether its link is downgraded, as the last record of the segment says.
        self._modes: dict[str, bool] = {}

    def deal(self, records: Iterable[Record]) -> dict[Unit, list[Record]]:
        """Check the next records; return them by unit, the segment's first of a unit behind a ``life`` record."""
        piles: dict[Unit, list[Record]] = {}
        # By the fields that decide which piles a record is for: these.
        ways: dict[tuple[object, ...], list[list[Record]]] = {}
        for record in records:
            self._check(record)
            self._charts.see(record)
            get = record.get
            where = get("topic"), get("queue"), get("bridge")
            about = record["event"], get("session"), get("origin"), get("stream"), *where
            way = ways.get(about)
            if way is None:
                way = ways[about] = [self._pile(unit, record, piles) for unit in units_of(record)]
            for pile in way:
                pile.append(record)
        return piles

    def _pile(self, unit: Unit, record: Record, piles: dict[Unit, list[Record]]) -> list[Record]:
        """Return the pile of a unit, which its record is to join."""
        pile = piles.setdefault(unit, [])
        if unit not in self._met:
            self._met.add(unit)
            pile.append({**self._life, "n": record["n"]})
        return pile

    def segment(self) -> Segment | None:
        """Return what was read as a whole; None if it was empty."""
        if not self.records:
            return None
        first, last = self._first, self._last
        return Segment(
            first["node"], first["incarnation"], self.path, first["n"], last["n"], first["at_ns"], last["at_ns"],
            first["wall_ns"] - first["at_ns"], first["event"] == "node_started", self._stopped, self._ready,
            self._life.get("name", ""), self.records, tuple(self._stood), self._line,
            self._before.get("boot", ""), self._before.get("records", 0), first["event"] == "node_continued",
            tuple(sorted(self._paused)),
        )  # fmt: skip

    def _check(self, record: Record) -> None:
        last, event = self._last, record["event"]
        self.records += 1
        if not last:
            self._begin(record)
        elif (
            record["n"] != last["n"] + 1
            or record["at_ns"] < last["at_ns"]
            or record["wall_ns"] - record["at_ns"] != self._offset_ns
            or record["node"] != last["node"]
            or record["incarnation"] != last["incarnation"]
            or event in ("node_started", "node_continued")
        ):
            self._report_break(record, last)
        if event == "start_before":
            self._before = record
            if last and last["event"] != "node_started":
                self._out.report(record, "node_life", "what is known of the start before, not behind node_started")
        if event == "woke_late":
            self._stand(record, last)
        elif event == "queue_paused":
            peer, is_outgoing, _ = record["queue"].rpartition("/")
            if is_outgoing:
                self._paused.add(peer)
        elif event in ("link_downgraded", "link_upgraded"):
            self._judge_mode(record)
        if self._stopped:
            self._out.report(record, "node_life", f"{event} after node_stopped")
        if not self._ready:
            self._ready = event not in RECOVERY or (event in MARKED and not record.get("recovered"))
        self._stopped = event == "node_stopped"
        self._last = record

    def _stand(self, record: Record, last: Record) -> None:
        """The node says that it stood still; it cannot have written anything meanwhile."""
        since_ns = record["since_ns"]
        # The first records of a segment are written together with the record that begins it.
        before_ns = last["at_ns"] if last and last["event"] != "node_continued" else since_ns
        if before_ns <= since_ns <= record["at_ns"]:
            self._stood.append((since_ns, record["at_ns"]))
        else:
            evidence = f"stood still from {since_ns} ns on, and wrote a record at {last.get('at_ns', 0)} ns"
            self._out.report(record, "claims", evidence)

    def _judge_mode(self, record: Record) -> None:
        """A synchronous link changed its mode: only for the age of its oldest packet, and not in the grace."""
        peer, oldest_ns = record["peer_name"], record["oldest_ns"]
        is_down = record["event"] == "link_downgraded"
        begin_ns = self._first["at_ns"] if self._first["event"] == "node_started" else 0
        if oldest_ns > record["at_ns"] - begin_ns:
            self._out.report(record, "claims", f"waits for {oldest_ns} ns, and the node has not run for so long")
        if is_down and oldest_ns <= record["downgrade_after_ns"]:
            said = f"downgraded when its oldest packet had waited for {oldest_ns} ns, of {record['downgrade_after_ns']}"
        elif is_down and self._first["event"] == "node_started" and record["at_ns"] - begin_ns < record["grace_ns"]:
            said = f"downgraded {record['at_ns'] - begin_ns} ns after the start, in the grace"
        elif not is_down and record["awaited"] and oldest_ns >= record["upgrade_below_ns"]:
            said = f"upgraded when its oldest packet had waited for {oldest_ns} ns, of {record['upgrade_below_ns']}"
        elif self._modes.get(peer, not is_down) is is_down:
            said = "downgraded twice" if is_down else "upgraded twice"
        else:
            said = ""
        self._modes[peer] = is_down
        if said:
            self._out.report(record, "downgrade_rule", f"the link to {peer} was {said}")

    def _report_break(self, record: Record, last: Record) -> None:
        """A record does not simply follow the one before it."""
        starts = [(it["node"], it["incarnation"]) for it in (last, record)]
        if record["n"] != last["n"] + 1:
            report_gap(self._out, record, last["n"])
        if starts[0] != starts[1]:
            self._out.report(record, "node_life", f"a record of another start after record {last['n']}")
        if record["at_ns"] < last["at_ns"]:
            self._out.report(record, "clock", f"{record['at_ns']} ns follows {last['at_ns']} ns")
        if record["wall_ns"] - record["at_ns"] != self._offset_ns:
            evidence = f"the wall clock is {record['wall_ns'] - record['at_ns']} ns ahead"
            self._out.report(record, "clock", f"{evidence}, before {last['wall_ns'] - last['at_ns']} ns")
        if record["event"] in ("node_started", "node_continued"):
            self._out.report(record, "node_life", f"{record['event']} in the midst of a segment")

    def _begin(self, record: Record) -> None:
        self._first = record
        self._offset_ns = record["wall_ns"] - record["at_ns"]
        common = ("node", "incarnation", "n", "at_ns", "wall_ns")
        settings = (
            record if record["event"] in ("node_started", "node_continued") else {name: record[name] for name in common}
        )
        self._life = {**settings, "event": "life"}


def units_of(record: Record) -> list[Unit]:
    """Return the judges of a record."""
    event = record["event"]
    units: list[Unit] = [("session", record["session"])] if event in SESSION_EVENTS else []
    if event in STREAM_EVENTS and record.get("stream") is not None:
        units.append(("stream", record["origin"], str(record["stream"])))
        if is_judged(record):
            units.append(("queue", record["node"], record["queue"]))
        if event in SENDING_EVENTS and record["node"] == record["origin"]:
            units.append(("sending", record["node"]))
    if "bridge" in record:
        units.append(("bridge", record["node"], record["bridge"]))
    if event in TOPIC_EVENTS and (topic := topic_of(record)) is not None:
        units.append(("topic", record["node"], topic))
    return units


def topic_of(record: Record) -> str | None:
    """Return the topic that a record is about, None if it is about none."""
    if "topic" in record:
        topic: str = record["topic"]
        return topic
    if record["event"] == "committed" and record["queue"].startswith(OF_TOPIC):
        return str(record["queue"].removeprefix(OF_TOPIC))
    return None


def report_gap(out: Output, record: Record, before: int, *dues: Due) -> None:
    """Report a gap in the serials."""
    evidence = f"start {record['incarnation']}: record {record['n']} follows record {before}"
    out.report(record, "log_gap", evidence, *dues, number=record["n"])


def join_segments(segments: list[Segment], out: Output) -> list[Segment]:
    """Check that segments make whole starts of nodes, and return these starts."""
    lives: dict[tuple[str, int], list[Segment]] = {}
    for segment in sorted(segments, key=lambda it: (it.node, it.incarnation, it.first_n)):
        lives.setdefault((segment.node, segment.incarnation), []).append(segment)
    return [_join(parts, out) for parts in lives.values()]


def _join(parts: list[Segment], out: Output) -> Segment:
    first = parts[0]
    headless = first.continues and first.first_n != 1
    if headless:
        # Segments before it were removed, or not given: what they would show is not known.
        pass
    elif first.first_n != 1:
        report_gap(out, _record_of(first), 0)
    elif not first.begins:
        out.report(_record_of(first), "node_life", "the first record is not node_started")
    for before, after in pairwise(parts):
        record = _record_of(after)
        if _record_of(before) == record:
            raise ReplayError(f"{before.path} and {after.path} begin with the same record: give only one of them")
        if after.first_n != before.last_n + 1:
            report_gap(out, record, before.last_n, Due("powered", after.node, after.incarnation))
        if after.begin_ns < before.end_ns:
            out.report(record, "clock", f"{after.begin_ns} ns follows {before.end_ns} ns")
        if after.offset_ns != before.offset_ns:
            evidence = f"the wall clock is {after.offset_ns} ns ahead, before {before.offset_ns} ns"
            out.report(record, "clock", evidence)
        if before.stops:
            out.report(record, "node_life", "goes on after node_stopped")
        if after.stood and after.stood[0][0] < before.end_ns:
            evidence = f"stood still from {after.stood[0][0]} ns on, and wrote a record at {before.end_ns} ns"
            out.report(record, "claims", evidence)
    return join_start(parts)._replace(first_n=first.first_n if headless else 1)


def join_start(parts: list[Segment]) -> Segment:
    """Return segments of one start, which follow each other, as one segment."""
    first, last = parts[0], parts[-1]
    return first._replace(
        path="", last_n=last.last_n, end_ns=last.end_ns, stops=last.stops, ready=any(part.ready for part in parts),
        records=sum(part.records for part in parts), stood=tuple(span for part in parts for span in part.stood),
        paused=tuple(sorted({peer for part in parts for peer in part.paused})),
    )  # fmt: skip


def _record_of(segment: Segment) -> Record:
    start = {"node": segment.node, "incarnation": segment.incarnation}
    return {**start, "n": segment.first_n, "wall_ns": segment.begin_ns + segment.offset_ns}
