"""The plots of the page as data: their series, gaps and marks. A script of the page draws them with ECharts.

A plot that would be empty is left out. Where a series over time has no value, its line has a gap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from operator import add
from typing import Any, Final

from triack.tools.replay.log.schema import Timeline
from triack.tools.replay.log.series import LATENCY_BUCKETS_PER_DECADE
from triack.tools.replay.report.outages import FAILED, IN_ORDER, OPEN, RESTART, Outage, Session
from triack.tools.replay.report.page_tables import named, who
from triack.tools.replay.report.report_charts import TIERS
from triack.tools.replay.report.report_tables import latency_totals, percentiles_over_time

LINES_MAX: Final = 12
"""More lines in one plot cannot be told apart; those that had most are drawn."""
PAIRS_MAX: Final = 40
"""Rows of the plot of sessions: those with failures, then those with most sessions."""
SESSIONS_MAX: Final = 500
"""Sessions that are drawn, so that the page stays small: first those that failed."""
OUTAGES_MAX: Final = 100
"""Outages that are drawn: the longest."""
BINS: Final = 160
"""Over the time of all data: a bin of a plot is wide enough to be seen."""
_FAR: Final = 4
"""How many times higher than all other lines one must be to be hidden at first."""
_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_HIGHEST: Final = ("window", "round_trip", "resend_wait", "ack_timeout", "unacked")
"""How the names of series begin whose values do not add up: the highest of a bin counts."""
_KINDS: Final = {IN_ORDER: "blue", RESTART: "teal", FAILED: "amber", OPEN: "grey"}
"""The ends of sessions and their colours. Red is for broken promises alone."""

Points = list[list[Any]]


@dataclass(slots=True)
class Plot:
    """A plot.

    Attributes:
        kind: ``lines`` or ``bars`` over time, ``sessions``, or ``histogram``.
        series: each with a name, a colour of the page, and points: of lines and bars (wall time in milliseconds,
            value), a value of None being a gap; of sessions (wall time, row, name); of a histogram (name, value).
        log: whether its values have a logarithmic axis.
        steps: whether a value holds until the next one.
        rows: the names of its rows, from below, if it has such.
    """

    name: str
    title: str
    kind: str
    unit: str
    note: str
    series: list[dict[str, Any]] = field(default_factory=list)
    log: bool = False
    steps: bool = False
    rows: list[str] = field(default_factory=list)


def draw(
    timeline: Timeline, sessions: list[Session], outages: list[Outage], marks: Iterable[tuple[str, int]] = ()
) -> dict[str, Any]:
    """Return what the script of the page draws: ``plots``, ``outages``, ``gaps``, ``marks``, and the ends of the axis.

    ``outages`` are (begin, end, who, why), ``gaps`` their times, those that overlap as one, and who was
    away for longest; all times are milliseconds of the wall clock.
    """
    timeline = _coarse(timeline)
    plots = [
        _throughput(timeline), _delays(timeline), _sessions(timeline, sessions), _round_trips(timeline),
        _in_flight(timeline), *_bar_plots(timeline), _histogram(timeline),
    ]  # fmt: skip
    longest = sorted(outages, key=lambda it: it.begin_ns - it.end_ns)[:OUTAGES_MAX]
    marked = [[name, _ms(wall_ns)] for name, wall_ns in marks]
    shown = [plot for plot in plots if plot.series]
    times = [
        point[0]
        for plot in shown
        if plot.kind in ("lines", "bars", "sessions")
        for it in plot.series
        for point in it["points"]
    ]
    times = [at for at in times if at is not None] + [at for _, at in marked]
    return {
        "plots": [asdict(plot) for plot in shown],
        "outages": [[_ms(it.begin_ns), _ms(it.end_ns), _who(timeline, it), it.cause] for it in longest],
        "gaps": _joined(timeline, longest),
        "marks": marked,
        "begin": min(times, default=0),
        "end": max(times, default=0),
    }


def _coarse(timeline: Timeline) -> Timeline:
    """Return a timeline whose buckets are as wide as the plots want them, from its first value on."""
    there = [bucket for values in timeline.series.values() for bucket in values]
    if not there:
        return timeline
    first, width = min(there), -(-(max(there) + 1 - min(there)) // BINS)
    series: dict[str, dict[int, int]] = {}
    for name, values in timeline.series.items():
        folded = series[name] = dict[int, int]()
        join: Callable[[int, int], int] = max if name.partition(" ")[0] in _HIGHEST else add
        for bucket, value in values.items():
            at = (bucket - first) // width
            folded[at] = join(folded[at], value) if at in folded else value
    start_ns = timeline.start_ns + first * timeline.bucket_ns
    return replace(timeline, start_ns=start_ns, bucket_ns=timeline.bucket_ns * width, series=series)


def _joined(timeline: Timeline, outages: Iterable[Outage]) -> list[list[Any]]:
    """Return the times of outages, each once: those that overlap are one, and have the name of the longest."""
    gaps: list[list[Any]] = []
    longest_ns = 0
    for it in sorted(outages, key=lambda it: it.begin_ns):
        begin, end, lasted_ns = _ms(it.begin_ns), _ms(it.end_ns), it.end_ns - it.begin_ns
        if not gaps or begin > gaps[-1][1]:
            gaps.append([begin, end, ""])
            longest_ns = 0
        gaps[-1][1] = max(gaps[-1][1], end)
        if lasted_ns > longest_ns:
            gaps[-1][2], longest_ns = _who(timeline, it), lasted_ns
    return gaps


def _who(timeline: Timeline, outage: Outage) -> str:
    return f"{who(timeline, outage)}, {outage.what}" if outage.what else who(timeline, outage)


def _ms(wall_ns: int) -> int:
    return wall_ns // _NS_PER_MS


def _at(timeline: Timeline, bucket: int) -> int:
    return _ms(timeline.start_ns + bucket * timeline.bucket_ns)


def _brief(value: float) -> float:
    """Return a value with four digits, which is more than a plot shows."""
    return float(f"{value:.4g}")


def _line(
    timeline: Timeline, name: str, colour: str, values: Mapping[int, float], rest: float | None = None
) -> dict[str, Any]:
    """A series over time. A bucket that is missing has the value ``rest``; None makes a gap."""
    points: Points = []
    before: int | None = None
    for bucket in sorted(values):
        if before is not None and bucket > before + 1:
            points.append([_at(timeline, before + 1), rest])
            if rest is not None and bucket > before + 2:
                points.append([_at(timeline, bucket - 1), rest])
        points.append([_at(timeline, bucket), values[bucket]])
        before = bucket
    if before is not None and rest is not None:
        points.append([_at(timeline, before + 1), rest])
    return {"name": name, "colour": colour, "points": points}


def _bars(timeline: Timeline, parts: Mapping[str, Mapping[int, int]], colours: Iterable[str]) -> list[dict[str, Any]]:
    """Series for bars on top of each other, with their sums in their names; each has every bucket between."""
    there = {bucket for values in parts.values() for bucket in values}
    buckets = range(min(there, default=0), max(there, default=-1) + 1)
    return [
        {
            "name": f"{name}: {sum(values.values()):,}",
            "colour": colour,
            "points": [[_at(timeline, bucket), values.get(bucket, 0)] for bucket in buckets],
        }
        for (name, values), colour in zip(parts.items(), colours, strict=False)
    ]


_COLOURS: Final = ("blue", "amber", "green", "violet", "teal", "grey") * 4


def _throughput(timeline: Timeline) -> Plot:
    rates = {
        bucket: _brief(count * 1e9 / timeline.bucket_ns)
        for bucket, count in timeline.series.get("committed", {}).items()
    }
    note = "Messages on disk at their destination. Flat is healthy, a hole is a stall: look at the same time below."
    series = [_line(timeline, "delivered", "blue", rates, 0)] if rates else []
    return Plot("throughput", "Throughput", "lines", "messages/s", note, series, steps=True)


def _delays(timeline: Timeline) -> Plot:
    lines = (("half of the messages", 0.5, "green"), ("99 of 100 messages", 0.99, "violet"))
    series = []
    for name, share, colour in lines:
        values = percentiles_over_time(timeline, share)
        series.append(_line(timeline, name, colour, {at: _brief(value / 1000) for at, value in values.items()}))
    note = "From queued to on disk at the destination, of the messages that came there at that time, to a third."
    return Plot("latency", "Latency", "lines", "s", note, [it for it in series if it["points"]], log=True)


def _round_trips(timeline: Timeline) -> Plot:
    lines = (
        ("round trip, longest", "round_trip", "blue"),
        ("resend wait in force", "resend_wait", "amber"),
        ("ack timeout, least", "ack_timeout least", "teal"),
        ("ack timeout, longest", "ack_timeout longest", "grey"),
    )
    series = [
        _line(timeline, name, colour, {at: _brief(value / _NS_PER_S) for at, value in values.items()})
        for name, what, colour in lines
        if (values := timeline.series.get(what))
    ]
    note = (
        "The longest time from a packet sent once to its session ack, the wait of the ack included. The wait in force"
        " is that of a resend tier when it ran out; the two limits of the ack timeout stand where a session opened."
    )
    return Plot("round-trips", "Round trips, waits and timeouts", "lines", "s", note, series, log=True)


def _in_flight(timeline: Timeline) -> Plot:
    peers = {(line.node, line.session): line.peer for line in timeline.sessions}
    links: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for end, counts in timeline.parts("unacked").items():
        node, _, session = end.partition(" ")
        link = links[(node, peers.get((node, session), ""))]
        for bucket, count in counts.items():
            link[bucket] = max(link.get(bucket, 0), count)
    series: list[dict[str, Any]] = []
    busiest = sorted(links.items(), key=lambda it: (-sum(it[1].values()), it[0]))
    for ((node, peer), counts), colour in zip(busiest[:LINES_MAX], _COLOURS, strict=False):
        name = f"{timeline.name(node)} to {timeline.name(peer) or 'not known'}"
        points = [[_at(timeline, bucket), count] for bucket, count in sorted(counts.items())]
        series.append({"name": name, "colour": colour, "points": points})
    if series and (windows := timeline.series.get("window")):
        window = max(windows.values())
        buckets = [bucket for counts in links.values() for bucket in counts]
        most = max(count for counts in links.values() for count in counts.values())
        points = [[_at(timeline, bucket), window] for bucket in (min(buckets), max(buckets))]
        # A window that is never filled would press the other lines flat: it is there to be switched on.
        hidden = window > _FAR * most
        series.append({"name": "largest window", "colour": "grey", "points": points, "dashed": True, "hidden": hidden})
    left = f" The {len(busiest) - LINES_MAX:,} quietest links are left out." if len(busiest) > LINES_MAX else ""
    note = (
        "The most packets of a link that were sent and not acknowledged. A sawtooth below the window is healthy; a line"
        f" that stays at the window waits for its receiver.{left}"
    )
    return Plot("in-flight", "Packets in flight", "lines", "packets", note, series, steps=True)


def _sessions(timeline: Timeline, sessions: list[Session]) -> Plot:
    pairs: defaultdict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in sessions:
        pairs[(session.node, session.peer)].append(session)
    wanted = sorted(pairs, key=lambda ends: (-sum(it.end == FAILED for it in pairs[ends]), -len(pairs[ends]), ends))
    rows = {ends: at for at, ends in enumerate(reversed(wanted[:PAIRS_MAX]))}
    chosen = [it for it in sessions if (it.node, it.peer) in rows]
    chosen = sorted(chosen, key=lambda it: (it.end != FAILED, it.opened_ns))[:SESSIONS_MAX]
    series, (_, last_ns) = [], timeline.span_ns
    for end, colour in _KINDS.items():
        points: Points = []
        for it in chosen:
            if it.end == end:
                closed_ns = max(it.closed_ns or last_ns, it.opened_ns)
                told = f"{named(timeline, it)}: {it.end}{f' ({it.reason})' if it.reason else ''}"
                row = rows[(it.node, it.peer)]
                points += [[_ms(it.opened_ns), row, told], [_ms(closed_ns), row, told], [None, None, ""]]
        if points:
            count = sum(it.end == end for it in sessions)
            series.append({"name": f"{end}: {count:,}", "colour": colour, "points": points})
    left = f" {len(sessions) - len(chosen):,} of {len(sessions):,} are left out." if len(chosen) < len(sessions) else ""
    note = f"One row for the sessions of two nodes; a bar is a session, and its ends tell of it.{left}"
    names = [f"{timeline.name(node)} and {timeline.name(peer) or 'not known'}" for node, peer in rows]
    return Plot("sessions", "Sessions", "sessions", "", note, series, rows=names)


def _bar_plots(timeline: Timeline) -> Iterator[Plot]:
    resends, tiers = timeline.series.get("resends", {}), timeline.parts("tiers")
    told: tuple[tuple[str, str, str, str, dict[str, dict[int, int]]], ...] = (
        ("acks", "Session acks by trigger", "acks", "Why each ack left.", timeline.parts("acks")),
        (
            "resends", "Resends", "packets",
            "Packets that left again, in the same session or a later one. Their sum is the verdict's number.",
            {"resends": resends} if any(resends.values()) else {},
        ),
        (
            "tiers", "Packets due again by tier", "packets",
            ("Why packets were due again: a session missed their acks, or a tier of their stream ran out. The sums are"
            " not those of the resends: a packet that is due may be acknowledged before it leaves, or leave when a new"
            " session opens, with no tier."),
            {tier: tiers[tier] for tier in TIERS if tier in tiers},
        ),
        (
            "duplicates", "Duplicates by cause", "packets",
            ("Known to the session, or to the stream: as a duplicate, or of a sequence that was over (stale), which the"
            " verdict does not count. Duplicates without resends are copies made by the network."),
            timeline.parts("causes"),
        ),
    )  # fmt: skip
    for name, title, unit, note, parts in told:
        yield Plot(
            name, title, "bars", unit, note, _bars(timeline, parts, ["amber"] if name == "resends" else _COLOURS)
        )


def _histogram(timeline: Timeline) -> Plot:
    totals = Counter(latency_totals(timeline))
    points = []
    for bucket in range(min(totals, default=0), max(totals, default=-1) + 1):
        edges = [10 ** (at / LATENCY_BUCKETS_PER_DECADE) * 1_000 for at in (bucket, bucket + 1)]
        points.append([round(edges[0]), round(edges[1]), totals[bucket]])
    note = "From queued to on disk at the destination; each bar is a third wider than the one before."
    series = [{"name": "messages", "colour": "blue", "points": points}] if points else []
    return Plot("histogram", "How many messages took how long", "histogram", "messages", note, series)
