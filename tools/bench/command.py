"""``triack bench``: measure, compare, report."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from triack.base.checks import DATAGRAM_MAX_BYTES, DATAGRAM_MIN_BYTES
from triack.base.errors import TriackError, UsageError
from triack.session.protocol.settings import CONGESTION, WINDOW_MAX
from triack.tools.bench.figures import Result
from triack.tools.bench.measure import measure
from triack.tools.bench.options import Options
from triack.tools.bench.progress import shown
from triack.tools.bench.rows import Row, rows_of
from triack.tools.bench.systems.catalogue import PEERS, system_of
from triack.tools.bench.table import (
    HEADINGS,
    as_csv,
    as_markdown,
    cells,
    is_side_by_side,
    machine,
    side_by_side,
    side_headings,
)
from triack.tools.commands.common import FloatRange, console_on, run, verbose_option

QUICK_RUNS = 1
QUICK_SECONDS = 1.0
QUICK_MESSAGES = {"T9": 300, "T12": 20_000}
"""Sessions, and messages of the backlog: `--quick` checks whether every row works, in less than two minutes."""
_COLOURS = {"goal": "green", "floor": "yellow", "below": "red"}


class _WindowType(click.IntRange):
    """A number of packets, or ``auto``."""

    name = "window"

    def __init__(self) -> None:
        super().__init__(1, WINDOW_MAX)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else super().convert(value, param, ctx)


@click.command()
@click.argument("names", metavar="[ROW]...", nargs=-1)
@click.option("--versus", type=click.Choice(PEERS), help="Measure this system on the same work, in turns.")
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True, metavar="N", help="Of each row.")
@click.option("--seconds", type=FloatRange(min=0.1), metavar="S", help="Of each run.  [default: 5]")
@click.option(
    "--messages",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number in each run, in place of a time (T9: sessions; T12: the backlog).",
)
@click.option("--insecure", is_flag=True, help="Without keys: nothing is encrypted. For comparison.")
@click.option("--congestion", type=click.Choice(CONGESTION), help="How Triack shares the network.  [default: bbr]")
@click.option(
    "--datagram-bytes",
    type=click.IntRange(DATAGRAM_MIN_BYTES, DATAGRAM_MAX_BYTES),
    metavar="N",
    help="No larger datagrams, as on a path that carries no more: 1200 is what every path does.",
)
@click.option(
    "--window",
    type=_WindowType(),
    metavar="N|auto",
    help="Packets that may be unacknowledged; auto: as the path wants it.  [default: as the row says]",
)
@click.option("--simulated", is_flag=True, help="Compare policies on simulated links and disks: the same at each run.")
@click.option("--quick", is_flag=True, help="One short run of each row: whether it works, not how fast it is.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Work in this directory, on the disk to be measured.  [default: a temporary one]",
)
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page with plots."
)
@click.option("--csv", "as_lines", is_flag=True, help="Print one line of CSV for each run.")
@click.option("--markdown", "as_page", is_flag=True, help="Print the table as Markdown.")
@click.option("--json", "as_json", is_flag=True, help="End the output with one line of JSON.")
@verbose_option
def bench(
    *,
    names: tuple[str, ...],
    versus: str | None,
    runs: int,
    seconds: float | None,
    messages: int | None,
    insecure: bool,
    congestion: str | None,
    datagram_bytes: int | None,
    window: int | Literal["auto"] | None,
    simulated: bool,
    quick: bool,
    data: Path | None,
    report: Path | None,
    as_lines: bool,
    as_page: bool,
    as_json: bool,
) -> int:
    """Measure how fast Triack is: real processes, sockets and disks, every run verified.

    ROW... are T1 to T20, all of them by default; `sizes` and `windows` are curves, `growth` is that of T11, and
    `policies` compares the acknowledgements of five systems over emulated links, in two minutes, and `strategies` what
    WSO2 MB's do to a fast and a slow subscriber of a topic; `calls` counts Python calls, and `bridge` compares a bridge
    to mosquitto with its client alone. Each is run several times, and --versus runs another system on the same work in
    turns: machines differ and drift, ratios of neighbouring runs hold.
    Ends with 0 if every run that could be made did what it was measured for, 1 if not.
    """
    if as_lines + as_page + as_json > 1:
        raise UsageError("bench: --csv, --markdown and --json exclude each other")
    rows = rows_of(names)
    if report is not None:
        from triack.tools.replay.report.report import make_way

        make_way(report)
    if versus:
        system_of(versus).check()
    is_plain = not (as_lines or as_page or as_json)
    with _folder(data) as folder:
        options = Options(
            folder,
            runs,
            seconds,
            messages,
            insecure,
            versus or "",
            congestion,
            datagram_bytes,
            window,
            simulated=simulated,
        )
        results: list[Result] = []
        code = run(_measure(rows, options, quick, results, console_on(stderr=not is_plain)))
    if code:
        return code
    if report is not None:
        from triack.tools.bench.report import write_report

        write_report(report, results)
    if is_plain:
        _show(results, console_on())
    else:
        click.echo(_text(results, as_lines=as_lines, as_page=as_page))
    return int(any(not result.verified for result in results if result.is_measured))


def _text(results: list[Result], *, as_lines: bool, as_page: bool) -> str:
    if as_lines:
        return as_csv(results).rstrip("\n")
    if as_page:
        return as_markdown(results)
    objects = [result.to_json() for result in results]
    return json.dumps(objects[0] if len(objects) == 1 else {"machine": machine(), "rows": objects})


async def _measure(rows: list[Row], options: Options, quick: bool, results: list[Result], console: Console) -> int:
    async with shown(console) as meter:
        for row in rows:
            result = await measure(row, _quick(row, options) if quick else options, meter)
            results.append(result)
    return 0


def _quick(row: Row, options: Options) -> Options:
    messages = QUICK_MESSAGES.get(row.name) if options.messages is None else options.messages
    return replace(options, runs=QUICK_RUNS, seconds=QUICK_SECONDS, messages=messages, quick=True)


def _show(results: list[Result], console: Console) -> None:
    console.print(escape(machine()), soft_wrap=True, style="dim")
    table = Table(*HEADINGS, box=None, padding=(0, 2, 0, 0))
    for result in results:
        if is_side_by_side(result):
            _show_side_by_side(result, console)
            continue
        for figure, line in cells(result):
            colour = _COLOURS.get(figure.standing, "")
            marked = list(map(escape, line))
            if colour:
                marked[4] = f"[{colour}]{marked[4]}[/]"
            table.add_row(*marked)
    if table.row_count:
        console.print(table)
    for result in results:
        for note in result.notes:
            console.print(escape(f"{result.row.name}: {note}"), soft_wrap=True)
        if result.versus_guarantee:
            seen, promise = ", ".join(result.versus_guarantee), system_of(result.versus).promise
            text = f"{result.row.name}: {result.versus} was seen to do: {seen}; it promises: {promise}"
            console.print(escape(text), soft_wrap=True)


def _show_side_by_side(result: Result, console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in side_headings(result):
        table.add_column(heading, justify="left" if heading in ("link", "policy", "strategy") else "right")
    for line in side_by_side(result):
        table.add_row(*map(escape, line))
    console.print(table)


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    try:
        if data is not None:
            data.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(prefix="triack-bench-", dir=data)
    except OSError as error:
        raise TriackError(f"bench: cannot work in {data or tempfile.gettempdir()}: {error.strerror}") from error
    with made as name:
        yield Path(name)
