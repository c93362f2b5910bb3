"""The plots of the report, drawn with matplotlib as SVG that stands in the page itself."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from triack.tools.replay.schema import FAILURE_REASONS
from triack.tools.replay.series import LATENCY_BUCKETS_PER_DECADE

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from triack.tools.replay.schema import Timeline

_LINES_MAX: Final = 12
"""More lines in one plot cannot be told apart; the sessions with the most packets in flight are drawn."""
_LIVES_MAX: Final = 40
"""More bars than this do not fit above each other; the first sessions are drawn."""
_BLUE, _RED, _AMBER, _GREY = "#2563eb", "#dc2626", "#d97706", "#94a3b8"
_STYLE: Final[Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",
    "axes.edgecolor": "#cbd5e1",
    "axes.labelcolor": "#475569",
    "xtick.color": "#475569",
    "ytick.color": "#475569",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#eef2f7",
    "axes.axisbelow": True,
}
_TITLES: Final = (
    ("Throughput", "Messages committed at their destination, a second."),
    ("Unacknowledged packets", "The most packets in flight in each session; a sawtooth below the window is healthy."),
    ("Sessions", "Life of each session as each end saw it. Red ended by a failure, an arrow was open at the end."),
    ("Resends and duplicates", "Packets that left again, and packets that arrived again."),
    ("Latency", "Wall time from queued at the origin to committed at the destination, over messages."),
)


def draw_plots(timeline: Timeline) -> list[tuple[str, str, str]]:
    """Return the plots as (title, what it shows, SVG).

    Args:
        timeline: what an engine gathered.
    """
    drawings = (_throughput, _unacked, _lives, _trouble, _latency)
    with mpl.rc_context(_STYLE):
        return [(*texts, _svg(draw, timeline)) for texts, draw in zip(_TITLES, drawings, strict=True)]


def _svg(draw: Callable[[Axes, Timeline], None], timeline: Timeline) -> str:
    lives = min(len(timeline.sessions), _LIVES_MAX)
    figure = Figure(figsize=(9.6, 0.7 + 0.24 * max(lives, 1) if draw is _lives else 2.6), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    draw(axes, timeline)
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _seconds(timeline: Timeline, bucket: float) -> float:
    return bucket * timeline.bucket_ns / 1e9


def _series(timeline: Timeline, counts: dict[int, int]) -> tuple[list[float], list[int]]:
    """Return times and counts, with a zero in each empty bucket."""
    buckets = range(min(counts, default=0), max(counts, default=0) + 1)
    return [_seconds(timeline, bucket) for bucket in buckets], [counts.get(bucket, 0) for bucket in buckets]


def _throughput(axes: Axes, timeline: Timeline) -> None:
    times, counts = _series(timeline, timeline.committed)
    rates = [count * 1e9 / timeline.bucket_ns for count in counts]
    axes.fill_between(times, rates, step="mid", color=_BLUE, alpha=0.15, linewidth=0)
    axes.step(times, rates, where="mid", color=_BLUE, linewidth=1.2)
    axes.set(xlabel="seconds", ylabel="messages/s", ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _unacked(axes: Axes, timeline: Timeline) -> None:
    busiest = sorted(timeline.unacked.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    for (node, session), counts in busiest[:_LINES_MAX]:
        times = [_seconds(timeline, bucket) for bucket in sorted(counts)]
        peaks = [counts[bucket] for bucket in sorted(counts)]
        label = f"{node[:6]} {session[-6:]}"
        axes.plot(times, peaks, linewidth=1, label=label, marker="." if len(times) == 1 else "")
    axes.set(xlabel="seconds", ylabel="packets", ylim=(0, None))
    if busiest:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=7, title="node, session")


def _lives(axes: Axes, timeline: Timeline) -> None:
    shown = timeline.sessions[:_LIVES_MAX]
    end = max((max(life.closed_ns, life.opened_ns) for life in timeline.sessions), default=0)
    labels = []
    for row, life in enumerate(shown):
        begun = (life.opened_ns - timeline.start_ns) / 1e9
        ended = ((life.closed_ns or end) - timeline.start_ns) / 1e9
        colour = _RED if life.reason in FAILURE_REASONS else _BLUE if life.reason else _GREY
        axes.plot([begun, ended], [row, row], color=colour, linewidth=4, solid_capstyle="butt")
        axes.plot([ended], [row], color=colour, marker="|" if life.reason else ">", markersize=8)
        axes.annotate(life.reason, (ended, row), (6, 0), textcoords="offset points", va="center", fontsize=7)
        labels.append(f"{life.node[:6]} {life.session[-6:]}")
    axes.set_yticks(range(len(shown)), labels, fontsize=7)
    axes.set(xlabel="seconds", ylim=(-0.7, max(len(shown), 1) - 0.3))
    axes.invert_yaxis()
    axes.margins(x=0.12)


def _trouble(axes: Axes, timeline: Timeline) -> None:
    width = timeline.bucket_ns / 1e9
    lines: Any = (("resends", timeline.resends, _AMBER), ("duplicates", timeline.duplicates, _RED))
    for label, counts, colour in lines:
        shown = {bucket: count for bucket, count in counts.items() if count}
        times = [_seconds(timeline, bucket) for bucket in shown]
        name = f"{label}: {sum(shown.values()):,}"
        axes.bar(times, list(shown.values()), width=width, color=colour, alpha=0.7, label=name)
    longest = max([*timeline.committed, *timeline.resends, *timeline.duplicates, 0]) + 1
    axes.set(xlabel="seconds", ylabel="packets", xlim=(0, _seconds(timeline, longest)))
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=8, borderaxespad=0)


def _latency(axes: Axes, timeline: Timeline) -> None:
    buckets = sorted(timeline.latency)
    edges = [10 ** (bucket / LATENCY_BUCKETS_PER_DECADE) / 1000 for bucket in buckets]
    widths = [edge * (10 ** (1 / LATENCY_BUCKETS_PER_DECADE) - 1) for edge in edges]
    counts = [timeline.latency[bucket] for bucket in buckets]
    axes.bar(edges, counts, width=widths, align="edge", color=_BLUE, alpha=0.6, edgecolor="white", linewidth=0.5)
    axes.set_xscale("log")
    axes.set(xlabel="milliseconds", ylabel="messages")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
