"""When one end of a session must send session acks: the rules of ``base/ack_debt.py``, by the policy in force.

An ack is due when the first of these holds: a number of packets or bytes, a gap, a duplicate, a delay since the first
packet or since the last one. Requests are not logged, so an ack may leave at any time to answer one.
"""

from __future__ import annotations

from typing import Final

from triack.base.units import MS
from triack.tools.replay.checks.findings import EVER, LATE_NS, Due, Output, Record, SessionReporter, allowed, awake

_TRIGGERS: Final = ("count", "bytes", "delay", "idle", "piggyback", "gap", "duplicate", "request")
LATE_MOMENTS: Final = 8
"""An ack that is due at once leaves before packets have arrived at this many later moments: a node that reads goes on
to write within a turn or two of its loop."""
STILL_NS: Final = 250_000_000
"""A process that does nothing at all for this long was held up by its machine: by a disk, or by other processes. A node
that forgets an ack that is due at once sends it with the idle delay, so not within half of that."""


class Waiting:
    """New packets that no ack has covered yet, and when they came.

    Attributes:
        count, size: packets, and their bytes.
        first: the lowest of them.
        first_record: the record with which the wait began; ``last_ns``: when the last packets came.
        due_ns: since when an ack must leave at once; ``cause``: why.
        moments: how many later moments brought packets since then; ``seen_ns``: the last of them.
    """

    def __init__(self, record: Record) -> None:
        self.count = 0
        self.size = 0
        self.first = record["packet"]
        self.first_record = record
        self.last_ns = record["at_ns"]
        self.due_ns = 0
        self.cause = ""
        self.moments = 0
        self.seen_ns = 0

    def add(self, record: Record) -> None:
        """More packets came for the first time."""
        if not self.count:
            self.first, self.first_record = record["packet"], record
        self.count += record["packets"]
        self.size += record["size"]
        self.first = min(self.first, record["packet"])
        self.last_ns = record["at_ns"]

    def owe(self, record: Record, cause: str) -> None:
        """An ack is due now, unless it was before."""
        if not self.due_ns:
            self.due_ns, self.cause = record["at_ns"], cause

    def limit_ns(self, opened: Record) -> int:
        """When an ack that is due at once is late, if nothing came meanwhile."""
        half_ns: int = opened["idle_ack_delay_ns"] // 2
        return self.due_ns + LATE_NS + min(half_ns, STILL_NS)

    def is_late(self, now_ns: int, opened: Record) -> bool:
        """Whether an ack that leaves now has been due for too long."""
        return self.due_ns > 0 and (self.moments > LATE_MOMENTS or now_ns > self.limit_ns(opened))


class Answers(SessionReporter):
    """Judges the session acks that one end gives."""

    def __init__(self, session: str, out: Output) -> None:
        super().__init__(session, out)
        self._opened: Record | None = None
        self._waiting: Waiting | None = None
        # Which of gap and duplicate there was since the last ack.
        self._happened: set[str] = set()

    def handle_opened(self, record: Record) -> None:
        """This policy is in force."""
        self._opened = record

    def _counts(self, what: str) -> bool:
        """Whether the policy wants an ack at once for that."""
        return self._opened is not None and what in self._opened["ack_at_once"].split()

    def handle_received(self, record: Record, *, gap: bool) -> None:
        """Packets arrived; ``gap``: they do not follow the highest one so far."""
        waiting = self._waiting
        if record["duplicate"]:
            self._happened.add("duplicate")
            if self._counts("duplicate"):
                waiting = self._waiting = waiting or Waiting(record)
                waiting.owe(record, "duplicate")
            return
        if gap:
            self._happened.add("gap")
        if waiting is None:
            waiting = self._waiting = Waiting(record)
        elif waiting.count:
            self._judge_quiet(waiting, record)
        waiting.add(record)
        if self._opened is not None:
            self._judge_due(waiting, record, self._opened, gap=gap and self._counts("gap"))

    def _judge_due(self, waiting: Waiting, record: Record, opened: Record, *, gap: bool) -> None:
        """See whether an ack is due with these packets, or what has come since it was."""
        threshold, most_bytes = opened["ack_threshold"], opened["ack_bytes"]
        if waiting.due_ns:
            if record["at_ns"] > waiting.seen_ns:
                waiting.moments += 1
        elif gap:
            waiting.owe(record, "gap")
        elif threshold and waiting.count >= threshold:
            waiting.owe(record, "count")
        elif most_bytes and waiting.size >= most_bytes:
            waiting.owe(record, "bytes")
        waiting.seen_ns = record["at_ns"]

    def handle_sent(self, record: Record) -> None:
        """An ack left, which covers whatever has come."""
        waiting, self._waiting = self._waiting, None
        fresh = waiting.count if waiting is not None else 0
        if record["pending"] != fresh:
            self._report(record, "claims", f"an ack of {record['pending']} new packets, counted {fresh}")
        if said := self._judge_trigger(waiting, record):
            self._report(record, "claims", said)
        self._happened.clear()
        if waiting is None or self._opened is None:
            return
        if waiting.is_late(record["at_ns"], self._opened):
            then = f"an ack {(record['at_ns'] - waiting.due_ns) // MS} ms later"
            self._report_due(waiting, record, then, record["at_ns"])
        if waiting.count:
            self._judge_quiet(waiting, record)
            waited_ns = record["at_ns"] - waiting.first_record["at_ns"]
            if waited_ns > self._opened["idle_ack_delay_ns"] + LATE_NS:
                self._report_idle(waiting, f"acknowledged after {waited_ns // MS} ms", record["at_ns"])

    def _judge_trigger(self, waiting: Waiting | None, record: Record) -> str:
        """Return what is wrong with the reason that an ack gives for leaving; an empty string if nothing is."""
        trigger, opened = record["trigger"], self._opened
        if trigger not in _TRIGGERS:
            return f"an ack for an unknown reason, {trigger!r}"
        if trigger in ("gap", "duplicate"):
            if trigger not in self._happened:
                return f"an ack for a {trigger}, and there was none"
            if opened is not None and not self._counts(trigger):
                return f"an ack for a {trigger}, and at once are only {opened['ack_at_once'] or 'none'}"
        return "" if opened is None else self._judge_limit(trigger, waiting, record, opened)

    def _judge_limit(self, trigger: str, waiting: Waiting | None, record: Record, opened: Record) -> str:
        """The same for triggers that have a limit, which must have been reached."""
        count, size = (waiting.count, waiting.size) if waiting is not None else (0, 0)
        if trigger == "count" and count < opened["ack_threshold"]:
            return f"an ack for its count, {count} of {opened['ack_threshold']}"
        if trigger == "bytes" and size < opened["ack_bytes"]:
            return f"an ack for its bytes, {size} of {opened['ack_bytes']}"
        if waiting is not None and count and trigger in ("delay", "idle"):
            since_ns = waiting.first_record["at_ns"] if trigger == "delay" else waiting.last_ns
            least_ns = opened["idle_ack_delay_ns"] if trigger == "delay" else opened.get("ack_idle_ns", 0)
            if record["at_ns"] - since_ns < least_ns:
                what = "idle delay" if trigger == "delay" else "time since the last packet"
                return f"an ack for the {what} after {record['at_ns'] - since_ns} ns, {least_ns} ns are agreed"
        return ""

    def _judge_quiet(self, waiting: Waiting, record: Record) -> None:
        """Judge the time since the last packet, which ends with this record."""
        limit_ns = self._opened.get("ack_idle_ns") if self._opened is not None else None
        quiet_ns = record["at_ns"] - waiting.last_ns
        if limit_ns is not None and quiet_ns > limit_ns + LATE_NS:
            evidence = f"no ack {quiet_ns // MS} ms after the last packet, {allowed(limit_ns)}"
            due = awake(record, waiting.last_ns, waiting.last_ns + limit_ns + LATE_NS, record["at_ns"])
            self._report(waiting.first_record, "idle_delay", evidence, due, number=waiting.first)

    def finish(self, closed: Record | None) -> None:
        """Judge what still waits when the record ends, or the session."""
        waiting, opened = self._waiting, self._opened
        if waiting is None or opened is None:
            return
        node, start, end_ns = opened["node"], opened["incarnation"], closed["at_ns"] if closed else EVER
        if waiting.count:
            limit_ns = waiting.first_record["at_ns"] + opened["idle_ack_delay_ns"]
            if "ack_idle_ns" in opened:
                limit_ns = min(limit_ns, waiting.last_ns + opened["ack_idle_ns"])
            due = Due("log", node, start, end_ns=limit_ns + LATE_NS)
            if closed is None or closed["at_ns"] > due.end_ns:
                self._report_idle(waiting, "acknowledged never", end_ns, due)
        if waiting.due_ns and (closed is None or closed["at_ns"] > waiting.limit_ns(opened)):
            due = Due("log", node, start, end_ns=waiting.limit_ns(opened))
            self._report_due(waiting, waiting.first_record, "no ack at all", end_ns, due)

    def _report_due(self, waiting: Waiting, record: Record, then: str, until_ns: int, *dues: Due) -> None:
        assert self._opened is not None
        dues = *dues, awake(record, waiting.due_ns, waiting.limit_ns(self._opened), until_ns)
        if waiting.cause in ("gap", "duplicate"):
            evidence = f"a {waiting.cause}, then packets at {waiting.moments} later moments, then {then}"
            self._report(record, "at_once", evidence, *dues, number=waiting.first)
            return
        limit = self._opened["ack_threshold"] if waiting.cause == "count" else f"{self._opened['ack_bytes']} bytes"
        evidence = (
            f"{waiting.count} new packets, the last ones at {waiting.moments} moments after the threshold of "
            f"{limit} was reached, then {then}"
        )
        self._report(record, "half_window", evidence, *dues, number=waiting.first)

    def _report_idle(self, waiting: Waiting, what: str, until_ns: int, *dues: Due) -> None:
        assert self._opened is not None
        limit_ns, first = self._opened["idle_ack_delay_ns"], waiting.first_record
        due = awake(first, first["at_ns"], first["at_ns"] + limit_ns + LATE_NS, until_ns)
        self._report(first, "idle_delay", f"{what}, {allowed(limit_ns)}", *dues, due, number=waiting.first)
