"""The plots of the report, drawn with matplotlib as SVG that stands in the page itself and takes the page's colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from triack.tools.replay.log.schema import FAILURE_REASONS, SessionLine, Timeline
from triack.tools.replay.log.series import LATENCY_BUCKETS_PER_DECADE
from triack.tools.replay.report.report_charts import TIERS
from triack.tools.replay.report.report_tables import latency_totals, percentiles_over_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES_MAX: Final = 10
"""More lines in one plot cannot be told apart; those of sessions that failed are drawn, then of those that had most in
flight."""
_LIVES_MAX: Final = 40
"""More bars than this do not fit above each other. All failed sessions are drawn, then the first of the others."""
_WIDTH_INCHES: Final = 9.6
_PANEL_INCHES: Final = 1.75
_LIFE_INCHES: Final = 0.2
_BLUE, _RED, _AMBER, _GREY, _GREEN, _VIOLET, _TEAL = (
    "#2563eb",
    "#dc2626",
    "#d97706",
    "#94a3b8",
    "#16a34a",
    "#7c3aed",
    "#0d9488",
)
CYCLE: Final = (_BLUE, _AMBER, _GREEN, _VIOLET, _TEAL, _RED, _GREY)
_INK, _EDGE, _GRID = "#475569", "#cbd5e1", "#eef2f7"
_VARIABLES: Final = {
    colour: f"var(--{name})"
    for colour, name in zip(
        (*CYCLE, _INK, _EDGE, _GRID),
        ("blue", "amber", "green", "violet", "teal", "red", "grey", "ink", "edge", "grid"),
        strict=True,
    )
}
"""The page gives each colour its value, another one in the dark."""
_STYLE: Final[Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "triack",
    "text.color": _INK,
    "axes.edgecolor": _EDGE,
    "axes.labelcolor": _INK,
    "axes.titlecolor": _INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": _EDGE,
    "ytick.color": _EDGE,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _GRID,
    "axes.axisbelow": True,
}


def draw_times(timeline: Timeline, marks: Iterable[tuple[str, int]] = ()) -> str:
    """Return the plots over time below each other, on one axis, as SVG.

    Args:
        timeline: what an engine gathered.
        marks: (name, wall time) of what to mark: the SVG element of the mark has the name ``at-NAME``, and links to
            the element ``NAME`` of the page.
    """
    lives = _chosen(timeline.sessions)
    heights = [_PANEL_INCHES] * len(_PANELS) + [0.6 + _LIFE_INCHES * max(len(lives), 1)]
    with mpl.rc_context(_STYLE):
        figure = _figure(sum(heights))
        axes = figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights})
        for panel, (title, label, draw) in zip(axes, _PANELS, strict=False):
            panel.set_title(title)
            draw(panel, timeline)
            panel.set(ylabel=label)
            panel.tick_params(labelbottom=True)
            if draw is not _delays:
                panel.set_ylim(0, None)
                panel.yaxis.set_major_formatter("{x:,.0f}")
            if panel.get_legend_handles_labels()[1]:
                panel.legend(loc="upper left", bbox_to_anchor=(1, 1.05), frameon=False, fontsize=7)
        _lives(axes[-1], timeline, lives)
        axes[-1].set(xlabel="seconds from the first record", xlim=(0, _end(timeline)))
        _mark(axes, timeline, marks)
        return _svg(figure)


def draw_latency(timeline: Timeline) -> str:
    """Return how many messages took how long, as SVG.

    Args:
        timeline: what an engine gathered.
    """
    totals = latency_totals(timeline)
    edges = [10 ** (bucket / LATENCY_BUCKETS_PER_DECADE) / 1000 for bucket in totals]
    widths = [edge * (10 ** (1 / LATENCY_BUCKETS_PER_DECADE) - 1) for edge in edges]
    with mpl.rc_context(_STYLE):
        figure = _figure(2.4)
        axes = figure.add_subplot()
        axes.bar(edges, list(totals.values()), width=widths, align="edge", color=_BLUE, alpha=0.6)
        axes.set_xscale("log")
        axes.set(xlabel="milliseconds", ylabel="messages")
        axes.xaxis.set_major_formatter("{x:,g}")
        # Within a decade there are no others; in the same form, where there is room.
        axes.xaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        return _svg(figure)


def drawn(height_inches: float, paint: Callable[[Axes], None]) -> str:
    """One plot in the same style, as SVG.

    Args:
        height_inches: of the figure.
        paint: draws on its axes.
    """
    with mpl.rc_context(_STYLE):
        figure = _figure(height_inches)
        paint(figure.add_subplot())
        return _svg(figure)


def _figure(height_inches: float) -> Figure:
    figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    colours = re.compile("|".join(_VARIABLES))
    # A mark leads to another place of the same page.
    text = text[text.index("<svg") :].replace(' target="_blank"', "")
    return colours.sub(lambda found: _VARIABLES[found.group()], text)


def _seconds(timeline: Timeline, bucket: float) -> float:
    return bucket * timeline.bucket_ns / 1e9


def _end(timeline: Timeline) -> float:
    """Where the axis ends: after the last bucket and the last session's end, seconds."""
    every = (timeline.committed, timeline.resends, timeline.duplicates, *timeline.acks.values(), timeline.round_trip)
    last = _seconds(timeline, max((max(counts) for counts in every if counts), default=0) + 1)
    ends = (max(life.closed_ns, life.opened_ns) - timeline.start_ns for life in timeline.sessions)
    return max(last, max(ends, default=0) / 1e9) * 1.01


def _throughput(axes: Axes, timeline: Timeline) -> None:
    buckets = range(min(timeline.committed, default=0), max(timeline.committed, default=0) + 1)
    times = [_seconds(timeline, bucket) for bucket in buckets]
    rates = [timeline.committed.get(bucket, 0) * 1e9 / timeline.bucket_ns for bucket in buckets]
    axes.fill_between(times, rates, step="post", color=_BLUE, alpha=0.15, linewidth=0)
    axes.step(times, rates, where="post", color=_BLUE, linewidth=1.2)


def _unacked(axes: Axes, timeline: Timeline) -> None:
    lives = {(life.node, life.session): life for life in timeline.sessions}
    failed = {end for end, life in lives.items() if life.reason in FAILURE_REASONS}
    wanted = sorted(timeline.unacked.items(), key=lambda item: (item[0] not in failed, -sum(item[1].values()), item[0]))
    for at, ((node, session), counts) in enumerate(wanted[:_LINES_MAX]):
        times = [_seconds(timeline, bucket) for bucket in counts]
        peer = lives[node, session].peer if (node, session) in lives else ""
        told = f", {lives[node, session].reason}" if (node, session) in failed else ""
        label = _plain(f"{timeline.name(node)} to {timeline.name(peer)}, {session[-6:]}{told}")
        style: Any = {"color": CYCLE[at % len(CYCLE)], "linestyle": "-" if at < len(CYCLE) else "--"}
        marker = "." if len(times) == 1 else ""
        axes.plot(times, list(counts.values()), linewidth=1, label=label, marker=marker, **style)
    if timeline.window:
        largest = max(timeline.window.values())
        axes.axhline(largest, color=_GREY, linewidth=1, linestyle=":", label=f"largest window: {largest:,}")


def _stack(axes: Axes, timeline: Timeline, parts: Mapping[str, dict[int, int]]) -> None:
    """Bars on top of each other, one colour for each part."""
    below: dict[int, int] = {}
    for at, (name, counts) in enumerate(parts.items()):
        times = [_seconds(timeline, bucket) for bucket in counts]
        bottoms = [below.get(bucket, 0) for bucket in counts]
        label = _plain(f"{name}: {sum(counts.values()):,}")
        colour = CYCLE[at % len(CYCLE)]
        width = timeline.bucket_ns / 1e9
        axes.bar(times, list(counts.values()), width, bottoms, align="edge", color=colour, label=label)
        for bucket, count in counts.items():
            below[bucket] = below.get(bucket, 0) + count


def _acks(axes: Axes, timeline: Timeline) -> None:
    _stack(axes, timeline, dict(sorted(timeline.acks.items())))


def _resends(axes: Axes, timeline: Timeline) -> None:
    _stack(axes, timeline, {tier: timeline.tiers[tier] for tier in TIERS if tier in timeline.tiers})


def _duplicates(axes: Axes, timeline: Timeline) -> None:
    _stack(axes, timeline, dict(sorted(timeline.causes.items())))


def _delays(axes: Axes, timeline: Timeline) -> None:
    lines: Any = (
        ("message, median", percentiles_over_time(timeline, 0.5), 1, _GREEN, "."),
        ("message, 99 %", percentiles_over_time(timeline, 0.99), 1, _VIOLET, "."),
        ("round trip, longest", timeline.round_trip, 1e6, _BLUE, "."),
        ("resend wait in force", timeline.resend_wait, 1e6, _AMBER, "o"),
        ("ack timeout, least", timeline.ack_timeout.get("least"), 1e6, _TEAL, "^"),
        ("ack timeout, longest", timeline.ack_timeout.get("longest"), 1e6, _RED, "v"),
    )
    for label, values, unit, colour, marker in lines:
        if values:
            times = [_seconds(timeline, bucket) for bucket in values]
            heights = [value / unit for value in values.values()]
            # Waits that ran out are single events, and so are sessions that open.
            style = "-" if marker == "." else ""
            axes.plot(times, heights, color=colour, linewidth=1, linestyle=style, marker=marker, ms=3, label=label)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,g}")


_PANELS: Final[tuple[tuple[str, str, Callable[[Axes, Timeline], None]], ...]] = (
    ("Throughput", "messages/s", _throughput),
    ("Window occupancy", "packets", _unacked),
    ("Session acks by trigger", "acks", _acks),
    ("Round trip, latency, waits and timeouts in force", "milliseconds", _delays),
    ("Resends by tier", "packets", _resends),
    ("Duplicates by cause", "packets", _duplicates),
)


def _chosen(lives: list[SessionLine]) -> list[SessionLine]:
    failed = [life for life in lives if life.reason in FAILURE_REASONS]
    others = [life for life in lives if life.reason not in FAILURE_REASONS]
    chosen = failed + others[: max(0, _LIVES_MAX - len(failed))]
    return sorted(chosen, key=lambda life: (life.opened_ns, life.node, life.session))


def _lives(axes: Axes, timeline: Timeline, shown: list[SessionLine]) -> None:
    axes.set_title(f"Sessions: {len(shown):,} of {len(timeline.sessions):,}, every failed one among them")
    end = _end(timeline)
    labels = []
    for row, life in enumerate(shown):
        begun = (life.opened_ns - timeline.start_ns) / 1e9
        ended = (life.closed_ns - timeline.start_ns) / 1e9 if life.closed_ns else end
        colour = _RED if life.reason in FAILURE_REASONS else _BLUE if life.reason else _GREY
        axes.plot([begun, ended], [row, row], color=colour, linewidth=4, solid_capstyle="butt")
        says = _plain(life.reason or "open at the end")
        axes.annotate(says, (1, row), (6, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=7)
        labels.append(_plain(f"{timeline.name(life.node)} to {timeline.name(life.peer)}, {life.session[-6:]}"))
    axes.set_yticks(range(len(shown)), labels, fontsize=7)
    axes.set_ylim(-0.7, max(len(shown), 1) - 0.3)
    axes.invert_yaxis()


def _mark(axes: Iterable[Axes], timeline: Timeline, marks: Iterable[tuple[str, int]]) -> None:
    panels = list(axes)
    for name, wall_ns in marks:
        at = (wall_ns - timeline.start_ns) / 1e9
        for panel in panels:
            line = panel.axvline(at, color=_RED, linewidth=1, alpha=0.7)
            line.set_url(f"#{name}")
            if panel is panels[0]:
                line.set_gid(f"at-{name}")


def _plain(text: str) -> str:
    """Text from a log: a dollar sign would begin a formula, and control characters are invalid in XML."""
    return "".join(char if char.isprintable() else "?" for char in text).replace("$", r"\$")
