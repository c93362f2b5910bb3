"""``triack log``: what may be done with session logs beside judging them."""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import click

from triack.base.errors import ReplayError
from triack.base.printable import counted, escaped, escaped_json
from triack.tools.commands.common import CommandGroup
from triack.tools.commands.watching import until_interrupt, working

EXIT_ERROR = 2
EXIT_BROKEN = 1


class Age(click.ParamType[float]):
    """A time span such as ``30d``, ``12h``, ``90m`` or ``30s``; a number without a letter is in seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return it in seconds."""
        if isinstance(value, float):
            return value
        found = _AGE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no age, such as 30d, 12h, 90m or 30s", param, ctx)
        return float(found[1]) * _UNITS[found[2] or "s"]


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)")


@click.group(cls=CommandGroup)
def log() -> None:
    """Look after session logs."""


@log.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--output", metavar="DIR", type=click.Path(path_type=Path), help="Where to.  [default: DIR-compact, beside DIR]"
)
def compact(directory: Path, output: Path | None) -> None:
    """Make Parquet files of session logs.

    They take a quarter of the room or less, and `triack replay`, Spark and whatever else knows Parquet read them. A run
    takes what is new or has grown since the last one; the logs stay.
    """
    from triack.tools.replay.log.compact import compact as run

    resolved = directory.resolve()
    try:
        with working("compacting") as say:
            done = run(directory, output or resolved.with_name(f"{resolved.name}-compact"), say)
    except ReplayError as error:
        click.echo(f"triack log compact: {escaped(str(error))}", err=True)
        sys.exit(EXIT_ERROR)
    click.echo(
        f"{counted(done.segments, 'segment')}, {done.made} of them new or grown: {counted(done.records, 'record')}, "
        f"{done.bytes_in:,} bytes in {done.bytes_out:,}"
    )


@log.command()
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@click.option("--out", metavar="DIR", required=True, help="Where to; of any file system that Spark knows.")
@click.option("--master", metavar="M", help="The Spark cluster.  [default: spark-submit's, or this machine]")
@click.option("--follow", is_flag=True, help="Continue while the logs grow, until Ctrl-C.")
@click.option(
    "--every", "every_s", metavar="S", type=click.FloatRange(min=0), help="Seconds between batches.  [default: 10]"
)
@click.option("--until-idle", "until_idle_s", metavar="S", type=float, help="End --follow after S seconds of silence.")
def tables(
    directories: tuple[str, ...],
    out: str,
    master: str | None,
    *,
    follow: bool,
    every_s: float | None,
    until_idle_s: float | None,
) -> None:
    """Write what session logs say as tables of Parquet files.

    A run takes what is new or has grown since the last one; docs/tables.md describes the tables. The exit status is 0,
    or 1 if the logs break a promise, which the table of violations shows. With --follow it does not
    end, and takes each record once, also if it is killed and started again.
    """
    if not follow and (every_s, until_idle_s) != (None, None):
        raise click.UsageError("--every and --until-idle belong to --follow")
    from triack.tools.replay.run import on_spark
    from triack.tools.replay.tables.up_to_date import violations_of_all

    stop = until_interrupt() if follow else None
    if follow:
        click.echo("triack log tables: following the logs, Ctrl-C ends it", err=True)

    def work(spark: Any) -> Any:
        from triack import replay
        from triack.tools.replay.engines.spark_session import telling

        if not follow:
            with working("writing tables") as say, telling(spark, say):
                return replay.write(spark, directories, out)
        every = {} if every_s is None else {"every_s": every_s}
        return replay.follow(spark, directories, out, **every, until_idle_s=until_idle_s, stop=stop, tell=_tell_batch)

    try:
        known = None if follow else violations_of_all(directories, out)
        files, records, violations = on_spark(master, work) if known is None else (0, 0, known)
    except ReplayError as error:
        click.echo(f"triack log tables: {escaped(str(error))}", err=True)
        sys.exit(EXIT_ERROR)
    new = f"{counted(files, 'file')} new or grown: {counted(records, 'record')}"
    click.echo(f"{new}, {counted(violations, 'violation')} in all")
    if violations:
        sys.exit(EXIT_BROKEN)


def _tell_batch(added: Any) -> None:
    click.echo(f"batch {added.batches - 1}: {counted(added.records, 'record')} of {counted(added.files, 'file')}")


@log.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--keep", metavar="AGE", type=Age(), required=True, help="Keep what is younger, as 30d, 12h or 90m.")
@click.option("--node", "nodes", metavar="NAME", multiple=True, help="Of this node alone; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Judge, say what would be removed, and change nothing.")
@click.option("--accept-broken", is_flag=True, help="Remove even the evidence of broken promises; they stay FAIL.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def prune(
    directory: Path, keep: float, nodes: tuple[str, ...], *, dry_run: bool, accept_broken: bool, as_json: bool
) -> None:
    """Remove old session logs. A summary stays, and later replays continue from it.

    Whole segments are removed, the oldest of each node, after everything was judged. A replay of what is left gives the
    verdict that it gave before. The exit status is 0, or 1 if the logs break a promise: then nothing is removed.
    """
    from triack.tools.replay.engines.prune import prune as run

    before_ns = time.time_ns() - int(keep * 1e9)
    try:
        with working("pruning") as say:
            done = run(directory, before_ns, nodes=nodes, dry_run=dry_run, accept=accept_broken, say=say)
    except ReplayError as error:
        click.echo(f"triack log prune: {escaped(str(error))}", err=True)
        sys.exit(EXIT_ERROR)
    if as_json:
        click.echo(escaped_json(json.dumps(done.to_json())))
    elif done.refused:
        click.echo("triack log prune: the logs break promises, and are the evidence: nothing was removed", err=True)
    else:
        kept = f", {done.summary_bytes:,} bytes of summary" if done.summary is not None else ""
        told = "would be removed" if dry_run else "removed"
        what = counted(len(done.removed), "segment")
        click.echo(f"{what} {told}: {counted(done.records, 'record')}, {done.bytes:,} bytes{kept}")
    if done.refused:
        sys.exit(EXIT_BROKEN)
