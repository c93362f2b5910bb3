"""The page of a measurement: the table and its plots, in one file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from triack.base.errors import TriackError
from triack.tools.bench.table import HEADINGS, cells, is_side_by_side, machine, side_by_side, side_headings

if TYPE_CHECKING:
    from triack.tools.bench.figures import Result

NO_PLOTS = "Plots need matplotlib, which is not installed here: pip install 'triack[report]'"
_TEMPLATE = Path(__file__).with_name("report.html.j2")


def write_report(path: Path, results: list[Result]) -> None:
    """Write the page."""
    plots: list[tuple[str, str]] = []
    has_plots = importlib.util.find_spec("matplotlib") is not None
    if has_plots:
        from triack.tools.bench.plots import draw

        plots = draw(results)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        machine=machine(),
        headings=HEADINGS,
        lines=[(line, figure.standing) for it in results if not is_side_by_side(it) for figure, line in cells(it)],
        sides=[(side_headings(it), list(side_by_side(it))) for it in results if is_side_by_side(it)],
        notes=[f"{it.row.name}: {note}" for it in results for note in it.notes],
        plots=plots,
        no_plots="" if has_plots else NO_PLOTS,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise TriackError(f"cannot write the report {path}: {error.strerror}") from error
