"""``triack msmq``: help for those who come from MSMQ (docs/from-msmq.md)."""

import click

from triack.queues.format_names import read_format_name
from triack.tools.commands.common import CommandGroup, json_line, json_option


@click.group(cls=CommandGroup, no_args_is_help=False)
def msmq() -> None:
    """Say what names of MSMQ mean here."""


@msmq.command()
@click.argument("name", metavar="NAME")
@json_option
def explain(*, name: str, as_json: bool) -> int:
    r"""Say which destination a format name or path name of MSMQ is, such as 'DIRECT=OS:plant-b\private$\orders'.

    A name with commas has a line for each of its queues. Ends with 1 when one of them means nothing here.
    """
    found = read_format_name(name)
    for queue in found:
        if as_json:
            click.echo(json_line({"name": queue.name, "destination": queue.destination, "notes": list(queue.notes)}))
            continue
        click.echo(f"{queue.name}: {queue.destination or 'not there'}")
        for note in queue.notes:
            click.echo(f"  {note}")
    return int(any(queue.destination is None for queue in found))
