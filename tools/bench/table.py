"""The table: for people, as Markdown and as CSV."""

import csv
import io
import os
import platform
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import apsw

import triack
from triack.node.handles.policies import BETWEEN_NODES
from triack.tools.bench.figures import Figure, Result
from triack.tools.bench.rows import (
    POLICY_LINKS,
    POLICY_METRICS,
    STRATEGY_METRICS,
    STRATEGY_NAMES,
    Goal,
    policy_figure,
    strategy_figure,
)
from triack.tools.compiled import is_compiled

HEADINGS = ("row", "what", "goal", "floor", "median", "min to max", "runs", "versus", "ratio", "verified")

WHOLE_FROM = 100


def number(value: float | None) -> str:
    """A figure with about three digits; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= WHOLE_FROM else f"{value:.3g}"


def machine() -> str:
    """The machine and the versions of a measurement."""
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    version = f"{triack.__version__}{' compiled' if is_compiled() else ''}"
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Triack {version}, {system}, {os.cpu_count()} cores, "
        f"{memory_gib:.0f} GiB, Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    )


def cells(result: Result) -> Iterator[tuple[Figure, tuple[str, ...]]]:
    """A line of the table for each figure of a row that was measured; for all of them if none was."""
    figures = list(result.figures.values())
    for place, figure in enumerate([it for it in figures if it.values] or figures):
        first = not place
        goal = figure.goal
        values = figure.values
        spread = f"{number(min(values))} to {number(max(values))}" if values else "-"
        line = (
            result.row.name if first else "",
            "; ".join(part for part in (result.row.text if first else "", goal.name) if part),
            _mark(figure, goal.goal),
            _mark(figure, goal.floor),
            f"{number(figure.median)} {goal.unit}" if values else "-",
            spread,
            str(len(values)),
            f"{result.versus} {number(figure.versus_median)}" if figure.versus_values else "-",
            "-" if figure.ratio is None else f"{figure.ratio:.2f}",
            _verified(result) if first else "",
        )
        yield figure, line


def _mark(figure: Figure, mark: float | None) -> str:
    return "-" if mark is None else f"{'at most' if figure.goal.is_cost else 'at least'} {number(mark)}"


def _verified(result: Result) -> str:
    if not result.is_measured:
        return "not run"
    return ", ".join(result.guarantee) or "yes" if result.verified else "no"


def is_side_by_side(result: Result) -> bool:
    """Whether its figures are those of several policies, which have another table."""
    return result.row.kind in ("policies", "strategies")


def side_headings(result: Result) -> tuple[str, ...]:
    """The headings of that table."""
    if result.row.kind == "strategies":
        return ("strategy", *map(_heading, STRATEGY_METRICS))
    return ("link", "policy", *map(_heading, POLICY_METRICS))


def _heading(metric: Goal) -> str:
    return f"{metric.name}, {metric.unit}"


def side_by_side(result: Result) -> Iterator[tuple[str, ...]]:
    """A line for each policy on each link, or for each strategy."""
    if result.row.kind == "strategies":
        for strategy in STRATEGY_NAMES:
            yield (strategy, *(_median(result, strategy_figure(strategy, metric)) for metric in STRATEGY_METRICS))
        return
    for link in POLICY_LINKS:
        for policy in BETWEEN_NODES:
            figures = (policy_figure(link, policy, metric) for metric in POLICY_METRICS)
            yield (link, policy, *(_median(result, figure) for figure in figures))


def _median(result: Result, figure: str) -> str:
    return number(result.figures[figure].median)


def _markdown_table(headings: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> list[str]:
    return ["", *(f"| {' | '.join(line)} |" for line in (headings,)), f"|{'---|' * len(headings)}"] + [
        f"| {' | '.join(line)} |" for line in lines
    ]


def as_markdown(results: Iterable[Result]) -> str:
    """The table as a page of documentation has it, the machine above and the notes below."""
    results = list(results)
    lines = [machine()]
    if single := [result for result in results if not is_side_by_side(result)]:
        lines += _markdown_table(HEADINGS, (line for result in single for _, line in cells(result)))
    notes = []
    for result in results:
        if is_side_by_side(result):
            lines += _markdown_table(side_headings(result), side_by_side(result))
        notes += [f"- {result.row.name}: {note}" for note in result.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def as_csv(results: Iterable[Result]) -> str:
    """One line for each run of each figure, for spreadsheets and plots."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("row", "figure", "unit", "goal", "floor", "system", "run", "value", "verified"))
    for result in results:
        for figure in result.figures.values():
            goal = figure.goal
            shared = (result.row.name, goal.name, goal.unit, goal.goal, goal.floor)
            for system, values, verified in (
                ("triack", figure.values, result.verified),
                (result.versus, figure.versus_values, result.versus_verified),
            ):
                for run, value in enumerate(values, 1):
                    writer.writerow((*shared, system, run, value, str(bool(verified)).lower()))
    return out.getvalue()
