"""The report: one HTML page that needs nothing else, and the violations as data beside it."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from triack.base.errors import ReplayError
from triack.base.printable import counted, escaped, escaped_json
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.log.listing import VIOLATIONS
from triack.tools.replay.log.schema import IF_ANY, MORE_NUMBERS, NUMBERS, Timeline, Verdict, Violation
from triack.tools.replay.report.lead import lead
from triack.tools.replay.report.outages import outages_of, sessions_of
from triack.tools.replay.report.page_tables import Table, named, tables_of
from triack.tools.replay.report.plots import draw
from triack.tools.replay.report.readable import clock, duration, shown
from triack.tools.replay.report.readable import number as spoken

TABLES: Final = "tables.json"
"""The name of the file with all numbers of a page, beside it."""
_NO_PAGE: Final = "the report needs Jinja, which is not installed here: pip install 'triack[report]'"
_FINDINGS_SHOWN: Final = 20
"""The most violations of each check on a page, as nobody reads more; violations.jsonl has all of them."""
_FINDINGS_OPEN: Final = 5
"""Violations that are not folded."""
_OPENED_MAX: Final = 12
"""A table with more rows is folded, and so the page is read at a phone."""
_PLOTS_OPEN: Final = 3
"""Throughput, latency and sessions; the others are folded."""
_FILES_SHOWN: Final = 1_000
"""The most names of files on a page, so that it opens at once; ``--json`` has all of them."""
_PROMISED_ZERO: Final = ("lost", "duplicates_delivered", "out_of_order")
_TEMPLATE: Final = Path(__file__).with_name("report.html.j2")
_SCRIPT: Final = Path(__file__).with_name("report.js")
_LIBRARY: Final = Path(__file__).with_name("echarts") / "echarts.common.min.js"
"""Apache ECharts, which draws the plots; ``echarts/ORIGIN.md`` says where it comes from."""


def make_way(path: Path) -> None:
    """Check that a page can be written, before the work that it reports; its directory is made."""
    if importlib.util.find_spec("jinja2") is None:
        raise ReplayError(_NO_PAGE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise ReplayError(f"cannot write the report {path}: {error.strerror}") from error


def write_report(
    path: Path, verdict: Verdict, timeline: Timeline, command: str = "", violations: Iterable[Violation] | None = None
) -> None:
    """Write the page, and beside it ``violations.jsonl`` with every violation and ``tables.json`` with every number."""
    make_way(path)
    try:
        sessions = sessions_of(timeline)
        outages = outages_of(timeline, sessions)
        tables = tables_of(verdict, timeline, sessions, outages)
        first = lead(verdict, timeline, tables["streams"].rows, outages)
        found = [(f"v-{at}", it) for at, it in enumerate(_shown(verdict.findings), 1)]
        called = {it.session: named(timeline, it) for it in sessions}
        plots = draw(timeline, sessions, outages, [(name, it.wall_ns) for name, it in found if it.wall_ns])
        judged = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        page = _page(
            verdict=verdict,
            first=first,
            unread=list(verdict.unread.items())[:_FILES_SHOWN],
            span=timeline.span_ns,
            command=command,
            missing=[timeline.told(said) for said in verdict.missing],
            cut=[timeline.named(said) for said in verdict.cut],
            late=[(name, count, CHECKS[name].sentence) for name, count in verdict.late.items()],
            judged=judged,
            left_out=list(timeline.left_out.items()),
            numbers=_number_rows(verdict, tables),
            found=[
                (name, it, _where(it, timeline, called), clock(it.wall_ns) if it.wall_ns else "") for name, it in found
            ],
            tables=tables,
            plots=plots["plots"],
            data=_in_script(plots),
        )
        path.write_text(page, encoding="utf-8", errors="backslashreplace")
        begin_ns, end_ns = timeline.span_ns
        numbers = {
            "judged": judged, "first": first, "verdict": verdict.to_json(), "begin_ns": begin_ns, "end_ns": end_ns,
            "lasted_ns": end_ns - begin_ns, "tables": {name: table.to_json() for name, table in tables.items()},
        }  # fmt: skip
        path.with_name(TABLES).write_text(escaped_json(json.dumps(numbers)) + "\n", encoding="utf-8")
        with path.with_name(VIOLATIONS).open("w", encoding="utf-8") as file:
            every = verdict.findings if violations is None else violations
            file.writelines(escaped_json(json.dumps(asdict(finding))) + "\n" for finding in every)
    except OSError as error:
        raise ReplayError(f"cannot write the report {path}: {error.strerror}") from error


def _page(**told: Any) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_finalize
    )
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        **told, shown_max=_FINDINGS_SHOWN, found_open=_FINDINGS_OPEN, opened_max=_OPENED_MAX, plots_open=_PLOTS_OPEN,
        library=_LIBRARY.read_text(encoding="utf-8"), script=_SCRIPT.read_text(encoding="utf-8"), shown=shown,
        counted=counted,
    )  # fmt: skip


def _number_rows(verdict: Verdict, tables: Mapping[str, Table]) -> list[list[tuple[str, str, str, bool, str]]]:
    """Return the numbers that every reader wants and the others: name, value, words, whether wrong, and a table."""
    parts = []
    for numbers in (NUMBERS, MORE_NUMBERS):
        rows = []
        for name, text in numbers.items():
            value = getattr(verdict, name)
            if value or name not in IF_ANY:
                said = duration(round(value * 1e9)) if name == "seconds" else spoken(value)
                link = "dead" if name in ("dead_sum", "purged") else ""
                called = name.replace("_sum", "").replace("_", " ")
                rows.append((called, said, text, name in _PROMISED_ZERO and value > 0, link))
            if name == "dead_sum":
                rows += [(f"dead: {reason}", spoken(n), "", False, "dead") for reason, n in verdict.dead.items()]
        parts.append(rows)
    if there := tables["queues"].sums.get("expired_there"):
        text = "of the delivered: expired in their queue before somebody read them"
        parts[0].append(("expired there", spoken(there), text, False, "queues"))
    return parts


def _in_script(value: object) -> str:
    """Return data as JSON that can stand in an element of a page, whatever texts are in it."""
    return escaped_json(json.dumps(value, separators=(",", ":"))).replace("<", "\\u003c")


def _finalize(value: object) -> object:
    """Return a value as a page shows it: text that others may have made is shown literally; markup is ours."""
    return escaped(value) if type(value) is str else value


def _shown(findings: list[Violation]) -> list[Violation]:
    """The first of each check."""
    counts: Counter[str] = Counter()
    shown = []
    for finding in findings:
        counts[finding.check] += 1
        if counts[finding.check] <= _FINDINGS_SHOWN:
            shown.append(finding)
    return shown


def _where(finding: Violation, timeline: Timeline, called: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """What a violation is about as (what it is, its name, its id)."""
    parts: list[tuple[str, str, str]] = []
    for what, node in (("node", finding.node), ("origin", finding.origin)):
        if node:
            parts.append((what, timeline.name(node), node))
    if finding.session:
        parts.append(("between", called.get(finding.session, finding.session), finding.session))
    for what, name in (("topic", finding.topic), ("subscription", finding.subscription)):
        if name:
            parts.append((what, name, ""))
    for what, number in (("stream", finding.stream), ("sequence", finding.sequence), ("number", finding.number)):
        if number != -1:
            several = what == "number" and finding.last > number
            parts.append((what, f"{number} to {finding.last}" if several else str(number), ""))
    return parts
