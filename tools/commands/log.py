"""``triack log``: what may be done with session logs beside judging them."""

import sys
from pathlib import Path

import click

from triack.base.errors import ReplayError
from triack.base.printable import counted, escaped
from triack.tools.commands.common import CommandGroup

__all__ = ["log"]

EXIT_ERROR = 2
"""As ``triack replay`` has it for logs that cannot be read."""


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
        done = run(directory, output or resolved.with_name(f"{resolved.name}-compact"))
    except ReplayError as error:
        click.echo(f"triack log compact: {escaped(str(error))}", err=True)
        sys.exit(EXIT_ERROR)
    click.echo(
        f"{counted(done.segments, 'segment')}, {done.made} of them new or grown: {counted(done.records, 'record')}, "
        f"{done.bytes_in:,} bytes in {done.bytes_out:,}"
    )
