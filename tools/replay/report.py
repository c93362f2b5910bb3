"""The report: one HTML page that needs nothing else, and the violations as data beside it."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Final

from triack.base.errors import ReplayError
from triack.tools.replay.catalogue import CHECKS
from triack.tools.replay.schema import Timeline, Verdict, Violation

NO_PLOTS: Final = "Plots need matplotlib, which is not installed here: pip install 'triack[report]'"
_FINDINGS_SHOWN: Final = 20
"""Of each check, as nobody reads more on a page; violations.jsonl has all of them."""
_NUMBERS: Final = (
    ("sent", "messages queued at their origin, without those removed"),
    ("delivered", "messages on disk at their destination, each once"),
    ("pending", "messages that still wait"),
    ("lost", "messages forgotten at their origin and nowhere else on disk"),
    ("duplicates_delivered", "messages committed or handed out again"),
    ("out_of_order", "messages committed or handed out behind later ones"),
    ("duplicates_on_wire", "packets that arrived again and were recognised"),
    ("resends", "packets that left again"),
    ("sessions_closed", "sessions that failed"),
    ("records", "records read"),
    ("torn_lines", "last lines torn by a crash, skipped"),
    ("nodes", "nodes whose logs were read"),
    ("seconds", "from the first message queued to the last one committed"),
    ("messages_per_second", "delivered over seconds"),
)
_CSS: Final = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1e293b; background: #f8fafc; margin: 0; }
main { max-width: 980px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 16px; margin: 32px 0 8px; }
p { margin: 4px 0; } .dim { color: #64748b; font-size: 13px; }
.banner { border-radius: 10px; padding: 18px 22px; color: #fff; }
.pass { background: #15803d; } .fail { background: #b91c1c; } .incomplete { background: #b45309; }
.card { background: #fff; border: 1px solid #e2e8f0; border-radius: 10px; padding: 12px 16px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
td, th { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid #f1f5f9; vertical-align: top; }
tr:last-child td { border-bottom: 0; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.bad { color: #b91c1c; font-weight: 600; } td.ok { color: #15803d; }
code { font: 12.5px ui-monospace, monospace; } svg { max-width: 100%; height: auto; display: block; }
"""


def write_report(path: Path, verdict: Verdict, timeline: Timeline) -> None:
    """Write the page, and beside it ``violations.jsonl`` with every violation.

    Args:
        path: the page's file; its directory is made if it is missing.
        verdict: what the replay found.
        timeline: what the plots show.

    Raises:
        ReplayError: a file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page(verdict, timeline), encoding="utf-8")
        with path.with_name("violations.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(finding)) + "\n" for finding in verdict.findings)
    except OSError as error:
        raise ReplayError(f"cannot write the report {path}: {error.strerror}") from error


def _page(verdict: Verdict, timeline: Timeline) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Triack replay: {verdict.verdict}</title><style>{_CSS}</style></head><body><main>"
        f"{_banner(verdict)}{_numbers(verdict)}{_checks(verdict)}{_findings(verdict)}{_plots(timeline)}"
        "</main></body></html>\n"
    )


def _plots(timeline: Timeline) -> str:
    if importlib.util.find_spec("matplotlib") is None:
        return f'<h2>Plots</h2><p class="dim">{escape(NO_PLOTS)}</p>'
    from triack.tools.replay.plots import draw_plots

    return "".join(
        f'<h2>{escape(title)}</h2><p class="dim">{escape(text)}</p><div class="card">{svg}</div>'
        for title, text, svg in draw_plots(timeline)
    )


def _banner(verdict: Verdict) -> str:
    broken = sum(verdict.violations.values())
    said = {
        "pass": "Every promise was kept.",
        "fail": f"{broken:,} violations were found.",
        "incomplete": "No broken promise was seen, but logs are missing.",
    }[verdict.verdict]
    told = f"{verdict.records:,} records of {verdict.nodes} nodes, {verdict.delivered:,} messages delivered."
    notes = "".join(
        f'<p class="dim">No log of <code>{escape(peer)}</code> was given: what only that can prove is not known.</p>'
        for peer in verdict.missing
    )
    return f'<div class="banner {verdict.verdict}"><h1>{verdict.verdict.upper()}</h1><p>{said} {told}</p></div>{notes}'


def _numbers(verdict: Verdict) -> str:
    promised_zero = ("lost", "duplicates_delivered", "out_of_order")
    rows = []
    for name, text in _NUMBERS:
        value = getattr(verdict, name)
        bad = " bad" if name in promised_zero and value else ""
        title = name.replace("_", " ")
        rows.append(f'<tr><td>{title}</td><td class="n{bad}">{value:,}</td><td class="dim">{text}</td></tr>')
    return f'<h2>Numbers</h2><div class="card"><table>{"".join(rows)}</table></div>'


def _checks(verdict: Verdict) -> str:
    rows = []
    for name, text in CHECKS.items():
        count = verdict.violations.get(name, 0)
        state = f'<td class="n bad">{count:,}</td>' if count else '<td class="n ok">0</td>'
        rows.append(f"<tr><td><code>{name}</code></td>{state}<td>{escape(text.sentence)}</td></tr>")
    head = '<tr><th>check</th><th class="n">violations</th><th>what must hold</th></tr>'
    return f'<h2>Checks</h2><div class="card"><table>{head}{"".join(rows)}</table></div>'


def _findings(verdict: Verdict) -> str:
    if not verdict.findings:
        return ""
    shown: dict[str, list[Violation]] = {}
    for finding in verdict.findings:
        shown.setdefault(finding.check, []).append(finding)
    rows = "".join(_finding(finding) for found in shown.values() for finding in found[:_FINDINGS_SHOWN])
    head = "<tr><th>check</th><th>where</th><th>evidence</th></tr>"
    note = f"The first {_FINDINGS_SHOWN} of each check; all {len(verdict.findings):,} are in violations.jsonl."
    table = f'<div class="card"><table>{head}{rows}</table></div>'
    return f'<h2>Violations</h2><p class="dim">{note}</p>{table}'


def _finding(finding: Violation) -> str:
    parts = {
        "node": finding.node[:8],
        "session": finding.session,
        "origin": finding.origin[:8],
        "lane": finding.lane,
        "sequence": finding.sequence,
        "number": finding.number,
    }
    where = " ".join(f"{name} {value}" for name, value in parts.items() if value not in ("", -1))
    return (
        f"<tr><td><code>{escape(finding.check)}</code></td><td><code>{escape(where)}</code></td>"
        f"<td>{escape(finding.evidence)}</td></tr>"
    )
