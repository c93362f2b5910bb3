"""What a reader of the page learns first: what was broken, what did not arrive and why, and what was late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from triack.base.printable import counted
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.log.schema import PURGED, StartLine, Timeline, Verdict, Violation
from triack.tools.replay.report.outages import Outage
from triack.tools.replay.report.page_tables import SHORT_NS, Row, who
from triack.tools.replay.report.readable import clock, duration

NAMED_MAX: Final = 3
"""Queues that a sentence names; the tables name all."""

_NEVER_NS: Final = 1 << 63
"""Later than all: a violation without a time comes after the others."""


def lead(verdict: Verdict, timeline: Timeline, streams: list[Row], outages: list[Outage]) -> list[str]:
    """Return the sentences that the page begins with: the promises, what did not arrive, and what was late."""
    left = _left(verdict, timeline, streams, outages)
    return [_promises(verdict, timeline, streams), left, *_late(timeline, streams, outages)]


def _promises(verdict: Verdict, timeline: Timeline, streams: list[Row]) -> str:
    if verdict.verdict == "pass":
        return "Every promise was kept: nothing was lost, delivered twice or out of order."
    lost = f" Lost: {_were(streams, 'lost')}." if verdict.lost else ""
    broken = sum(verdict.violations.values())
    if verdict.verdict == "fail":
        first = min(verdict.findings, key=lambda it: (it.wall_ns or _NEVER_NS, it.check), default=None)
        found = f"{counted(broken, 'violation')} of {counted(len(verdict.violations), 'promise')}"
        return f"{found}.{lost} {_first(first, timeline)}" if first else f"{found}.{lost}"
    why = "there is no record in these logs"
    if verdict.unread:
        why = f"not all could be read: {counted(len(verdict.unread), 'file')}"
    elif verdict.missing or verdict.cut:
        missing = [f"no log of {timeline.named(it)}" for it in verdict.missing]
        why = "; ".join([*missing, *map(timeline.named, verdict.cut)][:NAMED_MAX])
    seen = "No broken promise was seen"
    if verdict.violations:
        seen = f"What is missing may explain {counted(broken, 'violation')}"
    return f"{seen}, but what is here does not prove more: {why}.{lost}"


def _first(it: Violation, timeline: Timeline) -> str:
    """Say which promise was broken, where, when, and what shows it."""
    at = [f"at {timeline.name(it.node)}"] * bool(it.node) + [f"at {clock(it.wall_ns)} UTC"] * bool(it.wall_ns)
    of = f" of stream {it.stream} from {timeline.name(it.origin)}" if it.origin else " of a session" * bool(it.session)
    number = f", number {it.number}," if it.number != -1 else ""
    sentence = CHECKS[it.check].sentence.replace("`", "")
    return f"The first{of}{number} {', '.join(at)}: {it.evidence}. It breaks {it.check}: {sentence}"


def _were(streams: Iterable[Row], *columns: str) -> str:
    """Say how many messages are in these columns, and for which queues."""
    counts = Counter[str]()
    for row in streams:
        counts[_place(row)] += sum(row[column] for column in columns)
    total, most = counts.total(), [it for it in counts.most_common(NAMED_MAX) if it[1]]
    said = [f"{count:,} {place}" for place, count in most]
    rest = total - sum(count for _, count in most)
    elsewhere = [f"{rest:,} to other queues"] if rest else []
    return f"{counted(total, 'message')}: {', '.join(said + elsewhere)}"


def _place(row: Row) -> str:
    return f"from {row['origin']} to {row['destination']}/{row['queue']}"


def _left(verdict: Verdict, timeline: Timeline, streams: list[Row], outages: list[Outage]) -> str:
    """Say what waits, since when and why; and what was given up."""
    waiting = [{**row, "wait": row["pending"] - row["acknowledged"]} for row in streams]
    waiting = [row for row in waiting if row["wait"] > 0]
    said = ["No message waits."]
    if waiting:
        oldest = min(waiting, key=lambda row: row["since_ns"] or _NEVER_NS)
        since = f"; the oldest since {clock(oldest['since_ns'])} UTC" if oldest["since_ns"] else ""
        said = [f"Still waiting: {_were(waiting, 'wait')}{since}: {_why(timeline, outages, oldest)}."]
    if verdict.dead or verdict.purged:
        dead = {**verdict.dead, **({PURGED: verdict.purged} if verdict.purged else {})}
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in dead.items())
        said.append(f"Given up ({reasons}): {_were(streams, 'dead', 'purged')}.")
    return " ".join(said)


def _why(timeline: Timeline, outages: list[Outage], row: Row) -> str:
    """Say why messages of a stream wait, as far as the logs tell."""
    ids = {node for hop in timeline.ways.get((row["origin_id"], row["stream"]), ()) for node in hop}
    called = {*row["destination"].split(", "), *map(timeline.name, ids)} - {row["origin"], "not known"}
    ends = f"/{row['queue']}", f" {row['queue']}", f" {row['destination']}"
    for it in reversed(outages):
        nodes = {timeline.name(node) for node in (it.node, it.peer) if node}
        if not it.over and nodes & {*called, row["origin"]} and (not it.what or it.what.endswith(ends)):
            return f"{who(timeline, it)} since {clock(it.begin_ns)}: {it.cause}"
    last: dict[str, StartLine] = {timeline.name(start.node): start for start in timeline.starts}
    for name in sorted(called):
        if name not in last:
            return f"no log of {name} is here"
        if last[name].stopped and last[name].end_ns < timeline.span_ns[1]:
            return f"{name} was stopped in good order at {clock(last[name].end_ns)}, and not started again"
    early = min(called & last.keys(), key=lambda name: last[name].end_ns, default="")
    if early and not last[early].stopped and last[early].end_ns + SHORT_NS < timeline.span_ns[1]:
        return f"the log of {early} ends at {clock(last[early].end_ns)} without a stop"
    if row["origin"] in last and last[row["origin"]].stopped:
        return f"{row['origin']} was stopped in good order at {clock(last[row['origin']].end_ns)}"
    return "the logs end while they are on their way"


def _late(timeline: Timeline, streams: list[Row], outages: list[Outage]) -> Iterable[str]:
    slowest = max(streams, key=lambda row: row["longest_ns"], default=None)
    if slowest is None or not slowest["longest_ns"]:
        return
    said = f"The slowest message took {duration(slowest['longest_ns'])}, {_place(slowest)}; "
    long = [it for it in outages if it.end_ns - it.begin_ns >= SHORT_NS]
    if not long:
        yield f"{said}no node was away for a second."
        return
    worst = max(long, key=lambda it: it.end_ns - it.begin_ns)
    lasted = f"{duration(worst.end_ns - worst.begin_ns)} from {clock(worst.begin_ns)}"
    yield f"{said}of {counted(len(long), 'outage')} the longest was {who(timeline, worst)}, {lasted}: {worst.cause}."
