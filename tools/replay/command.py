"""``triack replay``: the verdict on the terminal, as JSON, and as a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.markup import escape
from rich.table import Table

from triack.base.errors import ReplayError
from triack.tools.commands.common import console_on
from triack.tools.replay.catalogue import CHECKS
from triack.tools.replay.run import ENGINES, replay
from triack.tools.replay.schema import Verdict

if TYPE_CHECKING:
    from rich.console import Console

_EXITS: Final = {"pass": 0, "fail": 1, "incomplete": 3}
"""A broken promise is told from logs that are missing."""
_COLOURS: Final = {"pass": "green", "fail": "red", "incomplete": "yellow"}
_EXIT_ERROR: Final = 2
"""No verdict. Click takes the same number for a command line that it does not understand."""
_FINDINGS_SHOWN: Final = 10
"""So that the numbers above them stay on a small terminal."""
_NUMBERS: Final = (
    "sent",
    "delivered",
    "pending",
    "lost",
    "duplicates_delivered",
    "out_of_order",
    "duplicates_on_wire",
    "resends",
    "sessions_closed",
)


@click.command("replay")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="What computes.")
@click.option("--master", metavar="M", help="The Spark cluster.  [default: local[*], this machine]")
@click.option("--report", metavar="FILE", type=click.Path(path_type=Path), help="Write a page with plots.")
@click.option("--json", "as_json", is_flag=True, help="End the output with the verdict as one line of JSON.")
def command(directories: tuple[Path, ...], engine: str, master: str | None, report: Path | None, as_json: bool) -> None:
    """Prove from session logs that nothing was lost, repeated or reordered.

    DIR... are directories with the session logs of all nodes that took part. The exit status is 0 if every promise was
    kept, 1 if one was broken, 2 if the logs cannot be read, and 3 if none was seen broken but logs are missing.
    """
    try:
        verdict = replay(list(directories), engine=engine, master=master, report=report)
    except ReplayError as error:
        click.echo(f"triack replay: {error}", err=True)
        sys.exit(_EXIT_ERROR)
    if as_json:
        click.echo(json.dumps(verdict.to_json()))
    else:
        show(verdict, console_on())
    sys.exit(_EXITS[verdict.verdict])


def show(verdict: Verdict, console: Console) -> None:
    """Print a verdict for people.

    Args:
        verdict: what the replay found.
        console: where to print.
    """
    colour = _COLOURS[verdict.verdict]
    summary = f"{verdict.records:,} records of {verdict.nodes} nodes, engine {verdict.engine}"
    console.print(f"[bold {colour}]{verdict.verdict.upper()}[/]  {summary}")
    numbers = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    numbers.add_column(justify="left")
    numbers.add_column(justify="right")
    for name in _NUMBERS:
        numbers.add_row(name.replace("_", " "), f"{getattr(verdict, name):,}")
    numbers.add_row("seconds", f"{verdict.seconds:,.3f}")
    numbers.add_row("messages per second", f"{verdict.messages_per_second:,.0f}")
    console.print(numbers)
    if verdict.torn_lines:
        console.print(f"{verdict.torn_lines} torn last lines skipped, as a crash leaves them")
    for log in verdict.missing:
        console.print(f"[yellow]no log of {log} was given: what only it can prove is not known[/]")
    _show_findings(verdict, console)
    if verdict.report:
        console.print(f"report: {escape(verdict.report)}")


def _show_findings(verdict: Verdict, console: Console) -> None:
    for check, count in verdict.violations.items():
        console.print(f"[red]{check}[/] {count:,}  {CHECKS[check].sentence}")
    for finding in verdict.findings[:_FINDINGS_SHOWN]:
        where = [f"node {finding.node[:8]}"] if finding.node else []
        where += [f"session {finding.session}"] if finding.session else []
        if finding.origin:
            where.append(f"origin {finding.origin[:8]} lane {finding.lane} sequence {finding.sequence}")
        if finding.number >= 0:
            several = f"numbers {finding.number} to {finding.last}"
            where.append(several if finding.last > finding.number else f"number {finding.number}")
        where += [f"{finding.file} line {finding.line}"] if finding.file else []
        console.print(f"  {finding.check}: {escape(', '.join(where))}: {escape(finding.evidence)}")
    if len(verdict.findings) > _FINDINGS_SHOWN:
        console.print(f"  ... and {len(verdict.findings) - _FINDINGS_SHOWN:,} more; --report FILE writes all of them")
