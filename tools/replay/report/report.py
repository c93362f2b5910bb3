"""The report: one HTML page that needs nothing else, and the violations as data beside it."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from triack.base.errors import ReplayError
from triack.base.printable import counted, escaped, escaped_json, written
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.log.listing import VIOLATIONS
from triack.tools.replay.log.schema import Timeline, Verdict, Violation
from triack.tools.replay.report.report_tables import SHARES, latency_totals, percentile_ms, ways_of

NO_PLOTS: Final = "Plots need matplotlib, which is not installed here: pip install 'triack[report]'"
_NO_PAGE: Final = "the report needs Jinja, which is not installed here: pip install 'triack[report]'"
_FINDINGS_SHOWN: Final = 20
"""The most violations of each check on a page, as nobody reads more; violations.jsonl has all of them."""
_FILES_SHOWN: Final = 1_000
"""The most names of files on a page, so that it opens at once; ``--json`` has all of them."""
DWELL_SHARES: Final = (0.5, 0.99)
"""The percentiles of the time that packets stayed at a relay."""
_PROMISED_ZERO: Final = ("lost", "duplicates_delivered", "out_of_order")
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
    ("starts", "starts of these nodes of which there are logs"),
    ("seconds", "from the first message queued to the last one committed"),
    ("messages_per_second", "delivered over seconds"),
)
_TEMPLATE: Final = Path(__file__).with_name("report.html.j2")


def make_way(path: Path) -> None:
    """Check that a page can be written, before the work that it reports; its directory is made.

    Raises:
        ReplayError: it cannot, or Jinja is not installed.
    """
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
    """Write the page, and beside it ``violations.jsonl`` with every violation.

    Args:
        path: the page's file, as ``make_way`` takes it.
        verdict: what the replay found.
        timeline: what the plots and tables show.
        command: what makes this page again.
        violations: all of them, where the verdict has only the first.

    Raises:
        ReplayError: a file cannot be written, or Jinja is not installed.
    """
    make_way(path)
    try:
        path.write_text(_page(verdict, timeline, command), encoding="utf-8", errors="backslashreplace")
        with path.with_name(VIOLATIONS).open("w", encoding="utf-8") as file:
            every = verdict.findings if violations is None else violations
            file.writelines(escaped_json(json.dumps(asdict(finding))) + "\n" for finding in every)
    except OSError as error:
        raise ReplayError(f"cannot write the report {path}: {error.strerror}") from error


def _page(verdict: Verdict, timeline: Timeline, command: str) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_finalize
    )
    found = _shown(verdict.findings)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        verdict=verdict,
        broken=sum(verdict.violations.values()),
        files=list(verdict.files.items())[:_FILES_SHOWN],
        unread=list(verdict.unread.items())[:_FILES_SHOWN],
        timeline=timeline,
        command=command,
        missing=[timeline.told(said) for said in verdict.missing],
        cut=[timeline.named(said) for said in verdict.cut],
        late=[(name, count, CHECKS[name].sentence) for name, count in verdict.late.items()],
        judged=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        ran=_moment(timeline.start_ns) if timeline.start_ns else "",
        numbers=[
            (name, getattr(verdict, name), text, name in _PROMISED_ZERO and getattr(verdict, name))
            for name, text in _NUMBERS
        ],
        checks=sorted(
            ((name, verdict.violations.get(name, 0), text.sentence) for name, text in CHECKS.items()),
            key=lambda row: -row[1],
        ),
        found=[(f"v-{at}", it, _where(it, timeline), _when(it, timeline)) for at, it in enumerate(found, 1)],
        shown_max=_FINDINGS_SHOWN,
        links=[_link(timeline, *ends) for ends in sorted(timeline.links)],
        policies=[
            (timeline.name(node), timeline.name(peer) or "unknown", sessions, *_policy(values))
            for (node, peer), found in sorted(timeline.policies.items())
            for values, sessions in sorted(found.items())
        ],
        queues=sorted(timeline.queues.items()),
        readers=sorted(timeline.readers.items()),
        ways=[_way(timeline, stream, line) for stream in sorted(timeline.ways) for line in ways_of(timeline, stream)],
        latency=_latency(timeline),
        **_plots(timeline, found),
    )


def _finalize(value: object) -> object:
    """Return a value as a page shows it: text that others may have made is shown literally; markup is ours."""
    return escaped(value) if type(value) is str else value


def _plots(timeline: Timeline, found: list[Violation]) -> dict[str, str]:
    if importlib.util.find_spec("matplotlib") is None:
        return {"no_plots": NO_PLOTS, "times": "", "histogram": ""}
    from triack.tools.replay.report.plots import draw_latency, draw_times

    marks = [(f"v-{at}", it.wall_ns) for at, it in enumerate(found, 1) if it.wall_ns]
    return {"no_plots": "", "times": draw_times(timeline, marks), "histogram": draw_latency(timeline)}


def _shown(findings: list[Violation]) -> list[Violation]:
    """The first of each check."""
    counts: Counter[str] = Counter()
    shown = []
    for finding in findings:
        counts[finding.check] += 1
        if counts[finding.check] <= _FINDINGS_SHOWN:
            shown.append(finding)
    return shown


def _moment(wall_ns: int) -> str:
    return f"{datetime.fromtimestamp(wall_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"


def _when(finding: Violation, timeline: Timeline) -> str:
    """Where on the plots' axis, and in the day."""
    if not finding.wall_ns:
        return ""
    return f"{(finding.wall_ns - timeline.start_ns) / 1e9:,.3f} s, {_moment(finding.wall_ns)[11:]}"


def _where(finding: Violation, timeline: Timeline) -> list[tuple[str, str, str]]:
    """What a violation is about as (what it is, its name, its id)."""
    parts: list[tuple[str, str, str]] = []
    for what, node in (("node", finding.node), ("origin", finding.origin)):
        if node:
            parts.append((what, timeline.name(node), node))
    if finding.session:
        parts.append(("session", finding.session[-6:], finding.session))
    for what, name in (("topic", finding.topic), ("subscription", finding.subscription)):
        if name:
            parts.append((what, name, ""))
    for what, number in (("stream", finding.stream), ("sequence", finding.sequence), ("number", finding.number)):
        if number != -1:
            several = what == "number" and finding.last > number
            parts.append((what, f"{number} to {finding.last}" if several else str(number), ""))
    return parts


def _link(timeline: Timeline, sender: str, receiver: str) -> dict[str, Any]:
    """One direction of a link as the page shows it."""
    counts = Counter(timeline.links[(sender, receiver)])
    trips = counts["round_trips"]
    acks = {name.removeprefix("ack "): count for name, count in sorted(counts.items()) if name.startswith("ack ")}
    return {
        "sender": timeline.name(sender) or "unknown",
        "receiver": timeline.name(receiver) or "unknown",
        "ids": f"{sender or 'unknown'} to {receiver or 'unknown'}",
        "counts": counts,
        "acks": acks,
        "round_trip_ms": counts["round_trip_ns"] / trips / 1e6 if trips else None,
    }


def _way(timeline: Timeline, stream: tuple[str, int], line: list[str]) -> dict[str, Any]:
    """One way of a stream as the page shows it: its nodes, and how long packets stayed at each relay."""
    hops = []
    for node in line:
        stayed = timeline.dwell.get((*stream, node), {})
        shares = [percentile_ms(stayed, share) for share in DWELL_SHARES] if stayed else []
        hops.append((timeline.name(node), node, shares))
    return {"queue": timeline.streams.get(stream, ""), "number": stream[1], "hops": hops}


def _policy(values: tuple[int, ...]) -> tuple[int, str, str, str]:
    """The policy in force in words: window, when session and store acks leave, and when silence ends the session."""
    window, *acks, least_ns, most_ns = values
    session, store = _due(*acks[:3]), _due(*acks[3:])
    silence = f"{written(least_ns / 1e9)} s" + (f" to {written(most_ns / 1e9)} s" if most_ns != least_ns else "")
    return window, session, store, silence if most_ns else "not known"


def _due(packets: int, size_bytes: int, delay_ns: int) -> str:
    parts = [counted(packets, "packet")] * bool(packets) + [counted(size_bytes, "byte")] * bool(size_bytes)
    return " or ".join([*parts, f"{written(delay_ns / 1e9)} s"])


def _latency(timeline: Timeline) -> list[tuple[str, float]]:
    totals = latency_totals(timeline)
    names = [f"{share:.1%}".replace(".0%", "%") if share < 1 else "slowest" for share in SHARES]
    return [(name, percentile_ms(totals, share)) for name, share in zip(names, SHARES, strict=True)] if totals else []
