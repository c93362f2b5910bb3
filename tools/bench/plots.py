"""The plots of a measurement: curves, and latencies as histograms.

Drawn with matplotlib as SVG that is part of the page and uses the page's colours.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from triack.node.handles.policies import BETWEEN_NODES
from triack.tools.bench.application import BUCKETS_PER_DECADE
from triack.tools.bench.rows import (
    GIANT,
    GROWN,
    LOSSES,
    LOSSY,
    PLAIN,
    POLICY_LINKS,
    POLICY_METRICS,
    growth_figure,
    policy_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from triack.tools.bench.figures import Result
    from triack.tools.bench.rows import Goal

HEIGHT_INCHES = 3.0
_WIDTH_INCHES: Final = 9.6
_BLUE, _RED, _AMBER, _GREY, _GREEN, _VIOLET, _TEAL = (
    "#2563eb",
    "#dc2626",
    "#d97706",
    "#94a3b8",
    "#16a34a",
    "#7c3aed",
    "#0d9488",
)
_CYCLE: Final = (_BLUE, _AMBER, _GREEN, _VIOLET, _TEAL, _RED, _GREY)
_INK, _EDGE, _GRID = "#475569", "#cbd5e1", "#eef2f7"
_VARIABLES: Final = {
    colour: f"var(--{name})"
    for colour, name in zip(
        (*_CYCLE, _INK, _EDGE, _GRID),
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

Painter: TypeAlias = "Callable[[Axes, Result], None]"


def draw(results: list[Result]) -> list[tuple[str, str]]:
    """Every plot for which there are results, as (title, SVG)."""
    plots = []
    for result in results:
        painters = _PAINTERS.get(result.row.kind, {}) if result.is_measured else {}
        for what, painter in painters.items():
            title = f"{result.row.name}: {what or result.row.text}"
            plots.append((title, _drawn(painter, result)))
    return plots


def _drawn(painter: Painter, result: Result) -> str:
    out = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        painter(axes, result)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_major_formatter("{x:,g}")
        if axes.get_legend_handles_labels()[0]:  # or nothing of it was measured
            axes.legend(frameon=False)
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    colours = re.compile("|".join(_VARIABLES))
    # A mark leads to another place of the same page.
    text = text[text.index("<svg") :].replace(' target="_blank"', "")
    return colours.sub(lambda found: _VARIABLES[found.group()], text)


def _line(axes: Axes, points: dict[float, float], label: str, place: int) -> None:
    if points:
        axes.plot(list(points), list(points.values()), marker="o", ms=4, color=_CYCLE[place], label=label)


def _curve(axes: Axes, result: Result) -> None:
    ours, theirs = dict[float, float](), dict[float, float]()
    for name, figure in result.figures.items():
        for points, value in ((ours, figure.median), (theirs, figure.versus_median)):
            if value is not None:
                points[float(name.replace(",", ""))] = value
    _line(axes, ours, "triack", 0)
    _line(axes, theirs, result.versus, 1)
    axes.set(xscale="log", yscale="log", ylabel="messages/s")


def _losses(axes: Axes, result: Result) -> None:
    lines: dict[str, Callable[[int], float | None]] = {
        "triack": lambda loss: result.figures[f"{loss} % loss"].median,
        "TCP, CUBIC": lambda loss: result.figures[f"{loss} % loss"].versus_median,
        "TCP, BBR": lambda loss: result.figures[f"{loss} % loss, TCP with BBR"].median,
    }
    for place, (label, of) in enumerate(lines.items()):
        _line(axes, {loss: value for loss in LOSSES if (value := of(loss)) is not None}, label, place)
    axes.set(xlabel="% loss each way", ylabel="% of what the link lets through", ylim=(0, None))


def _latencies(axes: Axes, result: Result) -> None:
    for place, (system, counts) in enumerate(result.histograms.items()):
        edges = sorted(counts)
        widths = [edge * (10 ** (1 / BUCKETS_PER_DECADE) - 1) for edge in edges]
        style: Any = {"width": widths, "align": "edge", "color": _CYCLE[place], "alpha": 0.6, "label": system}
        axes.bar(edges, [counts[edge] for edge in edges], **style)
    axes.set(xscale="log", xlabel="milliseconds", ylabel="messages")


def _policies(axes: Axes, result: Result) -> None:
    rate, _, told, *_ = POLICY_METRICS

    def median(link: str, policy: str, metric: Goal) -> float:
        return result.figures[policy_figure(link, policy, metric)].median or 0.0

    for place, policy in enumerate(BETWEEN_NODES):
        points = {median(link, policy, told): median(link, policy, rate) for link in POLICY_LINKS}
        _line(axes, points, policy, place)
    axes.set(xscale="log", yscale="log", xlabel="milliseconds until half of the acks are known", ylabel="messages/s")


def _growth(axes: Axes, result: Result) -> None:
    for place, form in enumerate((PLAIN, GIANT, LOSSY)):
        seconds = {name: figure.median for name, figure in result.figures.items()}
        _line(axes, _grown(result, form, seconds), form, place)
    axes.set(xlabel="million records", ylabel="seconds, with the start of Spark", xlim=(0, None), ylim=(0, None))


def _growth_rates(axes: Axes, result: Result) -> None:
    for place, form in enumerate((PLAIN, GIANT, LOSSY)):
        for rate, label in (("more a processor s", "one more"), ("a processor s", "all")):
            rates = {name: result.details.get(f"{name} {rate}") for name in result.figures}
            _line(axes, _grown(result, form, rates), f"{form}: {label}", place)
        for line in axes.lines[-1:]:
            line.set_linestyle("--")
    axes.set(xlabel="million records", ylabel="records a processor second", xlim=(0, None), yscale="log")


def _grown(result: Result, form: str, values: Mapping[str, float | None]) -> dict[float, float]:
    """Values of a form by the millions of records that were replayed."""
    named = ((name, values[name]) for name in (growth_figure(form, millions) for millions in GROWN))
    return {result.details[f"{name} records"] / 1_000_000: value for name, value in named if value is not None}


_PAINTERS: dict[str, dict[str, Painter]] = {
    "curve": {"": _curve},
    "link": {"": _losses},
    "latency": {"": _latencies},
    "policies": {"": _policies},
    "growth": {"": _growth, "records that a processor judges in a second, all and one more": _growth_rates},
}
"""By the kind of a row: its plots by their titles, where these differ from the row."""
