"""What the judges pass on: violations, findings that depend on other logs, facts for each other, and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from triack.base.units import MS
from triack.tools.replay.log.ranges import Span
from triack.tools.replay.log.schema import Violation
from triack.tools.replay.log.series import Series

Record = dict[str, Any]

LATE_NS: Final = 150_000_000
"""How much a busy machine may exceed any time limit before the limit counts as broken. This allows for a loop that
wakes late, not for one that forgot."""
UNSENT_NS: Final = 10_000_000_000
"""Within this time a node sends what waits when a session has room, whatever else it does: hundreds of round trips."""
EVER: Final = 1 << 62
"""A start later than any, and a time, too."""


class DisorderError(Exception):
    """A record follows a later one of its node, or changes what is settled: judge everything again, in order."""


class Due(NamedTuple):
    """A condition elsewhere for a finding to count.

    ``log``: the log of that start of the node goes on to ``end_ns``.
    ``stopped``: that start ended in good order.
    ``given``: there is a log of each start that the node had from ``incarnation`` to ``end_ns``.
    ``peers_given``: there is one of each start of each peer that the node had a session with.
    ``told``: its logs mention its session ``peer``, if it had that.
    ``started``: it has a start from ``incarnation`` to ``end_ns`` that said more than what it found on its disk, and
    there is a log of each one before that.
    ``open``: the node had one session with the peer open from ``begin_ns`` to ``end_ns``.
    ``not_opened``: it opened none in between, but after one that ended as idle.
    ``reopened``: it opened one with the peer after ``begin_ns`` and had it for ``end_ns``.
    ``reopened_alive``: it did so in that start.
    ``room``: of a session with the peer that it calls ``peer`` nothing was unacknowledged for ``UNSENT_NS`` between
    ``begin_ns`` and ``end_ns``, no other node was ever called so, and no start up to this one paused a queue to it.
    ``carried_on``: its session ``peer`` was open until ``end_ns``.
    ``settled``: ``given``, and the logs of those starts go to their ends, but for the last one of all.
    ``whole``: ``given``, and what is known of the node goes as far as record ``end_ns`` of start ``begin_ns`` of its
    peer ``peer``, or to its end. If it never met that node, it goes to its end.
    ``seen``: the same of one start of the node, ``incarnation``, alone.
    ``powered``: the machine of the node did not boot again after that start.
    ``awake``: the node did not stand still for so long between ``begin_ns`` and ``until_ns`` that what was to happen by
    ``end_ns`` could not. Of a limit that needs a session with ``peer``, only the time until that session closed counts.
    If this is all that does not hold, the finding counts as late.
    """

    kind: str
    node: str
    incarnation: int = 0
    peer: str = ""
    begin_ns: int = 0
    end_ns: int = 0
    until_ns: int = 0


@dataclass(slots=True)
class Finding:
    """A violation, and what else it depends on."""

    violation: Violation
    dues: tuple[Due, ...] = ()


def given(node: str, first: int = 1, last: int = EVER) -> Due:
    """Return the due that no log of these starts of a node is missing."""
    return Due("given", node, first, end_ns=last)


def awake(record: Record, begin_ns: int, end_ns: int, until_ns: int = EVER, peer: str = "") -> Due:
    """Return the due that the node of a record was awake while a limit of time ran.

    It was over at ``end_ns``, with all that a busy machine may add. The awaited event happened at ``until_ns``; if a
    peer is given, by node id or name, it cannot happen without a session with that.
    """
    return Due("awake", record["node"], record["incarnation"], peer, begin_ns, end_ns, until_ns)


def allowed(limit_ns: int) -> str:
    """Say of a limit of time how long it is."""
    return f"{limit_ns // MS} ms and {LATE_NS // MS} ms for a busy machine are allowed"


def settled(node: str, first: int = 1, last: int = EVER) -> Due:
    """Return the due that no log of these starts of a node is missing, nor the end of one of them but the last."""
    return Due("settled", node, first, end_ns=last)


def whole(node: str, record: Record, first: int = 1) -> Due:
    """Return the due that nothing is missing of what a node did before its peer wrote a record, from a start on."""
    return Due("whole", node, first, record["node"], record["incarnation"], record["n"])


def of_origin(origin: str, record: Record, first: int = 1) -> tuple[Due, ...]:
    """Return the dues that nothing is missing of what an origin had done before a record, from a start on."""
    if record["node"] == origin:
        return (settled(origin, first, record["incarnation"]),)
    return settled(origin, first), whole(origin, record, first)


class Opening(NamedTuple):
    """One end of a session: when it was open, by the node's monotonic clock; ``closed_ns`` 0 if it never closed.

    ``heard``: a packet or ack arrived that the peer has recorded as received or sent. ``n``: the serial of the record
    with which it opened. ``reached``: of the last record of this end of which the other end's log shows an effect.
    ``peer_name``: what the node calls the peer. ``free``: the longer periods in which nothing of it was unacknowledged
    here; an end of 0 means to its end.
    """

    node: str
    incarnation: int
    peer: str
    session: str
    opened_ns: int
    closed_ns: int
    reason: str
    wall_ns: int
    heard: bool = False
    n: int = 0
    reached: int = 0
    peer_name: str = ""
    free: Sequence[Span] = ()


@dataclass(slots=True)
class Output:
    """A judge's findings in one unit.

    Attributes:
        findings: broken promises.
        series: what the report draws over time, by name.
        begin_ns, end_ns: when the first message was queued and the last one committed, by the wall clock.
        facts: records for other units, derived from this one.
        numbers: what is added up for the verdict, by name.
        openings: what findings of other units may depend on.
    """

    findings: list[Finding] = field(default_factory=list)
    facts: list[Record] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    openings: list[Opening] = field(default_factory=list)
    series: dict[str, Series] = field(default_factory=dict)
    begin_ns: int = 0
    end_ns: int = 0

    def chart(self, name: str, wall_ns: int, value: int, mode: str = "sum") -> None:
        """Put a value on a time line of the report."""
        series = self.series.get(name)
        if series is None:
            series = self.series[name] = Series(mode)
        series.add(wall_ns, value)

    @contextmanager
    def aside(self) -> Iterator[Output]:
        """Collect what the block finds in a separate output: it holds only for now."""
        now = Output()
        kept = self.findings, self.numbers, self.openings
        self.findings, self.numbers, self.openings = now.findings, now.numbers, now.openings
        try:
            yield now
        finally:
            self.findings, self.numbers, self.openings = kept

    def begin(self, wall_ns: int) -> None:
        """A message was queued."""
        self.begin_ns = min(self.begin_ns or wall_ns, wall_ns)

    def end(self, wall_ns: int) -> None:
        """A message was committed."""
        self.end_ns = max(self.end_ns or wall_ns, wall_ns)

    def count(self, name: str, value: int) -> None:
        """Add to a number."""
        self.numbers[name] = self.numbers.get(name, 0) + value

    def merge(self, other: Output) -> None:
        """Take over what another one has found, its numbers, and when the first and the last message came."""
        if other.begin_ns:
            self.begin(other.begin_ns)
        if other.end_ns:
            self.end(other.end_ns)
        self.findings += other.findings
        self.openings += other.openings
        for name, value in other.numbers.items():
            self.count(name, value)

    def report(self, record: Record, check: str, evidence: str, *dues: Due, **where: Any) -> None:
        """Report a violation that a record shows."""
        shown = {"node": record["node"], **{name: record[name] for name in ("incarnation", "n", "wall_ns")}}
        self.findings.append(Finding(Violation(check, evidence=evidence, **{**shown, **where}), dues))


class SessionReporter:
    """Collects what is found about one session."""

    def __init__(self, session: str, out: Output) -> None:
        self._session = session
        self._out = out

    def _report(self, record: Record, check: str, evidence: str, *dues: Due, **where: int) -> None:
        self._out.report(record, check, evidence, *dues, session=self._session, **where)

    def _each(self, record: Record, check: str, evidence: str, spans: Iterable[Span], *dues: Due) -> None:
        """Report each range of packets."""
        for low, high in spans:
            self._report(record, check, evidence, *dues, number=low, last=high)


class LaneReporter:
    """Collects what is found about one stream."""

    def __init__(self, origin: str, stream: int, out: Output) -> None:
        self._origin = origin
        self._stream = stream
        self._out = out

    def _at(self, record: Record, check: str, evidence: str, *dues: Due, **where: int | str) -> None:
        """Report what a record shows, of its own sequence unless another one is given."""
        where.setdefault("sequence", record.get("sequence", -1))
        self._out.report(record, check, evidence, *dues, origin=self._origin, stream=self._stream, **where)

    def _each(
        self, record: Record, check: str, evidence: str, spans: Iterable[Span], *dues: Due, **where: int | str
    ) -> None:
        """Report each range of packets."""
        for low, high in spans:
            self._at(record, check, evidence, *dues, number=low, last=high, **where)
