"""Definitions that replay shares: classes and reasons, violations and the verdict, the data of a report.

``base/session_log.py`` is the contract of the logs; this file is its reading side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

EXPRESS: Final = "express"
RECOVERABLE: Final = "recoverable"
TRANSACTIONAL: Final = "transactional"
CLASS_CODES: Final = {EXPRESS: 0, RECOVERABLE: 1, TRANSACTIONAL: 2}
"""The classes by the strength of their promises: of two that records claim for one stream, the higher counts."""


def priority_in(record: Mapping[str, Any]) -> int:
    """The priority that a record says its messages have; it leaves out the default of their class."""
    priority: int = record.get("priority", 0 if record["class"] == TRANSACTIONAL else 3)
    return priority


SYSTEM: Final = "$"
"""How the names of the system's own queues begin."""
LETTERS: Final = "dead-letter"
"""The name of the queue of dead letters, which is the system's, too."""

OF_TOPIC: Final = "topic:"
"""With this the name of the queue begins in which the messages of a topic arrive."""


def is_system(queue: str) -> bool:
    """Whether a queue is the system's own, and no user's."""
    return queue.startswith(SYSTEM) or queue == LETTERS


OF_SYSTEM: Final = "system "
"""Before the name of a number that judges add up: it is of the system's own queues."""
DEAD: Final = "dead "
"""With this the name of a number of dead messages begins; the reason follows."""
AT_RELAY: Final = "at-relay"
"""The reason of messages that a relay gave up when their origin had forgotten them."""
PURGED: Final = "purged"
"""The reason of messages that were given up by hand."""

FAILURE_REASONS: Final = ("ack-timeout", "store-ack-timeout", "path-lost", "superseded")
"""Ends of a session that count as failures: after them everything unacknowledged must go out again. Written down here
and not taken from the sessions, because a judge that uses the code it judges proves nothing."""
CLOSE_REASONS: Final = (
    *FAILURE_REASONS, "connect-timeout", "peer-closed", "drained", "idle", "local-stop", "store-failed",
    "protocol-error", "rollback", "revoked", "too-many-forgeries",
)  # fmt: skip
"""Why a session may end."""
ROUTE_REASONS: Final = ("no-route", "route-loop", "hop-count-exceeded", "renamed")
"""Why a relay may not pass a packet on, beside `access-denied`."""
REJECT_REASONS: Final = (
    "duplicate", "stale-sequence", "hold-full", "access-denied", "held-back", "queue-full", "too-large",
    "larger-than-disk", "body-gone", "part-too-small", "queue-not-found", "bad-queue-name", "too-many-queues",
    "not-sealed", "bad-seal", "unknown-sealer", *ROUTE_REASONS,
)  # fmt: skip
"""Why a packet may be rejected."""
FOR_EVER: Final = tuple(
    reason for reason in REJECT_REASONS if reason not in ("duplicate", "stale-sequence", "hold-full", "held-back")
)
"""The permanent ones: the packet is never accepted."""
FREED_REASONS: Final = (
    "store-ack", "onward-ack", "session-ack", "rejected", "expired", "let-go", "purged", "stale-sequence",
)  # fmt: skip
"""Why a relay may answer for a packet no longer."""
HOLD_REASONS: Final = (
    "queue-full", "peer-quota", "node-quota", "peer-memory", "paused", "store-low", "no-room-for-body", "store-busy",
    "too-many-streams", "transit-full", "journal-full", "other-way", "unknown",
)  # fmt: skip
"""Why a destination may have no room for a stream."""


_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")
"""Matches the id of a node within a sentence."""
BROKEN: Final = 0
LATE: Final = 1
UNPROVEN: Final = 2
"""The standing of a finding; of two about the same thing the lower one counts."""


@dataclass(slots=True, order=True)
class Violation:
    """One broken promise, with what shows it.

    Attributes:
        check: name of the check, a key of ``CHECKS``.
        node: id of the node whose records show it; empty if no single node does.
        session: id of the session, or empty.
        origin: id of the node the packet comes from, or empty.
        stream, sequence: where in the origin's streams, or -1.
        number: the packet's number in its sequence; the session's packet number in checks of sessions; the record's
            serial in ``log_gap``; the attempt in ``resend_tiers``; a message's place in the topic. -1 if there is none.
        topic, subscription: of what, where it is about a topic.
        evidence: one sentence with the numbers that break the promise.
        last: the last number, if more than one in a row break it in the same way.
        value: how many messages are concerned, where that is counted.
        incarnation, n: identify with the node the record that shows it; ``wall_ns`` is its wall clock time.
        file, line: where that record is.
        standing: ``BROKEN``; ``LATE`` if a process that stood still missed a time limit and nothing else is wrong; or
            ``UNPROVEN``: not a violation, but a start of a node whose log may lack what explains one.
    """

    check: str
    node: str = ""
    session: str = ""
    origin: str = ""
    stream: int = -1
    sequence: int = -1
    number: int = -1
    topic: str = ""
    subscription: str = ""
    evidence: str = ""
    last: int = -1
    value: int = 0
    incarnation: int = 0
    n: int = 0
    wall_ns: int = 0
    file: str = ""
    line: int = 0
    standing: int = BROKEN

    def __post_init__(self) -> None:
        self.last = max(self.last, self.number)

    @property
    def identity(self) -> tuple[str, str, str, str, int, int, int, str, str]:
        """Two findings that agree in this are the same: all but the evidence."""
        where = self.node, self.session, self.origin, self.stream, self.sequence, self.number
        return self.check, *where, self.topic, self.subscription


@dataclass(slots=True)
class Account:
    """What became of messages: ``sent`` and ``unqueued`` are all others together, without ``dead_delivered``.

    Attributes:
        sent: messages that their origin accepted, each once.
        unqueued: messages that are delivered or dead, and of which no record shows that they were accepted: the log of
            their origin is missing, or lacks a part.
        delivered: messages that are in their queue at their destination (durable ones on its disk), or were, each once.
        pending: durable messages that still wait, at their origin or at a relay.
        lost: durable messages that the origin forgot although no destination has them.
        dead: reason -> messages that were given up on their way, but for purged ones.
        purged: messages that were given up on their way by hand.
        dead_delivered: of ``dead`` and ``purged``: messages that are among ``delivered`` all the same, as their
            acknowledgement came too late.
        unkept: express messages that wait in memory, or were lost with it.
    """

    sent: int = 0
    unqueued: int = 0
    delivered: int = 0
    pending: int = 0
    lost: int = 0
    dead: dict[str, int] = field(default_factory=dict)
    purged: int = 0
    dead_delivered: int = 0
    unkept: int = 0

    def fill(self, numbers: Mapping[str, int], whose: str = "") -> None:
        """Take what judges have added up; what may be lost is pending."""
        for name in ("sent", "unqueued", "delivered", "dead_delivered", "unkept"):
            setattr(self, name, numbers.get(f"{whose}{name}", 0))
        dead = f"{whose}{DEAD}"
        self.dead = {name.removeprefix(dead): n for name, n in sorted(numbers.items()) if n and name.startswith(dead)}
        self.purged = self.dead.pop(PURGED, 0)
        gone = self.dead_sum + self.purged - self.dead_delivered
        self.pending = self.sent + self.unqueued - self.delivered - gone - self.unkept

    @property
    def dead_sum(self) -> int:
        """Those of all reasons."""
        return sum(self.dead.values())

    def __str__(self) -> str:
        """The sum in words."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.dead.items()))
        parts = [f"{self.delivered:,} delivered"]
        parts += [f"{self.pending:,} pending"] if self.pending else []
        parts += [f"{self.dead_sum:,} dead ({reasons})"] if reasons else []
        parts += [f"{self.purged:,} purged"] if self.purged else []
        parts += [f"{self.lost:,} lost"] if self.lost else []
        parts += [f"{self.unkept:,} express that wait in memory or were lost with it"] if self.unkept else []
        unseen = f" + {self.unqueued:,} not seen sent" if self.unqueued else ""
        twice = f" - {self.dead_delivered:,} that are dead and delivered" if self.dead_delivered else ""
        return f"{self.sent:,} sent{unseen} = {' + '.join(parts)}{twice}"


NUMBERS: Final = {
    "sent": "messages that their origin accepted for users' queues, each once",
    "delivered": "of these: in their queue at their destination (if durable on its disk), each once",
    "pending": "of these: still wait",
    "dead_sum": "of these: given up on their way",
    "purged": "of these: given up on their way by hand",
    "dead_delivered": "of dead and purged: delivered all the same, as their acknowledgement came too late",
    "unkept": "express messages that wait in memory, or were lost with it",
    "lost": "messages forgotten at their origin and nowhere else on disk",
    "unqueued": "messages delivered or dead of which no record shows that they were sent",
    "duplicates_delivered": "messages committed or handed out again",
    "out_of_order": "messages committed or handed out behind later ones",
}
"""The numbers of a verdict that every reader wants, and what they count."""
MORE_NUMBERS: Final = {
    "duplicates_on_wire": "packets that arrived again and were recognised", "resends": "packets that left again",
    "sessions_closed": "sessions that failed", "records": "records read",
    "torn_lines": "last lines torn by a crash, skipped", "nodes": "nodes whose logs were read",
    "starts": "starts of these nodes of which there are logs",
    "seconds": "from the first message queued to the last one committed",
    "messages_per_second": "delivered over seconds",
}  # fmt: skip
"""The others: packets may come again after a loss, and leave again in the same session or a later one."""


@dataclass(slots=True)
class Verdict(Account):
    """The result of a replay: see ``NUMBERS``. Its account is that of the users' own queues, of all classes.

    Attributes:
        system: the account of the system's own queues.
        passed_on: of those sent to the system's queues: copies of published messages, for subscriptions at other nodes.
        files: each file that was read, and how many of its records were judged.
        unread: each file that looked like a log and was not read to its end, and why: a sentence with the name before.
        missing: logs that were not given, though others show what they must hold.
        cut: logs that lack their end, in words; something that was missed may be there.
        unfinished: nodes whose last log does not end with their stop: they were killed, run on, or the log was cut.
        violations: how many violations each check found; checks without any are absent.
        late: the same for limits of time that a process missed because it stood still, and said so.
        engine: ``spark`` or ``local``.
        chosen: why it was that one, if the replay chose it.
        counted: what expressions of Spark count beside the judges, by the names of ``tables/counts.py``; empty where
            nobody did.
        differences: where these numbers are not those of the judges, in words, or why they are not known. If nothing
            else is wrong that is a violation; logs that are broken or not whole may be the reason.
        findings: the violations themselves, sorted, without those that are late.
        report: where the page was written, if it was.
        timeline: what its plots show.
    """

    system: Account = field(default_factory=Account)
    duplicates_delivered: int = 0
    out_of_order: int = 0
    passed_on: int = 0
    duplicates_on_wire: int = 0
    resends: int = 0
    sessions_closed: int = 0
    records: int = 0
    torn_lines: int = 0
    nodes: int = 0
    starts: int = 0
    files: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    missing: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    violations: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    engine: str = ""
    chosen: str = field(default="", compare=False)
    counted: dict[str, int] = field(default_factory=dict, compare=False)
    differences: list[str] = field(default_factory=list, compare=False)
    findings: list[Violation] = field(default_factory=list)
    report: str | None = None
    timeline: Timeline | None = None

    @property
    def messages_per_second(self) -> float:
        """``delivered`` over ``seconds``."""
        return round(self.delivered / self.seconds, 1) if self.seconds else 0.0

    @property
    def verdict(self) -> str:
        """``fail`` if a promise was broken, else ``incomplete`` if logs or their ends are missing, else ``pass``.

        Logs without a record show nothing at all. Unread records might show why a promise only seems broken, so with
        something unread it is ``incomplete``, whatever was found in the rest.
        """
        if self.unread:
            return "incomplete"
        if self.violations:
            return "fail"
        return "incomplete" if self.missing or self.cut or not self.records else "pass"

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data for JSON, without the single violations."""
        data = asdict(self)
        del data["findings"], data["timeline"]
        data["messages_per_second"] = self.messages_per_second
        data["verdict"] = self.verdict
        return data

    def time(self, begin_ns: int, end_ns: int) -> None:
        """Note when the first message was queued and the last one committed, by the wall clock."""
        if begin_ns and end_ns > begin_ns:
            self.seconds = round((end_ns - begin_ns) / 1e9, 6)


@dataclass(slots=True)
class SessionLine:
    """One session as one of its ends saw it: when it lived (wall clock) and how it ended (empty: open to the end).

    ``start``: which start of the node it was in. ``heard_ns``: of one that failed, when the node heard its peer last.
    """

    node: str
    session: str
    opened_ns: int
    closed_ns: int
    reason: str
    peer: str = ""
    start: int = 0
    heard_ns: int = 0


@dataclass(slots=True)
class StartLine:
    """One start of a node as its log shows it: the wall clock of its first and its last record, and how many there are.

    ``stopped``: in good order. ``whole``: the log has its begin. ``stood``: from when to when the node stood still.
    """

    node: str
    start: int
    begin_ns: int
    end_ns: int
    stopped: bool
    records: int
    whole: bool = True
    stood: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Flows:
    """What became of the messages of each stream; all keys are (origin, stream).

    Attributes:
        counts: what -> how many, as the judge of the stream counts: messages as of ``Account`` (those dead by reason,
            see ``DEAD``), ``at_relays``, and ``forgotten`` (by their origin, and nothing shows them delivered: lost, if
            no log is missing); ``duplicates`` that it recognised; ``class`` (see ``CLASS_CODES``); ``since_ns``, when
            the first of those that wait was queued; ``longest_ns``, the delay of the slowest.
        delays: narrow bucket (see ``series.latency_bucket``) -> messages.
        takers: the nodes that took it; if none did, how its origin calls the node that it is for.
        lost: messages that are lost.
    """

    counts: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    delays: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    takers: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    lost: dict[tuple[str, int], int] = field(default_factory=dict)


POLICY_SHOWN: Final = (
    "window", "ack_threshold", "ack_bytes", "idle_ack_delay_ns", "store_ack_threshold", "store_ack_bytes",
    "store_ack_delay_ns", "ack_timeout_min_ns", "ack_timeout_max_ns",
)  # fmt: skip
"""The fields of a ``session_opened`` that the report shows."""


IF_ANY: Final = ("dead_sum", "purged", "dead_delivered", "unkept", "unqueued")
"""Numbers of an account that are told only where they are not 0."""
READER_COUNTS: Final = ("delivered", "settled", "pending", "discarded")
"""What a subscription counts itself."""


def reader_account(counts: Mapping[str, int]) -> str:
    """Say what became of the messages of a subscription: those that were given to it are all others together."""
    told = {what: f"{counts.get(what, 0):,} {what}" for what in ("given", "settled", "pending", "discarded", "gone")}
    done = told.pop("settled") + (f" ({counts['expired']:,} expired)" if counts.get("expired") else "")
    parts = [done, *(said for what, said in told.items() if what != "given" and counts.get(what))]
    return f"{told['given']} = {' + '.join(parts)}; {counts.get('delivered', 0):,} handed out"


def bridge_account(counts: Mapping[str, int]) -> str:
    """Say what a bridge took and gave."""
    told = {what: counts.get(what, 0) for what in ("taken", "known", "acked", "given", "refused", "pending")}
    inward = f"{told['taken']:,} taken" + (f", {told['known']:,} known before" if told["known"] else "")
    outward = f"{told['given']:,} given" + (f", {told['refused']:,} refused" if told["refused"] else "")
    return f"{inward}, {told['acked']:,} acknowledged; {outward}, {told['pending']:,} pending"


@dataclass(slots=True)
class Timeline:
    """The data of the report beside the verdict; series over time are in buckets of wall time.

    Attributes:
        start_ns: wall time of the first bucket's begin.
        bucket_ns: width of a bucket.
        series: name -> bucket -> what there was in it: ``committed`` messages at a destination; ``resends``, packets
            that left again; the largest ``window`` that a session was opened with; the longest ``round_trip`` from a
            packet sent to its session ack, and the longest ``resend_wait`` of a tier that ran out, nanoseconds;
            ``ack_timeout least`` and ``longest``, the limits of sessions that opened, nanoseconds, of several the
            longest; ``acks TRIGGER``, session acks that left; ``tiers TIER``, packets due to leave again; ``causes
            CAUSE``, packets that were not accepted because they had arrived before; ``unacked NODE SESSION``, the most
            unacknowledged packets; ``latency BUCKET`` (see ``series.latency_bucket``), messages.
        sessions: the life of each session.
        names: node id -> name.
        links: (from, to) -> what -> how many; both are node ids.
        queues: (node's name, queue) -> what -> messages: ``handed PRIORITY`` and ``handed again PRIORITY``; ``expired``
            there, and ``purged``, which were taken out by hand.
        streams: (origin, stream) -> the queue that its messages are for; both are as in the records.
        ways: (origin, stream) -> the hops of a stream that relays pass on, as (from, to); all are node ids.
        dwell: (origin, stream, relay) -> latency bucket -> packets that were in transit there for so long.
        readers: (node's name, topic, subscription, pattern) -> what -> messages: ``given`` to it, which are ``settled``
            (of these ``expired``), ``pending``, ``discarded``, or ``gone`` (express ones with their process, all with
            the end of a subscription that is not durable); and ``delivered``, those that were handed out.
        hands: (node's name, topic, subscription) -> ``handed`` or ``handed again`` -> messages.
        bridges: (node's name, bridge) -> ``taken`` from its broker, and queued here; ``known``, which were here before;
            ``acked`` to it; ``given`` to it, and acknowledged by it; ``refused``; ``pending``, in hand at the end ->
            messages.
        priorities: (origin, stream) -> the priority of its messages.
        starts: the starts of nodes, in order.
        flows: what became of the messages of each stream.
        trips: (from, to) -> narrow bucket -> round trips from a packet sent to its session ack.
        policies: (node, peer) -> the policy of sessions (the values of ``POLICY_SHOWN``) -> how many had it.
        holds: (node, origin, stream) -> when its destination had no room, and why; or had room again, and no reason.
        pauses: (node, queue) -> when an operator paused it, and a word; or resumed it, and none.
        left_out: kind of thing -> how many of them are too many for a page, and in no table or plot of it.
    """

    start_ns: int = 0
    bucket_ns: int = 1
    series: dict[str, dict[int, int]] = field(default_factory=dict)
    sessions: list[SessionLine] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    links: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    queues: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    streams: dict[tuple[str, int], str] = field(default_factory=dict)
    ways: dict[tuple[str, int], list[tuple[str, str]]] = field(default_factory=dict)
    dwell: dict[tuple[str, int, str], dict[int, int]] = field(default_factory=dict)
    readers: dict[tuple[str, str, str, str], dict[str, int]] = field(default_factory=dict)
    hands: dict[tuple[str, str, str], dict[str, int]] = field(default_factory=dict)
    bridges: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    priorities: dict[tuple[str, int], int] = field(default_factory=dict)
    policies: dict[tuple[str, str], dict[tuple[int, ...], int]] = field(default_factory=dict)
    starts: list[StartLine] = field(default_factory=list)
    flows: Flows = field(default_factory=Flows)
    trips: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    holds: dict[tuple[str, str, int], list[tuple[int, str]]] = field(default_factory=dict)
    pauses: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def span_ns(self) -> tuple[int, int]:
        """The wall times of the first and of the last record."""
        begin_ns = min((start.begin_ns for start in self.starts), default=0)
        return begin_ns, max((start.end_ns for start in self.starts), default=0)

    def parts(self, what: str) -> dict[str, dict[int, int]]:
        """Return the series whose names begin with a word, by the rest of their names, in order."""
        return {
            name.partition(" ")[2]: values
            for name, values in sorted(self.series.items())
            if name.startswith(f"{what} ")
        }

    def name(self, node: str) -> str:
        """Return a node's name, or the begin of its id."""
        return self.names.get(node) or node[:8]

    def named(self, sentence: str) -> str:
        """Return a sentence with the names of nodes in place of their ids."""
        return _ID.sub(lambda found: self.name(found[0]), sentence)

    def told(self, said: str) -> str:
        """Return a sentence about a node whose id comes last, with its name if that is known."""
        name = self.names.get(said.rpartition(" ")[2])
        return f"{said}, which is called {name}" if name else said
