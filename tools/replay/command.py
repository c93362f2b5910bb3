"""``triack replay``: the verdict on the terminal, as JSON, and as a page."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.markup import escape
from rich.table import Table

from triack.base.errors import ReplayError
from triack.base.printable import counted, escaped, escaped_json
from triack.tools.commands.common import FloatRange, console_on
from triack.tools.commands.watching import until_interrupt, working
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.engines.follow import follow
from triack.tools.replay.log.schema import IF_ANY, NUMBERS, Timeline, Verdict, Violation, bridge_account, reader_account
from triack.tools.replay.run import ENGINES, replay, write_page

if TYPE_CHECKING:
    from rich.console import Console

_EXITS: Final = {"pass": 0, "fail": 1, "incomplete": 3}
"""The exit codes tell a broken promise from missing logs."""
_COLOURS: Final = {"pass": "green", "fail": "red", "incomplete": "yellow"}
_EXIT_UNREAD: Final = 2
"""Something cannot be read, or there is no verdict at all. Click takes the same number for a command line that it does
not understand. No failure of the replay itself ends with 1, which says that a promise was broken."""
_FINDINGS_SHOWN: Final = 10
_OF_PACKETS: Final = ("duplicates_on_wire", "resends", "sessions_closed")
_READERS_SHOWN: Final = 20
"""At most this many, so that the numbers above them stay on a small terminal."""
_UNREAD_SHOWN: Final = 10
"""At most this many, for the same reason."""


@click.command("replay")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="What computes.")
@click.option("--master", metavar="M", help="The Spark cluster.  [default: spark-submit's, or this machine]")
@click.option("--report", metavar="FILE", type=click.Path(path_type=Path), help="Write a page with plots.")
@click.option("--json", "as_json", is_flag=True, help="End the output with the verdict as one line of JSON.")
@click.option("--follow", "live", is_flag=True, help="Tell violations while the logs grow, until Ctrl-C.")
@click.option("--until-idle", metavar="S", type=FloatRange(min=0), help="Follow until S seconds bring nothing.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep what was judged while following, and continue from there.",
)
def command(
    directories: tuple[str, ...],
    engine: str,
    master: str | None,
    report: Path | None,
    *,
    as_json: bool,
    live: bool,
    until_idle: float | None,
    checkpoint: Path | None,
) -> None:
    """Prove from session logs that nothing was lost, repeated or reordered.

    DIR... are directories with the session logs of all nodes that took part. The exit status is 0 if every promise was
    kept, 1 if one was broken, 2 if something that looks like a log cannot be read, and 3 if none was seen broken but
    logs are missing, or have no record.
    """
    if not live and (until_idle, checkpoint) != (None, None):
        raise click.UsageError("--until-idle and --checkpoint go with --follow")
    if live and (engine == "spark" or master is not None):
        raise click.UsageError("--follow judges in this process; on Spark, triack log tables --follow keeps tables")
    # For every call to Java that a Ctrl-C cuts off, PySpark writes to a logger that nobody has configured.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        if live:
            verdict = _follow(directories, until_idle, checkpoint, report)
        else:
            with working("replaying") as say:
                verdict = replay(list(directories), engine=engine, master=master, report=report, say=say)
    except (ReplayError, OSError) as error:
        click.echo(f"triack replay: {escaped(str(error))}", err=True)
        sys.exit(_EXIT_UNREAD)
    except Exception:  # noqa: BLE001 - our own fault is no broken promise
        traceback.print_exc()
        sys.exit(_EXIT_UNREAD)
    try:
        _print(verdict, as_json=as_json)
    except BrokenPipeError:  # the reader of our output has gone; the verdict stays what it is
        sys.stdout = None  # nor is there a second try when Python ends
    sys.exit(_EXIT_UNREAD if verdict.unread else _EXITS[verdict.verdict])


def _print(verdict: Verdict, *, as_json: bool) -> None:
    if as_json:
        click.echo(escaped_json(json.dumps(verdict.to_json())))
    else:
        # Rich itself would exit with 1 when the reader of its output is gone.
        console = console_on()
        with console.capture() as captured:
            show(verdict, console)
        click.echo(captured.get(), nl=False)


def _follow(
    directories: tuple[str, ...], until_idle_s: float | None, checkpoint: Path | None, report: Path | None
) -> Verdict:
    """Print violations as they turn up, until there is nothing more, or Ctrl-C."""
    if report is not None:
        from triack.tools.replay.report.report import make_way

        make_way(report)
    console, stop = console_on(), until_interrupt()

    def tell(finding: Violation, timeline: Timeline) -> None:
        moment = f"{datetime.fromtimestamp(finding.wall_ns / 1e9, UTC):%H:%M:%S.%f}"[:-3]
        console.print(f"{moment} [red]{finding.check}[/]: {_safe(describe(finding, timeline))}")

    click.echo("triack replay: following the logs, Ctrl-C ends it with the verdict", err=True)
    verdict = follow(list(map(Path, directories)), tell, until_idle_s=until_idle_s, checkpoint=checkpoint, stop=stop)
    if report is not None:
        write_page(verdict, directories, report, verdict.findings)
    return verdict


def show(verdict: Verdict, console: Console) -> None:
    """Print a verdict for people."""
    colour = _COLOURS[verdict.verdict]
    summary = f"{counted(verdict.records, 'record')} of {counted(verdict.nodes, 'node')}, engine {verdict.engine}"
    console.print(f"[bold {colour}]{verdict.verdict.upper()}[/]  {summary}")
    numbers = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    numbers.add_column(justify="left")
    numbers.add_column(justify="right")
    for name in (*NUMBERS, *_OF_PACKETS):
        value = getattr(verdict, name)
        if value or name not in IF_ANY:
            numbers.add_row(name.replace("_sum", "").replace("_", " "), f"{value:,}")
    numbers.add_row("seconds", f"{verdict.seconds:,.3f}")
    numbers.add_row("messages per second", f"{verdict.messages_per_second:,.0f}")
    console.print(numbers)
    console.print(_safe(str(verdict)), soft_wrap=True)
    if verdict.system.sent or verdict.system.unqueued:
        passed_on = f", of which {verdict.passed_on:,} passed on to other nodes" if verdict.passed_on else ""
        console.print(f"system queues: {_safe(str(verdict.system))}{passed_on}", soft_wrap=True)
    timeline = verdict.timeline or Timeline()
    _show_readers(timeline, console)
    for (node, bridge), counts in sorted(timeline.bridges.items()):
        console.print(_safe(f"{node} bridge {bridge}: {bridge_account(counts)}"), soft_wrap=True)
    _show_coverage(verdict, timeline, console)
    _show_findings(verdict, timeline, console)
    for node in verdict.unfinished if verdict.verdict == "fail" else ():
        console.print(
            f"[yellow]the log of {_safe(timeline.name(node))} ends before its node stopped: if it was cut, or copied "
            "meanwhile, what it lacks looks like broken promises[/]"
        )
    if verdict.report:
        console.print(f"report: {_safe(verdict.report)}")


def _show_readers(timeline: Timeline, console: Console) -> None:
    """Say what each subscription got."""
    readers = sorted(timeline.readers.items())
    for (node, topic, subscription, pattern), counts in readers[:_READERS_SHOWN]:
        whose = _safe(f"{node} topic {topic}, subscription {subscription} to {pattern}")
        console.print(f"{whose}: {reader_account(counts)}")
    if len(readers) > _READERS_SHOWN:
        console.print(f"... and {len(readers) - _READERS_SHOWN:,} subscriptions more; --report FILE writes all of them")


def _safe(text: str) -> str:
    """Return text that others may have made, for a terminal: it is shown literally."""
    return escape(escaped(text))


def _show_coverage(verdict: Verdict, timeline: Timeline, console: Console) -> None:
    console.print(f"read: {counted(len(verdict.files), 'file')} with {counted(verdict.starts, 'start')} of nodes")
    for path, why in list(verdict.unread.items())[:_UNREAD_SHOWN]:
        console.print(f"[yellow]not read: {_safe(path)} {_safe(why)}[/]")
    if len(verdict.unread) > _UNREAD_SHOWN:
        console.print(f"[yellow]... and {len(verdict.unread) - _UNREAD_SHOWN:,} more; --json names all of them[/]")
    if verdict.torn_lines:
        console.print(f"{verdict.torn_lines} torn last lines skipped, as a crash leaves them")
    if not verdict.records:
        console.print("[yellow]there is no record in these logs, so that nothing is known[/]")
    for log in verdict.missing:
        console.print(
            f"[yellow]no log was given of {_safe(timeline.told(log))}: what only it can prove is not known[/]"
        )
    for log in verdict.cut:
        console.print(f"[yellow]{_safe(timeline.named(log))}[/]")
    if verdict.counted and not verdict.differences:
        console.print("counted a second time, by expressions of Spark: the same numbers")
    if "engines_disagree" not in verdict.violations:
        for said in verdict.differences:
            console.print(f"counted a second time: {_safe(said)}")
    if verdict.unread and verdict.violations:
        console.print("[yellow]what was not read may explain the following:[/]")


def _show_findings(verdict: Verdict, timeline: Timeline, console: Console) -> None:
    for check, count in verdict.violations.items():
        console.print(f"[red]{check}[/] {count:,}  {CHECKS[check].sentence}")
    for finding in verdict.findings[:_FINDINGS_SHOWN]:
        console.print(f"  {finding.check}: {_safe(describe(finding, timeline))}")
    if len(verdict.findings) > _FINDINGS_SHOWN:
        console.print(f"  ... and {len(verdict.findings) - _FINDINGS_SHOWN:,} more; --report FILE writes all of them")
    for check, count in verdict.late.items():
        console.print(f"[yellow]late, as its process stood still: {check}[/] {count:,}  {CHECKS[check].sentence}")


def describe(finding: Violation, timeline: Timeline) -> str:
    """Say in a line where a violation is and what shows it, with names where nodes and queues have them."""
    where = [f"node {timeline.name(finding.node)}"] if finding.node else []
    where += [f"session {finding.session}"] if finding.session else []
    where += [f"topic {finding.topic}"] if finding.topic else []
    where += [f"subscription {finding.subscription}"] if finding.subscription else []
    if finding.origin:
        queue = timeline.streams.get((finding.origin, finding.stream))
        stream = f"origin {timeline.name(finding.origin)} stream {finding.stream} sequence {finding.sequence}"
        where.append(f"{stream} to queue {queue}" if queue is not None else stream)
    if finding.number >= 0:
        what = "place" if finding.topic else "number"
        several = f"{what}s {finding.number} to {finding.last}"
        where.append(several if finding.last > finding.number else f"{what} {finding.number}")
    where += [f"{finding.file} line {finding.line}"] if finding.file else []
    return f"{', '.join(where)}: {timeline.named(finding.evidence)}"
