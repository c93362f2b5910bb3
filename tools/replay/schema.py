"""What replay knows by name: the columns of a record, the checks and their limits, violations and the verdict.

``base/session_log.py`` is the contract of the logs; this file is its reading side. PySpark is imported only when the
Spark engine asks for the schema.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from triack.base.session_log import COMMON, FIELDS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

UNREAD: Final = (
    "address",
    "name",
    "peer_name",
    "pending",
    "previous",
    "role",
    "rolled_back",
    "size",
    "trigger",
    "unacked",
)
"""Fields that no check looks at: every field left out makes Spark parse faster."""
COLUMNS: Final = {name: it.type for name, it in (COMMON | FIELDS).items() if name not in UNREAD}
"""The fields that Spark reads, with the type that each has in Python."""
INT_FIELDS: Final = tuple(name for name, type_ in COLUMNS.items() if type_ is int)
BOOL_FIELDS: Final = tuple(name for name, type_ in COLUMNS.items() if type_ is bool)

EXPRESS: Final = "express"
RECOVERABLE: Final = "recoverable"
TRANSACTIONAL: Final = "transactional"
CLASS_CODES: Final = {EXPRESS: 0, RECOVERABLE: 1, TRANSACTIONAL: 2}
"""The classes in the order of what they promise: of two that records claim for one stream, the higher counts."""

FAILURE_REASONS: Final = ("ack-timeout", "store-ack-timeout", "path-lost", "superseded")
"""Ends of a session that count as failures: after them everything unacknowledged must go out again. Written down here
and not taken from the sessions, because a judge that asks the judged proves nothing."""

ACK_BURST_PACKETS: Final = 64
"""Packets beyond the threshold that are tolerated: a receiver may read a burst before it acknowledges."""
IDLE_ACK_TOLERANCE_NS: Final = 250_000_000
"""An ack this late is still in time: a busy event loop wakes late."""
ACK_RANGE_PACKETS_MAX: Final = 65_536
"""Numbers of one acknowledged range that are looked at: far beyond any window; a wild range must not eat the memory."""
TIER_TOLERANCE_PERCENT: Final = 20
"""Waits of one resend tier may differ by a fifth: between tiers they differ by far more."""
TIER_NOISE_NS: Final = 5_000_000
"""And by this, the noise of a timer, which is much beside the shortest waits."""

POSITION_SHIFT: Final = 40
"""One number orders a node's records: incarnation above these bits, n in them. 2^40 records are 300 TB of log, and 23
bits for incarnations are a restart every second for three months."""

CHECKS: Final[dict[str, str]] = {
    "order": "Committed numbers of a lane rise at their destination, and messages are handed out in that order.",
    "gaps": "A commit never skips a queued packet that was neither removed nor committed before.",
    "duplicates_delivered": "No packet is committed twice, no message is handed out again without being marked.",
    "lost": "What the origin forgot because it was acknowledged is on disk at its destination.",
    "window": "A sender never has more unacknowledged packets than the session's window.",
    "order_ack_before_commit": "An order ack never says more than its node had committed.",
    "store_ack_before_commit": "A store ack never covers a packet that its node had not committed.",
    "ack_unreceived": "No ack arrives for a packet that was not sent.",
    "ack_unsent": "No ack leaves for a packet that had not arrived.",
    "close_without_full_resend": "After a failed session, no unacknowledged packet is skipped when its lane goes on.",
    "half_window": "An ack leaves soon after the threshold of new packets is reached.",
    "idle_delay": "An ack leaves within the idle delay of the first packet it covers.",
    "resend_tiers": "Resend attempts count 1, 2, 3, ... and their waits follow the tiers.",
    "log_gap": "The serial numbers of a node's records have no gaps.",
}


def record_schema() -> StructType:
    """Return the schema with which Spark reads a log, with a column for lines that do not parse."""
    from pyspark.sql import types as t

    kinds = {
        str: t.StringType(),
        int: t.LongType(),
        bool: t.BooleanType(),
        list: t.ArrayType(t.ArrayType(t.LongType())),
    }
    columns = [t.StructField(name, kinds[type_]) for name, type_ in COLUMNS.items()]
    return t.StructType([*columns, t.StructField("damaged", t.StringType())])


def tier_of(attempt: int) -> int:
    """Return the resend tier, 1 to 4, of an attempt: 1-3, 4-6, 7-9 and 10 onwards."""
    return min((max(attempt, 1) - 1) // 3, 3) + 1


@dataclass(slots=True, order=True)
class Violation:
    """One broken promise, with what shows it.

    Attributes:
        check: name of the check, a key of ``CHECKS``.
        node: id of the node whose records show it; empty if no single node does.
        session: id of the session, or empty.
        origin: id of the node the packet comes from, or empty.
        lane, sequence: where in the origin's streams, or -1.
        number: the packet's number in its sequence; the session's packet number in checks of sessions; the record's
            serial in ``log_gap``; the attempt in ``resend_tiers``. -1 if there is none.
        evidence: one sentence with the numbers that break the promise.
    """

    check: str
    node: str = ""
    session: str = ""
    origin: str = ""
    lane: int = -1
    sequence: int = -1
    number: int = -1
    evidence: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str, int, int, int]:
        """What makes two findings the same: all but the evidence."""
        return self.check, self.node, self.session, self.origin, self.lane, self.sequence, self.number


@dataclass(slots=True)
class Verdict:
    """What a replay found. Message counts are over the recoverable and transactional classes.

    Attributes:
        sent: messages queued at their origin, each once, without those that were removed and never delivered.
        delivered: messages on disk at their destination, each once.
        lost: messages that the origin forgot although no destination has them.
        pending: messages that still wait: ``sent - delivered - lost``.
        duplicates_delivered: messages committed or handed out once more than they should be.
        out_of_order: messages committed or handed out after a later one.
        duplicates_on_wire: packets that arrived again and were recognised; normal after a loss.
        resends: packets that left again, in the same session or in a later one.
        sessions_closed: sessions that ended for one of the reasons that are failures.
        records, torn_lines, nodes: what was read.
        seconds: wall time from the first message queued to the last one committed.
        messages_per_second: ``delivered`` over ``seconds``.
        peers_without_log: peers of a recorded session whose own log was not given.
        violations: how many violations each check found; checks without any are absent.
        engine: ``spark`` or ``local``.
        findings: the violations themselves, sorted.
        report: where the page was written, if it was.
    """

    sent: int = 0
    delivered: int = 0
    lost: int = 0
    pending: int = 0
    duplicates_delivered: int = 0
    out_of_order: int = 0
    duplicates_on_wire: int = 0
    resends: int = 0
    sessions_closed: int = 0
    records: int = 0
    torn_lines: int = 0
    nodes: int = 0
    seconds: float = 0.0
    messages_per_second: float = 0.0
    peers_without_log: list[str] = field(default_factory=list)
    violations: dict[str, int] = field(default_factory=dict)
    engine: str = ""
    findings: list[Violation] = field(default_factory=list)
    report: str | None = None

    @property
    def verdict(self) -> str:
        """``pass`` if every promise was kept, else ``fail``."""
        broken = self.violations or self.lost or self.duplicates_delivered or self.out_of_order
        return "fail" if broken else "pass"

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data for JSON, without the single violations."""
        data = asdict(self)
        del data["findings"]
        data["verdict"] = self.verdict
        return data

    def conclude(self, findings: list[Violation], span_ns: tuple[int, int] | None) -> None:
        """Fill in what follows from the findings and from the span (first queued, last committed) of the record."""
        self.findings = sorted(findings)
        for finding in self.findings:
            self.violations[finding.check] = self.violations.get(finding.check, 0) + 1
        if span_ns is not None and span_ns[1] > span_ns[0]:
            self.seconds = round((span_ns[1] - span_ns[0]) / 1e9, 6)
            self.messages_per_second = round(self.delivered * 1e9 / (span_ns[1] - span_ns[0]), 1)


@dataclass(slots=True)
class SessionLine:
    """One session as one of its ends saw it: when it lived (wall clock) and how it ended (empty: open to the end)."""

    node: str
    session: str
    opened_ns: int
    closed_ns: int
    reason: str


@dataclass(slots=True)
class Timeline:
    """What the plots of the report show, in buckets of wall time.

    Attributes:
        start_ns: wall time of the first bucket's begin.
        bucket_ns: width of a bucket.
        committed: bucket -> messages committed at a destination.
        resends: bucket -> packets that left again.
        duplicates: bucket -> packets that arrived again.
        unacked: (node, session) -> bucket -> most unacknowledged packets seen in it.
        sessions: the life of each session.
        latency: latency bucket (see ``latency_bucket``) -> messages.
    """

    start_ns: int = 0
    bucket_ns: int = 1
    committed: dict[int, int] = field(default_factory=dict)
    resends: dict[int, int] = field(default_factory=dict)
    duplicates: dict[int, int] = field(default_factory=dict)
    unacked: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    sessions: list[SessionLine] = field(default_factory=list)
    latency: dict[int, int] = field(default_factory=dict)


TIMELINE_BUCKETS: Final = 240
"""Buckets of a timeline: enough for a smooth line, few enough to collect from a cluster."""
LATENCY_BUCKETS_PER_DECADE: Final = 8
"""Latency buckets for each factor of ten, from a microsecond upwards: each a third wider than the one before."""
